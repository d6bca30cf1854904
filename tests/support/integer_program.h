/* The least total of an additive model within limits by a foreign solver: what elimination and
   relaxation are compared with. */
#ifndef CLEAVE_TESTS_SUPPORT_INTEGER_PROGRAM_H
#define CLEAVE_TESTS_SUPPORT_INTEGER_PROGRAM_H

#include "search/solve/additive.h"

/* The minimum under limits, as an integer program (the local polytope): one 0-1 column for
   every value that is not dropped as needless (search/solve/prune.h), and one for every pair of
   values whose marginals are those of its variables, but none for pairs that are sums of costs of
   their two variables.  `seconds` is a budget for the solver, 0: none; when it is used up: FEASIBLE
   or UNKNOWN.  The solver computes in doubles: OPTIMAL and INFEASIBLE hold to its tolerance (of the
   cost above the sum of all least costs a part in 10^7), but what is returned is within the limits
   exactly.  Cost: seconds from some 20,000 columns on.  FAILED when memory is short or the solver
   breaks down. Not for several threads at once. */
cleave_status solve_integer_program(const cleave_additive *additive, int32_t n_limits,
                                    const cleave_additive_limit *limits, double seconds,
                                    cleave_arena *arena, cleave_additive_solution *solution,
                                    cleave_error *error);

#endif
