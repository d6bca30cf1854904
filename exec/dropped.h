/* Choices of experts that found no room there, counted while a step runs: tokens that an expert's
   capacity drops get nothing from it, and whoever trains wants to know how many. */
#ifndef CLEAVE_EXEC_DROPPED_H
#define CLEAVE_EXEC_DROPPED_H

#include "exec/rank.h"

/* Of the choices that this item, which was run, gave their rows, how many have none.  Each is
   counted once: by the first replica, and not when forward runs again. */
int64_t cleave_dropped_count(const cleave_rank *rank, const cleave_item *item);

/* How many choices of a step may be dropped; 0: there is no capacity, or room for all. */
int64_t cleave_dropped_most(const cleave_model *model);

#endif
