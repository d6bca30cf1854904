/* Sizes are checked before they are multiplied or added. */
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

#endif
