/* Changing a choice of an additive model, one variable at a time. */
#ifndef CLEAVE_SEARCH_SOLVE_MOVES_H
#define CLEAVE_SEARCH_SOLVE_MOVES_H

#include "search/solve/additive.h"

typedef struct cleave_additive_moves {
    const cleave_additive *additive;
    int32_t n_limits;
    const cleave_additive_limit *limits;
    int32_t *start, *pair_of; /* of cleave_additive_list_pairs */
    int64_t *sums;            /* [largest n_values] */
    int64_t *weight;          /* [n_limits] of the choice at hand */
    int32_t *order;           /* [n_variables] */
    double *ratio;            /* [n_variables] */
} cleave_additive_moves;

/* Room for the calls below, in the arena.  FAILED when memory is short. */
cleave_status cleave_additive_moves_create(const cleave_additive *additive, int32_t n_limits,
                                           const cleave_additive_limit *limits, cleave_arena *arena,
                                           cleave_additive_moves *moves, cleave_error *error);

/* Gives each variable in turn the value that costs least beside its neighbours' values, of those
   that keep the choice within the limits (which it is), until none changes. */
void cleave_additive_improve(cleave_additive_moves *moves, int32_t *value);

/* Brings a choice within the limits by giving variables the values of `within`, which is: first
   those that cost least for what they take off the weights over the limits. */
void cleave_additive_repair(cleave_additive_moves *moves, const int32_t *within, int32_t *value);

#endif
