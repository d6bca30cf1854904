/* Two ways, by how the second operand B lies.

   Its rows along the sum (B transposed): elements of the result are scalar products; a block of
   rows of A meets a few rows of B, and every vector of either is used as often as the other has
   rows.  Its rows along the result's columns: a few rows of B at a time are added to all rows of
   the result, which stay in the second cache.

   Both ask for the part of B that comes next before they need it: a processor's own prefetcher
   stops at every page. */
#include "exec/kernels/few_rows.h"

#include <string.h>

enum { LANES = 16, MOST_ROWS = 16, LEAST_ELEMENTS = 1 << 18 };

/* Vectors are passed between functions of this file only, so how a processor without registers of
   their size would pass them does not matter. */
#pragma GCC diagnostic ignored "-Wpsabi"
typedef float vector __attribute__((vector_size(LANES * sizeof(float))));

static inline vector load(const float *at) {
    vector v;
    memcpy(&v, at, sizeof v);
    return v;
}

static inline void store(float *at, vector v) { memcpy(at, &v, sizeof v); }

static inline float sum_of(vector v) {
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++)
            v[i] += v[i + width];
    return v[0];
}

static inline void put(const cleave_blas_product *p, int64_t i, int64_t j, float sum) {
    float *to = p->c + i * p->c_row + j;
    *to = p->alpha * sum + (p->beta != 0.0f ? p->beta * *to : 0.0f);
}

/* Elements [i, i + rows) x [j, j + columns): scalar products of rows of A and rows of B. */
__attribute__((always_inline)) static inline void
multiply_rows(const cleave_blas_product *p, int64_t i, int64_t j, int rows, int columns) {
    vector sum[8][3] = {{{0}}};
    const float *a = p->a + i * p->a_row, *b = p->b + j * p->b_row;
    int64_t k = 0;
    for (; k + LANES <= p->k; k += LANES) {
        vector w[3];
        for (int c = 0; c < columns; c++) {
            w[c] = load(b + c * p->b_row + k);
            __builtin_prefetch(b + (c + columns) * p->b_row + k);
        }
        for (int r = 0; r < rows; r++) {
            vector x = load(a + r * p->a_row + k);
            for (int c = 0; c < columns; c++)
                sum[r][c] += x * w[c];
        }
    }
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++) {
            float total = sum_of(sum[r][c]);
            for (int64_t l = k; l < p->k; l++)
                total += a[r * p->a_row + l] * b[c * p->b_row + l];
            put(p, i + r, j + c, total);
        }
}

__attribute__((always_inline)) static inline void multiply_all_rows(const cleave_blas_product *p,
                                                                    int64_t j, int columns) {
    int64_t i = 0;
    for (; i + 8 <= p->m; i += 8)
        multiply_rows(p, i, j, 8, columns);
    for (; i + 4 <= p->m; i += 4)
        multiply_rows(p, i, j, 4, columns);
    for (; i < p->m; i++)
        multiply_rows(p, i, j, 1, columns);
}

static void multiply_transposed(const cleave_blas_product *p) {
    int64_t j = 0;
    for (; j + 3 <= p->n; j += 3)
        multiply_all_rows(p, j, 3);
    for (; j < p->n; j++)
        multiply_all_rows(p, j, 1);
}

/* So many rows of B at a time, and so many columns: 8 rows that lie a multiple of 4 KiB apart have
   room in the first cache together. */
enum { DEPTH = 8, WIDTH = 2048 };

/* C[i, i + rows) += A B over `depth` rows of B from k on, in the columns [j, end). */
__attribute__((always_inline)) static inline void add_rows(const cleave_blas_product *p, int64_t i,
                                                           int64_t k, int64_t j, int64_t end,
                                                           int rows, int depth) {
    float a[DEPTH][8];
    for (int d = 0; d < depth; d++)
        for (int r = 0; r < rows; r++)
            a[d][r] = p->alpha * p->a[(i + r) * p->a_row + k + d];
    const float *b = p->b + k * p->b_row;
    float *c = p->c + i * p->c_row;
    for (; j + 2 * LANES <= end; j += 2 * LANES) {
        vector sum[8][2];
        for (int r = 0; r < rows; r++)
            for (int v = 0; v < 2; v++)
                sum[r][v] = load(c + r * p->c_row + j + v * LANES);
        for (int d = 0; d < depth; d++) {
            const float *at = b + d * p->b_row + j;
            vector w[2] = {load(at), load(at + LANES)};
            __builtin_prefetch(at + depth * p->b_row);
            __builtin_prefetch(at + depth * p->b_row + LANES);
            for (int r = 0; r < rows; r++)
                for (int v = 0; v < 2; v++)
                    sum[r][v] += a[d][r] * w[v];
        }
        for (int r = 0; r < rows; r++)
            for (int v = 0; v < 2; v++)
                store(c + r * p->c_row + j + v * LANES, sum[r][v]);
    }
    for (; j < end; j++)
        for (int r = 0; r < rows; r++)
            for (int d = 0; d < depth; d++)
                c[r * p->c_row + j] += a[d][r] * b[d * p->b_row + j];
}

__attribute__((always_inline)) static inline void
add_all_rows(const cleave_blas_product *p, int64_t k, int64_t j, int64_t end, int depth) {
    int64_t i = 0;
    for (; i + 8 <= p->m; i += 8)
        add_rows(p, i, k, j, end, 8, depth);
    for (; i + 4 <= p->m; i += 4)
        add_rows(p, i, k, j, end, 4, depth);
    for (; i < p->m; i++)
        add_rows(p, i, k, j, end, 1, depth);
}

static void multiply_plain(const cleave_blas_product *p) {
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++)
            p->c[i * p->c_row + j] = p->beta != 0.0f ? p->beta * p->c[i * p->c_row + j] : 0.0f;
    for (int64_t j = 0; j < p->n; j += WIDTH) {
        int64_t end = j + WIDTH < p->n ? j + WIDTH : p->n, k = 0;
        for (; k + DEPTH <= p->k; k += DEPTH)
            add_all_rows(p, k, j, end, DEPTH);
        for (; k < p->k; k++)
            add_all_rows(p, k, j, end, 1);
    }
}

bool cleave_few_rows_fits(const cleave_blas_product *p) {
    return p->m <= MOST_ROWS && p->n >= 4 * MOST_ROWS && p->k >= 4 * MOST_ROWS &&
           p->n * p->k >= LEAST_ELEMENTS && !p->a_transposed;
}

void cleave_few_rows_multiply(const cleave_blas_product *p) {
    if (p->b_transposed)
        multiply_transposed(p);
    else
        multiply_plain(p);
}
