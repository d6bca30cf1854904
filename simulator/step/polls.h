/* By how much polls make messages late.  A transport works only while it is called, and a rank that
   computes calls it between two pieces of its work; one that waits, all the time.  So a message
   takes longer by some pieces of what its two ends are doing: of the end that lets it wait longer.
 */
#ifndef CLEAVE_SIMULATOR_STEP_POLLS_H
#define CLEAVE_SIMULATOR_STEP_POLLS_H

#include "simulator/step/work_times.h"

/* What a message waits for at one end. */
typedef struct cleave_end_polls {
    double polls;   /* pieces of the device's work */
    int32_t device; /* work of which from place `until` on waits for the message, so it does not */
    int32_t until;  /* delay it: a run begins there, or the device's work ends */
    int32_t near;   /* the place that the device had come to when the other end posted it, of the
                       same sort: when the message is posted it is likely near there */
} cleave_end_polls;

/* When devices work, and how finely: from a simulation before. */
typedef struct cleave_poll_profile {
    cleave_work_times times;
    int32_t *pieces;        /* [places] 1 or more, a poll after each */
    cleave_end_polls *ends; /* [n_messages][2] its source and its destination */
} cleave_poll_profile;

/* Picoseconds, of a message that both ends have posted at a time.  The cost is a logarithm, and
   what it waits for. */
int64_t cleave_poll_delay(const cleave_poll_profile *profile, int32_t message, int64_t posted);

#endif
