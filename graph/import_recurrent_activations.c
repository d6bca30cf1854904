/* The activations of recurrent operators: names, parameters and tapes. */
#include "graph/import_recurrent.h"

#include <math.h>
#include <string.h>
#include <strings.h>

typedef enum function {
    AFFINE,
    ELU,
    HARD_SIGMOID,
    LEAKY_RELU,
    RELU,
    SCALED_TANH,
    SIGMOID,
    SOFTPLUS,
    SOFTSIGN,
    TANH,
    THRESHOLDED_RELU
} function;

/* NAN: has to be given. */
static const struct {
    const char *name;
    int n_parameters; /* none, alpha, or alpha and beta */
    double alpha, beta;
} table[] = {[AFFINE] = {"Affine", 2, (double)NAN, (double)NAN},
             [ELU] = {"Elu", 1, 1, 0},
             [HARD_SIGMOID] = {"HardSigmoid", 2, 0.2, 0.5},
             [LEAKY_RELU] = {"LeakyRelu", 1, 0.01, 0},
             [RELU] = {"Relu", 0, 0, 0},
             [SCALED_TANH] = {"ScaledTanh", 2, (double)NAN, (double)NAN},
             [SIGMOID] = {"Sigmoid", 0, 0, 0},
             [SOFTPLUS] = {"Softplus", 0, 0, 0},
             [SOFTSIGN] = {"Softsign", 0, 0, 0},
             [TANH] = {"Tanh", 0, 0, 0},
             [THRESHOLDED_RELU] = {"ThresholdedRelu", 1, 1, 0}};
enum { N_FUNCTIONS = sizeof table / sizeof *table };

/* A list of floats that the functions that want one take from, in their order. */
typedef struct parameter_list {
    const char *name;
    int32_t n, taken;
    const float *values;
} parameter_list;

static cleave_status read_parameters(cleave_importer *im, parameter_list *list) {
    const cleave_onnx_attribute *attribute = cleave_import_attribute(im, list->name);
    if (attribute != NULL && attribute->kind != CLEAVE_ONNX_ATTRIBUTE_FLOATS)
        return cleave_import_fail(im, "attribute %s is not a list of floats", list->name);
    list->n = attribute != NULL ? attribute->n : 0;
    list->values = attribute != NULL ? attribute->numbers : NULL;
    return CLEAVE_OK;
}

static cleave_status take(cleave_importer *im, parameter_list *list, const char *function_name,
                          double otherwise, double *value) {
    *value = list->taken < list->n ? (double)list->values[list->taken++] : otherwise;
    if (isnan(*value))
        return cleave_import_fail(im, "activation %s needs a value in attribute %s", function_name,
                                  list->name);
    return CLEAVE_OK;
}

static cleave_status find_function(cleave_importer *im, const char *name, int32_t *row) {
    for (*row = 0; *row < N_FUNCTIONS; (*row)++)
        if (strcasecmp(table[*row].name, name) == 0)
            return CLEAVE_OK;
    return cleave_import_fail(im,
                              "activation %.64s is not supported; supported are Affine, Elu, "
                              "HardSigmoid, LeakyRelu, Relu, ScaledTanh, Sigmoid, Softplus, "
                              "Softsign, Tanh and ThresholdedRelu",
                              name);
}

cleave_status cleave_import_activations(cleave_importer *im, cleave_recurrence *r,
                                        const char *const *defaults) {
    const cleave_onnx_attribute *names = cleave_import_attribute(im, "activations");
    parameter_list alpha = {.name = "activation_alpha"}, beta = {.name = "activation_beta"};
    int n = r->n_activations * (int)r->n_directions;
    if (names != NULL && (names->kind != CLEAVE_ONNX_ATTRIBUTE_STRINGS || names->n != n))
        return cleave_import_fail(im, "attribute activations is not a list of %d strings", n);
    CLEAVE_TRY(read_parameters(im, &alpha));
    CLEAVE_TRY(read_parameters(im, &beta));
    for (int i = 0; i < n; i++) {
        cleave_activation *to = &r->activations[i];
        const char *name = names != NULL ? names->strings[i] : defaults[i % r->n_activations];
        CLEAVE_TRY(find_function(im, name, &to->row));
        if (table[to->row].n_parameters >= 1)
            CLEAVE_TRY(take(im, &alpha, table[to->row].name, table[to->row].alpha, &to->alpha));
        if (table[to->row].n_parameters >= 2)
            CLEAVE_TRY(take(im, &beta, table[to->row].name, table[to->row].beta, &to->beta));
    }
    const parameter_list *left = alpha.taken < alpha.n ? &alpha : &beta;
    if (left->taken < left->n)
        return cleave_import_fail(im, "attribute %s has %d values, its activations take %d",
                                  left->name, (int)left->n, (int)left->taken);
    return CLEAVE_OK;
}

