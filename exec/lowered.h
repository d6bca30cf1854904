/* The program that a run's options ask for, with the scratch that its kernels want. */
#ifndef CLEAVE_EXEC_LOWERED_H
#define CLEAVE_EXEC_LOWERED_H

#include "exec/run.h"
#include "graph/program/program.h"

/* The layout is legal.  Lives in the arena; checked. */
cleave_status cleave_lower_run(const cleave_model *model, const cleave_layout *layout,
                               const cleave_run_options *options, cleave_arena *arena,
                               cleave_program *program, cleave_error *error);

#endif
