/* What is searched: a model on a machine, what the user wants to be left as it is, and what
   repeats. Found once, at the beginning, and read by all that list, price and bound layouts. */
#ifndef CLEAVE_SEARCH_PROBLEM_PROBLEM_H
#define CLEAVE_SEARCH_PROBLEM_PROBLEM_H

#include "search/problem/blocks.h"
#include "search/problem/constraints.h"

typedef struct cleave_problem {
    const cleave_model *model;
    const cleave_machine *machine;
    const cleave_constraints *constraints; /* null: none */
    int32_t n_classes;
    int32_t *class_of;    /* [n_operators] the same for those that compute the same and may be split
                             alike, rising by first occurrence */
    cleave_blocks blocks; /* of these classes */
} cleave_problem;

/* `constraints` may be null.  What is found lives in the arena; the rest has to outlive it. */
cleave_status cleave_problem_create(const cleave_model *model, const cleave_machine *machine,
                                    const cleave_constraints *constraints, cleave_arena *arena,
                                    cleave_problem *problem, cleave_error *error);

#endif
