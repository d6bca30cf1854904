/* Dropout masks: every element's is a function of (seed, step, name, logical row-major index), so
   that it is the same in every layout, and drawn again in backward. */
#ifndef CLEAVE_EXEC_KERNELS_DROPOUT_H
#define CLEAVE_EXEC_KERNELS_DROPOUT_H

#include "base/random.h"

#include <stdbool.h>

/* An element is kept with probability 1 - ratio.  `least` is the ratio's threshold. */
static inline uint64_t cleave_dropout_key(uint64_t seed, int64_t step, const char *output_name) {
    return cleave_hash_join(
        cleave_hash_join(seed, (uint64_t)step),
        cleave_hash_join(cleave_hash_string("dropout"), cleave_hash_string(output_name)));
}
static inline uint64_t cleave_dropout_threshold(double ratio) {
    return ratio <= 0 ? 0 : ratio >= 1 ? UINT64_C(1) << 53 : (uint64_t)(ratio * 0x1p53);
}
static inline bool cleave_dropout_keeps(uint64_t key, int64_t index, uint64_t least) {
    return cleave_hash_join(key, (uint64_t)index) >> 11 >= least;
}
/* Those of one tape draw apart, by their numbers in it. */
static inline uint64_t cleave_dropout_stream(uint64_t key, double number) {
    return number > 0 ? cleave_hash_join(key, (uint64_t)number) : key;
}
/* UNIFORM: in [0, 1), by the key of a dropout, with as many digits as a float holds. */
static inline double cleave_uniform_draw(uint64_t key, double stream, int64_t index) {
    return (double)(cleave_hash_join(cleave_hash_join(key, (uint64_t)stream), (uint64_t)index) >>
                    40) *
           0x1p-24;
}

#endif