/* x where x > 0, else alpha (exp(x) - 1): the one that does not apply is 0. */
static int emit_elu(cleave_nest *nest, double alpha, int x) {
    int above = cleave_nest_emit(nest, CLEAVE_OP_RELU, x, 0, 0, 0);
    int negated = cleave_nest_emit(nest, CLEAVE_OP_NEG, x, 0, 0, 0);
    int below = cleave_nest_emit(nest, CLEAVE_OP_RELU, negated, 0, 0, 0);
    int minimum = cleave_nest_emit(nest, CLEAVE_OP_NEG, below, 0, 0, 0);
    int power = cleave_nest_emit(nest, CLEAVE_OP_EXP, minimum, 0, 0, 0);
    int scaled = cleave_nest_emit(nest, CLEAVE_OP_SCALE, power, 0, alpha, -alpha);
    return cleave_nest_emit(nest, CLEAVE_OP_ADD, above, scaled, 0, 0);
}

/* log(1 + exp(x)), as max(x, 0) + log(1 + exp(-|x|)), which overflows nowhere. */
static int emit_softplus(cleave_nest *nest, int x) {
    int above = cleave_nest_emit(nest, CLEAVE_OP_RELU, x, 0, 0, 0);
    int size = cleave_nest_emit(nest, CLEAVE_OP_ABS, x, 0, 0, 0);
    int negated = cleave_nest_emit(nest, CLEAVE_OP_NEG, size, 0, 0, 0);
    int power = cleave_nest_emit(nest, CLEAVE_OP_EXP, negated, 0, 0, 0);
    int rest = cleave_nest_emit(nest, CLEAVE_OP_LOG1P, power, 0, 0, 0);
    return cleave_nest_emit(nest, CLEAVE_OP_ADD, above, rest, 0, 0);
}

int cleave_nest_activate(cleave_nest *nest, const cleave_activation *activation, int value) {
    double alpha = activation->alpha, beta = activation->beta;
    int a, b;
    switch ((function)activation->row) {
    case AFFINE:
        return cleave_nest_emit(nest, CLEAVE_OP_SCALE, value, 0, alpha, beta);
    case ELU:
        return emit_elu(nest, alpha, value);
    case HARD_SIGMOID:
        a = cleave_nest_emit(nest, CLEAVE_OP_SCALE, value, 0, alpha, beta);
        return cleave_nest_emit(nest, CLEAVE_OP_CLIP, a, 0, 0, 1);
    case LEAKY_RELU:
        return cleave_nest_emit(nest, CLEAVE_OP_LEAKY_RELU, value, 0, alpha, 0);
    case RELU:
        return cleave_nest_emit(nest, CLEAVE_OP_RELU, value, 0, 0, 0);
    case SCALED_TANH:
        a = cleave_nest_emit(nest, CLEAVE_OP_SCALE, value, 0, beta, 0);
        b = cleave_nest_emit(nest, CLEAVE_OP_TANH, a, 0, 0, 0);
        return cleave_nest_emit(nest, CLEAVE_OP_SCALE, b, 0, alpha, 0);
    case SIGMOID:
        return cleave_nest_emit(nest, CLEAVE_OP_SIGMOID, value, 0, 0, 0);
    case SOFTPLUS:
        return emit_softplus(nest, value);
    case SOFTSIGN:
        a = cleave_nest_emit(nest, CLEAVE_OP_ABS, value, 0, 0, 0);
        b = cleave_nest_emit(nest, CLEAVE_OP_SCALE, a, 0, 1, 1);
        return cleave_nest_emit(nest, CLEAVE_OP_DIV, value, b, 0, 0);
    case TANH:
        break;
    case THRESHOLDED_RELU:
        a = cleave_nest_emit(nest, CLEAVE_OP_CONSTANT, 0, 0, alpha, 0);
        b = cleave_nest_emit(nest, CLEAVE_OP_LESS, a, value, 0, 0);
        return cleave_nest_emit(nest, CLEAVE_OP_MASK, value, b, 0, 0);
    }
    return cleave_nest_emit(nest, CLEAVE_OP_TANH, value, 0, 0, 0);
}
