/* Where fragments go.

   A fragment over one input that varies joins the tail of the operator that computes the input,
   where nothing else reads that; else it becomes an operator of its own.  A reshape before it is
   moved behind it, which changes nothing and lets a product that follows see the dimensions before
   the reshape.  Other inputs may come along if they are known before any operator: parameters,
   constants, data, and views of them.  A node over two activations is an operator of its own, since
   its other input may be computed later than the operator that it could join; but for gated units.
 */
#include "graph/import/operators/fragment.h"
#include "graph/import/draft_views.h"
#include "graph/import/operators/pointwise.h"

#include <string.h>

static int emit(cleave_fragment *code, cleave_instruction it) {
    code->code[code->n] = it;
    return code->n++;
}

int cleave_fragment_unary(cleave_fragment *code, cleave_opcode opcode, int a) {
    return emit(code, (cleave_instruction){.opcode = opcode, .a = a, .b = a});
}

int cleave_fragment_binary(cleave_fragment *code, cleave_opcode opcode, int a, int b) {
    return emit(code, (cleave_instruction){.opcode = opcode, .a = a, .b = b});
}

int cleave_fragment_scale(cleave_fragment *code, int a, double p, double q) {
    return emit(code,
                (cleave_instruction){.opcode = CLEAVE_OP_SCALE, .a = a, .b = a, .p = p, .q = q});
}

int cleave_fragment_clip(cleave_fragment *code, int a, double p, double q) {
    return emit(code,
                (cleave_instruction){.opcode = CLEAVE_OP_CLIP, .a = a, .b = a, .p = p, .q = q});
}

int cleave_fragment_constant(cleave_fragment *code, double p) {
    return emit(code, (cleave_instruction){.opcode = CLEAVE_OP_CONSTANT,
                                           .a = CLEAVE_ARGUMENT_0,
                                           .b = CLEAVE_ARGUMENT_0,
                                           .p = p});
}

int cleave_fragment_uniform(cleave_fragment *code, double stream) {
    return emit(code, (cleave_instruction){.opcode = CLEAVE_OP_UNIFORM,
                                           .a = CLEAVE_ARGUMENT_0,
                                           .b = CLEAVE_ARGUMENT_0,
                                           .p = stream});
}

static int count_dropouts(const cleave_nest *nest) {
    int n = 0;
    for (int i = 0; i < nest->n_instructions; i++)
        n += nest->tape[i].opcode == CLEAVE_OP_DROPOUT;
    return n;
}

