/* Element-wise operators.

   A node with one input that varies is a fragment of tape.  Where it alone uses the output of an
   operator, the fragment joins that operator's tail; else it becomes an operator of its own.  A
   reshape before it is moved behind it, which changes nothing and lets a product that follows see
   the dimensions before the reshape.  A node over two activations is always an operator of its own,
   since its other input may be computed later than the operator that it could join. */
#include "graph/import_internal.h"

#include <float.h>
#include <string.h>

/* Registers of a fragment: VALUE is what it is applied to, k >= 0 its own instruction k. */
enum { VALUE = -1, MOST_FRAGMENT = 2 };

typedef struct fragment {
    int n;
    cleave_instruction code[MOST_FRAGMENT];
} fragment;

static fragment fragment_of(cleave_opcode opcode, double p, double q) {
    return (fragment){1, {{.opcode = opcode, .a = VALUE, .b = VALUE, .p = p, .q = q}}};
}

static void append_fragment(cleave_nest *nest, const fragment *code) {
    int value = cleave_nest_value(nest), first = nest->n_inputs + nest->n_instructions;
    for (int i = 0; i < code->n; i++) {
        const cleave_instruction *it = &code->code[i];
        cleave_nest_emit(nest, it->opcode, it->a == VALUE ? value : first + it->a,
                         it->b == VALUE ? value : first + it->b, it->p, it->q);
    }
}

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

/* An operator over all dimensions of a tensor, its axes called like them. */
static cleave_status new_pointwise(cleave_importer *im, int32_t like, int rank,
                                   const int64_t *shape, const char *name, int32_t *op,
                                   cleave_nest *nest) {
    CLEAVE_TRY(cleave_import_new_operator(im, false, op));
    int32_t output;
    CLEAVE_TRY(cleave_import_new_tensor(im, (cleave_new_tensor){name, *op, "", rank, shape, like},
                                        &output));
    im->operators.items[*op].output = output;
    *nest = (cleave_nest){.kind = CLEAVE_NEST_POINTWISE, .op = *op};
    nest->output.tensor = output;
    for (int d = 0; d < rank; d++) {
        if (cleave_import_add_axis(im, *op, im->tensors.items[output].axes[d], shape[d], false) < 0)
            return cleave_import_no_memory(im);
        cleave_map_axis(&nest->output, d, d);
    }
    cleave_nest_take_axes(nest, &im->operators.items[*op]);
    return CLEAVE_OK;
}

static cleave_status close_pointwise(cleave_importer *im, int32_t op, const cleave_nest *nest) {
    int32_t id;
    CLEAVE_TRY(cleave_import_add_nest(im, nest, "", &id));
    im->operators.items[op].main_nest = id;
    im->operators.items[op].tail_nest = id;
    return CLEAVE_OK;
}

/* Applies a fragment to input `i` of the node and makes the result its output 0. */
static cleave_status apply(cleave_importer *im, int i, const fragment *code) {
    int32_t tensor, base, tail = -1;
    CLEAVE_TRY(cleave_import_tensor(im, i, &tensor));
    bool shared = cleave_import_is_shared(im, i);
    int32_t op = cleave_import_open_operator(im, tensor, shared, &base);
    if (op >= 0)
        CLEAVE_TRY(cleave_import_tail(im, op, code->n, 0, &tail));
    if (tail >= 0) {
        append_fragment(&im->nests.items[tail].nest, code);
        CLEAVE_TRY(rename_output(im, op, tensor));
        cleave_import_set_output(im, 0, tensor, false);
        return CLEAVE_OK;
    }
    cleave_tensor from = im->tensors.items[base].tensor, seen = im->tensors.items[tensor].tensor;
    const char *name = im->node->outputs[0];
    cleave_nest nest;
    CLEAVE_TRY(new_pointwise(im, base, from.rank, from.shape, name, &op, &nest));
    cleave_nest_add_input(&nest, base);
    for (int d = 0; d < from.rank; d++)
        cleave_map_axis(&nest.inputs[0], d, d);
    append_fragment(&nest, code);
    CLEAVE_TRY(close_pointwise(im, op, &nest));
    int32_t result = nest.output.tensor;
    if (base != tensor) {
        CLEAVE_TRY(cleave_import_reshape(im, name, result, seen.rank, seen.shape, &result));
        CLEAVE_TRY(rename_output(im, op, result));
    }
    cleave_import_set_output(im, 0, result, false);
    return CLEAVE_OK;
}

/* ---- one input ---------------------------------------------------------------------------- */

