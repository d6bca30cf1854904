/* The points are 0, 1, -1 and infinity, and 2 and -2 where there are six of them. */
#include "exec/kernels/winograd.h"

#include <stdbool.h>
#include <string.h>

/* Vectors are passed between functions of this file only, so how a processor without registers of
   their size would pass them does not matter. */
#pragma GCC diagnostic ignored "-Wpsabi"

#define SIX_POINTS                                                                                 \
    {                                                                                              \
        6, 6, {                                                                                    \
            {4, 0, -5, 0, 1, 0}, {0, -4, -4, 1, 1, 0}, {0, 4, -4, -1, 1, 0}, {0, -2, -1, 2, 1, 0}, \
                {0, 2, -1, -2, 1, 0}, {                                                            \
                0, 4, 0, -5, 0, 1                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

const cleave_winograd_scheme cleave_winograd_schemes[CLEAVE_N_WINOGRAD_SCHEMES] = {
    {.out = 2,
     .window = 3,
     .points = 4,
     .input = {4, 4, {{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}}},
     .weight = {4, 3, {{1, 0, 0}, {0.5f, 0.5f, 0.5f}, {0.5f, -0.5f, 0.5f}, {0, 0, 1}}},
     .output = {2, 4, {{1, 1, 1, 0}, {0, 1, -1, -1}}}},
    {.out = 4,
     .window = 3,
     .points = 6,
     .input = SIX_POINTS,
     .weight = {6,
                3,
                {{1 / 4.f, 0, 0},
                 {-1 / 6.f, -1 / 6.f, -1 / 6.f},
                 {-1 / 6.f, 1 / 6.f, -1 / 6.f},
                 {1 / 24.f, 1 / 12.f, 1 / 6.f},
                 {1 / 24.f, -1 / 12.f, 1 / 6.f},
                 {0, 0, 1}}},
     .output =
         {4,
          6,
          {{1, 1, 1, 1, 1, 0}, {0, 1, -1, 2, -2, 0}, {0, 1, 1, 4, 4, 0}, {0, 1, -1, 8, -8, 1}}}},
    {.out = 2,
     .window = 5,
     .points = 6,
     .input = SIX_POINTS,
     .weight = {6,
                5,
                {{1 / 4.f, 0, 0, 0, 0},
                 {-1 / 6.f, -1 / 6.f, -1 / 6.f, -1 / 6.f, -1 / 6.f},
                 {-1 / 6.f, 1 / 6.f, -1 / 6.f, 1 / 6.f, -1 / 6.f},
                 {1 / 24.f, 1 / 12.f, 1 / 6.f, 1 / 3.f, 2 / 3.f},
                 {1 / 24.f, -1 / 12.f, 1 / 6.f, -1 / 3.f, 2 / 3.f},
                 {0, 0, 0, 0, 1}}},
     .output = {2, 6, {{1, 1, 1, 1, 1, 0}, {0, 1, -1, 2, -2, 1}}}},
};

enum { LANES = CLEAVE_WINOGRAD_LANES, MOST = CLEAVE_WINOGRAD_MOST };

/* Everything below is compiled once for each scheme, with its matrices in the code: most of their
   elements are 0 or 1. */
#define INLINE __attribute__((always_inline)) static inline

typedef float vector __attribute__((vector_size(LANES * sizeof(float))));

/* A square of vectors, one lane per channel. */
typedef struct square {
    vector at[MOST][MOST];
} square;

INLINE vector load(const float *from, int64_t step, int64_t n) {
    vector v = {0};
    if (n >= LANES && step == 1)
        memcpy(&v, from, sizeof v);
    else
        for (int l = 0; l < LANES && l < n; l++)
            v[l] = from[l * step];
    return v;
}

INLINE void store(float *to, int64_t step, int64_t n, vector v) {
    if (n >= LANES && step == 1)
        memcpy(to, &v, sizeof v);
    else
        for (int l = 0; l < LANES && l < n; l++)
            to[l * step] = v[l];
}

typedef struct factor {
    const cleave_small_matrix *matrix;
    bool transposed;
} factor;

INLINE int rows_of(factor f) { return f.transposed ? f.matrix->columns : f.matrix->rows; }
INLINE int columns_of(factor f) { return f.transposed ? f.matrix->rows : f.matrix->columns; }

/* Row r of a factor times vectors `step` apart. */
INLINE vector combine(factor f, int r, const vector *x, int step) {
    vector sum = {0};
#pragma GCC unroll 6
    for (int j = 0; j < columns_of(f); j++) {
        float element = f.transposed ? f.matrix->at[j][r] : f.matrix->at[r][j];
        if (element != 0)
            sum += element * x[j * step];
    }
    return sum;
}

/* f x f^T, in place. */
INLINE void transform(factor f, square *x) {
    square half;
#pragma GCC unroll 6
    for (int c = 0; c < columns_of(f); c++)
#pragma GCC unroll 6
        for (int r = 0; r < rows_of(f); r++)
            half.at[r][c] = combine(f, r, &x->at[0][c], MOST);
#pragma GCC unroll 6
    for (int r = 0; r < rows_of(f); r++)
#pragma GCC unroll 6
        for (int c = 0; c < rows_of(f); c++)
            x->at[r][c] = combine(f, c, half.at[r], 1);
}

INLINE void read_points(int points, const float *from, int64_t point, square *x) {
    for (int i = 0; i < points; i++)
        for (int j = 0; j < points; j++)
            x->at[i][j] = load(from + (i * points + j) * point, 1, LANES);
}

INLINE void write_points(int points, const square *x, float *to, int64_t point) {
    for (int i = 0; i < points; i++)
        for (int j = 0; j < points; j++)
            store(to + (i * points + j) * point, 1, LANES, x->at[i][j]);
}

INLINE void read_patch(const cleave_winograd_scheme *s, factor f,
                       const cleave_winograd_patch *patch, int64_t channels, float *into,
                       int64_t point) {
    for (int64_t c = 0; c < channels; c += LANES) {
        square x;
        for (int i = 0; i < columns_of(f); i++)
            for (int j = 0; j < columns_of(f); j++)
                x.at[i][j] = patch->at[i][j] == NULL ? (vector){0}
                                                     : load(patch->at[i][j] + c, 1, channels - c);
        transform(f, &x);
        write_points(s->points, &x, into + c, point);
    }
}

INLINE void write_patch(const cleave_winograd_scheme *s, const float *m, int64_t point,
                        int64_t channels, const cleave_winograd_patch *patch) {
    for (int64_t c = 0; c < channels; c += LANES) {
        square x;
        read_points(s->points, m + c, point, &x);
        transform((factor){&s->output, false}, &x);
        for (int i = 0; i < s->out; i++)
            for (int j = 0; j < s->out; j++)
                if (patch->at[i][j] != NULL)
                    store(patch->at[i][j] + c, 1, channels - c, x.at[i][j]);
    }
}

INLINE void read_window(const cleave_winograd_scheme *s, const cleave_winograd_weights *w,
                        float *into, int64_t point) {
    for (int64_t c = 0; c < w->channels; c += LANES) {
        const float *first = w->first + c * w->channel;
        square x;
        for (int i = 0; i < s->window; i++)
            for (int j = 0; j < s->window; j++)
                x.at[i][j] = load(first + i * w->row + j * w->column, w->channel, w->channels - c);
        transform((factor){&s->weight, false}, &x);
        write_points(s->points, &x, into + c, point);
    }
}

INLINE void write_window(const cleave_winograd_scheme *s, const float *du, int64_t point,
                         const cleave_winograd_weights *w) {
    for (int64_t c = 0; c < w->channels; c += LANES) {
        float *first = w->first + c * w->channel;
        square x;
        read_points(s->points, du + c, point, &x);
        transform((factor){&s->weight, true}, &x);
        for (int i = 0; i < s->window; i++)
            for (int j = 0; j < s->window; j++)
                store(first + i * w->row + j * w->column, w->channel, w->channels - c, x.at[i][j]);
    }
}

/* Calls the copy that was compiled for a scheme. */
#define FOR_SCHEME(scheme, call)                                                                   \
    switch ((scheme)-cleave_winograd_schemes) {                                                    \
    case 0: {                                                                                      \
        const cleave_winograd_scheme *s = &cleave_winograd_schemes[0];                             \
        call;                                                                                      \
        break;                                                                                     \
    }                                                                                              \
    case 1: {                                                                                      \
        const cleave_winograd_scheme *s = &cleave_winograd_schemes[1];                             \
        call;                                                                                      \
        break;                                                                                     \
    }                                                                                              \
    default: {                                                                                     \
        const cleave_winograd_scheme *s = &cleave_winograd_schemes[2];                             \
        call;                                                                                      \
    }                                                                                              \
    }

void cleave_winograd_read_inputs(const cleave_winograd_scheme *scheme,
                                 const cleave_winograd_patch *patch, int64_t channels, float *into,
                                 int64_t point) {
    FOR_SCHEME(scheme, read_patch(s, (factor){&s->input, false}, patch, channels, into, point))
}

void cleave_winograd_read_gradients(const cleave_winograd_scheme *scheme,
                                    const cleave_winograd_patch *patch, int64_t channels,
                                    float *into, int64_t point) {
    FOR_SCHEME(scheme, read_patch(s, (factor){&s->output, true}, patch, channels, into, point))
}

void cleave_winograd_write_results(const cleave_winograd_scheme *scheme, const float *m,
                                   int64_t point, int64_t channels,
                                   const cleave_winograd_patch *patch) {
    FOR_SCHEME(scheme, write_patch(s, m, point, channels, patch))
}

void cleave_winograd_read_weights(const cleave_winograd_scheme *scheme,
                                  const cleave_winograd_weights *w, float *into, int64_t point) {
    FOR_SCHEME(scheme, read_window(s, w, into, point))
}

void cleave_winograd_write_weights(const cleave_winograd_scheme *scheme, const float *du,
                                   int64_t point, const cleave_winograd_weights *w) {
    FOR_SCHEME(scheme, write_window(s, du, point, w))
}
