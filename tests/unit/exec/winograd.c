/* Every scheme of minimal filtering against the plain sum of one tile in double, and the transposed
   maps against those that they belong to: <A m, y> = <m, A^T y>. */
#include "exec/kernels/winograd.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

enum { MOST = CLEAVE_WINOGRAD_MOST, CHANNELS = 11, ROW = 16, POINT = ROW + 3 };

static float value(int64_t i) { return (float)(i * 7919 % 61 - 30) / 32.0f; }

typedef float tile[MOST][MOST][ROW];

static void fill(tile *t, int64_t seed) {
    for (int i = 0; i < MOST; i++)
        for (int j = 0; j < MOST; j++)
            for (int c = 0; c < ROW; c++)
                (*t)[i][j][c] = c < CHANNELS ? value(seed + (i * MOST + j) * ROW + c) : NAN;
}

static cleave_winograd_patch patch_of(tile *t) {
    cleave_winograd_patch patch;
    for (int i = 0; i < MOST; i++)
        for (int j = 0; j < MOST; j++)
            patch.at[i][j] = (*t)[i][j];
    return patch;
}

static cleave_winograd_weights weights_of(tile *t) {
    return (cleave_winograd_weights){&(*t)[0][0][0], CHANNELS, 1, MOST * ROW, ROW};
}

/* Over the first rows x columns x CHANNELS. */
static double scalar_product(int rows, int columns, tile *a, tile *b) {
    double sum = 0;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            for (int c = 0; c < CHANNELS; c++)
                sum += (double)(*a)[i][j][c] * (double)(*b)[i][j][c];
    return sum;
}

static double scalar_product_of_points(int points, const float *a, const float *b) {
    double sum = 0;
    for (int p = 0; p < points * points; p++)
        for (int c = 0; c < CHANNELS; c++)
            sum += (double)a[p * POINT + c] * (double)b[p * POINT + c];
    return sum;
}

static double plain(const cleave_winograd_scheme *s, tile *x, tile *w, int i, int j, int c) {
    double sum = 0;
    for (int a = 0; a < s->window; a++)
        for (int b = 0; b < s->window; b++)
            sum += (double)(*x)[i + a][j + b][c] * (double)(*w)[a][b][c];
    return sum;
}

Test(winograd, tiles_are_those_of_the_plain_sum) {
    for (int k = 0; k < CLEAVE_N_WINOGRAD_SCHEMES; k++) {
        const cleave_winograd_scheme *s = &cleave_winograd_schemes[k];
        cr_assert(s->points == s->out + s->window - 1);
        static tile x, w, y;
        static float u[MOST * MOST * POINT], v[MOST * MOST * POINT];
        fill(&x, k);
        fill(&w, 100 + k);
        memset(y, 0, sizeof y);
        cleave_winograd_patch in = patch_of(&x), out = patch_of(&y);
        cleave_winograd_weights weights = weights_of(&w);
        cleave_winograd_read_inputs(s, &in, CHANNELS, v, POINT);
        cleave_winograd_read_weights(s, &weights, u, POINT);
        for (int i = 0; i < MOST * MOST * POINT; i++)
            v[i] *= u[i];
        cleave_winograd_write_results(s, v, POINT, CHANNELS, &out);
        for (int i = 0; i < MOST; i++)
            for (int j = 0; j < MOST; j++)
                for (int c = 0; c < ROW; c++) {
                    bool written = i < s->out && j < s->out && c < CHANNELS;
                    double expected = written ? plain(s, &x, &w, i, j, c) : 0;
                    cr_expect(fabs((double)y[i][j][c] - expected) < 2e-5,
                              "scheme %d, %d, %d, channel %d: %g for %g", k, i, j, c,
                              (double)y[i][j][c], expected);
                }
    }
}

Test(winograd, nothing_lies_outside_of_an_image) {
    for (int k = 0; k < CLEAVE_N_WINOGRAD_SCHEMES; k++) {
        const cleave_winograd_scheme *s = &cleave_winograd_schemes[k];
        static tile x, zeroed;
        static float v[MOST * MOST * POINT], expected[MOST * MOST * POINT];
        fill(&x, k);
        memcpy(zeroed, x, sizeof x);
        cleave_winograd_patch in = patch_of(&x), all = patch_of(&zeroed);
        for (int i = 0; i < MOST; i++) {
            in.at[0][i] = in.at[i][2] = NULL;
            memset(zeroed[0][i], 0, sizeof zeroed[0][i]);
            memset(zeroed[i][2], 0, sizeof zeroed[i][2]);
        }
        cleave_winograd_read_inputs(s, &in, CHANNELS, v, POINT);
        cleave_winograd_read_inputs(s, &all, CHANNELS, expected, POINT);
        for (int p = 0; p < s->points * s->points; p++)
            cr_expect(memcmp(v + p * POINT, expected + p * POINT, CHANNELS * sizeof *v) == 0);
    }
}

Test(winograd, gradients_are_transposes) {
    for (int k = 0; k < CLEAVE_N_WINOGRAD_SCHEMES; k++) {
        const cleave_winograd_scheme *s = &cleave_winograd_schemes[k];
        static tile y, dy, w, dw;
        static float m[MOST * MOST * POINT], dm[MOST * MOST * POINT], u[MOST * MOST * POINT];
        fill(&dy, k);
        fill(&w, 100 + k);
        for (int i = 0; i < MOST * MOST * POINT; i++)
            m[i] = value(200 + i);
        cleave_winograd_patch out = patch_of(&y), of_gradient = patch_of(&dy);
        cleave_winograd_weights weights = weights_of(&w), of_weights = weights_of(&dw);
        cleave_winograd_write_results(s, m, POINT, CHANNELS, &out);
        cleave_winograd_read_gradients(s, &of_gradient, CHANNELS, dm, POINT);
        double left = scalar_product(s->out, s->out, &y, &dy),
               right = scalar_product_of_points(s->points, m, dm);
        cr_expect(fabs(left - right) < 1e-4 * (1 + fabs(right)), "%g and %g", left, right);
        cleave_winograd_read_weights(s, &weights, u, POINT);
        cleave_winograd_write_weights(s, m, POINT, &of_weights);
        left = scalar_product(s->window, s->window, &w, &dw);
        right = scalar_product_of_points(s->points, m, u);
        cr_expect(fabs(left - right) < 1e-4 * (1 + fabs(right)), "%g and %g", left, right);
    }
}
