/* Losses over classes: cross-entropy of logits, and the negative logarithm of the probability that
   a row gives its target.  The model's own node, or, for a model that ends in logits, an operator
   @loss after it.

   The classes may be split: a part then knows the maximum, the sum and the target of its classes
   alone, and these are combined as any other partial result. */
#include "graph/import/operators/pointwise.h"
#include "graph/import/operators/rows.h"

#include <string.h>

typedef struct class_loss {
    cleave_rows rows; /* along the classes */
    int class_axis;
    bool of_logits; /* else of logarithms of probabilities */
    int32_t labels; /* tensor of integers, one per row */
    int32_t target; /* tensor of the input's element at each row's label */
    int32_t weight; /* tensor of the weight of each row's label; -1: all 1 */
    bool ignores;   /* rows with the label `ignored` do not count */
    int64_t ignored;
    int32_t main_nest; /* has one value per row */
} class_loss;

/* ---- nests --------------------------------------------------------------------------------- */

/* The input's element at each row's label; `select` takes an element and whether it is that one. */
static cleave_status add_target(cleave_importer *im, class_loss *loss, cleave_opcode select,
                                const char *suffix, int32_t *id) {
    CLEAVE_TRY(cleave_rows_new_tensor(im, &loss->rows, ".target", &loss->target));
    cleave_nest nest = cleave_rows_reduce(im, &loss->rows, CLEAVE_COMBINE_SUM, loss->target);
    int label = cleave_rows_add_input(&loss->rows, &nest, loss->labels);
    int index = cleave_nest_emit(&nest, CLEAVE_OP_INDEX, loss->class_axis, 0, 0, 0);
    int equal = cleave_nest_emit(&nest, CLEAVE_OP_EQUAL, index, label, 0, 0);
    cleave_nest_emit(&nest, select, 0, equal, 0, 0);
    return cleave_import_add_nest(im, &nest, suffix, id);
}

/* The weight of each row's label, of weights [classes]. */
static cleave_status add_weight(cleave_importer *im, class_loss *loss, int32_t weights) {
    CLEAVE_TRY(cleave_rows_new_tensor(im, &loss->rows, ".weight", &loss->weight));
    cleave_nest nest = {
        .kind = CLEAVE_NEST_REDUCE, .op = loss->rows.op, .combiner = CLEAVE_COMBINE_SUM};
    cleave_nest_take_axes(&nest, &im->operators.items[loss->rows.op]);
    nest.output.tensor = loss->weight;
    cleave_rows_map(&loss->rows, &nest.output);
    int weight = cleave_nest_add_input(&nest, weights);
    cleave_map_axis(&nest.inputs[weight], 0, loss->class_axis);
    int label = cleave_rows_add_input(&loss->rows, &nest, loss->labels);
    int index = cleave_nest_emit(&nest, CLEAVE_OP_INDEX, loss->class_axis, 0, 0, 0);
    int equal = cleave_nest_emit(&nest, CLEAVE_OP_EQUAL, index, label, 0, 0);
    cleave_nest_emit(&nest, CLEAVE_OP_MASK, weight, equal, 0, 0);
    return cleave_import_add_nest(im, &nest, ".weight", NULL);
}

/* Emits the value where the row is not ignored, else 0; with value -1, 1 or 0. */
static void emit_kept(const class_loss *loss, cleave_nest *nest, int value, int label) {
    int ignored = cleave_nest_emit(nest, CLEAVE_OP_CONSTANT, 0, 0, (double)loss->ignored, 0);
    int equal = cleave_nest_emit(nest, CLEAVE_OP_EQUAL, label, ignored, 0, 0);
    int kept = cleave_nest_emit(nest, CLEAVE_OP_SCALE, equal, 0, -1, 1);
    if (value >= 0)
        cleave_nest_emit(nest, CLEAVE_OP_MASK, value, kept, 0, 0);
}

