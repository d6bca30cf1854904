/* The parts of cleave_simulate_prepare, for programs and for fragments of them. */
#ifndef CLEAVE_SIMULATOR_STEP_PREPARE_H
#define CLEAVE_SIMULATOR_STEP_PREPARE_H

#include "costmodel/cost.h"
#include "simulator/step/engine.h"

typedef struct cleave_preparation {
    const cleave_program *program;
    const cleave_machine *machine;
    cleave_arena *arena;
    cleave_engine_problem *problem; /* gets what is prepared */
    cleave_error *error;
    int32_t *image; /* of a window: cleave_machine_fold_links; else null */
    bool nearby; /* of a window: collectives of all windows take the links at the first one alone,
                    by their images: what else they take is not known from a part of a program */
} cleave_preparation;

/* kind, queue, subject and duration of the program's items. */
cleave_status cleave_prepare_items(const cleave_preparation *preparation, cleave_cost_cache *cache);
/* Hops of its messages, and the work of their ends, where any link asks for some. */
cleave_status cleave_prepare_messages(const cleave_preparation *preparation,
                                      cleave_cost_cache *cache);
/* Its symbolic collectives in closed form, with what the JOINs of its all-to-alls take. */
cleave_status cleave_prepare_collectives(const cleave_preparation *preparation,
                                         cleave_cost_cache *cache);

cleave_status cleave_prepare_links(const cleave_machine *machine, cleave_arena *arena,
                                   cleave_engine_problem *problem, cleave_error *error);

#endif
