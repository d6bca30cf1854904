/* Batch normalisation: by the statistics of the batch, with running ones kept beside, or by those.
 */
#include "graph/import/operators/pointwise.h"
#include "graph/import/operators/statistics.h"

typedef struct normalization {
    cleave_statistics batch;             /* its record is [3, c]; none in inference */
    int32_t scale, bias, mean, variance; /* tensors */
    int64_t channels;
    double epsilon, momentum;
} normalization;

static cleave_status read_normalization(cleave_importer *im, normalization *norm, bool *training) {
    int64_t mode, spatial;
    CLEAVE_TRY(cleave_import_number(im, "epsilon", 1e-5, &norm->epsilon));
    CLEAVE_TRY(cleave_import_number(im, "momentum", 0.9, &norm->momentum));
    CLEAVE_TRY(cleave_import_integer(im, "training_mode", 0, &mode));
    CLEAVE_TRY(cleave_import_integer(im, "spatial", 1, &spatial));
    /* Before operator set 14 the number of outputs said whether it trains. */
    *training = !im->evaluates && (im->graph.opset >= 14 ? mode != 0 : im->node->n_outputs > 1);
    if (spatial != 1)
        return cleave_import_fail(im, "attribute spatial is %lld, supported is 1",
                                  (long long)spatial);
    for (int i = 3; i < im->node->n_outputs; i++)
        if (cleave_import_uses_output(im, i))
            return cleave_import_fail(im, "its output %s is used, which is not supported",
                                      im->node->outputs[i]);
    int32_t *const tensors[] = {&norm->batch.input.tensor, &norm->scale, &norm->bias, &norm->mean,
                                &norm->variance};
    for (int i = 0; i < 5; i++)
        CLEAVE_TRY(cleave_import_tensor(im, i, tensors[i]));
    const cleave_tensor *input = &im->tensors.items[norm->batch.input.tensor].tensor;
    if (input->rank < 2)
        return cleave_import_fail(im, "input %s has rank %d, at least 2 is needed",
                                  im->node->inputs[0], input->rank);
    norm->channels = input->shape[1];
    norm->batch.input = cleave_whole_operand(norm->batch.input.tensor, input->rank);
    norm->batch.reduced = ((1u << input->rank) - 1u) & ~2u;
    for (int i = 1; i < 5; i++) {
        const cleave_tensor *tensor = &im->tensors.items[*tensors[i]].tensor;
        if (tensor->rank != 1 || tensor->shape[0] != norm->channels)
            return cleave_import_fail(im, "input %s is not of %lld elements", im->node->inputs[i],
                                      (long long)norm->channels);
    }
    cleave_import_initialise(im, norm->scale, 0, 1);
    cleave_import_initialise(im, norm->bias, 0, 0);
    return CLEAVE_OK;
}

static int add_by_channel(cleave_nest *nest, int32_t tensor) {
    int input = cleave_nest_add_input(nest, tensor);
    cleave_map_axis(&nest->inputs[input], 0, 1);
    return input;
}

/* (x - mean) / sqrt(variance + epsilon) x scale + bias */
static cleave_status add_normalize(cleave_importer *im, normalization *norm, bool training) {
    cleave_nest nest;
    CLEAVE_TRY(cleave_import_begin_result(im, norm->batch.op, &norm->batch.input, &nest));
    cleave_import_channels_last(im, nest.output.tensor);
    int mean = training ? cleave_statistics_input(im, &norm->batch, &nest, CLEAVE_STATISTIC_MEAN)
                        : add_by_channel(&nest, norm->mean);
    int variance = training ? cleave_statistics_input(im, &norm->batch, &nest, CLEAVE_STATISTIC_M2)
                            : add_by_channel(&nest, norm->variance);
    int scale = add_by_channel(&nest, norm->scale), bias = add_by_channel(&nest, norm->bias);
    int normal = cleave_statistics_emit(
        &nest, mean, variance, training ? 1 / (double)norm->batch.count : 1, norm->epsilon);
    int scaled = cleave_nest_emit(&nest, CLEAVE_OP_MUL, normal, scale, 0, 0);
    cleave_nest_emit(&nest, CLEAVE_OP_ADD, scaled, bias, 0, 0);
    return cleave_import_end_result(im, &nest);
}

/* running x momentum + (statistic of the batch) x (1 - momentum), assigned at the end of a step;
   the variance is that of the population, as ONNX defines it. */
static cleave_status add_running(cleave_importer *im, const normalization *norm, int row) {
    bool named = row < im->node->n_outputs && im->node->outputs[row][0] != '\0';
    int32_t running = row == CLEAVE_STATISTIC_MEAN ? norm->mean : norm->variance, updated;
    const char *suffix = row == CLEAVE_STATISTIC_MEAN ? ".running_mean" : ".running_variance";
    double share =
        (1 - norm->momentum) / (row == CLEAVE_STATISTIC_MEAN ? 1 : (double)norm->batch.count);
    CLEAVE_TRY(cleave_import_new_tensor(im,
                                        (cleave_new_tensor){named ? im->node->outputs[row] : NULL,
                                                            norm->batch.op, suffix, 1,
                                                            &norm->channels, -1},
                                        &updated));
    cleave_nest nest = {.kind = CLEAVE_NEST_POINTWISE, .op = norm->batch.op};
    nest.output.tensor = updated;
    const cleave_axis *c = &im->operators.items[norm->batch.op].axes[1];
    cleave_nest_add_axis(&nest, c->name, c->extent, false, 1);
    cleave_map_axis(&nest.output, 0, 0);
    int old = cleave_nest_add_whole_input(&nest, running, 1);
    int statistic = cleave_nest_add_input(&nest, norm->batch.record);
    cleave_map_offset(&nest.inputs[statistic], 0, row);
    cleave_map_axis(&nest.inputs[statistic], 1, 0);
    int kept = cleave_nest_emit(&nest, CLEAVE_OP_SCALE, old, 0, norm->momentum, 0);
    int added = cleave_nest_emit(&nest, CLEAVE_OP_SCALE, statistic, 0, share, 0);
    cleave_nest_emit(&nest, CLEAVE_OP_ADD, kept, added, 0, 0);
    CLEAVE_TRY(cleave_import_add_nest(im, &nest, suffix, NULL));
    if (named)
        cleave_import_set_output(im, row, updated, false);
    if (im->tensors.items[running].tensor.kind == CLEAVE_TENSOR_BUFFER &&
        !CLEAVE_LIST_PUSH(&im->assignments,
                          (cleave_assignment){.target = running, .source = updated}))
        return cleave_import_no_memory(im);
    return CLEAVE_OK;
}

cleave_status cleave_import_batch_normalization(cleave_importer *im) {
    normalization norm = {0};
    bool training;
    CLEAVE_TRY(read_normalization(im, &norm, &training));
    CLEAVE_TRY(cleave_import_open_over(im, norm.batch.input.tensor, true, &norm.batch.op));
    if (training)
        CLEAVE_TRY(cleave_statistics_add(im, &norm.batch));
    CLEAVE_TRY(add_normalize(im, &norm, training));
    if (!training)
        return CLEAVE_OK;
    CLEAVE_TRY(add_running(im, &norm, CLEAVE_STATISTIC_MEAN));
    return add_running(im, &norm, CLEAVE_STATISTIC_M2);
}
