/* Products over rows of which blocks are zero, against sums in double; factors that are no numbers
   show what is left out. */
#include "exec/kernels/filled_rows.h"
#include "../../support/ok.h"

#include "exec/kernels/convert.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

enum { ROWS = 150, WIDTH = 40, OTHER = 24 }; /* blocks of 32: four, and a rest of 22 */

/* Rows that are zero: a whole block, parts of two, and the rest. */
static bool is_zero_row(int64_t i) { return (i >= 30 && i < 70) || i >= 120; }
/* Of those, rows whose block is zero from end to end. */
static bool is_left_out(int64_t i) { return (i >= 32 && i < 64) || i >= 128; }

static float value(int64_t i) { return (float)(i * 7919 % 31 - 15) / 16.0f; }

typedef struct matrix {
    int64_t rows, columns;
    bool transposed;
    cleave_type type;
    void *data;
} matrix;

static matrix make(int64_t rows, int64_t columns, bool transposed, cleave_type type) {
    matrix x = {rows, columns, transposed, type, calloc((size_t)(rows * columns), 4)};
    cr_assert_not_null(x.data);
    return x;
}
static int64_t at(const matrix *x, int64_t i, int64_t j) {
    return x->transposed ? j * x->rows + i : i * x->columns + j;
}
static double get(const matrix *x, int64_t i, int64_t j) {
    return (double)cleave_element_get(x->type, x->data, at(x, i, j));
}
static void put(const matrix *x, int64_t i, int64_t j, float v) {
    cleave_element_put(x->type, x->data, at(x, i, j), v);
}

typedef struct case_of {
    cleave_filled_place place;
    bool a_transposed, b_transposed;
    cleave_type type;
    bool adds, unlike; /* factors of rows that are left out are no numbers */
} case_of;

static int64_t row_of(const case_of *c, int64_t i, int64_t j, int64_t k) {
    return c->place == CLEAVE_FILLED_ROWS ? i : c->place == CLEAVE_FILLED_COLUMNS ? j : k;
}

static void fill(const case_of *c, const matrix *a, const matrix *b, const matrix *out) {
    bool by_b = c->place == CLEAVE_FILLED_COLUMNS, sums = c->place == CLEAVE_FILLED_SUMMED;
    for (int64_t i = 0; i < a->rows; i++)
        for (int64_t k = 0; k < a->columns; k++) {
            bool zero = !by_b && is_zero_row(sums ? k : i);
            put(a, i, k, zero ? -0.0f : c->unlike && by_b ? NAN : value(i * 13 + k));
        }
    for (int64_t k = 0; k < b->rows; k++)
        for (int64_t j = 0; j < b->columns; j++) {
            bool none = c->unlike && (sums ? is_left_out(k) : !by_b);
            put(b, k, j, by_b && is_zero_row(j) ? 0.0f : none ? NAN : value(k * 17 + j + 3));
        }
    for (int64_t i = 0; i < out->rows * out->columns; i++)
        cleave_element_put(out->type, out->data, i, c->adds ? 0.5f : NAN);
}

static void compare(const case_of *c, const matrix *a, const matrix *b, const matrix *out) {
    for (int64_t i = 0; i < out->rows; i++)
        for (int64_t j = 0; j < out->columns; j++) {
            double sum = 0, got = get(out, i, j);
            bool sums = c->place == CLEAVE_FILLED_SUMMED;
            if (c->unlike && !sums && !is_left_out(row_of(c, i, j, 0))) {
                cr_assert(isnan(got));
                continue;
            }
            for (int64_t k = 0; k < a->columns; k++)
                if (!is_left_out(row_of(c, i, j, k)))
                    sum += get(a, i, k) * get(b, k, j);
            sum = 2 * sum + (c->adds ? 0.5 : 0);
            cr_assert(fabs(got - sum) < 1e-3, "place %d, element %d %d: %g, not %g", (int)c->place,
                      (int)i, (int)j, got, sum);
        }
}

static void check(cleave_kernels *kernels, const case_of *c) {
    bool columns = c->place == CLEAVE_FILLED_COLUMNS, sums = c->place == CLEAVE_FILLED_SUMMED;
    int64_t m = c->place == CLEAVE_FILLED_ROWS ? ROWS : OTHER, n = columns ? ROWS : OTHER,
            k = sums ? ROWS : WIDTH;
    matrix a = make(m, k, c->a_transposed, c->type), b = make(k, n, c->b_transposed, c->type),
           out = make(m, n, false, CLEAVE_F32);
    fill(c, &a, &b, &out);
    const cleave_blas_product product = {.m = m,
                                         .n = n,
                                         .k = k,
                                         .a_transposed = c->a_transposed,
                                         .b_transposed = c->b_transposed,
                                         .a_row = c->a_transposed ? m : k,
                                         .b_row = c->b_transposed ? k : n,
                                         .c_row = n,
                                         .alpha = 2,
                                         .beta = c->adds ? 1 : 0};
    const cleave_matrices matrices = {.a_of = a.data,
                                      .b_of = b.data,
                                      .c_of = out.data,
                                      .operand = cleave_type_bytes(c->type),
                                      .result = 4};
    cleave_kernel_call call = {.pieces = 1};
    int64_t bytes =
        c->type == CLEAVE_F32 ? 0 : cleave_filled_workspace(kernels, &product, &matrices, c->place);
    cr_assert_geq(bytes, 0);
    call.workspace = aligned_alloc(64, (size_t)bytes + 64);
    OK(cleave_filled_multiply, kernels, &call, &product, &matrices, c->place, 1);
    compare(c, &a, &b, &out);
    free(call.workspace);
    free(a.data);
    free(b.data);
    free(out.data);
}

Test(filled_rows, blocks_that_are_zero_are_left_out_and_the_result_is_that_of_all) {
    cleave_kernels *kernels;
    OK(cleave_kernels_create, &kernels);
    for (int bits = 0; bits < 3 << 5; bits++) {
        const case_of c = {.place = (cleave_filled_place)(CLEAVE_FILLED_ROWS + (bits >> 5)),
                           .a_transposed = bits & 1,
                           .b_transposed = bits >> 1 & 1,
                           .type = bits >> 2 & 1 ? CLEAVE_BF16 : CLEAVE_F32,
                           .adds = bits >> 3 & 1,
                           .unlike = bits >> 4 & 1};
        if (c.type == CLEAVE_F32 || kernels->multiplies_bf16)
            check(kernels, &c);
    }
    cleave_kernels_destroy(kernels);
}
