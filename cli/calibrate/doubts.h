/* What a calibration should not be trusted in: whatever varied too much while it was measured, and
   whatever there was no time for.  Where that is much a warning says so, and what to do. */
#ifndef CLEAVE_CLI_CALIBRATE_DOUBTS_H
#define CLEAVE_CLI_CALIBRATE_DOUBTS_H

#include "cli/calibrate/works.h"
#include "exec/measure/measure.h"
#include "exec/measure/measure_link.h"

#include <stdio.h>

/* All zero at first. */
typedef struct calibrate_doubts {
    int32_t n_works, n_left;                      /* wanted work; what of it is not measured, */
    const calibrate_work *costliest_left;         /* and the first of that; or null */
    double seconds, vague_seconds, hasty_seconds; /* of wanted work that was measured: of all; of
                                                     vague medians; of too few repeats for want of
                                                     time */
    const calibrate_work *vaguest, *hastiest;     /* that on which most depends; or null */
    double vaguest_seconds, hastiest_seconds;     /* how far it may be off; what it takes */
    int32_t n_sizes, n_vague_sizes;               /* of messages, over all links */
    int64_t vaguest_bytes;                        /* of a message */
    double vaguest_share;                         /* by which its median may be off */
} calibrate_doubts;

/* Of work in the order of importance.  `hurried`: it would have got more time, had there been more.
 */
void calibrate_doubts_measured(calibrate_doubts *doubts, const calibrate_work *work,
                               const cleave_measurement *result, bool hurried);
void calibrate_doubts_left(calibrate_doubts *doubts, const calibrate_work *work);
void calibrate_doubts_link(calibrate_doubts *doubts, const cleave_link_figures *figures);

/* A line for each thing that there is much of; `again`: no file is gone on with. */
void calibrate_doubts_print(const calibrate_doubts *doubts, double time, bool again, FILE *to);

#endif
