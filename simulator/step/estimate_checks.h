/* For tests and benches: what estimates are compared with, and a part of a run to be timed alone.
 */
#ifndef CLEAVE_SIMULATOR_STEP_ESTIMATE_CHECKS_H
#define CLEAVE_SIMULATOR_STEP_ESTIMATE_CHECKS_H

#include "simulator/step/estimate.h"

/* As cleave_estimate_run, by one pass over everything. */
cleave_status cleave_estimate_full(cleave_estimate *estimate, int64_t *step, cleave_error *error);
/* Lowers and prices what the proposal concerns and is not remembered: the first part of a run. */
cleave_status cleave_estimate_prepare(cleave_estimate *estimate, cleave_error *error);

#endif
