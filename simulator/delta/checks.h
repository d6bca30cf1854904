/* For tests and benches: what runs are compared with. */
#ifndef CLEAVE_SIMULATOR_DELTA_CHECKS_H
#define CLEAVE_SIMULATOR_DELTA_CHECKS_H

#include "simulator/delta/delta.h"

/* The time of a step of what is now put, by one pass over all items that neither uses nor changes
   what runs leave. */
int64_t cleave_delta_full(cleave_delta *delta);
/* From now on no run is such a pass, even where it would be cheaper. */
void cleave_delta_be_eager(cleave_delta *delta);

#endif
