/* Sizes are checked before they are multiplied or added; and what divides two of them. */
#ifndef CLEAVE_BASE_CHECKED_H
#define CLEAVE_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* False when the result does not fit; `*result` is then undefined. */
static inline bool cleave_size_multiply(size_t a, size_t b, size_t *result) {
    return !__builtin_mul_overflow(a, b, result);
}
static inline bool cleave_int64_multiply(int64_t a, int64_t b, int64_t *result) {
    return !__builtin_mul_overflow(a, b, result);
}
static inline bool cleave_int64_add(int64_t a, int64_t b, int64_t *result) {
    return !__builtin_add_overflow(a, b, result);
}

/* The largest number that divides both; of 0 and a number that number. */
static inline int64_t cleave_common_divisor(int64_t a, int64_t b) {
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

#endif
