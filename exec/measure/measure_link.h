/* What a message between two ranks costs: its link and the processors at its ends. */
#ifndef CLEAVE_EXEC_MEASURE_MEASURE_LINK_H
#define CLEAVE_EXEC_MEASURE_MEASURE_LINK_H

#include "base/arena.h"
#include "exec/measure/link_samples.h"
#include "exec/world/world.h"

typedef struct cleave_link_figures {
    cleave_link_measurement link;
    cleave_poll_figures sending, receiving;  /* what either end's computation does */
    int32_t n_sizes;                         /* of messages one way, from the least, */
    double uncertainty[CLEAVE_LINK_N_SIZES]; /* and by what share the median of each may be off, as
                                                the first rank found it: see base/median.h */
} cleave_link_figures;

/* Measures the link between ranks `a` and `b`, a < b.  To be called by all ranks; the others wait
   at a barrier.  Ranks a and b get the result; `seconds_budget` is about what it takes, more where
   even small messages take long.  FAILED when memory is short. */
cleave_status cleave_link_measure(cleave_world *world, int32_t a, int32_t b, double seconds_budget,
                                  cleave_link_figures *result, cleave_error *error);

#endif
