/* Products with few rows against sums in double, in both orders of the second operand, with sizes
   that leave remainders of every loop. */
#include "exec/kernels/few_rows.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

enum { MOST_M = 16, N = 517, K = 523, PADDING = 5 };

static float value(int64_t i) { return (float)(i * 7919 % 31 - 15) / 16.0f; }

static void check(int64_t m, bool transposed, float beta) {
    float *a = malloc(sizeof(float) * MOST_M * (K + PADDING)),
          *b = malloc(sizeof(float) * (N + K) * (N + K + PADDING)),
          *c = malloc(sizeof(float) * MOST_M * (N + PADDING));
    cr_assert(a != NULL && b != NULL && c != NULL);
    cleave_blas_product p = {.m = m,
                             .n = N,
                             .k = K,
                             .b_transposed = transposed,
                             .a = a,
                             .b = b,
                             .c = c,
                             .a_row = K + PADDING,
                             .b_row = (transposed ? K : N) + PADDING,
                             .c_row = N + PADDING,
                             .alpha = 0.5f,
                             .beta = beta};
    for (int64_t i = 0; i < MOST_M * p.a_row; i++)
        a[i] = value(i);
    for (int64_t i = 0; i < (transposed ? N : K) * p.b_row; i++)
        b[i] = value(3 * i + 1);
    for (int64_t i = 0; i < MOST_M * p.c_row; i++)
        c[i] = beta != 0.0f || i % p.c_row >= N || i >= m * p.c_row ? value(i + 2) : NAN;
    cr_assert(cleave_few_rows_fits(&p));
    cleave_few_rows_multiply(&p);
    for (int64_t i = 0; i < MOST_M * p.c_row; i++) {
        int64_t row = i / p.c_row, column = i % p.c_row;
        double expected = (double)value(i + 2);
        if (row < m && column < N) {
            double sum = 0;
            for (int64_t k = 0; k < K; k++)
                sum += (double)a[row * p.a_row + k] *
                       (double)b[transposed ? column * p.b_row + k : k * p.b_row + column];
            expected = (double)p.alpha * sum + (beta != 0.0f ? (double)beta * expected : 0);
        }
        cr_assert(fabs((double)c[i] - expected) < 1e-3, "m %d, element %d: %g, not %g", (int)m,
                  (int)i, (double)c[i], expected);
    }
    free(a);
    free(b);
    free(c);
}

Test(few_rows, products_are_sums_of_products_and_leave_the_rest_alone) {
    static const int64_t rows[] = {1, 4, 8, 15, 16};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int transposed = 0; transposed < 2; transposed++) {
            check(rows[i], transposed != 0, 0.0f);
            check(rows[i], transposed != 0, 1.0f);
        }
}

Test(few_rows, many_rows_and_small_operands_are_left_to_the_libraries) {
    cleave_blas_product p = {.m = 17, .n = 4096, .k = 4096};
    cr_assert(!cleave_few_rows_fits(&p));
    p = (cleave_blas_product){.m = 8, .n = 128, .k = 512};
    cr_assert(!cleave_few_rows_fits(&p));
    p = (cleave_blas_product){.m = 8, .n = 4096, .k = 4096, .a_transposed = true};
    cr_assert(!cleave_few_rows_fits(&p));
}
