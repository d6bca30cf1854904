/* The resource that is busiest during a step, a device or a link; and how long devices stand still.
 */
#ifndef CLEAVE_CLI_EXPLAIN_BOTTLENECK_H
#define CLEAVE_CLI_EXPLAIN_BOTTLENECK_H

#include "costmodel/machine.h"
#include "simulator/step/engine.h"
#include "simulator/step/turned.h"

typedef struct bottleneck {
    char name[128];      /* "device 3", "link card 0 -> switch" */
    double busy_seconds; /* of a step */
    double main_seconds; /* that main lanes are busy, on average over devices: what is left of a
                            step is its bubble */
} bottleneck;

/* Of a finished problem on its machine: devices are busy for the durations of their items, links
   for those of the hops across them. */
cleave_status bottleneck_find(const cleave_engine_problem *problem, const cleave_turned *turned,
                              const cleave_machine *machine, cleave_arena *arena,
                              bottleneck *busiest, cleave_error *error);

#endif
