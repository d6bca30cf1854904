/* A layout's training step on a machine, or its pass forward: lowered, priced and simulated. */
#ifndef CLEAVE_SIMULATOR_STEP_LAYOUT_STEP_H
#define CLEAVE_SIMULATOR_STEP_LAYOUT_STEP_H

#include "simulator/step/priced_program.h"
#include "simulator/step/simulated_step.h"

typedef struct cleave_layout_step {
    cleave_priced_program priced;
    cleave_simulated_step simulated; /* by the scan */
} cleave_layout_step;

/* Model, machine and layout have to live as long.  Destroy the step, also after a failure. */
cleave_status cleave_layout_step_make(const cleave_pricing *of, cleave_arena *arena,
                                      cleave_layout_step *step, cleave_error *error);
void cleave_layout_step_destroy(cleave_layout_step *step);

double cleave_layout_step_seconds(const cleave_layout_step *step);
/* Of the fullest device. */
int64_t cleave_layout_step_peak_bytes(const cleave_layout_step *step);

#endif
