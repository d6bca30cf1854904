/* When each item of a program happens, by the two rules of time for links. */
#ifndef CLEAVE_SIMULATOR_STEP_SIMULATE_H
#define CLEAVE_SIMULATOR_STEP_SIMULATE_H

#include "costmodel/cost.h"
#include "graph/program/timeline.h"
#include "simulator/step/engine.h"

typedef enum cleave_rule {
    CLEAVE_RULE_EVENTS, /* a link serves whole transfers one at a time by (readiness, key): an event
                           queue */
    CLEAVE_RULE_SCAN    /* a link serves transfers in program order: one pass */
} cleave_rule;

/* Simulates a program.  The timeline lives in the arena. */
cleave_status cleave_simulate(const cleave_program *program, cleave_cost_cache *cache,
                              cleave_rule rule, cleave_arena *arena, cleave_timeline *timeline,
                              cleave_error *error);

/* The two halves of cleave_simulate, for a search: prices a program, and runs what came of it.  The
   problem and the workspace live in the arena and can be run any number of times; a workspace may
   be kept for other problems that are no larger. */
cleave_status cleave_simulate_prepare(const cleave_program *program, cleave_cost_cache *cache,
                                      cleave_arena *arena, cleave_engine_problem *problem,
                                      cleave_error *error);
/* The first half, of a program of a few micro-batches, for simulator/scan/turns.h. */
cleave_status cleave_simulate_prepare_few(const cleave_program *program, const cleave_turns *turns,
                                          cleave_cost_cache *cache, cleave_arena *arena,
                                          cleave_engine_problem *problem, cleave_error *error);
cleave_status cleave_simulate_run(const cleave_engine_problem *problem, cleave_rule rule,
                                  cleave_engine_workspace *workspace, cleave_timeline *timeline,
                                  cleave_error *error);

#endif
