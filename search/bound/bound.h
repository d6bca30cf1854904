/* A lower bound of the simulated step of every layout of the declared space. */
#ifndef CLEAVE_SEARCH_BOUND_BOUND_H
#define CLEAVE_SEARCH_BOUND_BOUND_H

#include "search/candidates.h"

/* Seconds; the space is that of `candidates` (truncated ones included), with any updates.  The
   optimizer keeps `optimizer_states` values per parameter.  The proof is in bound.c. */
cleave_status cleave_lower_bound(const cleave_model *model, const cleave_machine *machine,
                                 const cleave_candidates *candidates, int optimizer_states,
                                 double *seconds, cleave_error *error);

#endif
