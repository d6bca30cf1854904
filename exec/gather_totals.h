/* What all ranks sent, took and dropped, brought together on rank 0. */
#ifndef CLEAVE_EXEC_GATHER_TOTALS_H
#define CLEAVE_EXEC_GATHER_TOTALS_H

#include "exec/rank.h"
#include "exec/run.h"

/* To be called on every rank, after the steps.  Only rank 0's `result` is filled, in the arena:
   `bytes_between` and their sum, the resident bytes of each rank, and `dropped` of all.  FAILED
   where two ranks don't agree on the bytes between them. */
cleave_status cleave_gather_totals(cleave_rank *rank, cleave_arena *arena,
                                   cleave_run_result *result, cleave_error *error);

#endif