/* A nest over the rows: the loss of each, on the owners of the main nest's sum. */
static cleave_nest loss_of_rows(const cleave_importer *im, const class_loss *loss,
                                cleave_combiner combiner) {
    cleave_nest nest = cleave_rows_on_owners(im, &loss->rows, loss->main_nest, combiner);
    int rank = nest.n_axes, sum = -1, maximum = -1, weight = -1, label = -1, value;
    if (loss->of_logits) {
        sum = cleave_nest_add_whole_input(&nest, loss->rows.sum, rank);
        maximum = cleave_nest_add_whole_input(&nest, loss->rows.maximum, rank);
    }
    int target = cleave_nest_add_whole_input(&nest, loss->target, rank);
    if (loss->weight >= 0)
        weight = cleave_nest_add_whole_input(&nest, loss->weight, rank);
    if (loss->ignores)
        label = cleave_nest_add_whole_input(&nest, loss->labels, rank);
    if (loss->of_logits) {
        int logarithm = cleave_nest_emit(&nest, CLEAVE_OP_LOG, sum, 0, 0, 0);
        int total = cleave_nest_emit(&nest, CLEAVE_OP_ADD, logarithm, maximum, 0, 0);
        value = cleave_nest_emit(&nest, CLEAVE_OP_SUB, total, target, 0, 0);
    } else {
        value = cleave_nest_emit(&nest, CLEAVE_OP_NEG, target, 0, 0, 0);
    }
    if (weight >= 0)
        value = cleave_nest_emit(&nest, CLEAVE_OP_MUL, value, weight, 0, 0);
    if (label >= 0)
        emit_kept(loss, &nest, value, label);
    return nest;
}

/* A nest over the rows: what all of them count in a mean. */
static cleave_nest count_of_rows(const cleave_importer *im, const class_loss *loss) {
    cleave_nest nest = cleave_rows_on_owners(im, &loss->rows, loss->main_nest, CLEAVE_COMBINE_SUM);
    int rank = nest.n_axes, weight = -1;
    if (loss->weight >= 0)
        weight = cleave_nest_add_whole_input(&nest, loss->weight, rank);
    if (loss->ignores)
        emit_kept(loss, &nest, weight, cleave_nest_add_whole_input(&nest, loss->labels, rank));
    else
        cleave_nest_emit(&nest, CLEAVE_OP_COPY, weight, 0, 0, 0);
    return nest;
}

static cleave_status new_scalar(cleave_importer *im, const class_loss *loss, const char *name,
                                const char *suffix, int32_t *tensor) {
    return cleave_import_new_tensor(
        im, (cleave_new_tensor){name, loss->rows.op, suffix, 0, NULL, -1}, tensor);
}

/* The mean of all rows; `name` may be null. */
static cleave_status add_plain_mean(cleave_importer *im, const class_loss *loss, const char *name,
                                    int32_t *result) {
    cleave_nest nest = loss_of_rows(im, loss, CLEAVE_COMBINE_SUM);
    int64_t count = 1;
    for (int d = 0; d < nest.n_axes; d++)
        count *= nest.axes[d].extent;
    cleave_nest_emit(&nest, CLEAVE_OP_SCALE, cleave_nest_value(&nest), 0, 1 / (double)count, 0);
    CLEAVE_TRY(new_scalar(im, loss, name, ".loss", result));
    nest.output.tensor = *result;
    return cleave_import_add_nest(im, &nest, ".mean", NULL);
}

/* The sum of all rows over what they count. */
static cleave_status add_weighted_mean(cleave_importer *im, const class_loss *loss,
                                       const char *name, int32_t *result) {
    int32_t total, count, total_nest;
    CLEAVE_TRY(new_scalar(im, loss, NULL, ".total", &total));
    CLEAVE_TRY(new_scalar(im, loss, NULL, ".count", &count));
    CLEAVE_TRY(new_scalar(im, loss, name, ".loss", result));
    cleave_nest nest = loss_of_rows(im, loss, CLEAVE_COMBINE_SUM);
    nest.output.tensor = total;
    CLEAVE_TRY(cleave_import_add_nest(im, &nest, ".total", &total_nest));
    nest = count_of_rows(im, loss);
    nest.output.tensor = count;
    CLEAVE_TRY(cleave_import_add_nest(im, &nest, ".count", NULL));
    nest = (cleave_nest){.kind = CLEAVE_NEST_POINTWISE,
                         .op = loss->rows.op,
                         .derivation = CLEAVE_DERIVE_OWNERS,
                         .owners_of = total_nest};
    nest.output.tensor = *result;
    int a = cleave_nest_add_input(&nest, total), b = cleave_nest_add_input(&nest, count);
    cleave_nest_emit(&nest, CLEAVE_OP_DIV, a, b, 0, 0);
    return cleave_import_add_nest(im, &nest, ".mean", NULL);
}

