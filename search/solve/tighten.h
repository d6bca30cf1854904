/* A smaller additive model whose costs say more: passing messages moves costs between variables and
   pairs, so that no total changes but the sum of the least costs, which is a bound, rises; and
   values drop out that can't be in anything as cheap as a choice that is known. */
#ifndef CLEAVE_SEARCH_SOLVE_TIGHTEN_H
#define CLEAVE_SEARCH_SOLVE_TIGHTEN_H

#include "search/solve/additive.h"

typedef struct cleave_additive_tightened {
    cleave_additive additive; /* the same variables and pairs; a choice costs what it did */
    int32_t **kept;           /* [n_variables][n_values] rising: the value that each one was */
    int64_t bound;            /* no choice is below it */
    int32_t *value;           /* [n_variables] a good choice, in the model's own values */
    int64_t total;            /* of that; its values, and those of all optima, are kept */
} cleave_additive_tightened;

/* Can costs be moved about without breaking the rules of cleave_additive?  Not where the largest of
   them add up to 2^48 or more, or times the number of variables and pairs to 2^59 or more. */
bool cleave_additive_can_tighten(const cleave_additive *additive);

/* Passes messages forward and back so many times (sequential reweighted message passing, that is,
   TRW-S: Kolmogorov, IEEE PAMI 28, 2006), rounding and improving a choice each time.  For models
   that can be tightened.  FAILED when memory is short.  Cost: of each time, five times the entries
   of all pairs. */
cleave_status cleave_additive_tighten(const cleave_additive *additive, int32_t times,
                                      cleave_arena *arena, cleave_additive_tightened *tightened,
                                      cleave_error *error);

#endif
