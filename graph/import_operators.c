/* The table of ONNX operators: a row each, with what it may have and what imports it. */
#include "graph/import_internal.h"

#include <string.h>

enum { ANY = INT32_MAX, MOST_ATTRIBUTES = 10 };

typedef struct operator_row {
    const char *type;
    int least_inputs, most_inputs;
    cleave_status (*import)(cleave_importer *im);
    const char *attributes[MOST_ATTRIBUTES]; /* up to the first null */
} operator_row;

/* Sorted by type. */
static const operator_row table[] = {
    {"Abs", 1, 1, cleave_import_unary, {0}},
    {"Add", 2, 2, cleave_import_binary, {0}},
    {"AveragePool",
     1,
     1,
     cleave_import_average_pool,
     {"auto_pad", "ceil_mode", "count_include_pad", "dilations", "kernel_shape", "pads",
      "strides"}},
    {"BatchNormalization",
     5,
     5,
     cleave_import_batch_normalization,
     {"epsilon", "momentum", "training_mode", "spatial"}},
    {"Cast", 1, 1, cleave_import_cast, {"to", "saturate"}},
    {"Clip", 1, 3, cleave_import_clip, {"min", "max"}},
    {"Concat", 1, ANY, cleave_import_concat, {"axis"}},
    {"Constant",
     0,
     0,
     cleave_import_only_constant,
     {"value", "value_float", "value_floats", "value_int", "value_ints"}},
    {"ConstantOfShape", 1, 1, cleave_import_only_constant, {"value"}},
    {"Conv",
     2,
     3,
     cleave_import_conv,
     {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}},
    {"ConvTranspose",
     2,
     3,
     cleave_import_conv_transpose,
     {"auto_pad", "dilations", "group", "kernel_shape", "output_padding", "output_shape", "pads",
      "strides"}},
    {"Div", 2, 2, cleave_import_binary, {0}},
    {"Dropout", 1, 3, cleave_import_dropout, {"ratio", "seed"}},
    {"Erf", 1, 1, cleave_import_unary, {0}},
    {"Exp", 1, 1, cleave_import_unary, {0}},
    {"Flatten", 1, 1, cleave_import_reshape_node, {"axis"}},
    {"GRU",
     3,
     6,
     cleave_import_recurrent,
     {"activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size",
      "layout", "linear_before_reset"}},
    {"Gather", 2, 2, cleave_import_gather, {"axis"}},
    {"Gemm", 2, 3, cleave_import_gemm, {"alpha", "beta", "transA", "transB"}},
    {"GlobalAveragePool", 1, 1, cleave_import_global_average_pool, {0}},
    {"Identity", 1, 1, cleave_import_identity, {0}},
    {"LSTM",
     3,
     8,
     cleave_import_recurrent,
     {"activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size",
      "input_forget", "layout"}},
    {"LayerNormalization",
     2,
     3,
     cleave_import_layer_normalization,
     {"axis", "epsilon", "stash_type"}},
    {"LeakyRelu", 1, 1, cleave_import_unary, {"alpha"}},
    {"Log", 1, 1, cleave_import_unary, {0}},
    {"MatMul", 2, 2, cleave_import_matmul, {0}},
    {"Max", 1, ANY, cleave_import_variadic, {0}},
    {"MaxPool",
     1,
     1,
     cleave_import_max_pool,
     {"auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "storage_order", "strides"}},
    {"Min", 1, ANY, cleave_import_variadic, {0}},
    {"Mul", 2, 2, cleave_import_binary, {0}},
    {"Neg", 1, 1, cleave_import_unary, {0}},
    {"Pad", 1, 4, cleave_import_pad, {"mode", "pads", "value"}},
    {"Pow", 2, 2, cleave_import_binary, {0}},
    {"RNN",
     3,
     6,
     cleave_import_recurrent,
     {"activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size",
      "layout"}},
    {"Range", 3, 3, cleave_import_only_constant, {0}},
    {"Reciprocal", 1, 1, cleave_import_unary, {0}},
    {"Relu", 1, 1, cleave_import_unary, {0}},
    {"Reshape", 2, 2, cleave_import_reshape_node, {"allowzero"}},
    {"Shape", 1, 1, cleave_import_only_constant, {"start", "end"}},
    {"Sigmoid", 1, 1, cleave_import_unary, {0}},
    {"Slice", 1, 5, cleave_import_slice, {"axes", "ends", "starts"}},
    {"Softmax", 1, 1, cleave_import_softmax, {"axis"}},
    {"Sqrt", 1, 1, cleave_import_unary, {0}},
    {"Squeeze", 1, 2, cleave_import_reshape_node, {"axes"}},
    {"Sub", 2, 2, cleave_import_binary, {0}},
    {"Sum", 1, ANY, cleave_import_variadic, {0}},
    {"Tanh", 1, 1, cleave_import_unary, {0}},
    {"Transpose", 1, 1, cleave_import_transpose, {"perm"}},
    {"Unsqueeze", 1, 2, cleave_import_reshape_node, {"axes"}},
};
enum { N_ROWS = sizeof table / sizeof *table };

static const operator_row *find_row(const cleave_onnx_node *node) {
    if (node->domain[0] != '\0' && strcmp(node->domain, "ai.onnx") != 0)
        return NULL;
    for (int i = 0; i < N_ROWS; i++)
        if (strcmp(table[i].type, node->type) == 0)
            return &table[i];
    return NULL;
}

static cleave_status fail_unsupported(cleave_importer *im) {
    bool foreign = im->node->domain[0] != '\0';
    return cleave_import_fail(im,
                              "operator %s%s%.64s is not supported; `cleave show operators` lists "
                              "those that are",
                              foreign ? im->node->domain : "", foreign ? "." : "", im->node->type);
}

static cleave_status check_row(cleave_importer *im, const operator_row *row) {
    const cleave_onnx_node *node = im->node;
    if (node->n_inputs < row->least_inputs || node->n_inputs > row->most_inputs)
        return cleave_import_fail(im, "has %d inputs, supported are %d to %d", (int)node->n_inputs,
                                  row->least_inputs,
                                  row->most_inputs == ANY ? 999 : row->most_inputs);
    int needed = row->most_inputs == ANY ? node->n_inputs : row->least_inputs;
    for (int i = 0; i < needed; i++)
        if (!cleave_import_has_input(im, i))
            return cleave_import_fail(im, "input %d is left out", i);
    bool may_lack_first = row->import == cleave_import_recurrent;
    if (node->n_outputs < 1 || (node->outputs[0][0] == '\0' && !may_lack_first))
        return cleave_import_fail(im, "its first output is left out");
    for (int i = 0; i < node->n_attributes; i++) {
        bool known = false;
        for (int k = 0; k < MOST_ATTRIBUTES && row->attributes[k] != NULL; k++)
            known = known || strcmp(node->attributes[i].name, row->attributes[k]) == 0;
        if (!known)
            return cleave_import_fail(im, "attribute %s is not supported",
                                      node->attributes[i].name);
    }
    return CLEAVE_OK;
}

cleave_status cleave_import_node(cleave_importer *im) {
    const operator_row *row = find_row(im->node);
    bool folded;
    if (row == NULL)
        return fail_unsupported(im);
    CLEAVE_TRY(check_row(im, row));
    CLEAVE_TRY(cleave_import_fold(im, &folded));
    return folded ? CLEAVE_OK : row->import(im);
}
