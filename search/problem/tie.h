/* Repeated blocks: which operators stand at the same place of blocks that follow one another. */
#ifndef CLEAVE_SEARCH_PROBLEM_TIE_H
#define CLEAVE_SEARCH_PROBLEM_TIE_H

#include "search/problem/candidates.h"

/* Fills class_of, [n_operators], with numbers 0, 1, ... by first operator, and returns their count
   in n_classes.

   A run of blocks is a stretch of the model's order where every operator is alike the one a period
   before, and reads what is a period before what that one reads, or the very same.  So a chain of a
   thousand equal blocks is one block's classes, and what stands at its ends is classes of its own.
   Cost: linear in the operators and what they read. */
cleave_status cleave_tie_operators(const cleave_model *model, const cleave_candidates *candidates,
                                   int32_t *class_of, int32_t *n_classes, cleave_error *error);

#endif
