/* Micro-batches: what of a step can be done for one part of the batch after the other.

   A micro-batch is a window of the batch, and windows come one after the other on the same devices:
   window u of m does with its m-th of the samples what window 0 does with the first.  Everything of
   a step is done in every window, or once:

   - a nest that walks over the samples runs in every window, and so does its backward;
   - what depends on no sample (functions of parameters, masks) is there from the first window on;
     its gradient is complete behind the last;
   - what adds up over the samples (the loss) is there behind the last window, and so is what
     follows from it.  Its gradient is known before the first, since all that follows from it has to
     be linear in it: a backward that asks for its value could not begin;
   - but what adds up over samples of data alone (how many targets count) is found beforehand, in a
     prologue that goes through all windows: so a mean is that of the whole batch.

   A model in which a nest needs more than its window of the batch (statistics over the batch) can't
   be cut: without the rest of the batch it would be another model. */
#ifndef CLEAVE_GRAPH_MODEL_MICRO_BATCH_H
#define CLEAVE_GRAPH_MODEL_MICRO_BATCH_H

#include "graph/model/share_out.h"

/* In which windows something is done, or since when a value is there. */
typedef enum cleave_when {
    CLEAVE_WHEN_EVERY, /* in every window anew */
    CLEAVE_WHEN_FIRST, /* in the first, and kept to the end of the step */
    CLEAVE_WHEN_LAST   /* in the last */
} cleave_when;

typedef struct cleave_micro_batches {
    int32_t n;              /* m, 1 or more; with 1 all windows are the first and the last */
    cleave_sharing sharing; /* by samples */
    uint8_t *value;         /* [n_tensors] cleave_when: of a tensor, views too */
    bool *in_prologue;      /* [n_nests] */
} cleave_micro_batches;

/* In the arena.  BAD_INPUT, naming operator and tensor, where the model can't be cut, or not into
   so many.  Linear in the model. */
cleave_status cleave_micro_batches_find(const cleave_model *model, int32_t n, cleave_arena *arena,
                                        cleave_micro_batches *found, cleave_error *error);

/* The model of one micro-batch: the same operators, nests and tensors under the same numbers, with
   the extents that a window has.  It refers to the names and values of the model, and lives in the
   arena.  For prices, never for lowering: a mean still divides by the whole batch. */
cleave_status cleave_micro_batches_model(const cleave_model *model,
                                         const cleave_micro_batches *micro, cleave_arena *arena,
                                         cleave_model *of_one, cleave_error *error);

/* When the gradient of a value that is there so is complete. */
static inline cleave_when cleave_when_gradient(cleave_when value) {
    return value == CLEAVE_WHEN_EVERY   ? CLEAVE_WHEN_EVERY
           : value == CLEAVE_WHEN_FIRST ? CLEAVE_WHEN_LAST
                                        : CLEAVE_WHEN_FIRST;
}

/* When a pass of a nest runs; `micro` null: the whole batch at once. */
cleave_when cleave_micro_batches_when(const cleave_micro_batches *micro, const cleave_model *model,
                                      int32_t nest, cleave_pass pass);

/* Indices of a nest's shared axis, or of a tensor's shared dimension, from one window to the next.
 */
static inline int64_t cleave_micro_batches_step(const cleave_micro_batches *micro, int64_t extent) {
    return extent / micro->n;
}

#endif
