/* Rows: maximum, its place, and sum, as nests of one operator that share its split. */
#include "graph/import/operators/rows.h"

#include <string.h>

void cleave_rows_map(const cleave_rows *rows, cleave_operand *operand) {
    int at = 0;
    for (int d = 0; d < rows->rank; d++)
        if ((rows->reduced >> d & 1u) == 0)
            cleave_map_axis(operand, at++, d);
}

int cleave_rows_add_input(const cleave_rows *rows, cleave_nest *nest, int32_t tensor) {
    int input = cleave_nest_add_input(nest, tensor);
    cleave_rows_map(rows, &nest->inputs[input]);
    return input;
}

cleave_status cleave_rows_new_tensor(cleave_importer *im, const cleave_rows *rows,
                                     const char *suffix, int32_t *tensor) {
    int64_t shape[CLEAVE_MAX_RANK] = {0};
    int rank = 0;
    const char *names[CLEAVE_MAX_RANK] = {NULL};
    for (int d = 0; d < rows->rank; d++)
        if ((rows->reduced >> d & 1u) == 0) {
            names[rank] = im->operators.items[rows->op].axes[d].name;
            shape[rank++] = im->tensors.items[rows->input].tensor.shape[d];
        }
    CLEAVE_TRY(cleave_import_new_tensor(
        im, (cleave_new_tensor){NULL, rows->op, suffix, rank, shape, -1}, tensor));
    memcpy(im->tensors.items[*tensor].axes, names, sizeof names);
    return CLEAVE_OK;
}

cleave_nest cleave_rows_reduce(const cleave_importer *im, const cleave_rows *rows,
                               cleave_combiner combiner, int32_t output) {
    cleave_nest nest = {.kind = CLEAVE_NEST_REDUCE, .op = rows->op, .combiner = combiner};
    cleave_nest_take_axes(&nest, &im->operators.items[rows->op]);
    nest.output.tensor = output;
    cleave_rows_map(rows, &nest.output);
    cleave_nest_add_whole_input(&nest, rows->input, rows->rank);
    return nest;
}

cleave_status cleave_rows_add_maximum(cleave_importer *im, cleave_rows *rows) {
    CLEAVE_TRY(cleave_rows_new_tensor(im, rows, ".max", &rows->maximum));
    cleave_nest max = cleave_rows_reduce(im, rows, CLEAVE_COMBINE_MAX, rows->maximum);
    cleave_nest_emit(&max, CLEAVE_OP_COPY, 0, 0, 0, 0);
    return cleave_import_add_nest(im, &max, ".max", NULL);
}

cleave_status cleave_rows_add_sum(cleave_importer *im, cleave_rows *rows, const char *suffix,
                                  int32_t *nest) {
    CLEAVE_TRY(cleave_rows_add_maximum(im, rows));
    return cleave_rows_add_exponentials(im, rows, suffix, nest);
}

cleave_status cleave_rows_add_exponentials(cleave_importer *im, cleave_rows *rows,
                                           const char *suffix, int32_t *nest) {
    CLEAVE_TRY(cleave_rows_new_tensor(im, rows, ".sum", &rows->sum));
    cleave_nest sum = cleave_rows_reduce(im, rows, CLEAVE_COMBINE_SUM, rows->sum);
    int maximum = cleave_rows_add_input(rows, &sum, rows->maximum);
    int shifted = cleave_nest_emit(&sum, CLEAVE_OP_SUB, 0, maximum, 0, 0);
    cleave_nest_emit(&sum, CLEAVE_OP_EXP, shifted, 0, 0, 0);
    return cleave_import_add_nest(im, &sum, suffix, nest);
}

cleave_status cleave_rows_check_places(cleave_importer *im, const cleave_rows *rows) {
    int64_t length = 1;
    for (int d = 0; d < rows->rank; d++)
        if ((rows->reduced >> d & 1u) != 0)
            length *= im->tensors.items[rows->input].tensor.shape[d];
    if (length > CLEAVE_MOST_EXACT_INTEGER)
        return cleave_import_fail(im, "its rows have %lld elements, at most 2^24 are supported",
                                  (long long)length);
    return CLEAVE_OK;
}

int cleave_rows_emit_place(const cleave_importer *im, const cleave_rows *rows, cleave_nest *nest,
                           bool from_end) {
    int64_t stride = 1;
    int place = -1;
    for (int d = rows->rank - 1; d >= 0; d--) {
        if ((rows->reduced >> d & 1u) == 0)
            continue;
        int64_t extent = im->tensors.items[rows->input].tensor.shape[d];
        int64_t offset = (from_end ? stride * (extent - 1) : 0) + (place < 0 ? 1 : 0);
        int index = cleave_nest_emit(nest, CLEAVE_OP_INDEX, d, 0, 0, 0);
        int there = cleave_nest_emit(nest, CLEAVE_OP_SCALE, index, 0,
                                     (double)(from_end ? -stride : stride), (double)offset);
        place = place < 0 ? there : cleave_nest_emit(nest, CLEAVE_OP_ADD, place, there, 0, 0);
        stride *= extent;
    }
    return place;
}

int cleave_rows_emit_place_of_equal(const cleave_importer *im, const cleave_rows *rows,
                                    cleave_nest *nest, int a, int b, bool from_end) {
    int hit = cleave_nest_emit(nest, CLEAVE_OP_EQUAL, a, b, 0, 0);
    int place = cleave_rows_emit_place(im, rows, nest, from_end);
    return cleave_nest_emit(nest, CLEAVE_OP_MASK, place, hit, 0, 0);
}

cleave_nest cleave_rows_on_owners(const cleave_importer *im, const cleave_rows *rows,
                                  int32_t owners_of, cleave_combiner combiner) {
    cleave_nest nest = {.kind = combiner == CLEAVE_COMBINE_NONE ? CLEAVE_NEST_POINTWISE
                                                                : CLEAVE_NEST_REDUCE,
                        .op = rows->op,
                        .derivation = CLEAVE_DERIVE_OWNERS,
                        .owners_of = owners_of,
                        .combiner = combiner};
    for (int d = 0; d < rows->rank; d++)
        if ((rows->reduced >> d & 1u) == 0)
            cleave_nest_add_axis(&nest, im->operators.items[rows->op].axes[d].name,
                                 im->operators.items[rows->op].axes[d].extent, false, -1);
    return nest;
}
