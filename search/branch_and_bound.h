/* The true optimum of the simulated step, certified: all of a small space is searched, except what
   a bound excludes. */
#ifndef CLEAVE_SEARCH_BRANCH_AND_BOUND_H
#define CLEAVE_SEARCH_BRANCH_AND_BOUND_H

#include "search/candidates.h"
#include "search/price.h"

#include <signal.h>

typedef struct cleave_certified {
    cleave_layout layout; /* the best */
    int64_t step;         /* picoseconds, by the scan with collectives in closed form */
    int64_t bound;        /* nothing in the space is below it; the step itself where `complete` */
    bool complete;
    int64_t visited, priced; /* partial layouts bounded, and whole ones simulated */
} cleave_certified;

/* Searches the space of `candidates` from `start`, a layout of it, until `until_seconds` of the
   clock (0: no limit). */
cleave_status cleave_branch_and_bound(cleave_pricer *pricer, const cleave_candidates *candidates,
                                      const cleave_layout *start, double until_seconds,
                                      const volatile sig_atomic_t *interrupted, cleave_arena *arena,
                                      cleave_certified *certified, cleave_error *error);

#endif
