/* One rank's part of a program: its memory, its two lanes, and the loop that walks them. */
#ifndef CLEAVE_EXEC_RANK_H
#define CLEAVE_EXEC_RANK_H

#include "exec/kernels/kernel.h"
#include "exec/run.h"
#include "exec/world/world.h"
#include "graph/program/program.h"

/* Fills a local piece of a datum for a step. */
typedef cleave_status cleave_rank_load(void *context, const cleave_buffer *buffer, int64_t step,
                                       void *data, cleave_error *error);

typedef struct cleave_rank {
    cleave_world *world;
    const cleave_program *program;
    const cleave_run_options *options;
    cleave_kernels *kernels;
    cleave_kernel_cut *cuts; /* [n_computes] for the kernels' threads, n 0: not found yet; null: one
                                thread */
    cleave_rank_load *load;
    void *load_context;
    int32_t device;
    char *memory; /* peak_bytes[device], touched */
    int32_t n_lane_items[CLEAVE_N_LANES];
    int32_t *lane_items[CLEAVE_N_LANES]; /* ids of this device's items, in the order they are run */
    int32_t position[CLEAVE_N_LANES];    /* head of each lane */
    int32_t *request_of;                 /* [n_messages] slot of the world, -1: not of this rank */
    bool *done;                          /* [n_items] of this step */
    int64_t step;                        /* from 0 */
    double step_started;                 /* seconds */
    int64_t *start, *end;       /* [n_items] picoseconds within the step, of this rank's items */
    double kernel_seconds;      /* of compute and update items in this step, without their polls */
    double polled_seconds;      /* of the polls between pieces in this step, */
    int64_t n_polls;            /* how many there were, */
    int64_t n_polls_that_moved; /* and in how many the communication lane came on */
    int32_t n_under_way;        /* messages that were posted and waited for by no item yet */
    /* Null, or does what an item wrote hold a NaN (exec/training/watch.h)?  And the first one of
       this step that did; -1: none was seen. */
    bool (*finds_nan)(const struct cleave_rank *rank, const cleave_item *item);
    int32_t nan_item;
    int64_t dropped;          /* choices of experts in this step (exec/dropped.h) */
    bool communicating;       /* an item of the communication lane is being run */
    int64_t *sent, *received; /* [n_devices] bytes in this step, to and from */
} cleave_rank;

/* The memory that its program takes, touched; to be freed.  FAILED where it is short. */
cleave_status cleave_rank_new_memory(const cleave_rank *rank, char **memory, cleave_error *error);

/* Finds the lanes.  A rank without memory, which the caller sets before a step, and to null before
   the rank is destroyed where it is not the rank's to free.  All else lives in the arena. */
cleave_status cleave_rank_create_within(cleave_rank *rank, cleave_world *world,
                                        const cleave_program *program,
                                        const cleave_run_options *options, cleave_arena *arena,
                                        cleave_error *error);
void cleave_rank_destroy(cleave_rank *rank);

static inline void *cleave_rank_buffer(const cleave_rank *rank, int32_t buffer) {
    return rank->memory + rank->program->buffers[buffer].offset;
}

/* One step.  FAILED when a transfer stalls, naming it. */
cleave_status cleave_rank_step(cleave_rank *rank, int64_t step, cleave_error *error);

#endif
