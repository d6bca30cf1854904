/* Schedules of the learning rate: what it is in a step, as a function of the number of that step in
   the whole training, so a run that goes on from a checkpoint needs no state of it.

   Over the first `warmup` steps it rises in equal parts from rate / warmup to the rate.  From then
   on it falls to `final`, along a line or half a wave of the cosine, which it would reach in the
   step after the last of `steps`, and where it stays.  With N steps and W of warm-up that is
   PyTorch's LinearLR from 1 / W to 1 in W - 1 steps, up to milestone W, and then
   CosineAnnealingLR to `final`, or LinearLR from 1 to final / rate, in N - W steps. */
#ifndef CLEAVE_EXEC_KERNELS_RATE_SCHEDULE_H
#define CLEAVE_EXEC_KERNELS_RATE_SCHEDULE_H

#include "base/error.h"

#include <stdint.h>

typedef enum cleave_rate_kind {
    CLEAVE_RATE_CONSTANT,
    CLEAVE_RATE_LINEAR,
    CLEAVE_RATE_COSINE,
    CLEAVE_N_RATES
} cleave_rate_kind;

extern const char *const cleave_rate_names[CLEAVE_N_RATES];

typedef struct cleave_rate_schedule {
    cleave_rate_kind kind;
    int64_t warmup; /* steps */
    int64_t steps;  /* warm-up and fall; of a constant rate 0 */
    double final;   /* the rate at the end; of a constant rate 0 */
} cleave_rate_schedule;

/* Makes a schedule of what is asked for: its name (null: constant), warm-up, steps (0: all of the
   training) and final rate.  BAD_INPUT for another name, where it ends before its warm-up does, or
   with more than the rate, and where a constant rate is to fall. */
cleave_status cleave_rate_schedule_make(const char *name, const cleave_rate_schedule *asked,
                                        int64_t all_steps, double rate,
                                        cleave_rate_schedule *schedule, cleave_error *error);

bool cleave_rate_schedule_equal(const cleave_rate_schedule *a, const cleave_rate_schedule *b);

/* As options say it: "cosine, --warmup 10, --lr-steps 300, --lr-final 0.0001". */
void cleave_rate_schedule_format(const cleave_rate_schedule *schedule, char *text, size_t bytes);

/* The rate in a step, which counts from 1. */
double cleave_rate_at(const cleave_rate_schedule *schedule, double rate, int64_t step);

#endif