cleave_status cleave_import_unary(cleave_importer *im) {
    static const struct {
        const char *type;
        cleave_opcode opcode;
    } table[] = {{"Relu", CLEAVE_OP_RELU},
                 {"Sigmoid", CLEAVE_OP_SIGMOID},
                 {"Tanh", CLEAVE_OP_TANH},
                 {"Neg", CLEAVE_OP_NEG},
                 {"Abs", CLEAVE_OP_ABS},
                 {"Exp", CLEAVE_OP_EXP},
                 {"Log", CLEAVE_OP_LOG},
                 {"Sqrt", CLEAVE_OP_SQRT},
                 {"Reciprocal", CLEAVE_OP_RECIPROCAL},
                 {"Erf", CLEAVE_OP_ERF},
                 {"LeakyRelu", CLEAVE_OP_LEAKY_RELU}};
    fragment code = fragment_of(CLEAVE_OP_COPY, 0, 0);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(im->node->type, table[i].type) == 0)
            code.code[0].opcode = table[i].opcode;
    if (code.code[0].opcode == CLEAVE_OP_LEAKY_RELU)
        CLEAVE_TRY(cleave_import_number(im, "alpha", 0.01, &code.code[0].p));
    return apply(im, 0, &code);
}

cleave_status cleave_import_clip(cleave_importer *im) {
    double low, high;
    CLEAVE_TRY(cleave_import_number(im, "min", -(double)FLT_MAX, &low));
    CLEAVE_TRY(cleave_import_number(im, "max", (double)FLT_MAX, &high));
    CLEAVE_TRY(cleave_import_scalar(im, 1, low, &low));
    CLEAVE_TRY(cleave_import_scalar(im, 2, high, &high));
    if (!(low <= high))
        return cleave_import_fail(im, "clips to the empty range %g to %g", low, high);
    fragment code = fragment_of(CLEAVE_OP_CLIP, low, high);
    return apply(im, 0, &code);
}

/* The mask of a dropout that drops nothing. */
static cleave_status keep_all(cleave_importer *im) {
    int32_t tensor;
    CLEAVE_TRY(cleave_import_tensor(im, 0, &tensor));
    const cleave_tensor *like = &im->tensors.items[tensor].tensor;
    cleave_value *mask = cleave_import_output(im, 1);
    mask->state = CLEAVE_VALUE_CONSTANT;
    mask->constant = (cleave_onnx_tensor){.name = mask->name,
                                          .type = CLEAVE_ONNX_BOOL,
                                          .rank = like->rank,
                                          .n = cleave_tensor_size(like)};
    memcpy(mask->constant.shape, like->shape, sizeof mask->constant.shape);
    int64_t *ones = CLEAVE_ARENA_ARRAY(im->arena, int64_t, mask->constant.n);
    if (ones == NULL)
        return cleave_import_no_memory(im);
    for (int64_t i = 0; i < mask->constant.n; i++)
        ones[i] = 1;
    mask->constant.integers = ones;
    return CLEAVE_OK;
}

cleave_status cleave_import_dropout(cleave_importer *im) {
    double ratio, training = im->with_loss;
    CLEAVE_TRY(cleave_import_number(im, "ratio", 0.5, &ratio));
    CLEAVE_TRY(cleave_import_scalar(im, 1, ratio, &ratio));
    /* From operator set 12 on an input says whether it trains; before, whether the model does. */
    if (im->graph.opset >= 12)
        CLEAVE_TRY(cleave_import_scalar(im, 2, 0, &training));
    if (!(ratio >= 0 && ratio < 1))
        return cleave_import_fail(im, "ratio %g is not in [0, 1)", ratio);
    bool drops = ratio > 0 && training != 0, mask = cleave_import_uses_output(im, 1);
    if (drops && mask)
        return cleave_import_fail(im,
                                  "its mask output is used, which is not supported in training");
    if (mask)
        CLEAVE_TRY(keep_all(im));
    if (!drops)
        return cleave_import_identity(im);
    fragment code = fragment_of(CLEAVE_OP_DROPOUT, ratio, 0);
    return apply(im, 0, &code);
}

/* ---- two inputs ---------------------------------------------------------------------------- */

static cleave_opcode binary_opcode(const char *type) {
    static const struct {
        const char *type;
        cleave_opcode opcode;
    } table[] = {{"Add", CLEAVE_OP_ADD}, {"Sum", CLEAVE_OP_ADD}, {"Sub", CLEAVE_OP_SUB},
                 {"Mul", CLEAVE_OP_MUL}, {"Div", CLEAVE_OP_DIV}, {"Min", CLEAVE_OP_MIN},
                 {"Max", CLEAVE_OP_MAX}, {"Pow", CLEAVE_OP_POW}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(type, table[i].type) == 0)
            return table[i].opcode;
    return CLEAVE_OP_COPY;
}

