/* The memory that the events engine runs in. */
#ifndef CLEAVE_SIMULATOR_EVENTS_ENGINE_EVENTS_H
#define CLEAVE_SIMULATOR_EVENTS_ENGINE_EVENTS_H

#include "simulator/step/engine_workspace.h"

/* For a workspace that has its own arrays; null when memory is short. */
cleave_events_memory *cleave_events_memory_create(const cleave_engine_problem *problem,
                                                  const cleave_engine_workspace *workspace,
                                                  cleave_arena *arena);

#endif
