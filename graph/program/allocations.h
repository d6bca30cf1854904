/* What a framework allocates and lets go again, in order of time.

   What happens at an item is told apart in four steps: first goes what the items before it had, and
   last comes what it needs itself; in between layers of weights and gradients come and go
   (graph/program/gathered_layers.h).  What is kept stays for all steps that follow. */
#ifndef CLEAVE_GRAPH_PROGRAM_ALLOCATIONS_H
#define CLEAVE_GRAPH_PROGRAM_ALLOCATIONS_H

#include "base/list.h"

enum { CLEAVE_STEPS_OF_ITEM = 4 };

/* Before a step of an item. */
static inline int64_t cleave_moment(int32_t item, int step) {
    return (int64_t)item * CLEAVE_STEPS_OF_ITEM + step;
}

/* Streams, each of which has blocks of its own in the allocator. */
typedef enum cleave_stream {
    CLEAVE_STREAM_COMPUTE,
    CLEAVE_STREAM_GATHER,
    CLEAVE_STREAM_REDUCE
} cleave_stream;

typedef struct cleave_allocation_change {
    int64_t moment;
    int64_t bytes; /* less than 0: it goes */
    int32_t id, device;
    cleave_stream stream;
    bool is_kept; /* and never goes */
    /* It goes, but its block is not free until another change: each counts for one of the two. */
    bool is_held, frees_block;
} cleave_allocation_change;

/* All 0 in the beginning. */
typedef struct cleave_allocations {
    CLEAVE_LIST(cleave_allocation_change)
    changes; /* two of each, or one of what is
                   kept, or three of what is held */
    int32_t n;
    bool failed; /* memory was short */
} cleave_allocations;

/* From a moment until another; nothing, unless it lasts and has bytes. */
void cleave_allocations_add(cleave_allocations *all, int32_t device, cleave_stream stream,
                            int64_t from, int64_t until, int64_t bytes);
/* The same, but that its block is free from `free_from` on only, `until` or later. */
void cleave_allocations_hold(cleave_allocations *all, int32_t device, int64_t from, int64_t until,
                             int64_t free_from, int64_t bytes);
/* From a moment of the first step on; nothing, unless it has bytes. */
void cleave_allocations_keep(cleave_allocations *all, int32_t device, int64_t from, int64_t bytes);
/* In order of time; at one moment what goes goes first, else as they were added. */
void cleave_allocations_sort(cleave_allocations *all);

#endif
