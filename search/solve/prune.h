/* A smaller additive model with the same optimum: without values that are never needed. */
#ifndef CLEAVE_SEARCH_SOLVE_PRUNE_H
#define CLEAVE_SEARCH_SOLVE_PRUNE_H

#include "search/solve/additive.h"

typedef struct cleave_additive_pruned {
    cleave_additive additive;      /* the same variables and pairs */
    cleave_additive_limit *limits; /* [n_limits] */
    int32_t **kept;                /* [n_variables][n_values] the value that each one was */
    int64_t n_dropped;             /* values */
} cleave_additive_pruned;

/* Drops a value of a variable where another of its values weighs no more in any limit and costs no
   more, whatever values the neighbours have: where its cost less the dropped one's is at most the
   least, over each neighbour's values apart, of what the pairs cost less (Goldstein's criterion for
   dead-end elimination, Biophysical Journal 66, 1994).  Of equal ones the smaller number stays.
   Neighbours of what has become smaller are looked at again.  The model keeps the rules of
   cleave_additive; results live in the arena.  FAILED when memory is short.  Cost: at worst, for
   each variable, its values squared times those of its neighbours; mostly much less. */
cleave_status cleave_additive_prune(const cleave_additive *additive, int32_t n_limits,
                                    const cleave_additive_limit *limits, cleave_arena *arena,
                                    cleave_additive_pruned *pruned, cleave_error *error);

#endif
