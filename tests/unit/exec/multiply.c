/* A matrix product in pieces: the same sums as in one, with a poll between two of them. */
#include "exec/kernels/multiply.h"
#include "../../support/ok.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

/* Blocks of 48, at least two to a piece: at most 10 pieces of the rows and 2 of the columns. */
enum { M = 970, N = 230, K = 65, PADDING = 3, MOST_DOWN = 10, MOST_ACROSS = 2 };

static float *fill(int64_t n, int64_t factor) {
    float *a = malloc(sizeof *a * (size_t)n);
    cr_assert(a != NULL);
    for (int64_t i = 0; i < n; i++)
        a[i] = (float)(i * factor % 31 - 15) / 16.0f;
    return a;
}

static cleave_status count_poll(void *context, cleave_error *error) {
    (void)error;
    ++*(int64_t *)context;
    return CLEAVE_OK;
}

static float *multiply(const cleave_kernels *kernels, const cleave_blas_product *p,
                       const cleave_matrices *operands, int64_t pieces, int64_t *polls) {
    cleave_matrices at = *operands;
    cleave_kernel_call call = {
        .pieces = (int32_t)pieces, .poll = count_poll, .poll_context = polls};
    float *c = fill(M * p->c_row, 5);
    at.c_of = c;
    *polls = 0;
    OK(cleave_multiply_in_pieces, kernels, &call, p, &at, pieces);
    return c;
}

static void check(const cleave_kernels *kernels, bool a_transposed, bool b_transposed, float beta) {
    cleave_blas_product p = {.m = M,
                             .n = N,
                             .k = K,
                             .a_transposed = a_transposed,
                             .b_transposed = b_transposed,
                             .a_row = (a_transposed ? M : K) + PADDING,
                             .b_row = (b_transposed ? K : N) + PADDING,
                             .c_row = N + PADDING,
                             .alpha = 1,
                             .beta = beta};
    float *a = fill((a_transposed ? K : M) * p.a_row, 7919),
          *b = fill((b_transposed ? N : K) * p.b_row, 104729);
    cleave_matrices at = {.a_of = a, .b_of = b, .operand = 4, .result = 4};
    int64_t polls;
    float *whole = multiply(kernels, &p, &at, 1, &polls);
    cr_expect_eq(polls, 0);
    for (int64_t pieces = 2; pieces < 2 * MOST_DOWN * MOST_ACROSS; pieces++) {
        int64_t asked = pieces < MOST_DOWN * MOST_ACROSS ? pieces : MOST_DOWN * MOST_ACROSS;
        float *cut = multiply(kernels, &p, &at, pieces, &polls);
        cr_expect_eq(polls + 1, asked, "%d pieces, not %d", (int)polls + 1, (int)asked);
        for (int64_t i = 0; i < M * p.c_row; i++)
            cr_assert(fabsf(cut[i] - whole[i]) < 1e-4f, "%d pieces, element %d: %g, not %g",
                      (int)pieces, (int)i, (double)cut[i], (double)whole[i]);
        free(cut);
    }
    free(whole);
    free(a);
    free(b);
}

Test(multiply, a_product_in_pieces_of_rows_and_columns_is_the_product) {
    cleave_kernels *kernels;
    OK(cleave_kernels_create, &kernels);
    for (int bits = 0; bits < 8; bits++)
        check(kernels, bits & 1, bits >> 1 & 1, bits >> 2 & 1 ? 1.0f : 0.0f);
    cleave_kernels_destroy(kernels);
}
