/* Refinement: from a layout to one that no single change improves, on the estimate of the simulated
   step.

   Moves are drawn or swept: a candidate and a block for one operator; for all that are alike and
   split alike (a repeated block); for a chain of operators that exchange tensors; for a segment
   between two cut points; two blocks of devices swapped.  Between sweeps a Markov chain anneals. */
#ifndef CLEAVE_SEARCH_REFINE_H
#define CLEAVE_SEARCH_REFINE_H

#include "base/progress.h"
#include "base/random.h"
#include "search/candidates.h"
#include "search/price.h"

#include <signal.h>

typedef struct cleave_refine {
    cleave_pricer *pricer; /* of the calling thread */
    const cleave_candidates *candidates;
    const volatile sig_atomic_t *interrupted; /* may be null */
    uint64_t seed;
    int64_t most_proposals; /* 0: no limit */
    double until_seconds;   /* clock; 0: no limit, and the clock decides nothing */
} cleave_refine;

typedef struct cleave_refined {
    cleave_layout layout;
    cleave_price price;
    int64_t proposals;
    bool is_local_optimum; /* a whole sweep of single changes improved nothing */
} cleave_refined;

/* Never worse than `start`. */
cleave_status cleave_refine_layout(const cleave_refine *refine, const cleave_layout *start,
                                   cleave_arena *arena, cleave_refined *refined,
                                   cleave_error *error);

#endif
