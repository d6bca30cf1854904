/* What the scan derives of a problem, and the memory that it runs in. */
#ifndef CLEAVE_SIMULATOR_SCAN_ENGINE_SCAN_H
#define CLEAVE_SIMULATOR_SCAN_ENGINE_SCAN_H

#include "simulator/step/engine_workspace.h"

/* Of a problem that is checked: its steps, and the runs of work between them. */
cleave_status cleave_scan_find_steps(cleave_engine_problem *problem, cleave_arena *arena,
                                     cleave_error *error);

/* For a workspace that has its own arrays; null when memory is short. */
cleave_scan_memory *cleave_scan_memory_create(const cleave_engine_problem *problem,
                                              const cleave_engine_workspace *workspace,
                                              cleave_arena *arena);

#endif
