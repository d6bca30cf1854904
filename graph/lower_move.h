/* The one rule of movement.  A tensor in one phase has contributors (key, device, box) and demands
   (device, box).  The tensor is cut into cells, the grid refinement of all those boxes.  Cells with
   one key are values and go to every reader; cells with several are partial results, combined once
   at an owner, in a fixed order, and then go to every reader.  Replicas carry the same key and
   count once.

   Forward values and partial results, gradients, parameters and running statistics all move by
   this. */
#ifndef CLEAVE_GRAPH_LOWER_MOVE_H
#define CLEAVE_GRAPH_LOWER_MOVE_H

#include "graph/lower_builder.h"

typedef struct move_contribution {
    int64_t key; /* order of combination */
    int32_t device;
    lower_region at;
    bool may_take;     /* its buffer serves nothing else later: a demand may come to lie in it */
    bool taken;        /* one does */
    bool every_window; /* of a fold: each window contributes the like, under a key of its own */
} move_contribution;

typedef struct move_demand {
    int32_t device;
    lower_region at;
    int32_t operand; /* that it belongs to (lower_operand.h), or -1 */
    bool may_move; /* the whole of a buffer that nobody else refers to yet: may be laid elsewhere */
} move_demand;

/* Something that goes from one device to another in one stage. */
typedef enum move_stage {
    MOVE_VALUE,   /* a value to a reader */
    MOVE_PARTIAL, /* a partial result to its owner */
    MOVE_RESULT   /* a combined result to a reader */
} move_stage;

/* Where something lies: a contribution's id; or ~id of one of the movement's sums. */
typedef int32_t move_place;

typedef struct move_flow {
    move_stage stage;
    int32_t source, destination;
    int32_t box; /* of boxes */
    int32_t transfer;
    int32_t first_source, n_sources; /* of places: combined while packing; of a partial result, the
                                        owner's sum stands just behind them */
    int32_t first_target, n_targets; /* of targets; a partial result has none */
    bool starts;                     /* a partial result: the first to arrive, which is assigned */
    int64_t packed;                  /* elements before it in its message */
} move_flow;

/* All flows of one stage between two devices: one message. */
typedef struct move_transfer {
    move_stage stage;
    int32_t source, destination;
    int32_t first_flow, n_flows; /* sorted flows */
    int64_t bytes;
    lower_run run;
    int32_t send_buffer,
        receive_buffer; /* packed, or -1 where the message is sent or received in place */
    bool arrived;
} move_transfer;

/* A copy within a device: towards a demand (value) or an owner's sum. */
typedef struct move_local {
    int32_t device;
    int32_t demand; /* -1: part of combining */
    cleave_copy_mode mode;
    int32_t box;         /* of boxes */
    move_place to, from; /* `to`: where there is no demand; `from`: where it is no fill */
    int32_t next;        /* towards the same demand, or of the same device's combining; or -1 */
} move_local;

/* A demand that a flow goes to. */
typedef struct move_target {
    int32_t demand, flow;
    int32_t next; /* of the same demand, in the order of flows; or -1 */
} move_target;

/* A cell that waits for the decision whether it is part of a collective: see lower_collective.c. */
typedef struct move_cell {
    cleave_box box;
    int32_t root; /* the device that has it (all-gather) or gets it (reduce-scatter); -1: all */
    int32_t first_member; /* of cell_members: ids of contributions, one device for each key, then of
                             demands */
    int32_t n_contributions, n_demands;
} move_cell;

/* Cells of one kind that the same group of devices shares. */
typedef struct move_bucket {
    cleave_collective_kind kind;
    int32_t n_devices;
    const int32_t *devices; /* ascending */
    int32_t n_windows;      /* 1; or of a fold whose windows all take part with such devices */
    CLEAVE_LIST(int32_t) cells;
} move_bucket;

typedef struct movement {
    int32_t tensor;
    cleave_lane lane;
    cleave_combiner combiner;  /* of several keys */
    bool zero_where_unwritten; /* gradients; else an error */
    bool repeats;              /* of a fold: in all windows in the same place */
    CLEAVE_LIST(move_contribution) contributions;
    CLEAVE_LIST(move_demand) demands;
    /* What cutting gives: */
    CLEAVE_LIST(move_flow) flows;
    CLEAVE_LIST(move_transfer) transfers;
    CLEAVE_LIST(move_local) locals;
    CLEAVE_LIST(cleave_box) boxes;  /* of flows and locals */
    CLEAVE_LIST(move_place) places; /* of flows */
    CLEAVE_LIST(lower_region) sums; /* where owners combine */
    CLEAVE_LIST(move_target) targets;
    CLEAVE_LIST(move_bucket) buckets;
    CLEAVE_LIST(move_cell) cells;
    CLEAVE_LIST(int32_t) cell_members;
    int32_t *first_target;         /* [demands] or -1 */
    int32_t *first_local;          /* [demands] or -1 */
    struct lower_cutting *cutting; /* see lower_cell.h */
    bool *involved; /* [n_devices] has items in the communication lane; null: nobody has */
    bool begun, combined;
} movement;

/* Cuts the tensor and posts what can be posted: values, and partial results to their owners.  Call
   once, in the slot of the last contributor.  Demands whose box is that of a local contribution may
   come to lie in that contribution's buffer: read their regions afterwards. */
void move_begin(lower_builder *builder, movement *move);

/* Combines at the owners and posts the results.  Called by move_arrive; nothing the second time. */
void move_combine(lower_builder *builder, movement *move);

/* Waits for and unpacks all that goes to one demand, in the slot of its first reader. */
void move_arrive(lower_builder *builder, movement *move, int32_t demand);

/* All three for all demands, in the movement's lane. */
void move_all(lower_builder *builder, movement *move);

/* Empties a movement but keeps the memory of its lists; and gives that back. */
void movement_clear(movement *move);
void movement_free(movement *move);

/* Collectives (lower_collective.c). */
bool move_group_is_collective(const lower_builder *builder, int32_t n_devices);

void move_collectives_combine(lower_builder *builder, movement *move);

static inline cleave_copy_mode move_mode(const movement *move) {
    return move->combiner == CLEAVE_COMBINE_MAX       ? CLEAVE_COPY_MAX
           : move->combiner == CLEAVE_COMBINE_MOMENTS ? CLEAVE_COPY_MOMENTS
                                                      : CLEAVE_COPY_SUM;
}

#endif
