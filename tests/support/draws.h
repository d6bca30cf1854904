/* What tests draw follows from seeds that are the same in every run.  By hand CLEAVE_TEST_SEED=N
   takes others, which begin with N in what a failure prints (3000017 is seed 17 of N = 3), and
   CLEAVE_TEST_TIMES=N draws so many times as much: with the same two a failure comes again. */
#ifndef CLEAVE_TESTS_SUPPORT_DRAWS_H
#define CLEAVE_TESTS_SUPPORT_DRAWS_H

#include <stdint.h>
#include <stdlib.h>

static inline uint64_t draws_asked(const char *name, uint64_t usually) {
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : usually;
}

static inline uint64_t seed_from(uint64_t usually) {
    return draws_asked("CLEAVE_TEST_SEED", 0) * 1000000 + usually;
}

static inline int n_draws(int usually) {
    return usually * (int)draws_asked("CLEAVE_TEST_TIMES", 1);
}

/* Of `usually` many seeds from seed_from(0) on. */
static inline uint64_t seed_end(int usually) { return seed_from((uint64_t)n_draws(usually)); }

#endif
