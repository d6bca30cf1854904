/* A layout lowered for a machine: the program that is simulated, and what each device of it takes.
 */
#ifndef CLEAVE_SIMULATOR_STEP_PRICED_PROGRAM_H
#define CLEAVE_SIMULATOR_STEP_PRICED_PROGRAM_H

#include "costmodel/cost.h"
#include "graph/model/layout.h"
#include "graph/program/program.h"

/* What a training step of a layout is on a machine. */
typedef struct cleave_priced_program {
    cleave_program program;
    cleave_cost_cache *cache; /* destroy it */
    int32_t n_devices;        /* the program's, or those of all its windows */
    int64_t *peak_bytes;      /* [n_devices] arena and the runtime's constant */
    int64_t bytes_sent;
    bool is_folded;
    cleave_error not_folded; /* why not, where that was asked for */
} cleave_priced_program;

typedef struct cleave_pricing {
    bool closed_form; /* collectives as one item each, else expanded; then they count in no bytes */
    bool folded; /* where the layout folds, the first window alone, with memory and bytes of all
                    devices; all devices where it does not */
    int optimizer_states;
} cleave_pricing;

/* Lowers with the machine's workspaces and counts bytes, for training where the model trains. */
cleave_status cleave_priced_program_make(const cleave_model *model, const cleave_machine *machine,
                                         const cleave_layout *layout, const cleave_pricing *how,
                                         cleave_arena *arena, cleave_priced_program *priced,
                                         cleave_error *error);

#endif
