/* The table of ONNX operators: a row each, with what it may have and what imports it. */
#include "graph/import/import.h"
#include "graph/import/internal.h"

#include <string.h>

enum { ANY = INT32_MAX, MOST_ATTRIBUTES = 10 };

typedef struct operator_row {
    const char *type;
    int least_inputs, most_inputs;
    cleave_status (*import)(cleave_importer *im);
    const char *attributes[MOST_ATTRIBUTES]; /* up to the first null */
} operator_row;

/* Attributes that several operators have. */
#define ACTIVATIONS "activation_alpha", "activation_beta", "activations"
#define REDUCED_AXES "axes", "keepdims", "noop_with_empty_axes"
#define WINDOWS "auto_pad", "dilations", "kernel_shape", "pads", "strides"

/* Sorted by type: least and most inputs, what imports it, its attributes. */
// clang-format off
static const operator_row table[] = {
    {"Abs",                       1, 1,   cleave_import_unary, {0}},
    {"Acos",                      1, 1,   cleave_import_unary, {0}},
    {"Acosh",                     1, 1,   cleave_import_unary, {0}},
    {"Add",                       2, 2,   cleave_import_binary, {0}},
    {"And",                       2, 2,   cleave_import_binary, {0}},
    {"ArgMax",                    1, 1,   cleave_import_reduce,
      {"axis", "keepdims", "select_last_index"}},
    {"ArgMin",                    1, 1,   cleave_import_reduce,
      {"axis", "keepdims", "select_last_index"}},
    {"Asin",                      1, 1,   cleave_import_unary, {0}},
    {"Asinh",                     1, 1,   cleave_import_unary, {0}},
    {"Atan",                      1, 1,   cleave_import_unary, {0}},
    {"Atanh",                     1, 1,   cleave_import_unary, {0}},
    {"AveragePool",               1, 1,   cleave_import_average_pool,
      {WINDOWS, "ceil_mode", "count_include_pad"}},
    {"BatchNormalization",        5, 5,   cleave_import_batch_normalization,
      {"epsilon", "momentum", "training_mode", "spatial"}},
    {"Bernoulli",                 1, 1,   cleave_import_bernoulli, {"dtype", "seed"}},
    {"Cast",                      1, 1,   cleave_import_cast, {"to", "saturate"}},
    {"CastLike",                  2, 2,   cleave_import_cast_like, {"saturate"}},
    {"CausalMask",                1, 1,   cleave_import_causal_mask, {"window", "ahead"}},
    {"Ceil",                      1, 1,   cleave_import_unary, {0}},
    {"Celu",                      1, 1,   cleave_import_celu, {"alpha"}},
    {"Clip",                      1, 3,   cleave_import_clip, {"min", "max"}},
    {"Compress",                  2, 2,   cleave_import_compress, {"axis"}},
    {"Concat",                    1, ANY, cleave_import_concat, {"axis"}},
    {"Constant",                  0, 0,   cleave_import_only_constant,
      {"value", "value_float", "value_floats", "value_int", "value_ints"}},
    {"ConstantOfShape",           1, 1,   cleave_import_only_constant, {"value"}},
    {"Conv",                      2, 3,   cleave_import_conv, {WINDOWS, "group"}},
    {"ConvTranspose",             2, 3,   cleave_import_conv_transpose,
      {WINDOWS, "group", "output_padding", "output_shape"}},
    {"Cos",                       1, 1,   cleave_import_unary, {0}},
    {"Cosh",                      1, 1,   cleave_import_unary, {0}},
    {"CumSum",                    2, 2,   cleave_import_cumsum, {"exclusive", "reverse"}},
    {"DepthToSpace",              1, 1,   cleave_import_depth_to_space, {"blocksize", "mode"}},
    {"Div",                       2, 2,   cleave_import_binary, {0}},
    {"Dropout",                   1, 3,   cleave_import_dropout, {"ratio", "seed"}},
    {"Einsum",                    1, 3,   cleave_import_einsum, {"equation"}},
    {"Elu",                       1, 1,   cleave_import_elu, {"alpha"}},
    {"Equal",                     2, 2,   cleave_import_binary, {0}},
    {"Erf",                       1, 1,   cleave_import_unary, {0}},
    {"Exp",                       1, 1,   cleave_import_unary, {0}},
    {"Expand",                    2, 2,   cleave_import_expand, {0}},
    {"EyeLike",                   1, 1,   cleave_import_only_constant, {"dtype", "k"}},
    {"Flatten",                   1, 1,   cleave_import_reshape_node, {"axis"}},
    {"Floor",                     1, 1,   cleave_import_unary, {0}},
    {"GRU",                       3, 6,   cleave_import_recurrent,
      {ACTIVATIONS, "clip", "direction", "hidden_size", "layout", "linear_before_reset"}},
    {"Gather",                    2, 2,   cleave_import_gather, {"axis"}},
    {"GatherElements",            2, 2,   cleave_import_gather_elements, {"axis"}},
    {"GatherND",                  2, 2,   cleave_import_gather_nd, {"batch_dims"}},
    {"Gelu",                      1, 1,   cleave_import_gelu, {"approximate"}},
    {"Gemm",                      2, 3,   cleave_import_gemm,
      {"alpha", "beta", "transA", "transB"}},
    {"GlobalAveragePool",         1, 1,   cleave_import_global_average_pool, {0}},
    {"GlobalLpPool",              1, 1,   cleave_import_global_lp_pool, {"p"}},
    {"GlobalMaxPool",             1, 1,   cleave_import_global_max_pool, {0}},
    {"Greater",                   2, 2,   cleave_import_binary, {0}},
    {"GreaterOrEqual",            2, 2,   cleave_import_binary, {0}},
    {"GridSample",                2, 2,   cleave_import_grid_sample,
      {"align_corners", "mode", "padding_mode"}},
    {"GroupNormalization",        3, 3,   cleave_import_group_normalization,
      {"epsilon", "num_groups", "stash_type"}},
    {"HardSigmoid",               1, 1,   cleave_import_hard_sigmoid, {"alpha", "beta"}},
    {"HardSwish",                 1, 1,   cleave_import_hard_swish, {0}},
    {"Hardmax",                   1, 1,   cleave_import_hardmax, {"axis"}},
    {"Identity",                  1, 1,   cleave_import_identity, {0}},
    {"If",                        1, ANY, cleave_import_if, {"else_branch", "then_branch"}},
    {"InstanceNormalization",     3, 3,   cleave_import_instance_normalization, {"epsilon"}},
    {"IsInf",                     1, 1,   cleave_import_is_inf,
      {"detect_negative", "detect_positive"}},
    {"IsNaN",                     1, 1,   cleave_import_is_nan, {0}},
    {"LRN",                       1, 1,   cleave_import_local_response,
      {"alpha", "beta", "bias", "size"}},
    {"LSTM",                      3, 8,   cleave_import_recurrent,
      {ACTIVATIONS, "clip", "direction", "hidden_size", "input_forget", "layout"}},
    {"LayerNormalization",        2, 3,   cleave_import_layer_normalization,
      {"axis", "epsilon", "stash_type"}},
    {"LeakyRelu",                 1, 1,   cleave_import_leaky_relu, {"alpha"}},
    {"Less",                      2, 2,   cleave_import_binary, {0}},
    {"LessOrEqual",               2, 2,   cleave_import_binary, {0}},
    {"Log",                       1, 1,   cleave_import_unary, {0}},
    {"LogSoftmax",                1, 1,   cleave_import_softmax, {"axis"}},
    {"LpNormalization",           1, 1,   cleave_import_lp_normalization, {"axis", "p"}},
    {"LpPool",                    1, 1,   cleave_import_lp_pool, {WINDOWS, "ceil_mode", "p"}},
    {"MatMul",                    2, 2,   cleave_import_matmul, {0}},
    {"Max",                       1, ANY, cleave_import_variadic, {0}},
    {"MaxPool",                   1, 1,   cleave_import_max_pool,
      {WINDOWS, "ceil_mode", "storage_order"}},
    {"Mean",                      1, ANY, cleave_import_variadic, {0}},
    {"MeanVarianceNormalization", 1, 1,   cleave_import_mean_variance_normalization, {"axes"}},
    {"Min",                       1, ANY, cleave_import_variadic, {0}},
    {"Mish",                      1, 1,   cleave_import_mish, {0}},
    {"Mod",                       2, 2,   cleave_import_binary, {"fmod"}},
    {"Mul",                       2, 2,   cleave_import_binary, {0}},
    {"Neg",                       1, 1,   cleave_import_unary, {0}},
    {"NegativeLogLikelihoodLoss", 2, 3,   cleave_import_class_loss, {"ignore_index", "reduction"}},
    {"NonZero",                   1, 1,   cleave_import_only_constant, {0}},
    {"Not",                       1, 1,   cleave_import_not, {0}},
    {"OneHot",                    3, 3,   cleave_import_one_hot, {"axis"}},
    {"Or",                        2, 2,   cleave_import_binary, {0}},
    {"PRelu",                     2, 2,   cleave_import_prelu, {0}},
    {"Pad",                       1, 4,   cleave_import_pad, {"mode", "pads", "value"}},
    {"Pow",                       2, 2,   cleave_import_binary, {0}},
    {"RMSNormalization",          2, 2,   cleave_import_rms_normalization,
      {"axis", "epsilon", "stash_type"}},
    {"RNN",                       3, 6,   cleave_import_recurrent,
      {ACTIVATIONS, "clip", "direction", "hidden_size", "layout"}},
    {"RandomNormal",              0, 0,   cleave_import_random,
      {"dtype", "mean", "scale", "seed", "shape"}},
    {"RandomNormalLike",          1, 1,   cleave_import_random,
      {"dtype", "mean", "scale", "seed"}},
    {"RandomUniform",             0, 0,   cleave_import_random,
      {"dtype", "high", "low", "seed", "shape"}},
    {"RandomUniformLike",         1, 1,   cleave_import_random,
      {"dtype", "high", "low", "seed"}},
    {"Range",                     3, 3,   cleave_import_only_constant, {0}},
    {"Reciprocal",                1, 1,   cleave_import_unary, {0}},
    {"ReduceL1",                  1, 2,   cleave_import_reduce, {REDUCED_AXES}},
    {"ReduceL2",                  1, 2,   cleave_import_reduce, {REDUCED_AXES}},
    {"ReduceLogSum",              1, 2,   cleave_import_reduce, {REDUCED_AXES}},
    {"ReduceLogSumExp",           1, 2,   cleave_import_reduce, {REDUCED_AXES}},
    {"ReduceMax",                 1, 2,   cleave_import_reduce, {REDUCED_AXES}},
    {"ReduceMean",                1, 2,   cleave_import_reduce, {REDUCED_AXES}},
    {"ReduceMin",                 1, 2,   cleave_import_reduce, {REDUCED_AXES}},
    {"ReduceProd",                1, 2,   cleave_import_reduce, {REDUCED_AXES}},
    {"ReduceSum",                 1, 2,   cleave_import_reduce, {REDUCED_AXES}},
    {"ReduceSumSquare",           1, 2,   cleave_import_reduce, {REDUCED_AXES}},
    {"Relu",                      1, 1,   cleave_import_unary, {0}},
    {"Reshape",                   2, 2,   cleave_import_reshape_node, {"allowzero"}},
    {"Resize",                    1, 4,   cleave_import_resize,
      {"antialias", "axes", "coordinate_transformation_mode", "cubic_coeff_a",
      "exclude_outside", "extrapolation_value", "keep_aspect_ratio_policy", "mode",
      "nearest_mode"}},
    {"ReverseSequence",           2, 2,   cleave_import_reverse_sequence,
      {"batch_axis", "time_axis"}},
    {"Round",                     1, 1,   cleave_import_unary, {0}},
    {"Route",                     1, 1,   cleave_import_route, {"capacity", "experts"}},
    {"Scatter",                   3, 3,   cleave_import_scatter_elements, {"axis"}},
    {"ScatterElements",           3, 3,   cleave_import_scatter_elements, {"axis", "reduction"}},
    {"ScatterND",                 3, 3,   cleave_import_scatter_nd, {"reduction"}},
    {"Selu",                      1, 1,   cleave_import_selu, {"alpha", "gamma"}},
    {"SequenceAt",                2, 2,   cleave_import_sequence_at, {0}},
    {"Shape",                     1, 1,   cleave_import_only_constant, {"start", "end"}},
    {"Shrink",                    1, 1,   cleave_import_shrink, {"bias", "lambd"}},
    {"Sigmoid",                   1, 1,   cleave_import_unary, {0}},
    {"Sign",                      1, 1,   cleave_import_unary, {0}},
    {"Sin",                       1, 1,   cleave_import_unary, {0}},
    {"Sinh",                      1, 1,   cleave_import_unary, {0}},
    {"SinkSoftmax",               2, 2,   cleave_import_sink_softmax, {0}},
    {"Size",                      1, 1,   cleave_import_only_constant, {0}},
    {"Slice",                     1, 5,   cleave_import_slice, {"axes", "ends", "starts"}},
    {"Softmax",                   1, 1,   cleave_import_softmax, {"axis"}},
    {"SoftmaxCrossEntropyLoss",   2, 3,   cleave_import_class_loss, {"ignore_index", "reduction"}},
    {"Softplus",                  1, 1,   cleave_import_softplus, {0}},
    {"Softsign",                  1, 1,   cleave_import_softsign, {0}},
    {"SpaceToDepth",              1, 1,   cleave_import_space_to_depth, {"blocksize"}},
    {"Split",                     1, 2,   cleave_import_split, {"axis", "num_outputs", "split"}},
    {"SplitToSequence",           1, 2,   cleave_import_split_to_sequence, {"axis", "keepdims"}},
    {"Sqrt",                      1, 1,   cleave_import_unary, {0}},
    {"Squeeze",                   1, 2,   cleave_import_reshape_node, {"axes"}},
    {"Sub",                       2, 2,   cleave_import_binary, {0}},
    {"Sum",                       1, ANY, cleave_import_variadic, {0}},
    {"Swish",                     1, 1,   cleave_import_swish, {"alpha"}},
    {"Tan",                       1, 1,   cleave_import_unary, {0}},
    {"Tanh",                      1, 1,   cleave_import_unary, {0}},
    {"ThresholdedRelu",           1, 1,   cleave_import_thresholded_relu, {"alpha"}},
    {"Tile",                      2, 2,   cleave_import_tile, {0}},
    {"TopK",                      2, 2,   cleave_import_top_k, {"axis", "largest", "sorted"}},
    {"Transpose",                 1, 1,   cleave_import_transpose, {"perm"}},
    {"Trilu",                     1, 2,   cleave_import_trilu, {"upper"}},
    {"Unsqueeze",                 1, 2,   cleave_import_reshape_node, {"axes"}},
    {"Upsample",                  1, 2,   cleave_import_resize, {"mode", "scales"}},
    {"Where",                     3, 3,   cleave_import_where, {0}},
    {"Xielu",                     3, 3,   cleave_import_xielu, {0}},
    {"Xor",                       2, 2,   cleave_import_binary, {0}},
};
// clang-format on
enum { N_ROWS = sizeof table / sizeof *table };

