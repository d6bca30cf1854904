/* What needs a statistic before it can work on elements: batch normalisation, softmax, the loss.
   Each is one operator of several nests that share one split. */
#include "graph/import_internal.h"

#include <string.h>

/* Opens an operator over all dimensions of a tensor, with their names. */
static cleave_status open_over(cleave_importer *im, int32_t tensor, bool main_is_fixed,
                               int32_t *op) {
    CLEAVE_TRY(cleave_import_new_operator(im, main_is_fixed, op));
    for (int d = 0; d < im->tensors.items[tensor].tensor.rank; d++)
        if (cleave_import_add_axis(im, *op, im->tensors.items[tensor].axes[d],
                                   im->tensors.items[tensor].tensor.shape[d], false) < 0)
            return cleave_import_no_memory(im);
    return CLEAVE_OK;
}

/* Adds an input whose dimensions are the nest's first axes. */
static int add_whole_input(cleave_nest *nest, int32_t tensor, int rank) {
    int input = cleave_nest_add_input(nest, tensor);
    for (int d = 0; d < rank; d++)
        cleave_map_axis(&nest->inputs[input], d, d);
    return input;
}

/* ---- batch normalisation ----------------------------------------------------------------------
 */

typedef struct normalization {
    int32_t op, input, scale, bias, mean, variance; /* tensors beside op */
    int32_t statistics; /* [3, c]: count, mean, M2 of the batch; -1: inference */
    int64_t channels, count;
    double epsilon, momentum;
} normalization;