/* The nests up to the main one. */
static cleave_status add_rows(cleave_importer *im, class_loss *loss, cleave_opcode select) {
    if (loss->of_logits) {
        CLEAVE_TRY(cleave_rows_add_sum(im, &loss->rows, "", &loss->main_nest));
        CLEAVE_TRY(add_target(im, loss, select, ".target", NULL));
    } else {
        CLEAVE_TRY(add_target(im, loss, select, "", &loss->main_nest));
    }
    im->operators.items[loss->rows.op].main_nest = loss->main_nest;
    return CLEAVE_OK;
}

/* Opens the operator over all dimensions of the input. */
static cleave_status open_loss(cleave_importer *im, class_loss *loss, const char *row_name) {
    const cleave_draft_tensor *input = &im->tensors.items[loss->rows.input];
    int rank = loss->rows.rank = input->tensor.rank;
    const cleave_tensor shape = input->tensor;
    loss->rows.reduced = 1u << loss->class_axis;
    CLEAVE_TRY(cleave_import_new_operator(im, true, &loss->rows.op));
    for (int d = 0; d < rank; d++) {
        const char *name = d == loss->class_axis ? "v"
                           : d == 0              ? "n"
                           : row_name != NULL    ? row_name
                                                 : cleave_import_axis_name(rank, d);
        if (cleave_import_add_axis(im, loss->rows.op, name, shape.shape[d], false) < 0)
            return cleave_import_no_memory(im);
    }
    return CLEAVE_OK;
}

/* ---- @loss ----------------------------------------------------------------------------------- */

/* Integers below the number of classes, one per row. */
static cleave_status add_targets(cleave_importer *im, const class_loss *loss) {
    if (cleave_name_map_find(&im->names, "targets") >= 0)
        return cleave_import_fail(im, "a value of the graph is named targets, which is the name of "
                                      "the loss's targets");
    CLEAVE_TRY(cleave_rows_new_tensor(im, &loss->rows, "", &im->targets));
    cleave_draft_tensor *targets = &im->tensors.items[im->targets];
    targets->tensor.name = "targets";
    targets->tensor.kind = CLEAVE_TENSOR_DATA;
    targets->tensor.type = CLEAVE_I64;
    targets->tensor.below = im->operators.items[loss->rows.op].axes[loss->class_axis].extent;
    return CLEAVE_OK;
}

/* The mean softmax cross-entropy of a model that ends in logits. */
static cleave_status import_default_loss(cleave_importer *im, int32_t logits) {
    const cleave_tensor from = im->tensors.items[logits].tensor;
    class_loss loss = {.rows = {.input = logits},
                       .class_axis = from.rank == 3 ? 2 : 1,
                       .of_logits = true,
                       .weight = -1};
    im->node = NULL;
    if (from.rank < 2 || from.type != CLEAVE_F32)
        return cleave_import_fail(
            im, "output %s has rank %d; a loss needs floats of rank 2 or more, or of rank 0",
            from.name, from.rank);
    CLEAVE_TRY(open_loss(im, &loss, from.rank == 3 ? "t" : NULL));
    CLEAVE_TRY(add_targets(im, &loss));
    loss.labels = im->targets;
    CLEAVE_TRY(add_rows(im, &loss, CLEAVE_OP_MUL));
    bool named = cleave_name_map_find(&im->names, "loss") < 0;
    return add_plain_mean(im, &loss, named ? "loss" : NULL, &im->loss);
}

