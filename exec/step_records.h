/* Timelines of a few steps of one rank, kept so that one of about the median time can be shown: the
   last step, or any other chosen beforehand, may be one that something disturbed. */
#ifndef CLEAVE_EXEC_STEP_RECORDS_H
#define CLEAVE_EXEC_STEP_RECORDS_H

#include "exec/rank.h"

enum { CLEAVE_MAX_STEP_RECORDS = 8 };

/* The first step, which pays for what is set up on first use, is recorded only where it is the only
   one. */
typedef struct cleave_step_records {
    int64_t n_steps, n_sorted;
    double *sorted; /* [n_steps] seconds of the steps so far, ascending */
    int32_t n;
    double seconds[CLEAVE_MAX_STEP_RECORDS];
    double started[CLEAVE_MAX_STEP_RECORDS]; /* by this rank's clock, seconds */
    int64_t *times[CLEAVE_MAX_STEP_RECORDS]; /* [this rank's items][2] start and end */
} cleave_step_records;

/* For a run of `n_steps` steps.  Records live in the arena. */
cleave_status cleave_step_records_create(cleave_step_records *records, const cleave_rank *rank,
                                         int64_t n_steps, cleave_arena *arena, cleave_error *error);

/* After a step that took `seconds`, the same on every rank: keeps its timeline if it is among the
   nearest to the median so far.  So every rank keeps the same steps. */
void cleave_step_records_offer(cleave_step_records *records, const cleave_rank *rank, int64_t step,
                               double seconds);

/* Puts the timeline that took nearest to `seconds` back into the rank; returns when that step
   started by this rank's clock. */
double cleave_step_records_restore(const cleave_step_records *records, cleave_rank *rank,
                                   double seconds);

/* The median duration of this rank's items over the recorded steps, picoseconds; -1 for the items
   of other ranks.  `duration` is [n_items]. */
void cleave_step_records_durations(const cleave_step_records *records, const cleave_rank *rank,
                                   int64_t *duration);

#endif
