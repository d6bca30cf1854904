/* In which order variables go, and which tables that makes: all of an elimination but the numbers.

   A table has a number for every choice of the variables in its scope; to begin with there is one
   for every pair.  A step takes one variable out of some tables that contain it: the result is over
   all other variables of these.  Where one step takes all tables of its variable, it is exact; a
   variable whose tables are shared out to several steps (mini-buckets) gives a bound only.

   Variables of one value are in no scope: their pairs are part of the other variable's costs. */
#ifndef CLEAVE_SEARCH_SOLVE_ELIMINATE_PLAN_H
#define CLEAVE_SEARCH_SOLVE_ELIMINATE_PLAN_H

#include "search/solve/additive.h"

#include <stdbool.h>

typedef struct cleave_elimination_table {
    int32_t n;         /* variables in the scope; none for a pair with a variable of one value */
    int32_t *scope;    /* [n], the one that goes first is the last */
    int64_t n_entries; /* product of their values, row-major in the order of the scope */
} cleave_elimination_table;

typedef struct cleave_elimination_step {
    int32_t variable;
    int32_t n_tables;
    int32_t *tables; /* [n_tables] all contain the variable */
    int32_t result;  /* a table */
} cleave_elimination_step;

typedef struct cleave_elimination_plan {
    int32_t n_tables; /* first those of the pairs, then those of the steps */
    cleave_elimination_table *tables;
    int32_t n_steps;
    cleave_elimination_step *steps; /* by component; those of one variable follow each other */
    int32_t n_components;
    int32_t *component_start; /* [n_components + 1] in the steps */
    int64_t largest;          /* entries of the largest result */
    int64_t work;             /* sum of entries times values of the step's variable */
    bool exact;               /* every variable goes in one step */
} cleave_elimination_plan;

/* Of the variables left always the one goes whose elimination makes the smallest table, the smaller
   number of several; no result has more than `most_entries`, or than the table it is made of.
   FAILED when memory is short.  Cost: for each step the scopes of the tables of its neighbours. */
cleave_status cleave_elimination_plan_create(const cleave_additive *additive, int64_t most_entries,
                                             cleave_arena *arena, cleave_elimination_plan *plan,
                                             cleave_error *error);

#endif