/* What the model computes is trained as it is. */
static cleave_status take_own_loss(cleave_importer *im, cleave_value *value) {
    const cleave_tensor *tensor = &im->tensors.items[value->tensor].tensor;
    if (tensor->kind != CLEAVE_TENSOR_ACTIVATION || tensor->view.kind != CLEAVE_VIEW_NONE) {
        im->node = &im->graph.nodes[value->producer >= 0 ? value->producer : 0];
        CLEAVE_TRY(cleave_import_copy(im, value->name, value->tensor, &value->tensor));
    }
    im->loss = value->tensor;
    return CLEAVE_OK;
}

cleave_status cleave_import_loss(cleave_importer *im, cleave_value *output) {
    int32_t type = cleave_import_type(output);
    if (im->tensors.items[output->tensor].tensor.rank == 0 &&
        (type == CLEAVE_ONNX_FLOAT || type == 0))
        return take_own_loss(im, output);
    return import_default_loss(im, output->tensor);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Made-up labels are classes, given ones may be what is ignored, too. */
static void limit_labels(cleave_importer *im, const class_loss *loss) {
    int32_t base = loss->labels;
    while (im->tensors.items[base].tensor.view.kind == CLEAVE_VIEW_RESHAPE ||
           im->tensors.items[base].tensor.view.kind == CLEAVE_VIEW_TRANSPOSE ||
           im->tensors.items[base].tensor.view.kind == CLEAVE_VIEW_SLICE)
        base = im->tensors.items[base].tensor.view.sources[0];
    cleave_tensor *tensor = &im->tensors.items[base].tensor;
    if (tensor->kind != CLEAVE_TENSOR_DATA || tensor->type != CLEAVE_I64)
        return;
    tensor->below = im->operators.items[loss->rows.op].axes[loss->class_axis].extent;
    tensor->also = loss->ignores ? loss->ignored : 0;
}

static cleave_status read_labels(cleave_importer *im, class_loss *loss) {
    CLEAVE_TRY(cleave_import_tensor(im, 1, &loss->labels));
    const cleave_tensor *labels = &im->tensors.items[loss->labels].tensor;
    const cleave_tensor *input = &im->tensors.items[loss->rows.input].tensor;
    bool fits = labels->rank == input->rank - 1;
    for (int d = 0; fits && d < labels->rank; d++)
        fits = labels->shape[d] == input->shape[d < loss->class_axis ? d : d + 1];
    if (!fits)
        return cleave_import_fail(im,
                                  "input %s does not have the dimensions of %s without the "
                                  "classes",
                                  im->node->inputs[1], im->node->inputs[0]);
    if (!cleave_onnx_type_is_integer(cleave_import_type(cleave_import_input(im, 1))))
        return cleave_import_fail(im, "input %s is not of integers", im->node->inputs[1]);
    const cleave_onnx_attribute *ignored = cleave_import_attribute(im, "ignore_index");
    loss->ignores = ignored != NULL;
    return cleave_import_integer(im, "ignore_index", 0, &loss->ignored);
}

static cleave_status read_weights(cleave_importer *im, class_loss *loss) {
    int32_t weights;
    loss->weight = -1;
    if (!cleave_import_has_input(im, 2))
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_import_tensor(im, 2, &weights));
    const cleave_tensor *tensor = &im->tensors.items[weights].tensor;
    int64_t classes = im->operators.items[loss->rows.op].axes[loss->class_axis].extent;
    if (tensor->rank != 1 || tensor->shape[0] != classes)
        return cleave_import_fail(im, "input %s is not of %lld elements", im->node->inputs[2],
                                  (long long)classes);
    return add_weight(im, loss, weights);
}

