/* Counter-based random numbers: a value is a function of its key, so it depends neither on the
   order of calls nor on who asks (SplitMix64's finalizer, Steele, Lea and Flood, OOPSLA 2014). */
#ifndef CLEAVE_BASE_RANDOM_H
#define CLEAVE_BASE_RANDOM_H

#include <stdint.h>

static inline uint64_t cleave_hash64(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* A key made of two. */
static inline uint64_t cleave_hash_join(uint64_t a, uint64_t b) {
    return cleave_hash64(a ^ cleave_hash64(b));
}

/* FNV-1a over a string, finalized: the key of a name. */
uint64_t cleave_hash_string(const char *string);

/* Uniform in [0, 1), from the key and the counter. */
static inline double cleave_random_uniform(uint64_t key, uint64_t counter) {
    return (double)(cleave_hash_join(key, counter) >> 11) * 0x1p-53;
}

/* A stream for code that draws one after another; zero is a valid seed. */
typedef struct cleave_random {
    uint64_t key, counter;
} cleave_random;

static inline uint64_t cleave_random_next(cleave_random *random) {
    return cleave_hash_join(random->key, random->counter++);
}
static inline double cleave_random_next_uniform(cleave_random *random) {
    return cleave_random_uniform(random->key, random->counter++);
}
/* Uniform in 0..n-1, n > 0. */
static inline int64_t cleave_random_below(cleave_random *random, int64_t n) {
    return (int64_t)(((unsigned __int128)cleave_random_next(random) * (unsigned __int128)n) >> 64);
}

#endif
