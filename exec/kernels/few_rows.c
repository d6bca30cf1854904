/* By how the operands lie.

   B's rows along the sum (B transposed): elements of the result are scalar products.  Half a vector
   of rows of A meets a few rows of B, and every vector of either is used as often as the other has
   rows. More rows of A fill up to four vectors, and lie so for a block of the sum: each element of
   B then meets all of them.  B's rows along the result's columns: a few rows of B at a time are
   added to all rows of the result, which stay in the second cache.

   Few summed: the result is what there is much of, and is passed over once, while a block of B's
   columns, laid out as it is read, stays in the second cache.

   All ask for the part of the large operand that comes next before they need it: a processor's own
   prefetcher stops at every page. */
#include "exec/kernels/few_rows.h"

#include "exec/kernels/vector.h"

#include <string.h>

/* Tiles are as large as 32 registers, or 16 half as long, hold beside what they are made of; and
   with the latter the libraries are quicker sooner. */
#ifdef __AVX512F__
enum { TILE_ROWS = 8, BESIDE_3_VECTORS = 6, BESIDE_4_VECTORS = 6 };
enum { MOST_PLAIN_ROWS = 16, MOST_SUMMED = 64 };
#else
enum { TILE_ROWS = 4, BESIDE_3_VECTORS = 4, BESIDE_4_VECTORS = 3 };
enum { MOST_PLAIN_ROWS = 4, MOST_SUMMED = 8 };
#endif
enum { MOST_VECTORS = 4, LEAST_EXTENT = 64, LEAST_ELEMENTS = 1 << 18 };

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
    vector sum[TILE_ROWS][3] = {{{0}}};
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
    for (; i + TILE_ROWS <= p->m; i += TILE_ROWS)
        multiply_rows(p, i, j, TILE_ROWS, columns);
    for (; i + 4 <= p->m; i += 4)
        multiply_rows(p, i, j, 4, columns);
    for (; i < p->m; i++)
        multiply_rows(p, i, j, 1, columns);
}

/* So much of the sum at a time, and so many columns between two passes over rows of the result. */
enum { BLOCK = 1024, STRIP = 48 };

/* Sums of `columns` rows of B with all rows of A, over `depth` of the sum; `a` has `vectors` of
   rows for each of it, and `sums` gets as many for each column. */
__attribute__((always_inline)) static inline void multiply_tile(const float *a, const float *b,
                                                                int64_t b_row, int64_t depth,
                                                                int vectors, int columns,
                                                                float *sums) {
    vector sum[8][MOST_VECTORS] = {{{0}}};
    for (int64_t l = 0; l < depth; l++) {
        vector x[MOST_VECTORS];
        for (int c = 0; c < columns && l % LANES == 0; c++)
            __builtin_prefetch(b + (c + columns) * b_row + l);
        for (int v = 0; v < vectors; v++)
            x[v] = load(a + (l * vectors + v) * LANES);
        for (int c = 0; c < columns; c++)
            for (int v = 0; v < vectors; v++)
                sum[c][v] += b[c * b_row + l] * x[v];
    }
    for (int c = 0; c < columns; c++)
        for (int v = 0; v < vectors; v++)
            store(sums + (c * vectors + v) * LANES, sum[c][v]);
}

/* The columns [j, j + n) over `depth` of the sum from k on. */
__attribute__((always_inline)) static inline void
multiply_strip(const cleave_blas_product *p, const float *a, int64_t k, int64_t depth, int64_t j,
               int64_t n, int vectors, int columns) {
    float sums[STRIP * MOST_VECTORS * LANES];
    const float *b = p->b + j * p->b_row + k;
    int64_t c = 0, rows = vectors * LANES;
    for (; c + columns <= n; c += columns)
        multiply_tile(a, b + c * p->b_row, p->b_row, depth, vectors, columns, sums + c * rows);
    for (; c < n; c++)
        multiply_tile(a, b + c * p->b_row, p->b_row, depth, vectors, 1, sums + c * rows);
    for (int64_t i = 0; i < p->m; i++)
        for (c = 0; c < n; c++)
            put(p, i, j + c, sums[c * rows + i]);
}

/* As many columns at once as registers hold sums of, and no fewer than an addition takes. */
static void multiply_vectors(const cleave_blas_product *whole) {
    float a[BLOCK * MOST_VECTORS * LANES];
    cleave_blas_product p = *whole;
    int64_t vectors = (p.m + LANES - 1) / LANES, rows = vectors * LANES;
    for (int64_t k = 0; k < p.k; k += BLOCK) {
        int64_t depth = p.k - k < BLOCK ? p.k - k : BLOCK;
        for (int64_t i = 0; i < rows; i++)
            for (int64_t l = 0; l < depth; l++)
                a[l * rows + i] = i < p.m ? p.a[i * p.a_row + k + l] : 0;
        for (int64_t j = 0; j < p.n; j += STRIP) {
            int64_t n = p.n - j < STRIP ? p.n - j : STRIP;
            if (vectors == 1)
                multiply_strip(&p, a, k, depth, j, n, 1, 8);
            else if (vectors == 2)
                multiply_strip(&p, a, k, depth, j, n, 2, 6);
            else if (vectors == 3)
                multiply_strip(&p, a, k, depth, j, n, 3, BESIDE_3_VECTORS);
            else
                multiply_strip(&p, a, k, depth, j, n, 4, BESIDE_4_VECTORS);
        }
        p.beta = 1;
    }
}

static void multiply_transposed(const cleave_blas_product *p) {
    int64_t j = 0;
    if (p->m > LANES / 2) {
        multiply_vectors(p);
        return;
    }
    for (; j + 3 <= p->n; j += 3)
        multiply_all_rows(p, j, 3);
    for (; j < p->n; j++)
        multiply_all_rows(p, j, 1);
}

