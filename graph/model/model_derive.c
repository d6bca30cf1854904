/* What follows from a model's nests: who writes what, which tensors need a gradient, and what a
   backward pass must find again.

   The backward of a tape is reverse differentiation: walk the instructions from the last to the
   first and hand each one's gradient to its operands.  An instruction is *active* when a wanted
   gradient flows through it.  Its local derivative may need the values of some registers; those are
   computed again from the inputs in their *support*, which are therefore kept.  The exception is a
   last instruction whose derivative can be written with its own value: if nothing else needs a
   register that depends on an input, keeping the output is enough. */
#include "graph/model/attention.h"
#include "graph/model/filled.h"
#include "graph/model/model_internal.h"
#include "graph/model/precision.h"

enum { MAX_REGISTERS = CLEAVE_MAX_INPUTS + CLEAVE_MAX_TAPE };

/* Sets of inputs, as bits: those on which each register's value depends by so many operands of each
   instruction.  Of cleave_opcode_operands this is the support; of cleave_opcode_gradient_operands,
   which leaves out those of a comparison, what a gradient can pass to. */
static void find_inputs(const cleave_nest *nest, int (*n_operands)(cleave_opcode),
                        uint32_t *inputs) {
    for (int i = 0; i < nest->n_inputs; i++)
        inputs[i] = UINT32_C(1) << i;
    for (int i = 0; i < nest->n_instructions; i++) {
        const cleave_instruction *it = &nest->tape[i];
        int n = n_operands(it->opcode);
        inputs[nest->n_inputs + i] = (n >= 1 ? inputs[it->a] : 0) | (n >= 2 ? inputs[it->b] : 0);
    }
}

static int value_register(const cleave_nest *nest) {
    return nest->n_inputs + nest->n_instructions - 1;
}

/* Inputs whose values one instruction's local derivative needs; a_active, b_active: a wanted
   gradient flows to that operand. */
static uint32_t derivative_needs(const cleave_instruction *it, const uint32_t *support,
                                 uint32_t of_value, bool a_active, bool b_active) {
    unsigned reads = (a_active ? cleave_instruction_needs(it, false) : 0) |
                     (b_active ? cleave_instruction_needs(it, true) : 0);
    return (reads & CLEAVE_NEEDS_A ? support[it->a] : 0) |
           (reads & CLEAVE_NEEDS_B ? support[it->b] : 0) |
           (reads & CLEAVE_NEEDS_RESULT ? of_value : 0);
}

/* Inputs that reverse differentiation of the whole tape needs, for the wanted gradients; with
   `skip_last`, those that all instructions but the last one need. */
static uint32_t tape_needs(const cleave_nest *nest, uint32_t wanted, bool skip_last) {
    uint32_t support[MAX_REGISTERS], through[MAX_REGISTERS];
    bool reached[MAX_REGISTERS] = {false}; /* the value's gradient reaches this register */
    find_inputs(nest, cleave_opcode_operands, support);
    find_inputs(nest, cleave_opcode_gradient_operands, through);
    reached[value_register(nest)] = true;
    uint32_t needs = 0;
    for (int i = nest->n_instructions - 1; i >= 0; i--) {
        const cleave_instruction *it = &nest->tape[i];
        int operands = cleave_opcode_gradient_operands(it->opcode);
        if (!reached[nest->n_inputs + i])
            continue;
        bool a_active = operands >= 1 && (through[it->a] & wanted) != 0;
        bool b_active = operands >= 2 && (through[it->b] & wanted) != 0;
        if (!(skip_last && i == nest->n_instructions - 1))
            needs |= derivative_needs(it, support, support[nest->n_inputs + i], a_active, b_active);
        if (a_active)
            reached[it->a] = true;
        if (b_active)
            reached[it->b] = true;
    }
    return needs;
}

bool cleave_nest_backward_from_output(const cleave_nest *nest) {
    if (nest->kind != CLEAVE_NEST_POINTWISE || nest->n_instructions == 0 ||
        nest->gradient_inputs == 0)
        return false;
    return cleave_instruction_keeps_output(&nest->tape[nest->n_instructions - 1]) &&
           tape_needs(nest, nest->gradient_inputs, true) == 0;
}

