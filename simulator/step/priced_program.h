/* A layout lowered for a machine: the program that is simulated, and what each device of it takes.
 */
#ifndef CLEAVE_SIMULATOR_STEP_PRICED_PROGRAM_H
#define CLEAVE_SIMULATOR_STEP_PRICED_PROGRAM_H

#include "costmodel/cost.h"
#include "graph/model/layout.h"
#include "graph/program/program.h"

/* Of more devices than this collectives stay in closed form, and a search looks at what folds
   (search/reach.c): nobody lowers thousands of devices one by one. */
enum { CLEAVE_MOST_LOWERED = 64 };

/* What a training step of a layout is on a machine. */
typedef struct cleave_priced_program {
    cleave_program program;
    cleave_cost_cache *cache; /* destroy it */
    int32_t n_devices;        /* the program's, or those of all its windows */
    int64_t *peak_bytes;      /* [n_devices] arena and the runtime's constant */
    int64_t bytes_sent;
    bool is_folded;
} cleave_priced_program;

typedef struct cleave_pricing {
    bool closed_form; /* collectives as one item each, which they are on many devices, and where
                         the machine has them measured, in any case; else expanded */
    bool all_devices; /* also where the layout folds, and the first window alone would do, with
                         memory and bytes of all: collectives in closed form are alike in windows */
    int optimizer_states;
} cleave_pricing;

/* Lowers with the machine's workspaces and counts bytes, for training where the model trains. */
cleave_status cleave_priced_program_make(const cleave_model *model, const cleave_machine *machine,
                                         const cleave_layout *layout, const cleave_pricing *how,
                                         cleave_arena *arena, cleave_priced_program *priced,
                                         cleave_error *error);

#endif
