/* When each item of a program happens, by the two rules of time for links. */
#ifndef CLEAVE_SIMULATOR_SIMULATE_H
#define CLEAVE_SIMULATOR_SIMULATE_H

#include "costmodel/cost.h"
#include "graph/timeline.h"

typedef enum cleave_rule {
    CLEAVE_RULE_EVENTS, /* a link serves whole transfers one at a time by (readiness, key): an event
                           queue */
    CLEAVE_RULE_SCAN    /* a link serves transfers in program order: one pass */
} cleave_rule;

/* Simulates a program.  The timeline lives in the arena. */
cleave_status cleave_simulate(const cleave_program *program, cleave_cost_cache *cache,
                              cleave_rule rule, cleave_arena *arena, cleave_timeline *timeline,
                              cleave_error *error);

#endif
