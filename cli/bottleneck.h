/* The resource that is busiest during a step: a device or a link. */
#ifndef CLEAVE_CLI_BOTTLENECK_H
#define CLEAVE_CLI_BOTTLENECK_H

#include "costmodel/cost.h"

typedef struct bottleneck {
    char name[128];      /* "device 3", "link card 0 -> switch" */
    double busy_seconds; /* of a step */
} bottleneck;

/* Durations are those of cleave_cost_items; links are busy for the bytes over their bandwidth. */
cleave_status bottleneck_find(const cleave_program *program, const cleave_machine *machine,
                              cleave_cost_cache *cache, cleave_arena *arena, bottleneck *busiest,
                              cleave_error *error);

#endif
