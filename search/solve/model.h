/* The additive model of a step: what each operator's split costs by itself, and what each tensor
   costs that goes from one split to another.

   Costs are closed forms, from boxes and the machine; nothing is lowered.  A tensor that several
   operators read alike costs each of them an even share: it moves once where they are split alike.
   Cost grows with the kinds of pairs, not with layers, and with the square of the values' shardings
   that differ; a few microseconds each on 64 devices.  They leave out that
   communication overlaps with computation, that links are shared, and that operators on different
   devices run at once: the simulator, which sees all this, has the last word
   (search/improve/refine.h). */
#ifndef CLEAVE_SEARCH_SOLVE_MODEL_H
#define CLEAVE_SEARCH_SOLVE_MODEL_H

#include "search/problem/candidates.h"
#include "search/problem/state_chores.h"
#include "search/solve/additive.h"

/* What the parameters that an operator is the first to read take with so much of their state
   sharded (cleave_sharded_as).  Of messages half of an
   all-reduce is a reduce-scatter, and the other half an all-gather. */
typedef struct cleave_additive_state {
    int64_t bytes;     /* of a device, for good */
    int64_t once;      /* picoseconds: updates, and what is sent before them */
    int64_t behind;    /* and behind them, which no backward is left to hide */
    int64_t gathering; /* picoseconds of each pass of a micro-batch that reads weights; */
    int64_t reducing;  /* and of what comes of the gradients of a micro-batch */
    int64_t passing;   /* bytes of both, as long as the operator works */
    cleave_state_chores chores;
} cleave_additive_state;

/* Bytes of a device that the second operator holds of what the first one wrote, for as long as a
   backward pass may ask for them: what it reads otherwise than it was written is a copy of its own,
   and what several read alike is one, of which each counts an even share. */
typedef struct cleave_additive_reading {
    int32_t writer, reader;
    const int64_t *kept; /* [n_values of the writer][n_values of the reader] for its backward, */
    const int64_t *read; /* and for its forward, were that done again */
} cleave_additive_reading;

/* The variables are the operators. */
typedef struct cleave_additive_model {
    cleave_additive additive;
    const int32_t *
        *candidates; /* [n_operators][n_values] of the operators' list, at their first block */
    cleave_additive_limit memory; /* bytes of a device: persistent tensors and what forward keeps;
                                     most is 0 where there is no limit */
    int64_t fixed;                /* picoseconds that no choice changes */
    /* [n_operators][n_values] of what these costs and bytes are made, for who counts it otherwise:
       of a pipeline parameters are brought up to date once, and activations are kept by as many
       micro-batches as are in flight. */
    const int64_t **once;  /* picoseconds of `cost`: updates and their synchronisation */
    const int64_t **kept;  /* bytes of `weight`: activations that forward keeps for backward */
    const int64_t **own;   /* bytes of these that its own backward reads; */
    const int64_t **wrote; /* bytes of activations that it writes and anybody else reads */
    int32_t n_readings;    /* 0 where they were not asked for */
    const cleave_additive_reading *readings;
    const cleave_additive_state **state; /* [n_operators][n_values x CLEAVE_N_SHARDED]; of
                                            SHARDED_NOTHING `cost` and `weight` have it */
    const cleave_additive_state **tied;  /* the same, bytes alone, of parameters that another
                                            operator reads before it */
} cleave_additive_model;

typedef struct cleave_additive_options {
    int optimizer_states;
    int64_t memory_limit_bytes; /* per device; 0: the machine's */
    int32_t most_values;  /* of a variable; those with the least costs of their own are kept, and
                             those of the given layouts */
    bool keeps_gradients; /* until the end of the step, of all parameters: no update is early */
    double exposed_sync;  /* share of the synchronisation of parameters that is not hidden behind
                             the backward pass, 0..1 */
    const cleave_layout *const *given; /* [n_given] as they were given to the candidates */
    int32_t n_given;
    bool lists_readings;
    const cleave_layout *around; /* null: as said above; else values are the candidates that change
                                    the total least when an operator alone gets them, the others
                                    having what they have in this layout: for changes of it */
} cleave_additive_options;

cleave_status cleave_additive_model_create(const cleave_model *model, const cleave_machine *machine,
                                           const cleave_candidates *candidates,
                                           const cleave_additive_options *options,
                                           cleave_arena *arena, cleave_additive_model *made,
                                           cleave_error *error);

/* The layout of a choice of values, without rules for collectives. */
cleave_status cleave_additive_model_layout(const cleave_additive_model *made,
                                           const cleave_model *model, const cleave_machine *machine,
                                           const cleave_candidates *candidates,
                                           const int32_t *value, cleave_arena *arena,
                                           cleave_layout *layout, cleave_error *error);

#endif