int cleave_fragment_append(const cleave_fragment *code, const int *registers, cleave_nest *nest) {
    int first = nest->n_inputs + nest->n_instructions, value = -1;
    for (int i = 0; i < code->n; i++) {
        const cleave_instruction *it = &code->code[i];
        double q = it->opcode == CLEAVE_OP_DROPOUT ? count_dropouts(nest) : it->q;
        value =
            cleave_nest_emit(nest, it->opcode, it->a < 0 ? registers[-1 - it->a] : first + it->a,
                             it->b < 0 ? registers[-1 - it->b] : first + it->b, it->p, q);
    }
    return value;
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* What a fragment is applied to: constants of one element go into the tape. */
typedef struct arguments {
    int n, n_scalars;
    const int *inputs; /* of the node */
    bool is_scalar[CLEAVE_MOST_ARGUMENTS];
    double scalar[CLEAVE_MOST_ARGUMENTS];
    int32_t tensor[CLEAVE_MOST_ARGUMENTS]; /* -1 of a scalar */
} arguments;

int32_t cleave_import_input_type(cleave_importer *im, int i) {
    return cleave_import_type(cleave_import_input(im, i));
}

int cleave_import_value_rank(const cleave_importer *im, const cleave_value *value) {
    return value->state == CLEAVE_VALUE_TENSOR     ? im->tensors.items[value->tensor].tensor.rank
           : value->state == CLEAVE_VALUE_CONSTANT ? value->constant.rank
           : value->initializer != NULL            ? value->initializer->rank
           : value->input != NULL                  ? value->input->rank
                                                   : -1;
}

static cleave_status read_arguments(cleave_importer *im, int n, const int *inputs,
                                    arguments *args) {
    int rank = -1; /* of what varies */
    *args = (arguments){.n = n, .inputs = inputs};
    for (int i = 0; i < n; i++) {
        const cleave_value *value = cleave_import_input(im, inputs[i]);
        int its = cleave_import_value_rank(im, value);
        if (value->state != CLEAVE_VALUE_CONSTANT && its > rank)
            rank = its;
    }
    for (int i = 0; i < n; i++) {
        const cleave_value *value = cleave_import_input(im, inputs[i]);
        const cleave_onnx_tensor *constant = &value->constant;
        args->tensor[i] = -1;
        args->is_scalar[i] =
            value->state == CLEAVE_VALUE_CONSTANT && constant->n == 1 && constant->rank <= rank;
        if (args->is_scalar[i]) {
            args->scalar[i] = constant->floats != NULL ? (double)constant->floats[0]
                                                       : (double)constant->integers[0];
            args->n_scalars++;
        } else {
            CLEAVE_TRY(cleave_import_tensor(im, inputs[i], &args->tensor[i]));
        }
    }
    return CLEAVE_OK;
}

/* Appends a fragment to a nest.  registers: of the arguments, those of scalars still to come. */
static void append(cleave_nest *nest, const cleave_fragment *code, const arguments *args,
                   int *registers) {
    for (int i = 0; i < args->n; i++)
        if (args->is_scalar[i])
            registers[i] = cleave_nest_emit(nest, CLEAVE_OP_CONSTANT, 0, 0, args->scalar[i], 0);
    cleave_fragment_append(code, registers, nest);
}

/* ---- operators ------------------------------------------------------------------------------- */

/* The operator's output takes the name of the node being imported, and that node, if the operator
   has no better one, becomes its main node. */
static cleave_status rename_output(cleave_importer *im, int32_t op, int32_t tensor) {
    int32_t base = im->operators.items[op].output;
    const char *name = im->node->outputs[0];
    im->tensors.items[tensor].tensor.name = name;
    if (base != tensor) {
        im->tensors.items[base].tensor.name =
            cleave_arena_printf(im->arena, "%s.before_reshape", name);
        if (im->tensors.items[base].tensor.name == NULL)
            return cleave_import_no_memory(im);
    }
    if (!im->operators.items[op].main_is_fixed)
        im->operators.items[op].main = im->node;
    return CLEAVE_OK;
}

/* Argument `active` alone varies. */
static cleave_status apply_to_one(cleave_importer *im, const arguments *args, int active,
                                  const cleave_fragment *code) {
    int registers[CLEAVE_MOST_ARGUMENTS];
    int32_t tensor = args->tensor[active], base, tail = -1;
    bool shared = cleave_import_is_shared(im, args->inputs[active]);
    int32_t op = cleave_import_open_operator(im, tensor, shared, &base);
    if (op >= 0)
        CLEAVE_TRY(cleave_import_tail(im, op, code->n + args->n_scalars, 0, &tail));
    if (tail >= 0) {
        registers[active] = cleave_nest_value(&im->nests.items[tail].nest);
        append(&im->nests.items[tail].nest, code, args, registers);
        CLEAVE_TRY(rename_output(im, op, tensor));
        cleave_import_set_output(im, 0, tensor, false);
        return CLEAVE_OK;
    }
    cleave_tensor from = im->tensors.items[base].tensor, seen = im->tensors.items[tensor].tensor;
    cleave_nest nest;
    CLEAVE_TRY(cleave_import_begin_pointwise(im, im->node->outputs[0], from.rank, from.shape, base,
                                             &nest));
    registers[active] = cleave_nest_add_whole_input(&nest, base, from.rank);
    append(&nest, code, args, registers);
    CLEAVE_TRY(cleave_import_end_pointwise(im, &nest));
    int32_t result = nest.output.tensor;
    if (base != tensor) {
        CLEAVE_TRY(cleave_import_reshape(im, im->node->outputs[0], result, seen.rank, seen.shape,
                                         &result));
        CLEAVE_TRY(rename_output(im, nest.op, result));
    }
    cleave_import_set_output(im, 0, result, false);
    return CLEAVE_OK;
}

static bool broadcasts_into(const cleave_tensor *small, const cleave_tensor *large) {
    if (small->rank > large->rank)
        return false;
    for (int d = 0; d < small->rank; d++)
        if (small->shape[d] != 1 && small->shape[d] != large->shape[large->rank - small->rank + d])
            return false;
    return true;
}

/* Known before any operator. */
static bool is_leaf(const cleave_importer *im, int32_t tensor) {
    const cleave_tensor *at = &im->tensors.items[tensor].tensor;
    while (at->view.kind != CLEAVE_VIEW_NONE && at->view.n_sources == 1)
        at = &im->tensors.items[at->view.sources[0]].tensor;
    return at->kind != CLEAVE_TENSOR_ACTIVATION;
}

/* Is a tensor the whole output of a product, perhaps behind a tail?  Sets its operator. */
static bool is_product_output(const cleave_importer *im, int32_t tensor, int32_t *op) {
    *op = im->tensors.items[tensor].op;
    if (*op < 0 || im->operators.items[*op].output != tensor)
        return false;
    const cleave_nest *nest = &im->nests.items[im->operators.items[*op].main_nest].nest;
    return nest->kind == CLEAVE_NEST_PRODUCT && im->operators.items[*op].main_is_fixed;
}

/* A gated unit: the product of two dense layers of one shape, of which the one that was opened
   later multiplies what it computes by what the other one has computed. */
static bool is_gate(const cleave_importer *im, const arguments *args, int active) {
    int32_t later, earlier;
    if (strcmp(im->node->type, "Mul") != 0 || args->n != 2 || args->n_scalars != 0)
        return false;
    int32_t other = args->tensor[1 - active];
    const cleave_tensor *of = &im->tensors.items[other].tensor;
    return is_product_output(im, args->tensor[active], &later) &&
           is_product_output(im, other, &earlier) && earlier < later &&
           cleave_has_shape(&im->tensors.items[args->tensor[active]].tensor, of->rank, of->shape);
}

/* May the fragment join the operator of argument `active`?  All others have to be leaves, or the
   other half of a gated unit. */
static bool can_join(const cleave_importer *im, const arguments *args, int active) {
    const cleave_tensor *large = &im->tensors.items[args->tensor[active]].tensor;
    if (is_gate(im, args, active))
        return true;
    for (int i = 0; i < args->n; i++)
        if (i != active && !args->is_scalar[i] &&
            (!is_leaf(im, args->tensor[i]) ||
             !broadcasts_into(&im->tensors.items[args->tensor[i]].tensor, large)))
            return false;
    return true;
}

static cleave_status try_join(cleave_importer *im, const arguments *args, int active,
                              const cleave_fragment *code, bool *joined) {
    int registers[CLEAVE_MOST_ARGUMENTS], n_leaves = args->n - args->n_scalars - 1;
    int32_t tensor = args->tensor[active], base, nest_id;
    bool shared = cleave_import_is_shared(im, args->inputs[active]);
    int32_t op = cleave_import_open_operator(im, tensor, shared, &base);
    if (op < 0 || base != tensor || !can_join(im, args, active))
        return CLEAVE_OK;
    bool gates = is_gate(im, args, active);
    CLEAVE_TRY(cleave_import_tail(im, op, code->n + args->n_scalars, n_leaves, &nest_id));
    if (nest_id < 0)
        return CLEAVE_OK;
    cleave_nest *nest = &im->nests.items[nest_id].nest;
    const cleave_tensor *large = &im->tensors.items[base].tensor;
    bool is_bias =
        code->n == 1 && code->code[0].opcode == CLEAVE_OP_ADD && nest->n_instructions == 0;
    for (int i = 0; i < args->n; i++) {
        if (i == active || args->is_scalar[i])
            continue;
        int32_t leaf = args->tensor[i];
        cleave_import_initialise(im, leaf, is_bias ? im->operators.items[op].fan_in : 0,
                                 code->initial);
        registers[i] = cleave_nest_add_input(nest, leaf);
        cleave_map_broadcast(&nest->inputs[registers[i]], &im->tensors.items[leaf].tensor,
                             large->rank, large->shape);
    }
    registers[active] = cleave_nest_value(nest);
    append(nest, code, args, registers);
    CLEAVE_TRY(rename_output(im, op, base));
    cleave_import_set_output(im, 0, base, false);
    if (gates)
        cleave_import_note_version(im, CLEAVE_LANGUAGE_GRAPH_VERSION);
    *joined = true;
    return CLEAVE_OK;
}

static cleave_status broadcast_shape(cleave_importer *im, const arguments *args, int *rank,
                                     int64_t *shape) {
    *rank = 0;
    for (int i = 0; i < args->n; i++)
        if (!args->is_scalar[i] && im->tensors.items[args->tensor[i]].tensor.rank > *rank)
            *rank = im->tensors.items[args->tensor[i]].tensor.rank;
    for (int d = 0; d < *rank; d++)
        shape[d] = 1;
    for (int i = 0; i < args->n; i++) {
        if (args->is_scalar[i])
            continue;
        const cleave_tensor *tensor = &im->tensors.items[args->tensor[i]].tensor;
        for (int d = 0; d < tensor->rank; d++) {
            int64_t *extent = &shape[*rank - tensor->rank + d];
            if (*extent != 1 && tensor->shape[d] != 1 && *extent != tensor->shape[d])
                return cleave_import_fail(im, "dimension %d of %s is %lld, which does not fit %lld",
                                          d, im->node->inputs[args->inputs[i]],
                                          (long long)tensor->shape[d], (long long)*extent);
            if (tensor->shape[d] != 1)
                *extent = tensor->shape[d];
        }
    }
    return CLEAVE_OK;
}

/* The first argument that has all elements, if there is one, else the first tensor: the result is
   called like it, and laid out like it.  It is also the nest's input 0, which it may be able to
   write over. */
static int find_largest(const cleave_importer *im, const arguments *args, int rank,
                        const int64_t *shape) {
    int largest = -1;
    for (int i = args->n - 1; i >= 0; i--) {
        if (args->is_scalar[i])
            continue;
        const cleave_tensor *tensor = &im->tensors.items[args->tensor[i]].tensor;
        if (tensor->rank == rank &&
            cleave_shape_size(rank, tensor->shape) >= cleave_shape_size(rank, shape))
            largest = i;
    }
    for (int i = 0; largest < 0; i++)
        if (!args->is_scalar[i])
            largest = i;
    return largest;
}

/* An operator of its own over several tensors. */
static cleave_status combine(cleave_importer *im, const arguments *args,
                             const cleave_fragment *code) {
    int rank, registers[CLEAVE_MOST_ARGUMENTS];
    int64_t shape[CLEAVE_MAX_RANK];
    cleave_nest nest;
    CLEAVE_TRY(broadcast_shape(im, args, &rank, shape));
    int largest = find_largest(im, args, rank, shape);
    CLEAVE_TRY(cleave_import_begin_pointwise(im, im->node->outputs[0], rank, shape,
                                             args->tensor[largest], &nest));
    for (int k = 0; k < args->n; k++) {
        int i = k == 0 ? largest : k <= largest ? k - 1 : k;
        if (args->is_scalar[i])
            continue;
        registers[i] = -1;
        for (int j = 0; j < nest.n_inputs; j++)
            if (nest.inputs[j].tensor == args->tensor[i])
                registers[i] = j;
        if (registers[i] >= 0)
            continue;
        registers[i] = cleave_nest_add_input(&nest, args->tensor[i]);
        cleave_map_broadcast(&nest.inputs[registers[i]], &im->tensors.items[args->tensor[i]].tensor,
                             rank, shape);
        cleave_import_initialise(im, args->tensor[i], 0, code->initial);
    }
    append(&nest, code, args, registers);
    CLEAVE_TRY(cleave_import_end_pointwise(im, &nest));
    cleave_import_set_output(im, 0, nest.output.tensor, false);
    return CLEAVE_OK;
}

/* ---- integers -------------------------------------------------------------------------------- */

/* Does arithmetic of the fragment read argument i itself?  In comparisons, limits and selections
   integers of any size are common, to say that there is no limit, and being near is enough. */
static bool computes_with(const cleave_fragment *code, int i) {
    for (int k = 0; k < code->n; k++) {
        const cleave_instruction *it = &code->code[k];
        bool arithmetic = it->opcode == CLEAVE_OP_ADD || it->opcode == CLEAVE_OP_SUB ||
                          it->opcode == CLEAVE_OP_MUL || it->opcode == CLEAVE_OP_DIV ||
                          it->opcode == CLEAVE_OP_FMOD || it->opcode == CLEAVE_OP_POW;
        if (arithmetic && (it->a == cleave_argument(i) || it->b == cleave_argument(i)))
            return true;
    }
    return false;
}

/* An integer result must not be computed with constants that f32 rounds. */
static cleave_status check_integers(cleave_importer *im, int n, const int *inputs,
                                    const cleave_fragment *code) {
    for (int i = 0; i < n; i++) {
        const cleave_onnx_tensor *constant = cleave_import_constant(im, inputs[i]);
        if (constant == NULL || constant->integers == NULL || !computes_with(code, i))
            continue;
        for (int64_t k = 0; k < constant->n; k++)
            if (constant->integers[k] < -CLEAVE_MOST_EXACT_INTEGER ||
                constant->integers[k] > CLEAVE_MOST_EXACT_INTEGER)
                return cleave_import_fail(
                    im, "computes integers with %lld (in %s), but they are f32, exact up to %lld",
                    (long long)constant->integers[k], im->node->inputs[inputs[i]],
                    (long long)CLEAVE_MOST_EXACT_INTEGER);
    }
    return CLEAVE_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static bool is_random(const cleave_fragment *code) {
    for (int i = 0; i < code->n; i++)
        if (code->code[i].opcode == CLEAVE_OP_DROPOUT || code->code[i].opcode == CLEAVE_OP_UNIFORM)
            return true;
    return false;
}

static cleave_status apply_to_tensors(cleave_importer *im, const arguments *args,
                                      const cleave_fragment *code) {
    bool joined = false;
    int last = 0;
    for (int i = 0; i < args->n; i++)
        last = args->is_scalar[i] ? last : i;
    if (args->n - args->n_scalars == 1)
        return apply_to_one(im, args, last, code);
    for (int i = 0; i < args->n && !joined; i++)
        if (!args->is_scalar[i])
            CLEAVE_TRY(try_join(im, args, i, code, &joined));
    return joined ? CLEAVE_OK : combine(im, args, code);
}

cleave_status cleave_import_apply(cleave_importer *im, int n, const int *inputs,
                                  const cleave_fragment *code, int32_t type) {
    bool constant = !is_random(code);
    for (int i = 0; i < n; i++)
        constant = constant && cleave_import_input(im, inputs[i])->state == CLEAVE_VALUE_CONSTANT;
    if (constant)
        return cleave_import_evaluate(im, n, inputs, code, type);
    if (cleave_onnx_type_is_integer(type))
        CLEAVE_TRY(check_integers(im, n, inputs, code));
    arguments args;
    CLEAVE_TRY(read_arguments(im, n, inputs, &args));
    CLEAVE_TRY(apply_to_tensors(im, &args, code));
    cleave_import_set_type(im, 0, type);
    return CLEAVE_OK;
}
