/* How long devices and links do something in a step, whenever that is. */
#ifndef CLEAVE_SIMULATOR_STEP_BUSY_H
#define CLEAVE_SIMULATOR_STEP_BUSY_H

#include "simulator/step/engine.h"
#include "simulator/step/turned.h"

typedef struct cleave_busy {
    int32_t n_devices, n_links;
    int64_t *device;    /* [n_devices] picoseconds, the durations of its items in both lanes */
    int64_t *link;      /* [n_links] picoseconds, of messages' hops across it */
    int64_t main_lanes; /* picoseconds, of all devices */
} cleave_busy;

/* Of a finished problem whose items come by turns.  In the arena. */
cleave_status cleave_busy_find(const cleave_engine_problem *problem, const cleave_turned *turned,
                               cleave_arena *arena, cleave_busy *busy, cleave_error *error);

#endif
