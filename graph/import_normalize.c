/* Normalisations by the statistics of the samples themselves: layer, instance and group
   normalisation, and those without parameters. */
#include "graph/import_statistics.h"

/* Adds scale or bias, broadcast to the last of the nest's first `rank` axes. */
static cleave_status add_broadcast(cleave_importer *im, cleave_nest *nest, int i, int rank,
                                   float initial, int *input) {
    int32_t tensor;
    int64_t shape[CLEAVE_MAX_RANK];
    CLEAVE_TRY(cleave_import_tensor(im, i, &tensor));
    cleave_tensor parameter = im->tensors.items[tensor].tensor;
    bool fits = parameter.rank <= rank;
    for (int d = 0; d < rank; d++)
        shape[d] = nest->axes[d].extent;
    for (int d = 0; fits && d < parameter.rank; d++)
        fits = parameter.shape[d] == 1 || parameter.shape[d] == shape[rank - parameter.rank + d];
    if (!fits)
        return cleave_import_fail(im, "input %s does not fit the normalised shape",
                                  im->node->inputs[i]);
    cleave_import_initialise(im, tensor, 0, initial);
    *input = cleave_nest_add_input(nest, tensor);
    cleave_map_broadcast(&nest->inputs[*input], &parameter, rank, shape);
    return CLEAVE_OK;
}

/* Emits the normalised value from the statistics of the nest's input 0. */
static int emit_normal(const cleave_importer *im, const cleave_statistics *statistics,
                       double epsilon, cleave_nest *nest) {
    int mean = cleave_statistics_input(im, statistics, nest, CLEAVE_STATISTIC_MEAN);
    int m2 = cleave_statistics_input(im, statistics, nest, CLEAVE_STATISTIC_M2);
    return cleave_statistics_emit(nest, 0, mean, m2, 1 / (double)statistics->count, epsilon);
}

static void emit_affine(cleave_nest *nest, int normal, int scale, int bias) {
    int scaled = cleave_nest_emit(nest, CLEAVE_OP_MUL, normal, scale, 0, 0);
    if (bias >= 0)
        cleave_nest_emit(nest, CLEAVE_OP_ADD, scaled, bias, 0, 0);
}

/* Outputs 1 and 2 of a layer normalisation: the mean of every row, and 1 over its deviation. */
static cleave_status add_row_statistic(cleave_importer *im, const cleave_statistics *statistics,
                                       int output, int axis, double epsilon) {
    if (!cleave_import_uses_output(im, output))
        return CLEAVE_OK;
    cleave_nest nest = {.kind = CLEAVE_NEST_POINTWISE, .op = statistics->op};
    cleave_tensor shape = im->tensors.items[statistics->input.tensor].tensor;
    for (int d = axis; d < shape.rank; d++)
        shape.shape[d] = 1;
    cleave_new_tensor what = {
        im->node->outputs[output], statistics->op, "", shape.rank, shape.shape, -1};
    CLEAVE_TRY(cleave_import_new_tensor(im, what, &nest.output.tensor));
    int input = cleave_nest_add_input(&nest, statistics->record);
    cleave_map_offset(&nest.inputs[input], 0,
                      output == 1 ? CLEAVE_STATISTIC_MEAN : CLEAVE_STATISTIC_M2);
    for (int d = 0; d < axis; d++) {
        cleave_nest_add_axis(&nest, im->operators.items[statistics->op].axes[d].name,
                             shape.shape[d], false, d);
        cleave_map_axis(&nest.inputs[input], d + 1, d);
        cleave_map_axis(&nest.output, d, d);
    }
    if (output == 1) {
        cleave_nest_emit(&nest, CLEAVE_OP_COPY, input, 0, 0, 0);
    } else {
        int shifted = cleave_nest_emit(&nest, CLEAVE_OP_SCALE, input, 0,
                                       1 / (double)statistics->count, epsilon);
        cleave_nest_emit(&nest, CLEAVE_OP_RSQRT, shifted, 0, 0, 0);
    }
    CLEAVE_TRY(cleave_import_add_nest(im, &nest, output == 1 ? ".mean" : ".inverse", NULL));
    cleave_import_set_output(im, output, nest.output.tensor, false);
    return CLEAVE_OK;
}

cleave_status cleave_import_layer_normalization(cleave_importer *im) {
    cleave_statistics statistics = {0};
    int64_t wanted, stash;
    double epsilon;
    int axis, scale, bias = -1;
    cleave_nest nest;
    int32_t input;
    CLEAVE_TRY(cleave_import_integer(im, "axis", -1, &wanted));
    CLEAVE_TRY(cleave_import_integer(im, "stash_type", 1, &stash));
    CLEAVE_TRY(cleave_import_number(im, "epsilon", 1e-5, &epsilon));
    if (stash != CLEAVE_ONNX_FLOAT)
        return cleave_import_fail(im, "attribute stash_type is %lld, supported is 1",
                                  (long long)stash);
    CLEAVE_TRY(cleave_import_tensor(im, 0, &input));
    int rank = im->tensors.items[input].tensor.rank;
    CLEAVE_TRY(cleave_import_axis(im, wanted, rank, &axis));
    statistics.input = cleave_whole_operand(input, rank);
    for (int d = axis; d < rank; d++)
        statistics.reduced |= 1u << d;
    CLEAVE_TRY(cleave_import_open_over(im, input, true, &statistics.op));
    CLEAVE_TRY(cleave_statistics_add(im, &statistics));
    for (int output = 1; output <= 2; output++)
        CLEAVE_TRY(add_row_statistic(im, &statistics, output, axis, epsilon));
    CLEAVE_TRY(cleave_normalized_begin(im, statistics.op, &statistics.input, &nest));
    CLEAVE_TRY(add_broadcast(im, &nest, 1, rank, 1, &scale));
    if (cleave_import_has_input(im, 2))
        CLEAVE_TRY(add_broadcast(im, &nest, 2, rank, 0, &bias));
    emit_affine(&nest, emit_normal(im, &statistics, epsilon, &nest), scale, bias);
    return cleave_normalized_end(im, &nest);
}