static const operator_row *find_row(const cleave_onnx_node *node) {
    if (node->domain[0] != '\0' && strcmp(node->domain, "ai.onnx") != 0 &&
        strcmp(node->domain, CLEAVE_OWN_DOMAIN) != 0)
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

/* Operators that meant something else in old operator sets, which no attribute tells.  (Others had
   attributes then, such as `broadcast`, that are not in the table.) */
static int least_set(const char *type) {
    static const struct {
        const char *type;
        int least_set;
    } changed[] = {{"BatchNormalization", 7},
                   {"Concat", 4},
                   {"GRU", 7},
                   {"LSTM", 7},
                   {"PRelu", 7},
                   {"RNN", 7},
                   {"TopK", 10},
                   {"Upsample", 7}};
    for (size_t i = 0; i < sizeof changed / sizeof *changed; i++)
        if (strcmp(type, changed[i].type) == 0)
            return changed[i].least_set;
    return CLEAVE_LEAST_OPERATOR_SET;
}

static cleave_status check_age(cleave_importer *im) {
    int least = least_set(im->node->type);
    if (im->graph.opset < least)
        return cleave_import_fail(im,
                                  "is of operator set %lld, supported is this operator from %d on",
                                  (long long)im->graph.opset, least);
    return CLEAVE_OK;
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
        /* A hint about memory in operator sets before 6. */
        bool known =
            im->graph.opset < 6 && strcmp(node->attributes[i].name, "consumed_inputs") == 0;
        for (int k = 0; k < MOST_ATTRIBUTES && row->attributes[k] != NULL; k++)
            known = known || strcmp(node->attributes[i].name, row->attributes[k]) == 0;
        if (!known)
            return cleave_import_fail(im, "attribute %s is not supported",
                                      node->attributes[i].name);
    }
    return CLEAVE_OK;
}

