/* The additive model: a cost for every value of every variable, and for every pair of values of two
   variables that meet.  Its least total is found exactly, by elimination
   (search/solve/eliminate.c); where limits couple all variables, a choice within them and a bound
   come quickly with multipliers (search/solve/relax.c).

   What the variables are is somebody else's business: search/solve/model.h makes them of the
   operators of a model, search/solve/block_windows.c of paths through blocks. */
#ifndef CLEAVE_SEARCH_SOLVE_ADDITIVE_H
#define CLEAVE_SEARCH_SOLVE_ADDITIVE_H

#include "base/arena.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct cleave_additive_pair {
    int32_t a, b;        /* variables, a < b; pairs of the same two add up */
    const int64_t *cost; /* [n_values[a]][n_values[b]], may be negative */
} cleave_additive_pair;

/* Costs lie within +-2^62.  Solvers cut those that are too dear to be added up (see
   cleave_additive_fit). */
typedef struct cleave_additive {
    int32_t n_variables;
    const int32_t *n_values;    /* [n_variables] 1 or more */
    const int64_t *const *cost; /* [n_variables][n_values] */
    int32_t n_pairs;
    const cleave_additive_pair *pairs;
} cleave_additive;

/* A limit on a sum: over all variables, weight[variable][value] adds up to at most `most`. */
typedef struct cleave_additive_limit {
    const int64_t *const *weight; /* [n_variables][n_values] 0 or more; the sum of the largest ones
                                     is below 2^61 */
    int64_t most;
} cleave_additive_limit;

typedef enum cleave_additive_outcome {
    CLEAVE_ADDITIVE_OPTIMAL,
    CLEAVE_ADDITIVE_FEASIBLE, /* within the limits; `bound` says how far from the optimum at most */
    CLEAVE_ADDITIVE_INFEASIBLE, /* proven: nothing is within the limits */
    CLEAVE_ADDITIVE_UNKNOWN /* nothing within the limits was found; `bound` holds nevertheless */
} cleave_additive_outcome;

typedef struct cleave_additive_solution {
    cleave_additive_outcome outcome;
    int32_t *value; /* [n_variables] where optimal or feasible, else null */
    int64_t total;  /* of those */
    int64_t bound;  /* nothing within the limits is below it; the total itself where optimal,
                       INT64_MAX where infeasible */
} cleave_additive_solution;

typedef struct cleave_additive_fitted {
    cleave_additive additive;
    int64_t common; /* what all choices cost besides: 0 where it is the given model, and no more
                       than 2^62 in size */
} cleave_additive_fitted;

/* A model whose costs, the largest of each variable and pair, add up to less than 2^61 in size, so
   that no sum of them overflows.  That is the given one, or if need be what each costs above the
   least of its variable or pair, and no more than some room, the same for all: totals of choices
   with none that was cut are what they were, others at most that, so a bound is one of both.
   FAILED where an index or a weight breaks the rules above.  All solvers begin with this. */
cleave_status cleave_additive_fit(const cleave_additive *additive, int32_t n_limits,
                                  const cleave_additive_limit *limits, cleave_arena *arena,
                                  cleave_additive_fitted *fitted, cleave_error *error);

/* The pairs of every variable v, rising: pair_of[start[v]] to before start[v + 1].  `start` is
   [n_variables + 2], zeroed, `pair_of` [2 n_pairs]. */
void cleave_additive_list_pairs(const cleave_additive *additive, int32_t *start, int32_t *pair_of);

/* Is a choice within all limits? */
bool cleave_additive_is_within(const cleave_additive *additive, int32_t n_limits,
                               const cleave_additive_limit *limits, const int32_t *value);

/* Sum of the costs of a choice. */
int64_t cleave_additive_total(const cleave_additive *additive, const int32_t *value);

/* Eliminates one variable after the other, of those left always one whose elimination makes the
   smallest table (ties by the smaller number): exact for every graph, cheap where it is narrow.
   Components are solved apart.  OPTIMAL, unless some table would have more than `most_entries`:
   then what makes it is split (mini-buckets), which gives a bound, and values are chosen greedily
   by the tables that there are and improved one at a time: FEASIBLE, or OPTIMAL where they meet the
   bound. Never UNKNOWN.  Of several optima always the same.  Cost: for every table its entries
   times the values of the variable that went, and 8 bytes for every entry of a component's tables
   together. FAILED where the model breaks the rules above or memory is short. */
cleave_status cleave_additive_eliminate(const cleave_additive *additive, int64_t most_entries,
                                        cleave_arena *arena, cleave_additive_solution *solution,
                                        cleave_error *error);

/* The same minimum under limits, by elimination on costs + multiplier x weight (Lagrange), with the
   best of a few rounds of multipliers: FEASIBLE with a bound, or OPTIMAL where they meet.
   INFEASIBLE where even the least weights are over a limit. */
cleave_status cleave_additive_relax(const cleave_additive *additive, int32_t n_limits,
                                    const cleave_additive_limit *limits, int64_t most_entries,
                                    cleave_arena *arena, cleave_additive_solution *solution,
                                    cleave_error *error);

#endif
