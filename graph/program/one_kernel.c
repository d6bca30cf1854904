#include "graph/program/one_kernel.h"

static const cleave_kernel_share alone = CLEAVE_KERNEL_ALONE;

/* Nests lo..hi of an operator, and which of them is asked about. */
typedef struct kernel {
    const cleave_model *model;
    const cleave_operator *op;
    int32_t lo, hi, at;
} kernel;

static const cleave_nest *member(const kernel *k, int32_t i) {
    return &k->model->nests[k->op->nests[i]];
}

static bool joins(const cleave_nest *nest) {
    return nest->kind == CLEAVE_NEST_POINTWISE || nest->kind == CLEAVE_NEST_REDUCE ||
           nest->kind == CLEAVE_NEST_MOMENTS;
}

/* Without a compiler only from the first nest that combines on. */
static void leave_out_leading(kernel *k) {
    int32_t first = k->lo;
    while (first < k->hi && member(k, first)->combiner == CLEAVE_COMBINE_NONE)
        first++;
    if (member(k, first)->combiner == CLEAVE_COMBINE_NONE)
        return;
    if (k->at >= first)
        k->lo = first;
    else
        k->lo = k->hi = k->at;
}

static kernel find_kernel(const cleave_model *model, const cleave_nest *nest) {
    kernel k = {.model = model, .op = &model->operators[nest->op]};
    while (k.at + 1 < k.op->n_nests && member(&k, k.at) != nest)
        k.at++;
    k.lo = k.hi = k.at;
    if (k.op->n_nests == 0 || member(&k, k.at) != nest)
        return k; /* one that was made apart from the model */
    while (k.lo > 0 && joins(nest) && joins(member(&k, k.lo - 1)))
        k.lo--;
    while (k.hi + 1 < k.op->n_nests && joins(nest) && joins(member(&k, k.hi + 1)))
        k.hi++;
    return k;
}

/* Bits of the inputs that are this tensor. */
static uint32_t inputs_of(const cleave_nest *nest, int32_t tensor) {
    uint32_t found = 0;
    for (int i = 0; i < nest->n_inputs; i++)
        found |= (uint32_t)(nest->inputs[i].tensor == tensor) << i;
    return found;
}

static bool is_handed_on(const kernel *k, int32_t i) {
    for (int32_t j = i + 1; j <= k->hi; j++)
        if (inputs_of(member(k, j), member(k, i)->output.tensor) != 0)
            return true;
    return false;
}

