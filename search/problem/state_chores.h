/* What a device does for a parameter besides its passes, its updates and its messages: the chores
   of its framework (graph/program/framework.h), and the sums of what micro-batches give. */
#ifndef CLEAVE_SEARCH_PROBLEM_STATE_CHORES_H
#define CLEAVE_SEARCH_PROBLEM_STATE_CHORES_H

#include "costmodel/cost.h"
#include "graph/model/layout.h"

/* Picoseconds, of which nothing is hidden. */
typedef struct cleave_state_chores {
    int64_t unpacking; /* each time that it is gathered */
    int64_t packing;   /* in each micro-batch whose gradient is reduced */
    int64_t adding;    /* in each micro-batch but the first */
    int64_t bucketing; /* once */
} cleave_state_chores;

/* Where a device has so many elements of a parameter that the operator reads, as so many others do,
   itself included.  By the slowest kind of devices. */
cleave_state_chores cleave_state_chores_of(const cleave_machine *machine, const cleave_model *model,
                                           int32_t op, int32_t parameter, cleave_sharded sharded,
                                           double elements, double n_sharers);

/* In each of so many micro-batches; weights are gathered forward, once more where that is done
   again, and backward. */
double cleave_state_chores_each(const cleave_state_chores *chores, int32_t micro_batches,
                                bool again);

/* Picoseconds that all devices together have at least of chores of an operator's gradients under a
   split, in a step of every layout: what parts give for the same element is packed, or put into a
   bucket, whatever of the state is sharded.  The proof is in state_chores.c. */
typedef struct cleave_least_chores {
    int64_t (*each)[CLEAVE_MAX_INPUTS]; /* [n_nests] of what has each element under one key; 0:
                                           nothing is told */
} cleave_least_chores;
cleave_status cleave_least_chores_find(const cleave_model *model, const cleave_machine *machine,
                                       cleave_arena *arena, cleave_least_chores *chores,
                                       cleave_error *error);
/* `model` may be of a micro-batch. */
int64_t cleave_least_chores_of(const cleave_model *model, const cleave_least_chores *chores,
                               int32_t op, const cleave_split *split);

#endif
