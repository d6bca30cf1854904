/* What each micro-batch has of its own.

   Families are lowered once, for the first micro-batch.  Of what is done in every one, the others
   have the like: items with records of their own, on buffers of their own, whose boxes lie further
   on in the batch.  Buffers that something uses which is done once, and those that micro-batches
   add to, are there once. */
#ifndef CLEAVE_GRAPH_LOWER_INSTANCES_H
#define CLEAVE_GRAPH_LOWER_INSTANCES_H

#include "graph/lower/assemble.h"

/* Makes the buffers of all micro-batches, once all fragments are there. */
void lower_instances_make(lower_assembly *assembly);

/* The buffer that stands for this one, or -1, in a micro-batch. */
static inline int32_t lower_instance_of(const lower_assembly *assembly, int32_t buffer,
                                        int32_t window) {
    return buffer < 0 || window == 0 || assembly->is_shared[buffer]
               ? buffer
               : assembly->first_instance[buffer] + window - 1;
}

/* Gives an item of a micro-batch after the first a load, copy or collective of its own, if its
   subject is one. */
int32_t lower_instance_subject(lower_assembly *assembly, const cleave_item *item, int32_t window);

/* A part of a nest, as it is in a micro-batch. */
void lower_instance_part(const lower_assembly *assembly, int32_t nest, int32_t window,
                         cleave_part *part);

/* A box of a tensor, of the first micro-batch, as it is in another. */
void lower_instance_box(const lower_builder *builder, int32_t tensor, int32_t window,
                        cleave_box *box);

static inline bool lower_runs_in(uint8_t when, int32_t window, int32_t n_windows) {
    return when == CLEAVE_WHEN_EVERY || (when == CLEAVE_WHEN_FIRST && window == 0) ||
           (when == CLEAVE_WHEN_LAST && window == n_windows - 1);
}

#endif
