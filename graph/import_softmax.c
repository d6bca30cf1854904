/* What compares a row with its maximum and its sum: softmax, and the loss.  Each is one operator of
   several nests that share one split. */
#include "graph/import_statistics.h"

#include <string.h>

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
    cleave_nest_add_whole_input(&nest, r->input, r->rank);
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
    CLEAVE_TRY(cleave_import_open_over(im, r.input, false, &r.op));
    CLEAVE_TRY(add_rows(im, &r, ".sum", NULL));
    CLEAVE_TRY(cleave_import_new_tensor(
        im, (cleave_new_tensor){im->node->outputs[0], r.op, "", from.rank, from.shape, r.input},
        &output));
    cleave_nest nest = {.kind = CLEAVE_NEST_POINTWISE, .op = r.op};
    nest.output.tensor = output;
    cleave_nest_take_axes(&nest, &im->operators.items[r.op]);
    for (int d = 0; d < from.rank; d++)
        cleave_map_axis(&nest.output, d, d);
    int x = cleave_nest_add_whole_input(&nest, r.input, from.rank);
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
    int s = cleave_nest_add_whole_input(&nest, r->sum, rank);
    int m = cleave_nest_add_whole_input(&nest, r->maximum, rank);
    int t = cleave_nest_add_whole_input(&nest, target, rank);
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
