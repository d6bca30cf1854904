/* The activations of recurrent operators: names, parameters and tapes. */
#include "graph/import/operators/functions.h"
#include "graph/import/operators/recurrent.h"

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

static void add_function(cleave_fragment *code, const cleave_activation *activation) {
    enum { X = CLEAVE_ARGUMENT_0 };
    double alpha = activation->alpha, beta = activation->beta;
    int value;
    switch ((function)activation->row) {
    case AFFINE:
        cleave_fragment_scale(code, X, alpha, beta);
        break;
    case ELU:
        cleave_fragment_exponential(code, X, 1, alpha, 1);
        break;
    case HARD_SIGMOID:
        cleave_fragment_hard_sigmoid(code, X, alpha, beta);
        break;
    case LEAKY_RELU:
        cleave_fragment_leaky_relu(code, X, alpha);
        break;
    case RELU:
        cleave_fragment_unary(code, CLEAVE_OP_RELU, X);
        break;
    case SCALED_TANH:
        value = cleave_fragment_scale(code, X, beta, 0);
        value = cleave_fragment_unary(code, CLEAVE_OP_TANH, value);
        cleave_fragment_scale(code, value, alpha, 0);
        break;
    case SIGMOID:
        cleave_fragment_unary(code, CLEAVE_OP_SIGMOID, X);
        break;
    case SOFTPLUS:
        cleave_fragment_softplus(code, X);
        break;
    case SOFTSIGN:
        cleave_fragment_softsign(code, X);
        break;
    case TANH:
        cleave_fragment_unary(code, CLEAVE_OP_TANH, X);
        break;
    case THRESHOLDED_RELU:
        cleave_fragment_threshold(code, X, alpha);
        break;
    }
}

int cleave_nest_activate(cleave_nest *nest, const cleave_activation *activation, int value) {
    cleave_fragment code = {0};
    add_function(&code, activation);
    return cleave_fragment_append(&code, &value, nest);
}
