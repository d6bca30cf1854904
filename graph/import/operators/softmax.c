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
