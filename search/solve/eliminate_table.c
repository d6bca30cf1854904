/* The loops over an elimination's tables.  The variable that goes is the innermost dimension of all
   tables that contain it, so everything is sums and minima of contiguous rows.  An operand that
   lacks the inner dimensions of the result is added once for all of them: a row of sums is kept for
   every depth, and the innermost loop adds only operands that have the innermost dimension. */
#include "search/solve/eliminate_table.h"

#include <string.h>

typedef struct fill {
    const cleave_elimination_sum *sum;
    int64_t *rows;     /* [n_dimensions + 1][n_values] */
    int64_t *next;     /* of the result */
    int32_t index[64]; /* a table of more dimensions would not be in memory */
} fill;

static int64_t least_of_row(int32_t n, const int64_t *a) {
    int64_t least = a[0];
    for (int32_t x = 1; x < n; x++)
        least = a[x] < least ? a[x] : least;
    return least;
}

static int64_t least_of_sum(int32_t n, const int64_t *restrict a, const int64_t *restrict b) {
    int64_t least = a[0] + b[0];
    for (int32_t x = 1; x < n; x++) {
        int64_t sum = a[x] + b[x];
        least = sum < least ? sum : least;
    }
    return least;
}

static int64_t least_of_sum3(int32_t n, const int64_t *restrict a, const int64_t *restrict b,
                             const int64_t *restrict c) {
    int64_t least = a[0] + b[0] + c[0];
    for (int32_t x = 1; x < n; x++) {
        int64_t sum = a[x] + b[x] + c[x];
        least = sum < least ? sum : least;
    }
    return least;
}

static void add_row(int32_t n, const int64_t *restrict row, int64_t *restrict sum) {
    for (int32_t x = 0; x < n; x++)
        sum[x] += row[x];
}

/* Where an operand's row is, its dimensions up to `depth` being fixed. */
static const int64_t *row_of(const fill *f, const cleave_elimination_operand *operand,
                             int32_t depth) {
    const int64_t *row = operand->entries;
    for (int32_t d = 0; d < depth; d++)
        row += operand->stride[d] * f->index[d];
    return row;
}

/* The innermost dimension: n operands have it, one or more. */
static void fill_innermost(fill *f, const int64_t *before, const cleave_elimination_operand *first,
                           int32_t n) {
    const cleave_elimination_sum *sum = f->sum;
    int32_t d = sum->n_dimensions - 1, n_values = sum->n_values;
    int64_t *added = f->rows + (int64_t)(d + 1) * n_values;
    const int64_t *a = row_of(f, &first[0], d), *b = n > 1 ? row_of(f, &first[1], d) : NULL;
    for (int32_t i = 0; i < sum->extent[d]; i++) {
        const int64_t *row = before;
        if (n > 2) {
            memcpy(added, before, (size_t)n_values * sizeof *added);
            for (int32_t k = 2; k < n; k++)
                add_row(n_values, row_of(f, &first[k], d) + i * first[k].stride[d], added);
            row = added;
        }
        *f->next++ = n > 1 ? least_of_sum3(n_values, row, a + i * first[0].stride[d],
                                           b + i * first[1].stride[d])
                           : least_of_sum(n_values, row, a + i * first[0].stride[d]);
    }
}

/* `before` is the sum of all operands that end above this depth; `operand` is the next one. */
static void fill_depth(fill *f, int32_t depth, const int64_t *before, int32_t operand) {
    const cleave_elimination_sum *sum = f->sum;
    int32_t n = 0;
    while (operand + n < sum->n_operands && sum->operands[operand + n].deepest == depth)
        n++;
    if (depth == sum->n_dimensions - 1) {
        fill_innermost(f, before, &sum->operands[operand], n);
        return;
    }
    int64_t *row = f->rows + (int64_t)(depth + 1) * sum->n_values;
    for (int32_t i = 0; i < sum->extent[depth]; i++) {
        f->index[depth] = i;
        if (n > 0)
            memcpy(row, before, (size_t)sum->n_values * sizeof *row);
        for (int32_t k = 0; k < n; k++)
            add_row(sum->n_values, row_of(f, &sum->operands[operand + k], depth + 1), row);
        fill_depth(f, depth + 1, n > 0 ? row : before, operand + n);
    }
}

void cleave_elimination_fill(const cleave_elimination_sum *sum, int64_t *rows, int64_t *result) {
    fill f = {.sum = sum, .rows = rows, .next = result};
    int32_t n = 0;
    memcpy(rows, sum->cost, (size_t)sum->n_values * sizeof *rows);
    for (; n < sum->n_operands && sum->operands[n].deepest < 0; n++)
        add_row(sum->n_values, sum->operands[n].entries, rows);
    if (sum->n_dimensions == 0)
        *result = least_of_row(sum->n_values, rows);
    else
        fill_depth(&f, 0, rows, n);
}
