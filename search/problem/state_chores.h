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

#endif