/* Nodes that the fusing table makes. */
static cleave_status import_fused(cleave_importer *im) {
    return strcmp(im->node->type, "RotaryEmbedding") == 0 ? cleave_import_turned(im)
                                                          : cleave_import_without_nan(im);
}

cleave_status cleave_import_node(cleave_importer *im) {
    const operator_row *row = find_row(im->node);
    bool folded;
    if (im->node->domain == cleave_fused_domain)
        return import_fused(im);
    if (row == NULL)
        return fail_unsupported(im);
    CLEAVE_TRY(check_age(im));
    CLEAVE_TRY(check_row(im, row));
    CLEAVE_TRY(cleave_import_fold(im, &folded));
    return folded ? CLEAVE_OK : row->import(im);
}

const char *cleave_import_operator_type(int i, bool *constant_only) {
    if (i < 0 || i >= N_ROWS)
        return NULL;
    *constant_only = table[i].import == cleave_import_only_constant;
    return table[i].type;
}

const char *cleave_import_operator_attribute(int i, int k) {
    return k >= 0 && k < MOST_ATTRIBUTES ? table[i].attributes[k] : NULL;
}

void cleave_import_operator_sets(int i, int *least, int *most) {
    *least = least_set(table[i].type);
    *most = CLEAVE_MOST_OPERATOR_SET;
}
