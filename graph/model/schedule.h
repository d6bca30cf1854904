/* A schedule: micro-batches, stages, and in which order stages do them.

   The operators of a model, in its order, are cut into stages; a stage runs on a group of devices,
   and two stages have the same group or no device in common.  A block is what a stage does for one
   micro-batch: forward, backward, or, where gradients of weights stand apart, these.  Each group
   takes its blocks in an order that the kind of the schedule says, or the file:

   - gpipe: all forwards, then all backwards (Huang et al. 2019);
   - 1f1b: after a few forwards by turns one backward and one forward, so that fewer micro-batches
     are in flight (PipeDream-Flush, Narayanan et al. 2021);
   - interleaved: 1f1b of several stages a group, the micro-batches in rounds (Narayanan et al.
   2021);
   - zb-h1: 1f1b with the gradients of weights put off, where they fill the bubble (Qi et al. 2024);
   - zb-interleaved: the same of interleaved.

   What is put off keeps what it reads: without recomputation no group keeps more than the first
   does, but what is recomputed would come as late as that and lie there meanwhile.  So gradients of
   weights may come sooner, which costs as much of the bubble as they no longer fill.

   In each order a stage takes its micro-batches one after the other.  The orders make one sequence
   of all blocks, from dependencies and from unit times alone: it knows no costs, is topological,
   and does not exist where the orders wait for each other. */
#ifndef CLEAVE_GRAPH_MODEL_SCHEDULE_H
#define CLEAVE_GRAPH_MODEL_SCHEDULE_H

#include "base/arena.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum cleave_schedule_kind {
    CLEAVE_SCHEDULE_1F1B, /* of one stage: forward and backward of one micro-batch after the other
                           */
    CLEAVE_SCHEDULE_GPIPE,
    CLEAVE_SCHEDULE_INTERLEAVED,
    CLEAVE_SCHEDULE_ZB_H1,
    CLEAVE_SCHEDULE_ZB_INTERLEAVED,
    CLEAVE_SCHEDULE_ORDERS, /* as the file says */
    CLEAVE_N_SCHEDULES
} cleave_schedule_kind;
extern const char *const cleave_schedule_names[CLEAVE_N_SCHEDULES]; /* "1f1b", ..., "orders" */

typedef enum cleave_block_kind {
    CLEAVE_BLOCK_FORWARD,
    CLEAVE_BLOCK_BACKWARD,
    CLEAVE_BLOCK_WEIGHT, /* gradients of weights, where they are no part of backward */
    CLEAVE_N_BLOCK_KINDS
} cleave_block_kind;

typedef struct cleave_stage_block {
    uint8_t kind; /* cleave_block_kind */
    int32_t stage, micro_batch;
} cleave_stage_block;

/* With one stage and one micro-batch a step is forward, then backward: there is nothing to say. */
typedef struct cleave_schedule {
    int32_t micro_batches; /* m, 1 or more */
    int32_t n_stages;      /* S, 1 or more */
    cleave_schedule_kind kind;
    int32_t
        *first_operator; /* [n_stages] with which each begins, ascending from 0; null: 1 stage */
    int32_t *in_flight;  /* [groups] forwards before the first backward, of 1f1b and zb-h1; null: as
                            many as it takes to keep all groups busy */
    int32_t sooner;    /* of zb-h1 and zb-interleaved: by so many blocks less than there are groups
                          before gradients of weights are put off */
    int32_t n_orders;  /* of ORDERS: groups, */
    int32_t *n_blocks; /* [n_orders] */
    cleave_stage_block **orders; /* [n_orders][n_blocks] */
} cleave_schedule;

/* Is there nothing to say: the whole batch, in one stage? */
static inline bool cleave_schedule_is_plain(const cleave_schedule *schedule) {
    return schedule->micro_batches <= 1 && schedule->n_stages <= 1;
}

/* Does each group have several stages, by turns? */
static inline bool cleave_schedule_kind_goes_round(cleave_schedule_kind kind) {
    return kind == CLEAVE_SCHEDULE_INTERLEAVED || kind == CLEAVE_SCHEDULE_ZB_INTERLEAVED;
}

/* Are gradients of weights blocks by themselves? */
static inline bool cleave_schedule_kind_parts_weights(cleave_schedule_kind kind) {
    return kind == CLEAVE_SCHEDULE_ZB_H1 || kind == CLEAVE_SCHEDULE_ZB_INTERLEAVED;
}
bool cleave_schedule_parts_weights(const cleave_schedule *schedule);

/* By how many blocks a group puts them off. */
static inline int32_t cleave_schedule_delay(int32_t group, int32_t sooner) {
    return group > sooner ? group - sooner : 0;
}

static inline int32_t cleave_schedule_stage_of(const cleave_schedule *schedule, int32_t op) {
    int32_t stage = 0;
    while (stage + 1 < schedule->n_stages && schedule->first_operator[stage + 1] <= op)
        stage++;
    return stage;
}

bool cleave_schedule_same(const cleave_schedule *a, const cleave_schedule *b);
cleave_status cleave_schedule_copy(const cleave_schedule *schedule, cleave_arena *arena,
                                   cleave_schedule *copy, cleave_error *error);

/* All blocks in one sequence; `group` is [n_stages], numbered from 0 as they are met.  In the
   arena. BAD_INPUT where the schedule does not go with the groups, or its orders wait for each
   other. */
cleave_status cleave_schedule_sequence(const cleave_schedule *schedule, const int32_t *group,
                                       cleave_arena *arena, cleave_stage_block **sequence,
                                       int32_t *n_blocks, cleave_error *error);
/* The blocks of one of the groups in its order, where stages go round them and no file says it; in
   the arena. */
cleave_status cleave_schedule_order_of(const cleave_schedule *schedule, int32_t n_groups,
                                       int32_t group, cleave_arena *arena,
                                       cleave_stage_block **order, int32_t *n_blocks,
                                       cleave_error *error);
/* Is there a sequence? */
cleave_status cleave_schedule_check_order(const cleave_schedule *schedule, const int32_t *group,
                                          cleave_error *error);

#endif