static bool is_made_inside(const kernel *k, int32_t tensor) {
    for (int32_t j = k->lo; j < k->at; j++)
        if (member(k, j)->output.tensor == tensor)
            return true;
    return false;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static uint32_t axes_of(const cleave_operand *operand, int dimension) {
    uint32_t axes = 0;
    for (int t = 0; t < operand->map[dimension].n_terms; t++)
        axes |= UINT32_C(1) << operand->map[dimension].terms[t].axis;
    return axes;
}

/* Axes of a nest that its output lacks. */
static uint32_t combined_axes(const cleave_model *model, const cleave_nest *nest) {
    uint32_t axes = (UINT32_C(1) << nest->n_axes) - 1;
    for (int d = 0; d < model->tensors[nest->output.tensor].rank; d++)
        axes &= ~axes_of(&nest->output, d);
    return axes;
}

/* Are these axes the last dimensions of whatever has them? */
static bool lies_in_rows(const cleave_model *model, const cleave_nest *nest, uint32_t combined) {
    for (int i = 0; i < nest->n_inputs; i++) {
        bool inside = false;
        for (int d = 0; d < model->tensors[nest->inputs[i].tensor].rank; d++) {
            bool is_of_row = (axes_of(&nest->inputs[i], d) & combined) != 0;
            if (inside && !is_of_row)
                return false;
            inside = is_of_row;
        }
    }
    return true;
}

/* Has the part all of what member i combines?  Where its nest lacks an axis nothing is known. */
static bool has_whole_rows(const kernel *k, int32_t i, uint32_t combined, const cleave_part *part) {
    const cleave_nest *of = member(k, i), *nest = member(k, k->at);
    if (of->derivation != CLEAVE_DERIVE_OPERATOR || nest->derivation != CLEAVE_DERIVE_OPERATOR)
        return true;
    for (int a = 0; a < of->n_axes; a++)
        for (int b = 0; (combined >> a & 1) != 0 && b < nest->n_axes; b++)
            if (of->operator_axis[a] == nest->operator_axis[b] &&
                cleave_part_extent(part, b) < nest->axes[b].extent)
                return false;
    return true;
}

static bool fits_one_kernel(const kernel *k, const cleave_part *part) {
    for (int32_t i = k->lo; i <= k->hi; i++) {
        const cleave_nest *nest = member(k, i);
        if (nest->combiner == CLEAVE_COMBINE_NONE || !is_handed_on(k, i))
            continue;
        uint32_t combined = combined_axes(k->model, nest);
        if (!lies_in_rows(k->model, nest, combined) || !has_whole_rows(k, i, combined, part))
            return false;
    }
    return true;
}

/* ---- passes ---------------------------------------------------------------------------------- */

static cleave_kernel_share share_forward(const kernel *k) {
    const cleave_nest *nest = member(k, k->at);
    cleave_kernel_share share = alone;
    share.launches = k->at == k->lo;
    share.output = !is_handed_on(k, k->at);
    for (int i = 0; i < nest->n_inputs; i++) {
        bool is_there = is_made_inside(k, nest->inputs[i].tensor);
        for (int32_t j = k->lo; j < k->at; j++)
            is_there = is_there || inputs_of(member(k, j), nest->inputs[i].tensor) != 0;
        share.inputs &= ~((uint32_t)is_there << i);
    }
    return share;
}

/* The last nest is the first. */
static cleave_kernel_share share_backward(const kernel *k, cleave_pass pass) {
    const cleave_nest *nest = member(k, k->at);
    cleave_kernel_share share = alone;
    share.output = !is_handed_on(k, k->at);
    for (int i = 0; i < nest->n_inputs; i++)
        share.gradients &= ~((uint32_t)is_made_inside(k, nest->inputs[i].tensor) << i);
    for (int32_t j = k->at + 1; j <= k->hi; j++) {
        const cleave_nest *before = member(k, j);
        uint32_t given = cleave_nest_pass_inputs(k->model, before, pass);
        share.launches = share.launches && given == 0;
        for (int i = 0; i < nest->n_inputs; i++) {
            uint32_t same = inputs_of(before, nest->inputs[i].tensor);
            share.inputs &= ~((uint32_t)(given != 0 && (same & before->kept_inputs) != 0) << i);
            share.gradients &= ~((uint32_t)((same & given) != 0) << i);
        }
    }
    return share;
}

/* alpha x + beta c of a product x; c the same for all rows, or a number. */
static bool is_epilogue(const cleave_model *model, const cleave_nest *nest) {
    if (nest->kind != CLEAVE_NEST_POINTWISE || nest->derivation != CLEAVE_DERIVE_OWNERS ||
        model->nests[nest->owners_of].kind != CLEAVE_NEST_PRODUCT ||
        nest->inputs[0].tensor != model->nests[nest->owners_of].output.tensor)
        return false;
    for (int i = 1; i < nest->n_inputs; i++)
        if (model->tensors[nest->inputs[i].tensor].kind == CLEAVE_TENSOR_ACTIVATION)
            return false;
    for (int i = 0; i < nest->n_instructions; i++)
        if (nest->tape[i].opcode != CLEAVE_OP_ADD && nest->tape[i].opcode != CLEAVE_OP_SCALE &&
            nest->tape[i].opcode != CLEAVE_OP_COPY)
            return false;
    return true;
}

cleave_kernel_share cleave_kernel_share_of(const cleave_model *model, const cleave_nest *nest,
                                           cleave_pass pass, const cleave_part *part,
                                           bool is_eager) {
    if (is_epilogue(model, nest)) { /* of its own it has the gradients of what it adds */
        uint32_t added = cleave_nest_pass_inputs(model, nest, pass) & ~UINT32_C(1);
        bool adds_up = pass != CLEAVE_PASS_FORWARD && added != 0;
        return (cleave_kernel_share){.launches = adds_up, .output = adds_up, .gradients = added};
    }
    kernel k = find_kernel(model, nest);
    if (is_eager && k.lo < k.hi)
        leave_out_leading(&k);
    if (k.lo >= k.hi || !fits_one_kernel(&k, part))
        return alone;
    return pass == CLEAVE_PASS_FORWARD ? share_forward(&k) : share_backward(&k, pass);
}
