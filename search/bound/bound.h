/* A lower bound of the simulated step of every layout of the declared space. */
#ifndef CLEAVE_SEARCH_BOUND_BOUND_H
#define CLEAVE_SEARCH_BOUND_BOUND_H

#include "search/problem/candidates.h"

/* Which steps it is a bound of. */
typedef enum cleave_bound_forms {
    CLEAVE_BOUND_STEPS,     /* of programs with collectives in their steps: what is reported */
    CLEAVE_BOUND_ALL_FORMS, /* and of programs with collectives in closed form */
    CLEAVE_BOUND_FOLDED     /* of these, too, where a way of splitting stands for many windows */
} cleave_bound_forms;

typedef struct cleave_bound {
    double seconds;
    const char *binds; /* what it mostly consists of: "compute", "links of nodes", ... */
} cleave_bound;

/* The space is that of `candidates` (truncated ones included), with any updates.  The optimizer
   keeps `optimizer_states` values per parameter.  The proof is in bound.c, and where that says.
   Cost: no more pairs of ways are looked at than weigh.c says; beside that, linear in the ways. */
cleave_status cleave_lower_bound_of(const cleave_model *model, const cleave_machine *machine,
                                    const cleave_candidates *candidates, int optimizer_states,
                                    cleave_bound_forms forms, cleave_bound *bound,
                                    cleave_error *error);

/* Seconds, of all forms. */
cleave_status cleave_lower_bound(const cleave_model *model, const cleave_machine *machine,
                                 const cleave_candidates *candidates, int optimizer_states,
                                 double *seconds, cleave_error *error);

#endif
