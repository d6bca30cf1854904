/* A lower bound of the step of every layout in so many micro-batches, whatever its stages, its
   schedule, and what it recomputes. */
#ifndef CLEAVE_SEARCH_BOUND_MICRO_BATCHES_H
#define CLEAVE_SEARCH_BOUND_MICRO_BATCHES_H

#include "search/bound/bound.h"

typedef struct cleave_micro_bound_options {
    int32_t micro_batches; /* 1 or more */
    int optimizer_states;
    cleave_bound_forms forms;            /* not of windows */
    const cleave_layout *const *layouts; /* [n_layouts] whose splits are of the space besides */
    int32_t n_layouts;
    /* Null, or what keeps what is the same for other numbers of micro-batches; for that alone,
       since it is left with a model that is gone. */
    cleave_node_costs *costs;
    /* Null, or what operators are known to take at least of the whole batch in other numbers of
       micro-batches, [n_operators] picoseconds, INT64_MAX where nothing is; what this one finds is
       noted there. */
    int64_t *least;
    double
        enough_seconds; /* of bounds that are not below this any will do; 0: the best is wanted */
    bool work_alone;    /* of steps that follow each other: none has to wait for its own path */
} cleave_micro_bound_options;

/* The space is all splits of candidates on the machine's blocks (search/problem/candidates.h),
   those that a list of candidates leaves out, too, those of data parallel and megatron on groups of
   all sizes, and those of `layouts`; each micro-batch of it an m-th of the batch, the same for all
   operators.  BAD_INPUT where the batch can't be cut so: then there is no such layout.  The proof
   is in micro_batches.c. */
cleave_status cleave_lower_bound_in_micro_batches(const cleave_problem *problem,
                                                  const cleave_micro_bound_options *options,
                                                  double *seconds, cleave_error *error);

#endif