/* x op s, or s op x where the scalar is first. */
static fragment with_scalar(cleave_opcode opcode, double s, bool scalar_first) {
    switch (opcode) {
    case CLEAVE_OP_ADD:
        return fragment_of(CLEAVE_OP_SCALE, 1, s);
    case CLEAVE_OP_SUB:
        return scalar_first ? fragment_of(CLEAVE_OP_SCALE, -1, s)
                            : fragment_of(CLEAVE_OP_SCALE, 1, -s);
    case CLEAVE_OP_MUL:
        return fragment_of(CLEAVE_OP_SCALE, s, 0);
    case CLEAVE_OP_DIV:
        if (!scalar_first && s != 0)
            return fragment_of(CLEAVE_OP_SCALE, 1 / s, 0);
        break;
    case CLEAVE_OP_POW:
        if (!scalar_first && s == 2)
            return fragment_of(CLEAVE_OP_MUL, 0, 0);
        if (!scalar_first && s == 0.5)
            return fragment_of(CLEAVE_OP_SQRT, 0, 0);
        break;
    default:
        break;
    }
    fragment code = {2,
                     {{.opcode = CLEAVE_OP_CONSTANT, .a = VALUE, .b = VALUE, .p = s},
                      {.opcode = opcode, .a = VALUE, .b = 0}}};
    if (scalar_first) {
        code.code[1].a = 0;
        code.code[1].b = VALUE;
    }
    return code;
}

static bool broadcasts_into(const cleave_tensor *small, const cleave_tensor *large) {
    if (small->rank > large->rank)
        return false;
    for (int d = 0; d < small->rank; d++)
        if (small->shape[d] != 1 && small->shape[d] != large->shape[large->rank - small->rank + d])
            return false;
    return true;
}

/* Where one operand is an operator's output that only this node uses, and the other is known before
   any operator (a parameter or a constant), the node joins that operator's tail. */
static cleave_status try_join(cleave_importer *im, int active, const int32_t *tensors,
                              cleave_opcode opcode, bool *joined) {
    int32_t leaf = tensors[1 - active], base, nest_id;
    const cleave_tensor *small = &im->tensors.items[leaf].tensor;
    int32_t op = cleave_import_open_operator(im, tensors[active],
                                             cleave_import_is_shared(im, active), &base);
    if (op < 0 || base != tensors[active] ||
        (small->kind != CLEAVE_TENSOR_PARAMETER && small->kind != CLEAVE_TENSOR_CONSTANT) ||
        !broadcasts_into(small, &im->tensors.items[base].tensor))
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_import_tail(im, op, 1, 1, &nest_id));
    if (nest_id < 0)
        return CLEAVE_OK;
    cleave_nest *nest = &im->nests.items[nest_id].nest;
    bool is_bias = opcode == CLEAVE_OP_ADD && nest->n_instructions == 0;
    bool scales = opcode == CLEAVE_OP_MUL || opcode == CLEAVE_OP_DIV;
    cleave_import_initialise(im, leaf, is_bias ? im->operators.items[op].fan_in : 0,
                             scales ? 1.0f : 0.0f);
    int added = cleave_nest_add_input(nest, leaf);
    const cleave_tensor *large = &im->tensors.items[base].tensor;
    cleave_map_broadcast(&nest->inputs[added], &im->tensors.items[leaf].tensor, large->rank,
                         large->shape);
    int value = cleave_nest_value(nest);
    cleave_nest_emit(nest, opcode, active == 0 ? value : added, active == 0 ? added : value, 0, 0);
    CLEAVE_TRY(rename_output(im, op, base));
    cleave_import_set_output(im, 0, base, false);
    *joined = true;
    return CLEAVE_OK;
}

static cleave_status broadcast_shape(cleave_importer *im, int n, const int32_t *tensors, int *rank,
                                     int64_t *shape) {
    *rank = 0;
    for (int i = 0; i < n; i++)
        if (im->tensors.items[tensors[i]].tensor.rank > *rank)
            *rank = im->tensors.items[tensors[i]].tensor.rank;
    for (int d = 0; d < *rank; d++)
        shape[d] = 1;
    for (int i = 0; i < n; i++) {
        const cleave_tensor *tensor = &im->tensors.items[tensors[i]].tensor;
        for (int d = 0; d < tensor->rank; d++) {
            int64_t *extent = &shape[*rank - tensor->rank + d];
            if (*extent != 1 && tensor->shape[d] != 1 && *extent != tensor->shape[d])
                return cleave_import_fail(im, "dimension %d of %s is %lld, which does not fit %lld",
                                          d, im->node->inputs[i], (long long)tensor->shape[d],
                                          (long long)*extent);
            if (tensor->shape[d] != 1)
                *extent = tensor->shape[d];
        }
    }
    return CLEAVE_OK;
}

