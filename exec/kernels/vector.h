/* A register of floats, as wide as the processor that this is built for has them.

   Vectors are passed between functions of one file only, so how a processor without registers of
   their size would pass them does not matter. */
#ifndef CLEAVE_EXEC_KERNELS_VECTOR_H
#define CLEAVE_EXEC_KERNELS_VECTOR_H

#include <string.h>

#ifdef __AVX512F__
enum { LANES = 16 };
#else
enum { LANES = 8 };
#endif

#pragma GCC diagnostic ignored "-Wpsabi"
typedef float vector __attribute__((vector_size(LANES * sizeof(float))));

static inline vector load(const float *at) {
    vector v;
    memcpy(&v, at, sizeof v);
    return v;
}

static inline void store(float *at, vector v) { memcpy(at, &v, sizeof v); }

#endif
