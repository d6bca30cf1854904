/* The four figures of a link from what was measured of it: see link_fit.c. */
#ifndef CLEAVE_EXEC_LINK_FIT_H
#define CLEAVE_EXEC_LINK_FIT_H

#include "base/error.h"

#include <stdint.h>

typedef struct cleave_link_measurement {
    double latency_seconds;           /* of the link, beside the overheads */
    double bytes_per_second;          /* of the link */
    double overhead_seconds;          /* processor time of a post */
    double overhead_seconds_per_byte; /* processor time at each end, mean of both */
} cleave_link_measurement;

typedef enum cleave_link_sample_kind {
    CLEAVE_LINK_POST,      /* posting a message */
    CLEAVE_LINK_ONE_WAY,   /* from the posts of both ends to the arrival */
    CLEAVE_LINK_BOTH_WAYS, /* the same of two messages at once, one each way */
    CLEAVE_LINK_PROCESSOR, /* what two messages at once, one each way, take from a rank that
                            * computes
                            */
    CLEAVE_LINK_N_SAMPLE_KINDS
} cleave_link_sample_kind;

typedef struct cleave_link_sample {
    cleave_link_sample_kind kind;
    double bytes, seconds; /* above 0 */
} cleave_link_sample;

/* The figures that are nearest to `n` samples, a post and at least two sizes one
   way among them.  FAILED when memory
   is short or the solver fails. */
cleave_status cleave_link_fit(const cleave_link_sample *samples, int32_t n,
                              cleave_link_measurement *result, cleave_error *error);

#endif