/* So many rows of B at a time, and so many columns. */
enum { DEPTH = 16, WIDTH = 2048 };

/* C[i, i + rows) += A B over `depth` rows of B from k on, in the columns [j, end). */
__attribute__((always_inline)) static inline void add_rows(const cleave_blas_product *p, int64_t i,
                                                           int64_t k, int64_t j, int64_t end,
                                                           int rows, int depth) {
    float a[DEPTH][TILE_ROWS];
    for (int d = 0; d < depth; d++)
        for (int r = 0; r < rows; r++)
            a[d][r] = p->alpha * p->a[(i + r) * p->a_row + k + d];
    const float *b = p->b + k * p->b_row;
    float *c = p->c + i * p->c_row;
    for (; j + 2 * LANES <= end; j += 2 * LANES) {
        vector sum[TILE_ROWS][2];
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
    for (; i + TILE_ROWS <= p->m; i += TILE_ROWS)
        add_rows(p, i, k, j, end, TILE_ROWS, depth);
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

/* C[i, i + rows) x [j, j + columns) of vectors, over the whole sum; `a` has `rows` for each of it,
   `b` a row of `b_row`. */
__attribute__((always_inline)) static inline void update_tile(const cleave_blas_product *p,
                                                              const float *a, const float *b,
                                                              int64_t b_row, int64_t i, int64_t j,
                                                              int rows, int columns) {
    vector sum[TILE_ROWS][3];
    float *c = p->c + i * p->c_row + j;
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < columns; v++) {
            float *at = c + r * p->c_row + v * LANES;
            __builtin_prefetch(at + rows * p->c_row, 1);
            sum[r][v] = p->beta != 0.0f ? p->beta * load(at) : (vector){0};
        }
    for (int64_t k = 0; k < p->k; k++) {
        vector w[3];
        for (int v = 0; v < columns; v++)
            w[v] = load(b + k * b_row + v * LANES);
        for (int r = 0; r < rows; r++)
            for (int v = 0; v < columns; v++)
                sum[r][v] += a[k * rows + r] * w[v];
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < columns; v++)
            store(c + r * p->c_row + v * LANES, sum[r][v]);
}

/* Columns of B that are laid out at once, in panels of the width of a tile: the more, the less
   often A is gone through, whose rows lie far apart; but they stay in the second cache. */
enum { PANEL = 3 * LANES, PANELS = 1056 / PANEL };

__attribute__((always_inline)) static inline void update_rows(const cleave_blas_product *p,
                                                              const float *panels, int64_t i,
                                                              int64_t first, int64_t end,
                                                              int rows) {
    float a[MOST_SUMMED * TILE_ROWS];
    for (int64_t k = 0; k < p->k; k++) {
        const float *at = p->a + k * p->a_row + i;
        __builtin_prefetch(at + 2 * rows); /* the next line: two steps of rows are one */
        for (int r = 0; r < rows; r++)
            a[k * rows + r] = p->alpha * at[r];
    }
    int64_t j = first;
    for (; j + PANEL <= end; j += PANEL, panels += p->k * PANEL)
        update_tile(p, a, panels, PANEL, i, j, rows, 3);
    for (; j + LANES <= end; j += LANES)
        update_tile(p, a, p->b + j, p->b_row, i, j, rows, 1);
    for (; j < end; j++)
        for (int r = 0; r < rows; r++) {
            float *to = p->c + (i + r) * p->c_row + j, sum = p->beta != 0.0f ? p->beta * *to : 0;
            for (int64_t k = 0; k < p->k; k++)
                sum += a[k * rows + r] * p->b[k * p->b_row + j];
            *to = sum;
        }
}

static void update(const cleave_blas_product *p) {
    float panels[MOST_SUMMED * PANEL * PANELS];
    for (int64_t first = 0; first < p->n; first += PANEL * PANELS) {
        int64_t end = first + PANEL * PANELS < p->n ? first + PANEL * PANELS : p->n, i = 0;
        float *to = panels;
        for (int64_t j = first; j + PANEL <= end; j += PANEL)
            for (int64_t k = 0; k < p->k; k++, to += PANEL)
                memcpy(to, p->b + k * p->b_row + j, PANEL * sizeof *to);
        for (; i + TILE_ROWS <= p->m; i += TILE_ROWS)
            update_rows(p, panels, i, first, end, TILE_ROWS);
        for (; i < p->m; i++)
            update_rows(p, panels, i, first, end, 1);
    }
}

/* Of more summed the libraries are as quick while the result stays in a cache. */
static bool has_few_summed(const cleave_blas_product *p) {
    enum { FEW = 32, TIMES = 8 };
    int64_t least = p->k <= FEW ? LEAST_ELEMENTS : (int64_t)TIMES * LEAST_ELEMENTS;
    return p->k <= MOST_SUMMED && p->m >= LEAST_EXTENT && p->n >= LEAST_EXTENT &&
           p->m * p->n >= least && p->a_transposed && !p->b_transposed;
}

bool cleave_few_rows_fits(const cleave_blas_product *p) {
    return has_few_summed(p) ||
           (p->m <= (p->b_transposed ? MOST_VECTORS * LANES : MOST_PLAIN_ROWS) &&
            p->n >= LEAST_EXTENT && p->k >= LEAST_EXTENT && p->n * p->k >= LEAST_ELEMENTS &&
            !p->a_transposed);
}

void cleave_few_rows_multiply(const cleave_blas_product *p) {
    if (has_few_summed(p))
        update(p);
    else if (p->b_transposed)
        multiply_transposed(p);
    else
        multiply_plain(p);
}
