/* What a message between two ranks costs: its link and the processors at its ends. */
#ifndef CLEAVE_EXEC_MEASURE_LINK_H
#define CLEAVE_EXEC_MEASURE_LINK_H

#include "base/arena.h"
#include "exec/world.h"

typedef struct cleave_link_measurement {
    double latency_seconds;           /* of the link, beside the overheads */
    double bytes_per_second;          /* of the link */
    double overhead_seconds;          /* processor time of a post */
    double overhead_seconds_per_byte; /* processor time at each end, mean of both */
} cleave_link_measurement;

/* Measures the link between ranks `a` and `b`, a < b.  To be called by all ranks; the others wait
   at a barrier.  Ranks a and b get the result; `seconds_budget` is about what it takes.  FAILED
   when memory is short. */
cleave_status cleave_link_measure(cleave_world *world, int32_t a, int32_t b, double seconds_budget,
                                  cleave_link_measurement *result, cleave_error *error);

#endif
