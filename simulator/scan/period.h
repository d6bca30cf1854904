/* How long a step takes where others follow it: steps of one program run back to back, each device
   beginning the next as soon as it has done its own of the one before.  So devices that wait for
   others in one step may be busy with the next: stages of a pipeline work on successive batches.

   Times are those of the scan's rule, step after step, with clocks and links as the step before has
   left them.  The period is by how much the end of a step moves on once that has settled; where it
   goes round among a few values, their mean. */
#ifndef CLEAVE_SIMULATOR_SCAN_PERIOD_H
#define CLEAVE_SIMULATOR_SCAN_PERIOD_H

#include "simulator/step/engine.h"

/* Of a finished problem, picoseconds; what is in the timeline afterwards means nothing.  FAILED as
   cleave_engine_run_scan. */
cleave_status cleave_scan_period(const cleave_engine_problem *problem,
                                 cleave_engine_workspace *workspace, cleave_timeline *timeline,
                                 int64_t *period, cleave_error *error);

#endif
