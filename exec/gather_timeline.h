/* The timelines of all ranks as one, on one clock. */
#ifndef CLEAVE_EXEC_GATHER_TIMELINE_H
#define CLEAVE_EXEC_GATHER_TIMELINE_H

#include "exec/step_records.h"

/* To be called on every rank, after the steps: gathers the recorded step that took nearest to
   `seconds`, and the median duration of every item over the recorded steps.  Only rank 0's `result`
   is filled, in the arena: `measured` and `typical_duration`.

   Ranks leave the barrier before a step at different times; the step starts when the first rank
   starts it.  Ranks of one machine share a clock.  Those of other hosts are asked for their time by
   rank 0, which takes the answer to be of the middle between question and answer; of several rounds
   the quickest counts. */
cleave_status cleave_gather_timeline(cleave_rank *rank, const cleave_step_records *records,
                                     double seconds, cleave_arena *arena, cleave_run_result *result,
                                     cleave_error *error);

#endif
