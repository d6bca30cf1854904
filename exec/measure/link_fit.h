/* The four figures of a link from what was measured of it: see link_fit.c. */
#ifndef CLEAVE_EXEC_MEASURE_LINK_FIT_H
#define CLEAVE_EXEC_MEASURE_LINK_FIT_H

#include "base/error.h"

#include <stdint.h>

enum { CLEAVE_LINK_MAX_AGREEMENTS = 6 };

typedef struct cleave_link_measurement {
    double latency_seconds;           /* of the link, beside the overheads */
    double bytes_per_second;          /* of the link */
    double overhead_seconds;          /* processor time of a post */
    double overhead_seconds_per_byte; /* of either processor, beside the link; mean of both */
    /* Messages of so many bytes or more set out later; 0: all are alike. */
    double large_from_bytes;
    int n_agreements; /* by how much, of some sizes, ascending; linear between them, and as the
                         nearest outside */
    struct {
        double bytes, seconds;
    } agreements[CLEAVE_LINK_MAX_AGREEMENTS];
    double first_bytes, first_bytes_per_second; /* so many bytes of each go at another rate; 0 */
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

/* Pieces of computation by which a message is later where one of its ends computes than where both
   wait; of large ones there are more for each byte. */
typedef struct cleave_poll_figures {
    double large_from_bytes, small, large, per_byte;
} cleave_poll_figures;

typedef struct cleave_poll_sample {
    double bytes, polls;
} cleave_poll_sample;

typedef struct cleave_link_sample {
    cleave_link_sample_kind kind;
    double bytes, seconds; /* above 0 */
} cleave_link_sample;

/* The figures that are nearest to `n` samples, a post and at least two sizes one way among them,
   where messages of `large_from_bytes` (0: none) may take longer; of polls none.  FAILED when
   memory is short or the solver fails. */
cleave_status cleave_link_fit(const cleave_link_sample *samples, int32_t n, double large_from_bytes,
                              cleave_link_measurement *result, cleave_error *error);

/* The figures that are nearest to samples of two sizes or more, in the order of their bytes, by
   least squares: small messages are alike, and from which size on they are large is tried out, or,
   where `large_from_bytes` is not 0, that size. */
void cleave_link_fit_polls(const cleave_poll_sample *samples, int32_t n, double large_from_bytes,
                           cleave_poll_figures *figures);

/* Where to look next for the size that large messages begin at: the middle, in proportion, of the
   last sample that a fit takes as small and the first that is large, in whole KiB; 0: they are less
   than half as far apart again, or neighbours in KiB. */
int64_t cleave_link_next_polled(const cleave_poll_sample *samples, int32_t n);

#endif
