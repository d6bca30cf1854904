/* Which axis of an operator goes with that of one before it: split alike, each part reads no more
   than the part in the same place wrote, so that nothing moves. */
#ifndef CLEAVE_SEARCH_PROBLEM_GOES_WITH_H
#define CLEAVE_SEARCH_PROBLEM_GOES_WITH_H

#include "graph/model/layout.h"

/* The axis of operator `op`, both axes being cut into `degree` blocks, that goes with axis `axis`
   of operator `before`; -1: none does, or it reads nothing of it.  Seen from boxes, through views.
   FAILED when memory is short. */
cleave_status cleave_axis_goes_with(const cleave_model *model, int32_t before, int axis, int32_t op,
                                    int32_t degree, int *found, cleave_error *error);

/* The split of operator `op` that goes with that of one before it, along all axes that this cuts;
   its devices live in the arena.  `found` false: there is none. */
cleave_status cleave_split_goes_with(const cleave_model *model, int32_t before,
                                     const cleave_split *split, int32_t op, cleave_arena *arena,
                                     cleave_split *goes, bool *found, cleave_error *error);

#endif
