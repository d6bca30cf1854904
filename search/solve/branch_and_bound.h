/* The optimum of the simulated step, certified: all of a small space is searched, except what a
   bound excludes. */
#ifndef CLEAVE_SEARCH_SOLVE_BRANCH_AND_BOUND_H
#define CLEAVE_SEARCH_SOLVE_BRANCH_AND_BOUND_H

#include "search/price/price.h"
#include "search/problem/candidates.h"

#include <signal.h>

typedef struct cleave_certified {
    cleave_layout layout; /* the best that was found, `start` included */
    int64_t step;         /* picoseconds, by the scan with collectives in closed form */
    int64_t bound; /* no layout of the space that fits the memory is below it; the step itself
                      where `complete` */
    bool complete;
    int64_t visited, priced; /* partial layouts bounded, and whole ones simulated */
} cleave_certified;

/* Searches the space of the candidates that are kept, at all their starts, with updates and rules
   for collectives as in `start`, which has to fit the memory (and whose splits need not be of that
   space), until `until_seconds` of the clock (0: no limit) or `interrupted` (may be null).  Without
   an end by the clock the result depends on the arguments alone.  What is stopped early, or has too
   many values to begin with, is not `complete`, and its bound is what has been shown by then.
   NO_LAYOUT where `start` does not fit; FAILED when memory is short.

   Cost: windows of every two neighbouring blocks of operators (block_windows.h) for all pairs of
   their values, then a tree that mostly is small: LeNet-5 on 4 devices takes less than a second. */
cleave_status cleave_branch_and_bound(cleave_pricer *pricer, const cleave_candidates *candidates,
                                      const cleave_layout *start, double until_seconds,
                                      const volatile sig_atomic_t *interrupted, cleave_arena *arena,
                                      cleave_certified *certified, cleave_error *error);

#endif
