/* Products with few rows, and of few summed, against sums in double, in the orders of operands that
   they take, with sizes that leave remainders of every loop. */
#include "exec/kernels/few_rows.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

enum { PADDING = 5, ROWS_BEHIND = 2 };

typedef struct shape {
    int64_t m, n, k;
    bool a_transposed, b_transposed;
} shape;

static float value(int64_t i) { return (float)(i * 7919 % 31 - 15) / 16.0f; }

static float *fill(int64_t n, int64_t factor) {
    float *a = malloc(sizeof *a * (size_t)n);
    cr_assert(a != NULL);
    for (int64_t i = 0; i < n; i++)
        a[i] = value(factor * i + factor / 2);
    return a;
}

static double expected_of(const cleave_blas_product *p, int64_t row, int64_t column,
                          double before) {
    double sum = 0;
    for (int64_t k = 0; k < p->k; k++)
        sum += (double)p->a[p->a_transposed ? k * p->a_row + row : row * p->a_row + k] *
               (double)p->b[p->b_transposed ? column * p->b_row + k : k * p->b_row + column];
    return (double)p->alpha * sum + (p->beta != 0.0f ? (double)p->beta * before : 0);
}

/* False where they are left to the libraries, sooner on processors whose vectors are short. */
static bool check(shape s, float beta) {
    cleave_blas_product p = {.m = s.m,
                             .n = s.n,
                             .k = s.k,
                             .a_transposed = s.a_transposed,
                             .b_transposed = s.b_transposed,
                             .a_row = (s.a_transposed ? s.m : s.k) + PADDING,
                             .b_row = (s.b_transposed ? s.k : s.n) + PADDING,
                             .c_row = s.n + PADDING,
                             .alpha = 0.5f,
                             .beta = beta};
    if (!cleave_few_rows_fits(&p))
        return false;
    float *a = fill((s.a_transposed ? s.k : s.m) * p.a_row, 1),
          *b = fill((s.b_transposed ? s.n : s.k) * p.b_row, 3),
          *before = fill((s.m + ROWS_BEHIND) * p.c_row, 2),
          *c = fill((s.m + ROWS_BEHIND) * p.c_row, 2);
    p.a = a;
    p.b = b;
    p.c = c;
    for (int64_t i = 0; i < s.m * p.c_row && beta == 0.0f; i++)
        c[i] = i % p.c_row < s.n ? NAN : c[i];
    cleave_few_rows_multiply(&p);
    for (int64_t i = 0; i < (s.m + ROWS_BEHIND) * p.c_row; i++) {
        int64_t row = i / p.c_row, column = i % p.c_row;
        double expected = row < s.m && column < s.n
                              ? expected_of(&p, row, column, (double)before[i])
                              : (double)before[i];
        cr_assert(fabs((double)c[i] - expected) < 1e-3, "m %d, element %d: %g, not %g", (int)s.m,
                  (int)i, (double)c[i], expected);
    }
    free(a);
    free(b);
    free(c);
    free(before);
    return true;
}

Test(few_rows, products_are_sums_of_products_and_leave_the_rest_alone) {
    static const int64_t rows[] = {1, 3, 4, 8, 11, 16, 23, 29, 37, 64};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int transposed = 0; transposed < 2; transposed++) {
            shape s = {rows[i], 257, 1063, false, transposed != 0};
            bool here = check(s, 0.0f) && check(s, 1.0f);
            cr_expect(here || rows[i] > (transposed ? 32 : 4), "%d rows", (int)rows[i]);
        }
}

Test(few_rows, products_of_few_summed_are_their_sums_and_leave_the_rest_alone) {
    static const int64_t summed[] = {1, 8, 16, 31};
    for (size_t i = 0; i < sizeof summed / sizeof summed[0]; i++) {
        bool here = check((shape){515, 523, summed[i], true, false}, 0.0f) &&
                    check((shape){515, 523, summed[i], true, false}, 1.0f) &&
                    check((shape){267, 1055, summed[i], true, false}, 1.0f);
        cr_expect(here || summed[i] > 8, "%d summed", (int)summed[i]);
    }
    check((shape){1451, 1459, 64, true, false}, 1.0f);
}

Test(few_rows, many_rows_and_small_operands_are_left_to_the_libraries) {
    cleave_blas_product p = {.m = 17, .n = 4096, .k = 4096};
    cr_assert(!cleave_few_rows_fits(&p));
    p = (cleave_blas_product){.m = 65, .n = 4096, .k = 4096, .b_transposed = true};
    cr_assert(!cleave_few_rows_fits(&p));
    p = (cleave_blas_product){.m = 8, .n = 128, .k = 512};
    cr_assert(!cleave_few_rows_fits(&p));
    p = (cleave_blas_product){.m = 8, .n = 4096, .k = 4096, .a_transposed = true};
    cr_assert(!cleave_few_rows_fits(&p));
    p = (cleave_blas_product){.m = 4096, .n = 4096, .k = 65, .a_transposed = true};
    cr_assert(!cleave_few_rows_fits(&p));
    p = (cleave_blas_product){.m = 1024, .n = 1024, .k = 33, .a_transposed = true};
    cr_assert(!cleave_few_rows_fits(&p));
}
