/* What compares a row with its maximum and its sum: softmax and its kin.  Each is one operator of
   several nests that share one split. */
#include "graph/import/operators/pointwise.h"
#include "graph/import/operators/rows.h"

/* The rows of the node's input. */
static cleave_status open_rows(cleave_importer *im, cleave_rows *rows) {
    int64_t wanted;
    int axis;
    bool flattens = im->graph.opset < 13;
    CLEAVE_TRY(cleave_import_tensor(im, 0, &rows->input));
    rows->rank = im->tensors.items[rows->input].tensor.rank;
    CLEAVE_TRY(cleave_import_integer(im, "axis", flattens ? 1 : -1, &wanted));
    CLEAVE_TRY(cleave_import_axis(im, wanted, rows->rank, &axis));
    /* Before operator set 13 everything from the axis on was one row. */
    for (int d = axis; d < (flattens ? rows->rank : axis + 1); d++)
        rows->reduced |= 1u << d;
    return cleave_import_open_over(im, rows->input, false, &rows->op);
}

/* The nest from the rows to the node's output. */
static cleave_status begin_result(cleave_importer *im, const cleave_rows *rows, cleave_nest *nest) {
    cleave_operand input = cleave_whole_operand(rows->input, rows->rank);
    return cleave_import_begin_result(im, rows->op, &input, nest);
}

cleave_status cleave_import_softmax(cleave_importer *im) {
    cleave_rows rows = {0};
    cleave_nest nest;
    CLEAVE_TRY(open_rows(im, &rows));
    CLEAVE_TRY(cleave_rows_add_sum(im, &rows, ".sum", NULL));
    CLEAVE_TRY(begin_result(im, &rows, &nest));
    int maximum = cleave_rows_add_input(&rows, &nest, rows.maximum);
    int sum = cleave_rows_add_input(&rows, &nest, rows.sum);
    int shifted = cleave_nest_emit(&nest, CLEAVE_OP_SUB, 0, maximum, 0, 0);
    if (im->node->type[0] == 'L') { /* LogSoftmax */
        int logarithm = cleave_nest_emit(&nest, CLEAVE_OP_LOG, sum, 0, 0, 0);
        cleave_nest_emit(&nest, CLEAVE_OP_SUB, shifted, logarithm, 0, 0);
    } else {
        int power = cleave_nest_emit(&nest, CLEAVE_OP_EXP, shifted, 0, 0, 0);
        cleave_nest_emit(&nest, CLEAVE_OP_DIV, power, sum, 0, 0);
    }
    return cleave_import_end_result(im, &nest);
}

/* Maps a vector of one number per head to a nest over scores [.., heads, queries, keys]. */
static int add_sinks(const cleave_rows *rows, cleave_nest *nest, int32_t sinks) {
    int input = cleave_nest_add_input(nest, sinks);
    cleave_map_axis(&nest->inputs[input], 0, rows->rank - 3);
    return input;
}

static cleave_status open_sinks(cleave_importer *im, cleave_rows *rows, int32_t *sinks) {
    CLEAVE_TRY(cleave_import_tensor(im, 0, &rows->input));
    CLEAVE_TRY(cleave_import_tensor(im, 1, sinks));
    const cleave_tensor scores = im->tensors.items[rows->input].tensor,
                        of = im->tensors.items[*sinks].tensor;
    rows->rank = scores.rank;
    if (scores.rank < 3 || of.rank != 1 || of.shape[0] != scores.shape[scores.rank - 3])
        return cleave_import_fail(im,
                                  "its inputs have ranks %d and %d, and %lld sinks; scores by "
                                  "head, query and key are needed, and a sink for each head",
                                  scores.rank, of.rank, (long long)of.shape[0]);
    rows->reduced = 1u << (rows->rank - 1);
    return cleave_import_open_over(im, rows->input, false, &rows->op);
}

/* A softmax over the scores of a row and one more, its head's, which takes its share of the sum and
   has no place in the result.  It is counted where the sum is divided by, not in it: so a sum of
   parts does not count it more than once.  The maximum has it, too, lest its exponential overflow.
 */
cleave_status cleave_import_sink_softmax(cleave_importer *im) {
    cleave_rows rows = {0};
    int32_t sinks;
    cleave_nest nest;
    CLEAVE_TRY(open_sinks(im, &rows, &sinks));
    CLEAVE_TRY(cleave_rows_new_tensor(im, &rows, ".max", &rows.maximum));
    nest = cleave_rows_reduce(im, &rows, CLEAVE_COMBINE_MAX, rows.maximum);
    int sink = add_sinks(&rows, &nest, sinks);
    cleave_nest_emit(&nest, CLEAVE_OP_MAX, 0, sink, 0, 0);
    CLEAVE_TRY(cleave_import_add_nest(im, &nest, ".max", NULL));
    CLEAVE_TRY(cleave_rows_add_exponentials(im, &rows, ".sum", NULL));
    CLEAVE_TRY(begin_result(im, &rows, &nest));
    int maximum = cleave_rows_add_input(&rows, &nest, rows.maximum);
    int sum = cleave_rows_add_input(&rows, &nest, rows.sum);
    sink = add_sinks(&rows, &nest, sinks);
    int power = cleave_nest_emit(&nest, CLEAVE_OP_SUB, 0, maximum, 0, 0);
    power = cleave_nest_emit(&nest, CLEAVE_OP_EXP, power, 0, 0, 0);
    int sunk = cleave_nest_emit(&nest, CLEAVE_OP_SUB, sink, maximum, 0, 0);
    sunk = cleave_nest_emit(&nest, CLEAVE_OP_EXP, sunk, 0, 0, 0);
    int all = cleave_nest_emit(&nest, CLEAVE_OP_ADD, sum, sunk, 0, 0);
    cleave_nest_emit(&nest, CLEAVE_OP_DIV, power, all, 0, 0);
    return cleave_import_end_result(im, &nest);
}

/* 1 at the first maximum of the row: where the place is the largest among those of the maxima. */
cleave_status cleave_import_hardmax(cleave_importer *im) {
    cleave_rows rows = {0};
    int32_t first;
    cleave_nest nest;
    CLEAVE_TRY(open_rows(im, &rows));
    CLEAVE_TRY(cleave_rows_check_places(im, &rows));
    CLEAVE_TRY(cleave_rows_add_maximum(im, &rows));
    CLEAVE_TRY(cleave_rows_new_tensor(im, &rows, ".first", &first));
    nest = cleave_rows_reduce(im, &rows, CLEAVE_COMBINE_MAX, first);
    int maximum = cleave_rows_add_input(&rows, &nest, rows.maximum);
    cleave_rows_emit_place_of_equal(im, &rows, &nest, 0, maximum, true);
    CLEAVE_TRY(cleave_import_add_nest(im, &nest, ".first", NULL));
    CLEAVE_TRY(begin_result(im, &rows, &nest));
    int wanted = cleave_rows_add_input(&rows, &nest, first);
    int place = cleave_rows_emit_place(im, &rows, &nest, true);
    cleave_nest_emit(&nest, CLEAVE_OP_EQUAL, place, wanted, 0, 0);
    return cleave_import_end_result(im, &nest);
}
