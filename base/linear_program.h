/* Linear and mixed-integer programs, over GLPK, which only linear_program.c includes. */
#ifndef CLEAVE_BASE_LINEAR_PROGRAM_H
#define CLEAVE_BASE_LINEAR_PROGRAM_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* Minimise objective . x  subject to  row_lower <= A x <= row_upper  and  lower <= x <= upper.  A
   bound that is infinite is none.  A is sparse, by rows: entries row_start[i] .. row_start[i + 1]
   of (column, value), each column at most once in a row. */
typedef struct cleave_linear_program {
    int32_t n_columns, n_rows;
    const double *objective;             /* [n_columns] finite */
    const double *lower, *upper;         /* [n_columns] */
    const bool *integer;                 /* [n_columns], or null: none */
    const double *row_lower, *row_upper; /* [n_rows] */
    const int32_t *row_start;            /* [n_rows + 1] from 0 */
    const int32_t *column;               /* [row_start[n_rows]] */
    const double *value;                 /* [row_start[n_rows]] finite */
} cleave_linear_program;

typedef enum cleave_linear_outcome {
    CLEAVE_LINEAR_OPTIMAL,
    CLEAVE_LINEAR_FEASIBLE,   /* the time was up: x is feasible, bound holds */
    CLEAVE_LINEAR_INFEASIBLE, /* no x */
    CLEAVE_LINEAR_UNBOUNDED,
    CLEAVE_LINEAR_UNKNOWN /* the time was up before any x was found */
} cleave_linear_outcome;

typedef struct cleave_linear_result {
    cleave_linear_outcome outcome;
    double objective; /* of x */
    double bound;     /* proven: no x is below it; the objective itself where optimal */
} cleave_linear_result;

/* Solves a program within `seconds` (0: no limit).  x is [n_columns] and is set where the outcome
   is optimal or feasible.  FAILED on a program that breaks the rules above, naming row or column,
   and on an internal failure of the solver; never aborts and prints nothing.  Not for several
   threads at once. */
cleave_status cleave_linear_program_solve(const cleave_linear_program *program, double seconds,
                                          double *x, cleave_linear_result *result,
                                          cleave_error *error);

#endif
