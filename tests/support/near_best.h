/* What a search of stages, micro-batches, splits, recomputation and sharded state finds, against
   the best of all there are, simulated one by one: small chains on two devices, whose links, memory
   and launches are drawn, with less and less memory. */
#ifndef CLEAVE_TESTS_SUPPORT_NEAR_BEST_H
#define CLEAVE_TESTS_SUPPORT_NEAR_BEST_H

#include <stdbool.h>

/* Chains [n]; by hand CLEAVE_TEST_CASES of them from CLEAVE_TEST_FIRST on.  Mixed: one of the two
   devices is slower, so that it matters which has which stage. */
void expect_near_best(const int *chains, int n, bool is_mixed);

#endif