static uint32_t differentiable_inputs(const cleave_nest *nest) {
    uint32_t through[MAX_REGISTERS];
    if (nest->attention != NULL)
        return nest->gradient_inputs; /* as was derived of the nests that it stands for */
    if (nest->n_instructions == 0)
        return 0;
    /* A maximum over a splittable axis has no gradient: it is there to keep exponents small. */
    if (nest->combiner == CLEAVE_COMBINE_MAX && nest->kind != CLEAVE_NEST_POOL)
        return 0;
    find_inputs(nest, cleave_opcode_gradient_operands, through);
    return through[value_register(nest)];
}

static uint32_t inputs_with_gradient(const cleave_model *model, const cleave_nest *nest) {
    uint32_t inputs = 0;
    for (int i = 0; i < nest->n_inputs; i++)
        if (model->tensors[nest->inputs[i].tensor].needs_gradient)
            inputs |= UINT32_C(1) << i;
    return inputs & differentiable_inputs(nest);
}

/* Marks a tensor and what it is a view of as leading to the loss. */
static void mark_useful(const cleave_model *model, int32_t id, bool *useful) {
    if (useful[id])
        return;
    useful[id] = true;
    const cleave_view *view = &model->tensors[id].view;
    for (int32_t i = 0; view->kind != CLEAVE_VIEW_NONE && i < view->n_sources; i++)
        mark_useful(model, view->sources[i], useful);
}

/* Whatever leads to what is marked. */
static void mark_before(const cleave_model *model, bool *useful) {
    for (int32_t n = model->n_nests - 1; n >= 0; n--) {
        const cleave_nest *nest = &model->nests[n];
        uint32_t inputs = useful[nest->output.tensor] ? differentiable_inputs(nest) : 0;
        for (int i = 0; i < nest->n_inputs; i++)
            if ((inputs >> i & 1) != 0)
                mark_useful(model, nest->inputs[i].tensor, useful);
    }
}

void cleave_model_find_useful(const cleave_model *model, bool *useful) {
    bool all = !cleave_model_trains(model) && model->n_outputs == 0;
    for (int32_t t = 0; t < model->n_tensors; t++)
        useful[t] = all;
    if (cleave_model_trains(model))
        mark_useful(model, model->loss, useful);
    mark_before(model, useful);
}

static bool view_needs_gradient(const cleave_model *model, int32_t id) {
    const cleave_view *view = &model->tensors[id].view;
    for (int32_t i = 0; i < view->n_sources; i++)
        if (model->tensors[view->sources[i]].needs_gradient)
            return true;
    return false;
}

/* Tensors in the order in which they become known: a view has a larger id than its sources, but a
   tensor's id says nothing about its nest's, so views are filled in before every nest that reads
   them. */
static void need_gradient(cleave_model *model, int32_t id, const bool *useful) {
    cleave_tensor *tensor = &model->tensors[id];
    if (tensor->view.kind == CLEAVE_VIEW_NONE)
        return;
    for (int32_t i = 0; i < tensor->view.n_sources; i++)
        need_gradient(model, tensor->view.sources[i], useful);
    tensor->needs_gradient = useful[id] && view_needs_gradient(model, id);
}

static void find_gradients(cleave_model *model, const bool *useful, bool of_frozen) {
    for (int32_t t = 0; t < model->n_tensors; t++)
        model->tensors[t].needs_gradient = model->tensors[t].kind == CLEAVE_TENSOR_PARAMETER &&
                                           (of_frozen || !model->tensors[t].frozen) && useful[t];
    for (int32_t n = 0; n < model->n_nests; n++) {
        cleave_nest *nest = &model->nests[n];
        for (int i = 0; i < nest->n_inputs; i++)
            need_gradient(model, nest->inputs[i].tensor, useful);
        uint32_t inputs =
            useful[nest->output.tensor] ? inputs_with_gradient(model, nest) : UINT32_C(0);
        nest->differentiable = inputs != 0;
        nest->gradient_inputs = inputs;
        model->tensors[nest->output.tensor].needs_gradient = inputs != 0;
    }
    for (int32_t t = 0; t < model->n_tensors; t++)
        need_gradient(model, t, useful);
}

static void find_kept(cleave_nest *nest) {
    nest->kept_inputs = 0;
    nest->kept_output = cleave_nest_backward_from_output(nest);
    nest->kept_combined = nest->differentiable && nest->combiner == CLEAVE_COMBINE_MOMENTS;
    if (nest->attention != NULL) {
        cleave_attention_keep(nest);
        return;
    }
    if (!nest->differentiable || nest->kept_output)
        return;
    uint32_t support[MAX_REGISTERS];
    find_inputs(nest, cleave_opcode_operands, support);
    nest->kept_inputs = tape_needs(nest, nest->gradient_inputs, false);
    if (nest->combiner == CLEAVE_COMBINE_MAX || nest->combiner == CLEAVE_COMBINE_MOMENTS)
        nest->kept_inputs |= support[value_register(nest)];
}

