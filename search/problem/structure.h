/* What goes together in a model, for moves of several operators at once: who exchanges tensors with
   whom, where the model is narrow, and which splits of different operators are of one kind. */
#ifndef CLEAVE_SEARCH_PROBLEM_STRUCTURE_H
#define CLEAVE_SEARCH_PROBLEM_STRUCTURE_H

#include "search/problem/choices.h"

typedef struct cleave_structure {
    int32_t *first_neighbor, *neighbors; /* [n_operators + 1]; both ways, ascending */
    int32_t n_cuts, *cuts; /* ascending, 0 and n_operators among them: at most one activation goes
                              from the operators before to those from there on */
    int32_t n_parameters, *parameters; /* tensors whose update may be sharded or not */
    int32_t **by_cost;                 /* [n_lists][n] candidates of a list, by node cost */
} cleave_structure;

/* `constraints` may be null.  FAILED when memory is short. */
cleave_status cleave_structure_create(const cleave_model *model,
                                      const cleave_candidates *candidates,
                                      const cleave_constraints *constraints, cleave_arena *arena,
                                      cleave_structure *structure, cleave_error *error);

/* The choice for operator `to` that is of the same kind as one of operator `from`: on the same
   devices, with the same replicas, and axes of the same name split alike.  False: there is none. */
bool cleave_choice_alike(const cleave_model *model, const cleave_candidates *candidates,
                         int32_t from, cleave_choice choice, int32_t to, cleave_choice *alike);

#endif