static cleave_status read_normalization(cleave_importer *im, normalization *norm, bool *training) {
    int64_t mode, spatial;
    CLEAVE_TRY(cleave_import_number(im, "epsilon", 1e-5, &norm->epsilon));
    CLEAVE_TRY(cleave_import_number(im, "momentum", 0.9, &norm->momentum));
    CLEAVE_TRY(cleave_import_integer(im, "training_mode", 0, &mode));
    CLEAVE_TRY(cleave_import_integer(im, "spatial", 1, &spatial));
    /* Before operator set 14 the number of outputs said whether it trains. */
    *training = im->graph.opset >= 14 ? mode != 0 : im->node->n_outputs > 1;
    if (spatial != 1)
        return cleave_import_fail(im, "attribute spatial is %lld, supported is 1",
                                  (long long)spatial);
    for (int i = 3; i < im->node->n_outputs; i++)
        if (cleave_import_uses_output(im, i))
            return cleave_import_fail(im, "its output %s is used, which is not supported",
                                      im->node->outputs[i]);
    int32_t *const tensors[] = {&norm->input, &norm->scale, &norm->bias, &norm->mean,
                                &norm->variance};
    for (int i = 0; i < 5; i++)
        CLEAVE_TRY(cleave_import_tensor(im, i, tensors[i]));
    const cleave_tensor *input = &im->tensors.items[norm->input].tensor;
    if (input->rank < 2)
        return cleave_import_fail(im, "input %s has rank %d, at least 2 is needed",
                                  im->node->inputs[0], input->rank);
    norm->channels = input->shape[1];
    norm->count = cleave_shape_size(input->rank, input->shape) / norm->channels;
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

/* Count, mean and M2 over all axes but the channels. */
static cleave_status add_moments(cleave_importer *im, normalization *norm) {
    int64_t shape[2] = {3, norm->channels};
    int rank = im->tensors.items[norm->input].tensor.rank;
    CLEAVE_TRY(cleave_import_new_tensor(
        im, (cleave_new_tensor){NULL, norm->op, ".statistics", 2, shape, -1}, &norm->statistics));
    cleave_nest nest = {
        .kind = CLEAVE_NEST_MOMENTS, .op = norm->op, .combiner = CLEAVE_COMBINE_MOMENTS};
    nest.output.tensor = norm->statistics;
    cleave_nest_take_axes(&nest, &im->operators.items[norm->op]);
    int record = cleave_nest_add_axis(&nest, "record", 3, true, -1);
    cleave_map_axis(&nest.output, 0, record);
    cleave_map_axis(&nest.output, 1, 1);
    add_whole_input(&nest, norm->input, rank);
    cleave_nest_emit(&nest, CLEAVE_OP_COPY, 0, 0, 0, 0);
    return cleave_import_add_nest(im, &nest, ".moments", NULL);
}

/* Adds row `row` of the statistics (1: mean, 2: M2) as an input, by the axis of the channels. */
static int add_statistic(cleave_nest *nest, int32_t statistics, int row, int channel_axis) {
    int input = cleave_nest_add_input(nest, statistics);
    cleave_map_offset(&nest->inputs[input], 0, row);
    cleave_map_axis(&nest->inputs[input], 1, channel_axis);
    return input;
}

static int add_by_channel(cleave_nest *nest, int32_t tensor) {
    int input = cleave_nest_add_input(nest, tensor);
    cleave_map_axis(&nest->inputs[input], 0, 1);
    return input;
}

/* (x - mean) / sqrt(variance + epsilon) x scale + bias */
static cleave_status add_normalize(cleave_importer *im, normalization *norm) {
    cleave_tensor from = im->tensors.items[norm->input].tensor;
    int32_t output, id;
    bool training = norm->statistics >= 0;
    CLEAVE_TRY(cleave_import_new_tensor(
        im,
        (cleave_new_tensor){im->node->outputs[0], norm->op, "", from.rank, from.shape, norm->input},
        &output));
    cleave_import_channels_last(im, output);
    cleave_nest nest = {.kind = CLEAVE_NEST_POINTWISE, .op = norm->op};
    nest.output.tensor = output;
    cleave_nest_take_axes(&nest, &im->operators.items[norm->op]);
    for (int d = 0; d < from.rank; d++)
        cleave_map_axis(&nest.output, d, d);
    int x = add_whole_input(&nest, norm->input, from.rank);
    int mean =
        training ? add_statistic(&nest, norm->statistics, 1, 1) : add_by_channel(&nest, norm->mean);
    int variance = training ? add_statistic(&nest, norm->statistics, 2, 1)
                            : add_by_channel(&nest, norm->variance);
    int scale = add_by_channel(&nest, norm->scale), bias = add_by_channel(&nest, norm->bias);
    double per_element = training ? 1 / (double)norm->count : 1;
    int centred = cleave_nest_emit(&nest, CLEAVE_OP_SUB, x, mean, 0, 0);
    int shifted = cleave_nest_emit(&nest, CLEAVE_OP_SCALE, variance, 0, per_element, norm->epsilon);
    int inverse = cleave_nest_emit(&nest, CLEAVE_OP_RSQRT, shifted, 0, 0, 0);
    int normal = cleave_nest_emit(&nest, CLEAVE_OP_MUL, centred, inverse, 0, 0);
    int scaled = cleave_nest_emit(&nest, CLEAVE_OP_MUL, normal, scale, 0, 0);
    cleave_nest_emit(&nest, CLEAVE_OP_ADD, scaled, bias, 0, 0);
    CLEAVE_TRY(cleave_import_add_nest(im, &nest, "", &id));
    cleave_draft_operator *op = &im->operators.items[norm->op];
    op->main_nest = op->tail_nest = id;
    op->output = output;
    cleave_import_set_output(im, 0, output, false);
    return CLEAVE_OK;
}

/* running x momentum + (statistic of the batch) x (1 - momentum), assigned at the end of a step;
   the variance is that of the population, as ONNX defines it. */
static cleave_status add_running(cleave_importer *im, const normalization *norm, int row) {
    bool named = row < im->node->n_outputs && im->node->outputs[row][0] != '\0';
    int32_t running = row == 1 ? norm->mean : norm->variance, updated;
    const char *suffix = row == 1 ? ".running_mean" : ".running_variance";
    double share = (1 - norm->momentum) / (row == 1 ? 1 : (double)norm->count);
    CLEAVE_TRY(
        cleave_import_new_tensor(im,
                                 (cleave_new_tensor){named ? im->node->outputs[row] : NULL,
                                                     norm->op, suffix, 1, &norm->channels, -1},
                                 &updated));
    cleave_nest nest = {.kind = CLEAVE_NEST_POINTWISE, .op = norm->op};
    nest.output.tensor = updated;
    const cleave_axis *c = &im->operators.items[norm->op].axes[1];
    cleave_nest_add_axis(&nest, c->name, c->extent, false, 1);
    cleave_map_axis(&nest.output, 0, 0);
    int old = add_whole_input(&nest, running, 1);
    int statistic = add_statistic(&nest, norm->statistics, row, 0);
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
    normalization norm = {.statistics = -1};
    bool training;
    CLEAVE_TRY(read_normalization(im, &norm, &training));
    CLEAVE_TRY(open_over(im, norm.input, true, &norm.op));
    if (training)
        CLEAVE_TRY(add_moments(im, &norm));
    CLEAVE_TRY(add_normalize(im, &norm));
    if (!training)
        return CLEAVE_OK;
    CLEAVE_TRY(add_running(im, &norm, 1));
    return add_running(im, &norm, 2);
}

/* ---- softmax ----------------------------------------------------------------------------------
 */

/* The row maximum and the sum of exp(x - maximum) over some axes of a tensor. */
typedef struct rows {
    int32_t op, input, maximum, sum; /* tensors beside op */
    int rank;
    unsigned reduced; /* bits of dimensions */
} rows;

/* Maps the dimensions that are left to the axes that are left. */
static void map_rows(const rows *r, cleave_operand *operand) {
    int at = 0;
    for (int d = 0; d < r->rank; d++)
        if ((r->reduced >> d & 1u) == 0)
            cleave_map_axis(operand, at++, d);
}

static int add_row_input(const rows *r, cleave_nest *nest, int32_t tensor) {
    int input = cleave_nest_add_input(nest, tensor);
    map_rows(r, &nest->inputs[input]);
    return input;
}

/* A tensor of one value per row. */
static cleave_status new_row_tensor(cleave_importer *im, const rows *r, const char *suffix,
                                    int32_t *tensor) {
    int64_t shape[CLEAVE_MAX_RANK] = {0};
    int rank = 0;
    const char *names[CLEAVE_MAX_RANK] = {NULL};
    for (int d = 0; d < r->rank; d++)
        if ((r->reduced >> d & 1u) == 0) {
            names[rank] = im->operators.items[r->op].axes[d].name;
            shape[rank++] = im->tensors.items[r->input].tensor.shape[d];
        }
    CLEAVE_TRY(cleave_import_new_tensor(
        im, (cleave_new_tensor){NULL, r->op, suffix, rank, shape, -1}, tensor));
    memcpy(im->tensors.items[*tensor].axes, names, sizeof names);
    return CLEAVE_OK;
}

/* A nest over all axes that reduces them to rows; its tape is still to be written. */
static cleave_nest reduce_nest(const cleave_importer *im, const rows *r, cleave_combiner combiner,
                               int32_t output) {
    cleave_nest nest = {.kind = CLEAVE_NEST_REDUCE, .op = r->op, .combiner = combiner};
    cleave_nest_take_axes(&nest, &im->operators.items[r->op]);
    nest.output.tensor = output;
    map_rows(r, &nest.output);
    add_whole_input(&nest, r->input, r->rank);
    return nest;
}

static cleave_status add_rows(cleave_importer *im, rows *r, const char *sum_suffix,
                              int32_t *sum_nest) {
    CLEAVE_TRY(new_row_tensor(im, r, ".max", &r->maximum));
    CLEAVE_TRY(new_row_tensor(im, r, ".sum", &r->sum));
    cleave_nest max = reduce_nest(im, r, CLEAVE_COMBINE_MAX, r->maximum);
    cleave_nest_emit(&max, CLEAVE_OP_COPY, 0, 0, 0, 0);
    CLEAVE_TRY(cleave_import_add_nest(im, &max, ".max", NULL));
    cleave_nest sum = reduce_nest(im, r, CLEAVE_COMBINE_SUM, r->sum);
    int maximum = add_row_input(r, &sum, r->maximum);
    int shifted = cleave_nest_emit(&sum, CLEAVE_OP_SUB, 0, maximum, 0, 0);
    cleave_nest_emit(&sum, CLEAVE_OP_EXP, shifted, 0, 0, 0);
    return cleave_import_add_nest(im, &sum, sum_suffix, sum_nest);
}

cleave_status cleave_import_softmax(cleave_importer *im) {
    rows r = {0};
    int64_t wanted;
    int axis;
    int32_t output, id;
    bool flattens = im->graph.opset < 13;
    CLEAVE_TRY(cleave_import_tensor(im, 0, &r.input));
    cleave_tensor from = im->tensors.items[r.input].tensor;
    CLEAVE_TRY(cleave_import_integer(im, "axis", flattens ? 1 : -1, &wanted));
    CLEAVE_TRY(cleave_import_axis(im, wanted, from.rank, &axis));
    r.rank = from.rank;
    /* Before operator set 13 everything from the axis on was one row. */
    for (int d = axis; d < (flattens ? r.rank : axis + 1); d++)
        r.reduced |= 1u << d;
    CLEAVE_TRY(open_over(im, r.input, false, &r.op));
    CLEAVE_TRY(add_rows(im, &r, ".sum", NULL));
    CLEAVE_TRY(cleave_import_new_tensor(
        im, (cleave_new_tensor){im->node->outputs[0], r.op, "", from.rank, from.shape, r.input},
        &output));
    cleave_nest nest = {.kind = CLEAVE_NEST_POINTWISE, .op = r.op};
    nest.output.tensor = output;
    cleave_nest_take_axes(&nest, &im->operators.items[r.op]);
    for (int d = 0; d < from.rank; d++)
        cleave_map_axis(&nest.output, d, d);
    int x = add_whole_input(&nest, r.input, from.rank);
    int maximum = add_row_input(&r, &nest, r.maximum), sum = add_row_input(&r, &nest, r.sum);
    int shifted = cleave_nest_emit(&nest, CLEAVE_OP_SUB, x, maximum, 0, 0);
    int power = cleave_nest_emit(&nest, CLEAVE_OP_EXP, shifted, 0, 0, 0);
    cleave_nest_emit(&nest, CLEAVE_OP_DIV, power, sum, 0, 0);
    CLEAVE_TRY(cleave_import_add_nest(im, &nest, "", &id));
    cleave_draft_operator *op = &im->operators.items[r.op];
    op->main_nest = op->tail_nest = id;
    op->output = output;
    cleave_import_set_output(im, 0, output, false);
    return CLEAVE_OK;
}

/* ---- the loss: mean softmax cross-entropy ------------------------------------------------------
 */

static cleave_status open_loss(cleave_importer *im, rows *r) {
    const cleave_draft_tensor *logits = &im->tensors.items[r->input];
    r->rank = logits->tensor.rank;
    if (r->rank < 2 || logits->tensor.type != CLEAVE_F32)
        return cleave_import_fail(im,
                                  "output %s has rank %d; a loss needs floats of rank 2 or more",
                                  logits->tensor.name, r->rank);
    int class_axis = r->rank == 3 ? 2 : 1;
    r->reduced = 1u << class_axis;
    CLEAVE_TRY(cleave_import_new_operator(im, true, &r->op));
    for (int d = 0; d < r->rank; d++) {
        const char *name = d == class_axis ? "v"
                           : d == 0        ? "n"
                           : r->rank == 3  ? "t"
                                           : cleave_import_axis_name(r->rank, d);
        if (cleave_import_add_axis(im, r->op, name, im->tensors.items[r->input].tensor.shape[d],
                                   false) < 0)
            return cleave_import_no_memory(im);
    }
    return CLEAVE_OK;
}

/* Integers below the number of classes, one per row. */
static cleave_status add_targets(cleave_importer *im, const rows *r) {
    if (cleave_name_map_find(&im->names, "targets") >= 0)
        return cleave_import_fail(im, "a value of the graph is named targets, which is the name of "
                                      "the loss's targets");
    CLEAVE_TRY(new_row_tensor(im, r, "", &im->targets));
    cleave_draft_tensor *targets = &im->tensors.items[im->targets];
    targets->tensor.name = "targets";
    targets->tensor.kind = CLEAVE_TENSOR_DATA;
    targets->tensor.type = CLEAVE_I64;
    for (int d = 0; d < r->rank; d++)
        if ((r->reduced >> d & 1u) != 0)
            targets->tensor.below = im->operators.items[r->op].axes[d].extent;
    return CLEAVE_OK;
}

/* The logit of each row's target. */
static cleave_status add_target_logit(cleave_importer *im, const rows *r, int32_t *tensor) {
    int class_axis = 0;
    while ((r->reduced >> class_axis & 1u) == 0)
        class_axis++;
    CLEAVE_TRY(new_row_tensor(im, r, ".target", tensor));
    cleave_nest nest = reduce_nest(im, r, CLEAVE_COMBINE_SUM, *tensor);
    int target = add_row_input(r, &nest, im->targets);
    int index = cleave_nest_emit(&nest, CLEAVE_OP_INDEX, class_axis, 0, 0, 0);
    int equal = cleave_nest_emit(&nest, CLEAVE_OP_EQUAL, index, target, 0, 0);
    cleave_nest_emit(&nest, CLEAVE_OP_MUL, 0, equal, 0, 0);
    return cleave_import_add_nest(im, &nest, ".target", NULL);
}

/* Mean over all rows of log(sum) + maximum - target logit, on the owners of the sum. */
static cleave_status add_mean(cleave_importer *im, const rows *r, int32_t sum_nest,
                              int32_t target) {
    const cleave_draft_tensor *sum = &im->tensors.items[r->sum];
    cleave_nest nest = {.kind = CLEAVE_NEST_REDUCE,
                        .op = r->op,
                        .derivation = CLEAVE_DERIVE_OWNERS,
                        .owners_of = sum_nest,
                        .combiner = CLEAVE_COMBINE_SUM};
    int rank = sum->tensor.rank;
    int64_t count = cleave_shape_size(rank, sum->tensor.shape);
    for (int d = 0; d < rank; d++)
        cleave_nest_add_axis(&nest, sum->axes[d], sum->tensor.shape[d], false, -1);
    int s = add_whole_input(&nest, r->sum, rank);
    int m = add_whole_input(&nest, r->maximum, rank);
    int t = add_whole_input(&nest, target, rank);
    int logarithm = cleave_nest_emit(&nest, CLEAVE_OP_LOG, s, 0, 0, 0);
    int total = cleave_nest_emit(&nest, CLEAVE_OP_ADD, logarithm, m, 0, 0);
    int loss = cleave_nest_emit(&nest, CLEAVE_OP_SUB, total, t, 0, 0);
    cleave_nest_emit(&nest, CLEAVE_OP_SCALE, loss, 0, 1 / (double)count, 0);
    CLEAVE_TRY(cleave_import_new_tensor(
        im,
        (cleave_new_tensor){cleave_name_map_find(&im->names, "loss") < 0 ? "loss" : NULL, r->op,
                            ".loss", 0, NULL, -1},
        &im->loss));
    nest.output.tensor = im->loss;
    return cleave_import_add_nest(im, &nest, ".mean", NULL);
}

cleave_status cleave_import_loss(cleave_importer *im, int32_t logits) {
    rows r = {.input = logits};
    int32_t sum_nest, target;
    im->node = NULL;
    CLEAVE_TRY(open_loss(im, &r));
    CLEAVE_TRY(add_targets(im, &r));
    CLEAVE_TRY(add_rows(im, &r, "", &sum_nest));
    CLEAVE_TRY(add_target_logit(im, &r, &target));
    CLEAVE_TRY(add_mean(im, &r, sum_nest, target));
    im->operators.items[r.op].main_nest = sum_nest;
    return CLEAVE_OK;
}