/* Output 0, by the attribute. */
static cleave_status add_reduction(cleave_importer *im, const class_loss *loss) {
    const char *reduction, *name = im->node->outputs[0];
    int32_t result;
    CLEAVE_TRY(cleave_import_string(im, "reduction", "mean", &reduction));
    bool none = strcmp(reduction, "none") == 0;
    if (strcmp(reduction, "mean") == 0) {
        bool plain = loss->weight < 0 && !loss->ignores;
        CLEAVE_TRY((plain ? add_plain_mean : add_weighted_mean)(im, loss, name, &result));
    } else if (none || strcmp(reduction, "sum") == 0) {
        cleave_nest nest = loss_of_rows(im, loss, none ? CLEAVE_COMBINE_NONE : CLEAVE_COMBINE_SUM);
        if (none)
            CLEAVE_TRY(cleave_rows_new_tensor(im, &loss->rows, ".loss", &result));
        else
            CLEAVE_TRY(new_scalar(im, loss, name, ".loss", &result));
        im->tensors.items[result].tensor.name = name;
        nest.output.tensor = result;
        for (int d = 0; none && d < nest.n_axes; d++)
            cleave_map_axis(&nest.output, d, d);
        CLEAVE_TRY(cleave_import_add_nest(im, &nest, none ? ".loss" : ".total", NULL));
    } else {
        return cleave_import_fail(im, "attribute reduction is %s, supported are none, mean and sum",
                                  reduction);
    }
    cleave_import_set_output(im, 0, result, false);
    return CLEAVE_OK;
}

/* Output 1 of a SoftmaxCrossEntropyLoss: the logarithms of the probabilities. */
static cleave_status add_log_probabilities(cleave_importer *im, const class_loss *loss) {
    const cleave_rows *rows = &loss->rows;
    const cleave_tensor from = im->tensors.items[rows->input].tensor;
    cleave_nest nest = {.kind = CLEAVE_NEST_POINTWISE, .op = rows->op};
    cleave_new_tensor what = {im->node->outputs[1], rows->op,   "", from.rank,
                              from.shape,           rows->input};
    CLEAVE_TRY(cleave_import_new_tensor(im, what, &nest.output.tensor));
    cleave_nest_take_axes(&nest, &im->operators.items[rows->op]);
    for (int d = 0; d < from.rank; d++)
        cleave_map_axis(&nest.output, d, d);
    int x = cleave_nest_add_whole_input(&nest, rows->input, from.rank);
    int maximum = cleave_rows_add_input(rows, &nest, rows->maximum);
    int sum = cleave_rows_add_input(rows, &nest, rows->sum);
    int shifted = cleave_nest_emit(&nest, CLEAVE_OP_SUB, x, maximum, 0, 0);
    int logarithm = cleave_nest_emit(&nest, CLEAVE_OP_LOG, sum, 0, 0, 0);
    cleave_nest_emit(&nest, CLEAVE_OP_SUB, shifted, logarithm, 0, 0);
    CLEAVE_TRY(cleave_import_add_nest(im, &nest, ".log_prob", NULL));
    cleave_import_set_output(im, 1, nest.output.tensor, false);
    return CLEAVE_OK;
}

cleave_status cleave_import_class_loss(cleave_importer *im) {
    class_loss loss = {.class_axis = 1, .of_logits = im->node->type[0] == 'S'};
    CLEAVE_TRY(cleave_import_tensor(im, 0, &loss.rows.input));
    int rank = im->tensors.items[loss.rows.input].tensor.rank;
    if (rank < 2)
        return cleave_import_fail(im, "input %s has rank %d, at least 2 is needed",
                                  im->node->inputs[0], rank);
    CLEAVE_TRY(read_labels(im, &loss));
    CLEAVE_TRY(open_loss(im, &loss, NULL));
    limit_labels(im, &loss);
    /* A class that can't be has an infinite logit, which must not be multiplied. */
    CLEAVE_TRY(add_rows(im, &loss, CLEAVE_OP_MASK));
    CLEAVE_TRY(read_weights(im, &loss));
    CLEAVE_TRY(add_reduction(im, &loss));
    return cleave_import_uses_output(im, 1) ? add_log_probabilities(im, &loss) : CLEAVE_OK;
}