/* An operator of its own over n tensors, folded from the left. */
static cleave_status combine(cleave_importer *im, int n, const int32_t *tensors,
                             cleave_opcode opcode) {
    int rank, largest = 0, registers[CLEAVE_MAX_INPUTS];
    int64_t shape[CLEAVE_MAX_RANK];
    CLEAVE_TRY(broadcast_shape(im, n, tensors, &rank, shape));
    /* Called like, and laid out like, the first operand that has all elements; it is also the
       nest's input 0, which it may be able to write over. */
    for (int i = n - 1; i >= 0; i--) {
        const cleave_tensor *tensor = &im->tensors.items[tensors[i]].tensor;
        if (tensor->rank == rank &&
            cleave_shape_size(rank, tensor->shape) >= cleave_shape_size(rank, shape))
            largest = i;
    }
    int32_t op;
    cleave_nest nest;
    CLEAVE_TRY(new_pointwise(im, tensors[largest], rank, shape, im->node->outputs[0], &op, &nest));
    bool scales = opcode == CLEAVE_OP_MUL || opcode == CLEAVE_OP_DIV;
    for (int k = 0; k < n; k++) {
        int i = k == 0 ? largest : k <= largest ? k - 1 : k;
        registers[i] = -1;
        for (int j = 0; j < nest.n_inputs; j++)
            if (nest.inputs[j].tensor == tensors[i])
                registers[i] = j;
        if (registers[i] < 0) {
            registers[i] = cleave_nest_add_input(&nest, tensors[i]);
            cleave_map_broadcast(&nest.inputs[registers[i]], &im->tensors.items[tensors[i]].tensor,
                                 rank, shape);
            cleave_import_initialise(im, tensors[i], 0, scales ? 1.0f : 0.0f);
        }
    }
    int value = registers[0];
    for (int i = 1; i < n; i++)
        value = cleave_nest_emit(&nest, opcode, value, registers[i], 0, 0);
    CLEAVE_TRY(close_pointwise(im, op, &nest));
    cleave_import_set_output(im, 0, nest.output.tensor, false);
    return CLEAVE_OK;
}

static bool is_scalar(const cleave_onnx_tensor *constant, int other_rank) {
    return constant != NULL && constant->floats != NULL && constant->n == 1 &&
           constant->rank <= other_rank;
}

static int value_rank(const cleave_value *value) {
    return value->state == CLEAVE_VALUE_CONSTANT ? value->constant.rank
           : value->initializer != NULL          ? value->initializer->rank
           : value->input != NULL                ? value->input->rank
                                                 : -1;
}

cleave_status cleave_import_binary(cleave_importer *im) {
    cleave_opcode opcode = binary_opcode(im->node->type);
    for (int i = 0; i < 2; i++) {
        /* Only constants count here, not initializers: those are trained. */
        const cleave_value *value = cleave_import_input(im, i);
        const cleave_value *other = cleave_import_input(im, 1 - i);
        int rank = other->state == CLEAVE_VALUE_TENSOR
                       ? im->tensors.items[other->tensor].tensor.rank
                       : value_rank(other);
        if (value->state == CLEAVE_VALUE_CONSTANT && is_scalar(&value->constant, rank)) {
            fragment code = with_scalar(opcode, (double)value->constant.floats[0], i == 0);
            return apply(im, 1 - i, &code);
        }
    }
    int32_t tensors[2];
    CLEAVE_TRY(cleave_import_tensor(im, 0, &tensors[0]));
    CLEAVE_TRY(cleave_import_tensor(im, 1, &tensors[1]));
    bool joined = false;
    for (int active = 0; active < 2 && !joined && tensors[0] != tensors[1]; active++)
        CLEAVE_TRY(try_join(im, active, tensors, opcode, &joined));
    return joined ? CLEAVE_OK : combine(im, 2, tensors, opcode);
}

cleave_status cleave_import_variadic(cleave_importer *im) {
    int32_t tensors[CLEAVE_MAX_INPUTS];
    int n = im->node->n_inputs;
    if (n == 1)
        return cleave_import_identity(im);
    if (n == 2)
        return cleave_import_binary(im);
    if (n > CLEAVE_MAX_INPUTS)
        return cleave_import_fail(im, "has %d inputs, at most %d are supported", n,
                                  CLEAVE_MAX_INPUTS);
    for (int i = 0; i < n; i++)
        CLEAVE_TRY(cleave_import_tensor(im, i, &tensors[i]));
    return combine(im, n, tensors, binary_opcode(im->node->type));
}
