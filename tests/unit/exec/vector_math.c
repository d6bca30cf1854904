/* Elementary functions over arrays, against the C library in double over floats of every size. */
#include "exec/kernels/vector_math.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double erf_slope(double x) { return M_2_SQRTPI * exp(-x * x); }

typedef struct function_case {
    const char *name;
    void (*vector)(int n, const float *x, float *y);
    double (*exact)(double x);
    double relative, absolute; /* either is enough */
} function_case;

/* The square of erf_slope is rounded before its exponential is taken: up to 104 x 2^-24 as such,
   which matters only where the result is next to nothing. */
static const function_case functions[] = {
    {"exp", cleave_vector_exp, exp, 4e-7, 0},
    {"log", cleave_vector_log, log, 4e-7, 0},
    {"log1p", cleave_vector_log1p, log1p, 4e-7, 0},
    {"tanh", cleave_vector_tanh, tanh, 4e-7, 0},
    {"sigmoid", cleave_vector_sigmoid, sigmoid, 4e-7, 0},
    {"erf", cleave_vector_erf, erf, 2e-7, 2e-7},
    {"erf_slope", cleave_vector_erf_slope, erf_slope, 4e-7, 1e-7},
};
enum { N_FUNCTIONS = sizeof functions / sizeof functions[0], BLOCK = 4096 };

static float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static double worst_error(const function_case *f, const float *x, int n) {
    static float y[BLOCK];
    double worst = 0;
    f->vector(n, x, y);
    for (int i = 0; i < n; i++) {
        double exact = f->exact((double)x[i]), error = fabs((double)y[i] - exact);
        if (isnan(exact) || isinf((float)exact)) {
            cr_expect(isnan(exact) ? isnan(y[i]) : !(y[i] < (float)exact || y[i] > (float)exact),
                      "%s(%.9g) is %.9g, not %.9g", f->name, (double)x[i], (double)y[i], exact);
            continue;
        }
        double allowed =
            f->absolute > f->relative * fabs(exact) ? f->absolute : f->relative * fabs(exact);
        allowed = allowed > (double)FLT_MIN ? allowed : (double)FLT_MIN; /* subnormal, or flushed */
        worst = error / allowed > worst || !(error <= allowed) ? error / allowed : worst;
        cr_expect(error <= allowed, "%s(%.9g) is %.9g, not %.9g", f->name, (double)x[i],
                  (double)y[i], exact);
    }
    return worst;
}

/* Every 4099th float of all there are, NaN among them. */
Test(vector_math, errors_are_small_for_floats_of_every_size) {
    static float x[BLOCK];
    for (int f = 0; f < N_FUNCTIONS; f++) {
        double worst = 0;
        for (uint64_t bits = 0; bits < UINT64_C(1) << 32;) {
            int n = 0;
            for (; n < BLOCK && bits < UINT64_C(1) << 32; bits += 4099)
                x[n++] = float_of((uint32_t)bits);
            double of_block = worst_error(&functions[f], x, n);
            worst = of_block > worst ? of_block : worst;
        }
        cr_log_info("%s: worst error is %.2f of what is allowed", functions[f].name, worst);
    }
}

/* Where most arguments of networks lie. */
Test(vector_math, errors_are_small_near_zero_and_one) {
    static float x[BLOCK];
    for (int f = 0; f < N_FUNCTIONS; f++)
        for (int block = 0; block < 100; block++) {
            for (int i = 0; i < BLOCK; i++)
                x[i] = (float)(block * BLOCK + i - 50 * BLOCK) * 6.1e-5f;
            worst_error(&functions[f], x, BLOCK);
            for (int i = 0; i < BLOCK; i++)
                x[i] = 1.0f + (float)(block * BLOCK + i - 50 * BLOCK) * 0x1p-24f;
            worst_error(&functions[f], x, BLOCK);
        }
}

Test(vector_math, limits_are_those_of_the_library) {
    static const float x[] = {0.0f,    -0.0f,    1.0f,    -1.0f,    INFINITY,  -INFINITY, NAN,
                              FLT_MAX, -FLT_MAX, FLT_MIN, -FLT_MIN, 0x1p-149f, 88.7f,     88.8f,
                              -87.3f,  -103.0f,  -150.0f, 1e4f,     -1e4f,     -2.0f};
    for (int f = 0; f < N_FUNCTIONS; f++)
        worst_error(&functions[f], x, (int)(sizeof x / sizeof *x));
    float y[2], zeros[2] = {0.0f, -0.0f};
    cleave_vector_tanh(2, zeros, y);
    cr_expect(!signbit(y[0]) && signbit(y[1]));
    cleave_vector_erf(2, zeros, y);
    cr_expect(!signbit(y[0]) && signbit(y[1]));
}

/* Same bytes out, whatever a tile's length is and wherever an element lies in it. */
Test(vector_math, results_depend_on_the_argument_alone) {
    enum { LONGEST = 67 };
    for (int f = 0; f < N_FUNCTIONS; f++)
        for (int value = 0; value < 200; value++) {
            float x = (float)(value - 100) * 0.0917f, alone, line[LONGEST];
            functions[f].vector(1, &x, &alone);
            for (int n = 1; n <= LONGEST; n++) {
                for (int i = 0; i < n; i++)
                    line[i] = x;
                functions[f].vector(n, line, line); /* in place */
                for (int i = 0; i < n; i++)
                    cr_assert(memcmp(&line[i], &alone, sizeof alone) == 0 ||
                                  (isnan(line[i]) && isnan(alone)),
                              "%s(%g) at %d of %d", functions[f].name, (double)x, i, n);
            }
        }
}
