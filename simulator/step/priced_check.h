/* What is written down in priced_fragment.h, checked of a whole step or of a fragment. */
#ifndef CLEAVE_SIMULATOR_STEP_PRICED_CHECK_H
#define CLEAVE_SIMULATOR_STEP_PRICED_CHECK_H

#include "base/error.h"
#include "simulator/step/priced_fragment.h"

/* BAD_INPUT: times may add up to more than fits (about 26 days). */
cleave_status cleave_fail_too_long(cleave_error *error);

/* Of each item, message and collective by itself.  FAILED names what is wrong, or BAD_INPUT as
   above.  `total`, picoseconds, is a bound of what the
   fragment adds to a step: the sum of all durations, with work counted twice for what it takes from
   the other lane, or a main lane. */
cleave_status cleave_priced_check(const cleave_priced_fragment *fragment, int32_t n_queues,
                                  int32_t n_links, const int64_t *link_latency, int64_t *total,
                                  cleave_error *error);

#endif
