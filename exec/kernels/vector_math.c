/* Polynomials for elementary functions: each coefficient list is a minimax fit (weighted least
   squares with Lawson's weights) of the function that its comment names.

   Products and sums are fused where this file says so and nowhere else (it is compiled with
   -ffp-contract=off), so that vector bodies and scalar tails of a loop give the same bits. */
#include "exec/kernels/vector_math.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline float multiply_add(float a, float b, float c) {
#ifdef __FMA__
    return fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

static inline uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float power_of_two(int32_t exponent) {
    return float_of((uint32_t)(exponent + 127) << 23);
}

/* exp(x) = 2^n exp(r), |r| <= ln(2) / 2.  Arguments past both ends of the range give infinity and
   zero by the scaling itself, which takes two steps, as 2^n alone may be out of range. */
static inline float exp_of(float x) {
    const float shift = 0x1.8p23f; /* adding it rounds to an integer, in the low bits */
    x = x > 89.0f ? 89.0f : x;
    x = x < -105.0f ? -105.0f : x;
    float shifted = multiply_add(x, 1.442695041f, shift), n = shifted - shift;
    float r =
        multiply_add(n, -0x1.62e4p-1f, x); /* ln(2), in two parts: n times the first is exact */
    r = multiply_add(n, -1.428606820e-06f, r);
    float q = 1.381446491e-03f; /* (exp(r) - 1 - r) / r^2 */
    q = multiply_add(q, r, 8.368780836e-03f);
    q = multiply_add(q, r, 4.166839272e-02f);
    q = multiply_add(q, r, 1.666651964e-01f);
    q = multiply_add(q, r, 4.999999404e-01f);
    float p = multiply_add(r * r, q, r) + 1.0f;
    int32_t exponent = (int32_t)(bits_of(shifted) - bits_of(shift)), half = exponent >> 1;
    return p * power_of_two(half) * power_of_two(exponent - half);
}

/* log(x) = e ln(2) + log(1 + f), 1 + f in [sqrt(1/2), sqrt(2)). */
static inline float log_of(float x) {
    bool tiny = x < 0x1p-126f;
    float scaled = tiny ? x * 0x1p24f : x;
    uint32_t bits = bits_of(scaled);
    int32_t exponent = (int32_t)(bits - 0x3f3504f3u) >> 23;
    float f = float_of(bits - ((uint32_t)exponent << 23)) - 1.0f;
    float e = (float)exponent - (tiny ? 24.0f : 0.0f);
    float q = -7.634429634e-02f; /* (log(1 + f) - f + f^2 / 2) / f^3 */
    q = multiply_add(q, f, 1.276154965e-01f);
    q = multiply_add(q, f, -1.316019446e-01f);
    q = multiply_add(q, f, 1.420176178e-01f);
    q = multiply_add(q, f, -1.662335694e-01f);
    q = multiply_add(q, f, 2.000122666e-01f);
    q = multiply_add(q, f, -2.500082254e-01f);
    q = multiply_add(q, f, 3.333333135e-01f);
    float square = f * f;
    float low = multiply_add(e, 1.428606820e-06f, square * f * q);
    low = multiply_add(square, -0.5f, low) + f;
    float y = multiply_add(e, 0x1.62e4p-1f, low);
    y = x > 0.0f ? y : x < 0.0f ? NAN : -INFINITY;
    return x < INFINITY ? y : x; /* of NaN, too */
}

/* log(u) for the rounded u = 1 + x, and a correction for what was rounded away. */
static inline float log1p_of(float x) {
    float u = 1.0f + x, lost = x - (u - 1.0f);
    float correction = lost / u;
    return log_of(u) + (((u > 0.0f) & (u < INFINITY)) ? correction : 0.0f);
}

static inline float tanh_of(float x) {
    float a = fabsf(x), square = x * x;
    float q = -5.704978481e-03f; /* (tanh(x) - x) / x^3, of x^2, to |x| = 0.625 */
    q = multiply_add(q, square, 2.063907869e-02f);
    q = multiply_add(q, square, -5.373971164e-02f);
    q = multiply_add(q, square, 1.333144158e-01f);
    q = multiply_add(q, square, -3.333328068e-01f);
    float near = multiply_add(square * a, q, a);
    float far = 1.0f - 2.0f / (exp_of(a + a) + 1.0f);
    return copysignf(a < 0.625f ? near : far, x);
}

static inline float sigmoid_of(float x) {
    float e = exp_of(-fabsf(x)), s = 1.0f / (1.0f + e);
    return x < 0.0f ? e * s : s;
}

static inline float erf_of(float x) {
    float a = fabsf(x), square = x * x;
    float q = 8.185090701e-05f; /* erf(x) / x, of x^2, to |x| = 0.95 */
    q = multiply_add(q, square, -8.097702521e-04f);
    q = multiply_add(q, square, 5.196951795e-03f);
    q = multiply_add(q, square, -2.685770579e-02f);
    q = multiply_add(q, square, 1.128366366e-01f);
    q = multiply_add(q, square, -3.761263192e-01f);
    q = multiply_add(q, square, 1.128379226e+00f);
    float t = a > 4.0f ? 4.0f : a;
    float p = -1.971826277e-04f; /* -log(1 - erf(t)), from 0.9 to 4 */
    p = multiply_add(p, t, 3.055615583e-03f);
    p = multiply_add(p, t, -2.227711678e-02f);
    p = multiply_add(p, t, 1.040374190e-01f);
    p = multiply_add(p, t, 6.370596886e-01f);
    p = multiply_add(p, t, 1.127749562e+00f);
    p = multiply_add(p, t, 1.774872508e-04f);
    return copysignf(a < 0.925f ? q * a : 1.0f - exp_of(-p), x);
}

static inline float erf_slope_of(float x) { return 1.1283791671f * exp_of(-(x * x)); }

#define OVER_ARRAY(name)                                                                           \
    void cleave_vector_##name(int n, const float *x, float *y) {                                   \
        _Pragma("GCC ivdep") for (int i = 0; i < n; i++) y[i] = name##_of(x[i]);                   \
    }

OVER_ARRAY(exp)
OVER_ARRAY(log)
OVER_ARRAY(log1p)
OVER_ARRAY(tanh)
OVER_ARRAY(sigmoid)
OVER_ARRAY(erf)
OVER_ARRAY(erf_slope)
