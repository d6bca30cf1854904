/* When what is lowered: the slots of a model, and the families of its tensors.

   A slot is one (nest, pass), or the update of one parameter; their order depends on the model
   alone.

   A family is a set of base tensors that views join: what a layout does to them can't be told
   apart. (Most have one member.  A concatenation joins its sources, an assignment joins its two
   ends, and the statistics of attention are with its output, which they weigh.) Everything that
   happens to the tensors of a family follows from the splits of the operators that read or write
   them, so families are lowered one by one, each on its own, and a change of one split concerns the
   families of its operator only.

   An event is what a family does in a slot, in order.  A slot is: what its nest reads, its
   computes, what it writes; `rank` tells the three apart and orders the events of one slot. */
#ifndef CLEAVE_GRAPH_LOWER_SLOTS_H
#define CLEAVE_GRAPH_LOWER_SLOTS_H

#include "base/list.h"
#include "graph/lower/fragment.h"

typedef enum lower_event_kind {
    LOWER_READ,           /* forward: the nest reads an input */
    LOWER_WRITE,          /* forward: the nest writes its output, or (input 0) its statistics */
    LOWER_READ_LOSS,      /* the whole loss, on all devices that computed some of it */
    LOWER_READ_OUTPUT,    /* forward programs: output `input` of the model, piece by piece */
    LOWER_READ_GRADIENT,  /* backward: the gradient of the nest's output */
    LOWER_READ_COMBINED,  /* backward: the combined output; or (input 0) an attention's output,
                             where its keys are split */
    LOWER_WRITE_GRADIENT, /* backward: the nest gives the gradient of an input */
    LOWER_GATHER,         /* of a weight that is sharded: for `visit` */
    LOWER_REDUCE,         /* of a gradient that is sharded: what `visit` gave */
    LOWER_SETTLE,         /* it is there, and is added to what came before */
    LOWER_SET_OUT,        /* the gradient of parameter `tensor`, with others that it waited for */
    LOWER_NORM_BEGIN,     /* of the squares of all gradients, where they are clipped: before, */
    LOWER_NORM_ADD,       /* of parameter `tensor`: its gradient's, */
    LOWER_NORM_END,       /* and their sum */
    LOWER_UPDATE_EARLY,   /* of parameter `tensor`, in the slot with which its gradient is whole */
    LOWER_UPDATE,         /* of parameter `tensor`, behind all of backward: update.c says which */
    LOWER_ASSIGN          /* assignment `input` */
} lower_event_kind;

/* Before all that the nest of a slot reads, and behind all that it writes. */
enum {
    LOWER_RANK_GATHER = -1,
    LOWER_RANK_REDUCE = CLEAVE_RANK_COMPUTE + CLEAVE_MAX_INPUTS + 1,
    LOWER_RANK_SETTLE,
    LOWER_RANK_UPDATE, /* last: what is sent need not wait for it */
    LOWER_N_RANKS = LOWER_RANK_UPDATE - LOWER_RANK_GATHER + 1
};

typedef struct lower_event {
    lower_event_kind kind;
    int32_t slot, rank;
    int32_t nest, input; /* -1 where there is none */
    int32_t tensor;      /* that is read, written or updated: a view, perhaps */
    bool again;          /* what is recomputed is read, or written, as it comes the second time */
    int32_t visit;       /* that it is part of, of sharded weights and gradients; or -1 */
    int32_t ring; /* of keys that go round, from the second turn on: a number in the family of
                     how its block, or what there is of its gradient, comes; or -1 */
} lower_event;

typedef CLEAVE_LIST(lower_event) lower_event_list;

/* A run of slots of one block that read a tensor in which there are weights that are sharded, or
   that give its gradient (visit.h). */
typedef struct lower_visit {
    int32_t tensor; /* perhaps a view */
    int32_t stage;
    uint8_t when;  /* cleave_when */
    bool gives;    /* the gradient */
    int32_t group; /* of those that give: what they add up to comes together in the update */
    int32_t first_slot, last_slot;
    int32_t aside;          /* slot where the weight is gathered, or the gradient is settled */
    int32_t first_movement; /* of the family: one of each base tensor under `tensor` */
} lower_visit;

typedef struct lower_schedule {
    int32_t n_slots, n_families, n_events;
    int32_t n_prologue_slots; /* the first ones, which all micro-batches go through before the
                                 others (graph/model/micro_batch.h) */
    cleave_slot *slots;       /* [n_slots] forward, backward, updates */
    int32_t *family_of;       /* [n_tensors] */
    int32_t *first_member, *members; /* [n_families + 1]; base tensors of each family, ascending */
    int32_t *first_event;            /* [n_families + 1] */
    lower_event *events;             /* [n_events] by family, then in order */
    /* Where to find the events of a nest, -1: none.  [n_nests][CLEAVE_MAX_INPUTS] or [n_nests]. */
    int32_t (*read)[CLEAVE_MAX_INPUTS], (*write_gradient)[CLEAVE_MAX_INPUTS];
    int32_t *write, *write_statistics, *read_gradient, *read_combined, *read_output;
    /* The same of what comes again: what backward reads, where it is there. */
    int32_t (*read_again)[CLEAVE_MAX_INPUTS], *write_again, *write_statistics_again;
    /* What a backward pass reads by itself: [n_nests][pass - 1], -1: it does not. */
    int32_t (*read_back)[CLEAVE_PASS_WEIGHT_GRADIENT][CLEAVE_MAX_INPUTS];
    int32_t n_visits;
    lower_visit *visits;
    int32_t *n_movements; /* [n_families] of all visits */
    int32_t *n_rings;     /* [n_families] events that have such a number */
    int32_t
        *again_in; /* [n_tensors] the stage in which a base tensor comes again; -1: it does not */
    int32_t *stage_of;                      /* [n_nests] */
    int32_t (*slot_of)[CLEAVE_PASS_UPDATE]; /* [n_nests][pass] of generation 0; -1: none */
    /* How many backward passes contribute to the gradient of a base tensor, [n_tensors]; and
       whether the last of them in the order of slots need not be the last in time, since others are
       in other blocks: then it is put together with the update. */
    int32_t *n_contributing;
    bool *joins_late;
    int32_t *early_in; /* [n_tensors] slot of its early update; -1: none, or no parameter */
    bool *waits;       /* [n_tensors] its gradient sets out later than it is whole, with others */
    /* Families that the tensors of an operator's nests belong to, ascending: [n_operators + 1]. */
    int32_t *first_touched, *touched;
} lower_schedule;

/* Of a finished model; `micro` null: the whole batch at once; gradients of weights behind all
   others, where the blocks of the layout's schedule part them; forward comes again where the layout
   says so (null: neither).  `together_bytes`: as in cleave_lower_options.  FAILED when memory is
   short. */
cleave_status lower_schedule_create(const cleave_model *model, bool training,
                                    int64_t together_bytes, const cleave_micro_batches *micro,
                                    const cleave_layout *layout, cleave_arena *arena,
                                    lower_schedule *schedule, cleave_error *error);

/* What a nest writes at an event. */
static inline const cleave_operand *lower_written(const cleave_nest *nest,
                                                  const lower_event *event) {
    return event->input < 0 ? &nest->output : &nest->statistics;
}

/* alike.c: see cleave_lowerer_alike. */
cleave_status lower_find_alike(const cleave_model *model, const lower_schedule *schedule,
                               cleave_arena *arena, cleave_alike *alike, cleave_error *error);

/* Does anything under a tensor come again in the stage? */
bool lower_sees_again(const lower_schedule *schedule, const cleave_model *model, int32_t tensor,
                      int32_t stage);

#endif
