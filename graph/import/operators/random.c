/* Nodes that draw random numbers.  Every number is a function of the run's seed, the step, the node
   (its output's name and its attribute `seed`) and the element, so it does not depend on who draws
   it; a node draws in training and forward alike, for ONNX leaves no choice. */
#include "base/random.h"
#include "graph/import/fold/fold.h"
#include "graph/import/operators/fragment.h"
#include "graph/import/operators/pointwise.h"

#include <string.h>

/* Appends the `draw`-th uniform number in [0, 1) of this node. */
static cleave_status add_uniform(cleave_importer *im, int draw, cleave_fragment *code, int *value) {
    double seed;
    uint64_t bits;
    CLEAVE_TRY(cleave_import_number(im, "seed", 0, &seed));
    memcpy(&bits, &seed, sizeof bits);
    uint64_t stream = cleave_hash_join(cleave_hash_string(im->node->outputs[0]),
                                       cleave_hash_join(bits, (uint64_t)draw));
    *value = cleave_fragment_uniform(code, (double)(stream >> 11)); /* exact */
    return CLEAVE_OK;
}

/* Uniform in [low, high). */
static cleave_status add_uniform_between(cleave_importer *im, cleave_fragment *code) {
    double low, high;
    int value;
    CLEAVE_TRY(cleave_import_number(im, "low", 0, &low));
    CLEAVE_TRY(cleave_import_number(im, "high", 1, &high));
    CLEAVE_TRY(add_uniform(im, 0, code, &value));
    if (low != 0 || high != 1)
        cleave_fragment_scale(code, value, high - low, low);
    return CLEAVE_OK;
}

/* Box and Muller's transform: sqrt(-2 log(1 - u)) cos(2 pi v). */
static cleave_status add_normal(cleave_importer *im, cleave_fragment *code) {
    double mean, scale;
    int u, v;
    CLEAVE_TRY(cleave_import_number(im, "mean", 0, &mean));
    CLEAVE_TRY(cleave_import_number(im, "scale", 1, &scale));
    CLEAVE_TRY(add_uniform(im, 0, code, &u));
    CLEAVE_TRY(add_uniform(im, 1, code, &v));
    u = cleave_fragment_scale(code, u, -1, 1);
    u = cleave_fragment_unary(code, CLEAVE_OP_LOG, u);
    u = cleave_fragment_scale(code, u, -2, 0);
    u = cleave_fragment_unary(code, CLEAVE_OP_SQRT, u);
    v = cleave_fragment_scale(code, v, 6.283185307179586, 0);
    v = cleave_fragment_unary(code, CLEAVE_OP_COS, v);
    u = cleave_fragment_binary(code, CLEAVE_OP_MUL, u, v);
    cleave_fragment_scale(code, u, scale, mean);
    return CLEAVE_OK;
}

/* The shape of input 0, or the attribute of a node that has none. */
static cleave_status read_shape(cleave_importer *im, int32_t *like, int *rank, int64_t *shape) {
    *like = -1;
    if (im->node->n_inputs > 0)
        return cleave_import_shape(im, like, rank, shape);
    CLEAVE_TRY(cleave_import_list(im, "shape", 0, rank, shape));
    if (*rank < 0 || *rank > CLEAVE_MAX_RANK)
        return cleave_import_fail(im, "attribute shape is missing, or has more than %d dimensions",
                                  CLEAVE_MAX_RANK);
    return CLEAVE_OK;
}

cleave_status cleave_import_random(cleave_importer *im) {
    int64_t type, shape[2 * CLEAVE_MAX_RANK];
    int32_t like;
    int rank;
    cleave_fragment code = {0};
    cleave_nest nest;
    CLEAVE_TRY(read_shape(im, &like, &rank, shape));
    bool has_type = im->node->n_inputs > 0 && cleave_import_input_type(im, 0) != 0;
    CLEAVE_TRY(cleave_import_integer(
        im, "dtype", has_type ? cleave_import_input_type(im, 0) : CLEAVE_ONNX_FLOAT, &type));
    if (type != CLEAVE_ONNX_FLOAT)
        return cleave_import_fail(im, "draws numbers of type %s, supported is FLOAT",
                                  cleave_onnx_type_name((int32_t)type));
    bool normal = strncmp(im->node->type, "RandomNormal", strlen("RandomNormal")) == 0;
    CLEAVE_TRY((normal ? add_normal : add_uniform_between)(im, &code));
    CLEAVE_TRY(cleave_import_begin_pointwise(im, im->node->outputs[0], rank, shape, like, &nest));
    cleave_fragment_append(&code, (int[]){0}, &nest); /* it has no arguments */
    CLEAVE_TRY(cleave_import_end_pointwise(im, &nest));
    cleave_import_set_output(im, 0, nest.output.tensor, false);
    cleave_import_set_type(im, 0, CLEAVE_ONNX_FLOAT);
    return CLEAVE_OK;
}

/* 1 with the probability that the input has, else 0. */
cleave_status cleave_import_bernoulli(cleave_importer *im) {
    int64_t type;
    int uniform;
    cleave_fragment code = {0};
    CLEAVE_TRY(cleave_import_integer(im, "dtype", cleave_import_input_type(im, 0), &type));
    if (type != CLEAVE_ONNX_FLOAT && type != CLEAVE_ONNX_INT32 && type != CLEAVE_ONNX_INT64 &&
        type != CLEAVE_ONNX_BOOL)
        return cleave_import_fail(
            im, "draws numbers of type %s, supported are FLOAT, INT32, INT64 and BOOL",
            cleave_onnx_type_name((int32_t)type));
    CLEAVE_TRY(add_uniform(im, 0, &code, &uniform));
    cleave_fragment_binary(&code, CLEAVE_OP_LESS, uniform, CLEAVE_ARGUMENT_0);
    return cleave_import_apply(im, 1, (int[]){0}, &code, (int32_t)type);
}
