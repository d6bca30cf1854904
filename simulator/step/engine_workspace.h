/* The arrays that the engines keep beside problem and timeline. */
#ifndef CLEAVE_SIMULATOR_STEP_ENGINE_WORKSPACE_H
#define CLEAVE_SIMULATOR_STEP_ENGINE_WORKSPACE_H

#include "simulator/step/engine.h"

typedef struct cleave_scan_memory cleave_scan_memory;
typedef struct cleave_events_memory cleave_events_memory;

/* What an engine leaves of the last run, and what it needs for itself. */
struct cleave_engine_workspace {
    int64_t *hop_begin;      /* [n_hops] */
    int64_t *end_begin;      /* [n_messages][2] when its source and its destination began to work on
                                each message that has work */
    int64_t *collective_end; /* [n_collectives] */
    cleave_scan_memory *scan;
    cleave_events_memory *events;
};

#endif
