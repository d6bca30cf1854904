/* bf16: the upper half of an f32.  Widening is exact; rounding is to nearest, ties to even, and
   keeps a NaN one. */
#ifndef CLEAVE_BASE_BF16_H
#define CLEAVE_BASE_BF16_H

#include <stdint.h>
#include <string.h>

static inline float cleave_bf16_widen(uint16_t x) {
    uint32_t bits = (uint32_t)x << 16;
    float wide;
    memcpy(&wide, &bits, sizeof wide);
    return wide;
}

static inline uint16_t cleave_bf16_round(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 0x40 : rounded >> 16);
}

#endif
