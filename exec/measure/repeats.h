/* Repeats of a kernel in the surroundings of a step (exec/measure/surroundings.h), which are not
   timed. */
#ifndef CLEAVE_EXEC_MEASURE_REPEATS_H
#define CLEAVE_EXEC_MEASURE_REPEATS_H

#include "exec/measure/measure.h"
#include "exec/measure/surroundings.h"

typedef cleave_status cleave_measured_run(void *context, cleave_error *error);

/* Repeats `run` of `context` for about `budget` seconds.  `before`: what runs right before each
   repeat, so that its instructions are near; null: nothing. */
cleave_status cleave_measure_repeats(cleave_measured_run *run, void *context, void *before,
                                     const cleave_surroundings *of, double budget,
                                     cleave_measurement *result, cleave_error *error);

#endif
