/* A layout lowered for a machine: the program that is simulated, and what each device of it takes.
 */
#ifndef CLEAVE_SIMULATOR_STEP_PRICED_PROGRAM_H
#define CLEAVE_SIMULATOR_STEP_PRICED_PROGRAM_H

#include "costmodel/cost.h"
#include "graph/model/layout.h"
#include "graph/program/program.h"
#include "graph/program/traffic.h"
#include "simulator/step/few.h"

/* Of more devices than this collectives stay in closed form, and a search looks at what folds
   (search/reach.c): nobody lowers thousands of devices one by one. */
enum { CLEAVE_MOST_LOWERED = 64 };

/* What a training step of a layout is on a machine. */
typedef struct cleave_priced_program {
    cleave_program program;      /* with all its items; or, */
    bool is_few;                 /* of a few micro-batches that tell of all: */
    cleave_few few;              /* where it is */
    cleave_cost_cache *cache;    /* destroy it */
    int32_t n_devices;           /* the program's, or those of all its windows */
    int64_t n_items, n_messages; /* of all micro-batches and windows */
    int64_t *peak_bytes;         /* [n_devices] arena and the runtime's constant */
    int64_t bytes_sent;
    bool is_folded;
} cleave_priced_program;

/* Which step, and how it is looked at. */
typedef struct cleave_pricing {
    const cleave_model *model; /* as cleave_model_fuse_attention makes it for the layout */
    const cleave_machine *machine;
    const cleave_layout *layout;
    bool closed_form; /* collectives as one item each, which they are on many devices, and where
                         the machine has them measured, in any case; else expanded */
    bool all_devices; /* also where the layout folds, and the first window alone would do, with
                         memory and bytes of all: collectives in closed form are alike in windows */
    bool all_micro_batches; /* also where a few of so many tell of all that not each should be
                               lowered: for who looks at single items */
    bool few_micro_batches; /* for tests: a few wherever they tell of all, however many there are */
    int optimizer_states;
} cleave_pricing;

/* Lowers with the machine's workspaces and counts bytes, for training where the model trains.
   FAILED, naming what to do, where all of it would take more memory than there is. */
cleave_status cleave_priced_program_make(const cleave_pricing *of, cleave_arena *arena,
                                         cleave_priced_program *priced, cleave_error *error);

/* How the items of the program tell of the step's: null of a program with all of them. */
static inline const cleave_turns *cleave_priced_turns(const cleave_priced_program *priced) {
    return priced->is_few ? &priced->few.turns : NULL;
}
static inline cleave_traffic_times cleave_priced_times(const cleave_priced_program *priced) {
    return priced->is_few
               ? (cleave_traffic_times){priced->few.message_times, priced->few.collective_times}
               : (cleave_traffic_times){0};
}

#endif