static bool same_map(const cleave_operand *a, const cleave_operand *b, int rank) {
    for (int d = 0; d < rank; d++) {
        const cleave_dimension_map *x = &a->map[d], *y = &b->map[d];
        if (x->offset != y->offset || x->n_terms != y->n_terms)
            return false;
        for (int i = 0; i < x->n_terms; i++)
            if (x->terms[i].axis != y->terms[i].axis || x->terms[i].stride != y->terms[i].stride)
                return false;
    }
    return true;
}

/* Does reading `id` read elements of the base tensor `base`? */
static bool reads_base(const cleave_model *model, int32_t id, int32_t base) {
    const cleave_view *view = &model->tensors[id].view;
    if (id == base || view->kind == CLEAVE_VIEW_NONE)
        return id == base;
    for (int32_t i = 0; i < view->n_sources; i++)
        if (reads_base(model, view->sources[i], base))
            return true;
    return false;
}

bool cleave_nest_can_run_in_place(const cleave_model *model, const cleave_nest *nest) {
    if (nest->kind != CLEAVE_NEST_POINTWISE || nest->n_inputs == 0 || (nest->kept_inputs & 1) != 0)
        return false;
    int32_t source = nest->inputs[0].tensor;
    const cleave_tensor *in = &model->tensors[source];
    const cleave_tensor *out = &model->tensors[nest->output.tensor];
    if (in->kind != CLEAVE_TENSOR_ACTIVATION || in->view.kind != CLEAVE_VIEW_NONE ||
        in->stored != out->stored || in->rank != out->rank)
        return false;
    for (int d = 0; d < in->rank; d++)
        if (in->shape[d] != out->shape[d] || in->order[d] != out->order[d])
            return false;
    if (!same_map(&nest->inputs[0], &nest->output, in->rank))
        return false;
    for (int i = 1; i < nest->n_inputs; i++) {
        bool same = nest->inputs[i].tensor == source &&
                    same_map(&nest->inputs[i], &nest->inputs[0], in->rank) &&
                    (nest->kept_inputs >> i & 1) == 0;
        if (!same && reads_base(model, nest->inputs[i].tensor, source))
            return false;
    }
    return true;
}

/* Through what a gradient would go if no parameter were frozen, and if outputs were trained that
   are not: a pass forward has the same numbers in the same precision as one of training. */
static void find_real(cleave_model *model, bool *useful) {
    cleave_model_find_useful(model, useful);
    for (int32_t o = 0; o < model->n_outputs && !cleave_model_trains(model); o++)
        mark_useful(model, model->outputs[o], useful);
    mark_before(model, useful);
    find_gradients(model, useful, true);
    for (int32_t t = 0; t < model->n_tensors; t++)
        model->tensors[t].real = model->tensors[t].needs_gradient;
}

cleave_status cleave_model_derive_gradients(cleave_model *model, cleave_error *error) {
    bool *useful = CLEAVE_ARENA_ARRAY(model->arena, bool, model->n_tensors);
    if (useful == NULL)
        return cleave_fail_memory(error, "looking for gradients");
    find_real(model, useful);
    cleave_model_find_useful(model, useful);
    find_gradients(model, useful, false);
    for (int32_t n = 0; n < model->n_nests; n++)
        find_kept(&model->nests[n]);
    cleave_model_set_precision(model, model->precision, model->reduce_precision);
    return CLEAVE_OK;
}

cleave_status cleave_model_finish(cleave_model *model, cleave_error *error) {
    model->writer = CLEAVE_ARENA_ARRAY(model->arena, int32_t, model->n_tensors);
    if (model->writer == NULL)
        return cleave_fail_memory(error, "finishing a model");
    for (int32_t t = 0; t < model->n_tensors; t++)
        model->writer[t] = -1;
    /* What is derived below walks ids and registers, so those are checked before it. */
    CLEAVE_TRY(cleave_model_check_references(model, error));
    for (int32_t n = 0; n < model->n_nests; n++) {
        model->writer[model->nests[n].output.tensor] = n;
        model->writer[cleave_nest_combined(&model->nests[n])->tensor] = n;
    }
    CLEAVE_TRY(cleave_model_derive_gradients(model, error));
    cleave_model_derive_filled(model);
    cleave_model_hash(model);
    return cleave_model_check(model, error);
}
