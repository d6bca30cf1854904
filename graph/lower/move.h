/* The one rule of movement.  A tensor in one phase has contributors (key, device, box) and demands
   (device, box).  The tensor is cut into cells, the grid refinement of all those boxes.  Cells with
   one key are values and go to every reader; cells with several are partial results, combined once
   at an owner, in a fixed order, and then go to every reader.  Replicas carry the same key and
   count once; replicas that have all keys are owners all, and combine them alike.

   Forward values and partial results, gradients, parameters and running statistics all move by
   this. */
#ifndef CLEAVE_GRAPH_LOWER_MOVE_H
#define CLEAVE_GRAPH_LOWER_MOVE_H

#include "graph/lower/builder.h"

typedef struct move_contribution {
    int64_t key; /* order of combination */
    int32_t device;
    lower_region at;
    bool may_take;     /* its buffer serves nothing else later: a demand may come to lie in it */
    bool taken;        /* one does */
    bool sent[2];      /* to other devices: as a value, as a partial result */
    bool becomes_sum;  /* others' are added to it while it is on its way to them */
    bool every_window; /* of a fold: each window contributes the like, under a key of its own */
    int32_t of_window; /* of a fold: 1 + the window whose device has this share; 0: no share */
} move_contribution;

typedef struct move_demand {
    int32_t device;
    lower_region at;
    int32_t operand; /* that it belongs to (operand.h), or -1 */
    bool may_move; /* the whole of a buffer that nobody else refers to yet: may be laid elsewhere */
    int32_t of_window; /* as of contributions */
} move_demand;

/* Something that goes from one device to another in one stage. */
typedef enum move_stage {
    MOVE_VALUE,   /* a value to a reader */
    MOVE_PARTIAL, /* a partial result to its owner */
    MOVE_RESULT,  /* a combined result to a reader */
    MOVE_N_STAGES
} move_stage;

/* Where something lies: a contribution's id; or ~id of one of the movement's sums. */
typedef int32_t move_place;

typedef struct move_flow {
    int32_t transfer;
    int32_t box;                     /* of boxes */
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
    int32_t exchange;            /* that it is part of, or -1 */
    int32_t n_flows, first_flow; /* of flows_by_transfer; of an exchange, if it is one: the flow */
    int64_t bytes;
    int64_t summed_elements; /* that are added to others while packing */
    int64_t added_elements;  /* read and written by the owner of partial results */
    lower_run run;
    int32_t send_buffer,
        receive_buffer; /* packed, or -1 where the message is sent or received in place */
    bool arrived;
    /* Of an exchange, instead: */
    bool unpacks;
    int32_t sent_from, received_in; /* buffers where it is sent or received in place, or -1 */
    int32_t next_in_place;          /* of the same source; or -1 */
} move_transfer;

/* An end of a message in place: an offset of elements in a buffer. */
typedef struct move_end {
    int32_t buffer;
    int64_t offset;
} move_end;

/* Transfers of one stage that an all-to-all stands for, in the symbolic form. */
typedef struct move_exchange {
    move_stage stage;
    int32_t n_devices, n_transfers;
    const int32_t *devices; /* ascending */
    int32_t collective;     /* once it is posted */
} move_exchange;

/* A device in an exchange. */
typedef struct move_member {
    int32_t exchange, index;             /* -1: in none; among its devices */
    int32_t join;                        /* item */
    int64_t sent_bytes, received_bytes;  /* packed */
    int32_t send_buffer, receive_buffer; /* of those, or -1 */
    int32_t first_in_place;              /* transfer that is sent in place, or -1 */
    bool awaited;
} move_member;

/* A copy within a device: towards a demand (value) or an owner's sum. */
typedef struct move_local {
    int32_t device;
    int32_t demand; /* -1: part of combining */
    cleave_copy_mode mode;
    int32_t box;         /* of boxes */
    move_place to, from; /* `to`: where there is no demand; `from`: where it is no fill */
    int32_t next;        /* towards the same demand, or of the same device's combining; or -1 */
} move_local;

/* Where an owner combines a block. */
typedef struct move_sum {
    lower_region at;
    int32_t device;
    bool receives, sent; /* partial results of others; to other readers */
} move_sum;

/* A demand that a flow goes to. */
typedef struct move_target {
    int32_t demand, flow;
    int32_t next; /* of the same demand, in the order of flows; or -1 */
} move_target;

/* A cell that waits for the decision whether it is part of a collective: see collective.c. */
typedef struct move_cell {
    cleave_box box;
    int32_t root;   /* the device that has it (all-gather) or gets it (reduce-scatter); -1: all */
    int32_t window; /* of a fold: of which that device is the like of `root` */
    int32_t first_member; /* of cell_members: ids of contributions, one device for each key, then of
                             demands */
    int32_t n_contributions, n_demands;
} move_cell;

/* Cells of one kind that the same group of devices shares. */
typedef struct move_bucket {
    cleave_collective_kind kind;
    int32_t n_devices;
    const int32_t *devices; /* ascending */
    uint64_t hash;          /* of the set of devices */
    int32_t n_windows;      /* 1; or of a fold whose windows all take part with such devices */
    CLEAVE_LIST(int32_t) cells;
} move_bucket;

typedef struct movement {
    int32_t tensor;
    cleave_lane lane;
    cleave_combiner combiner;  /* of several keys */
    bool zero_where_unwritten; /* gradients; else an error */
    bool repeats;              /* of a fold: in all windows in the same place */
    /* Of what goes to readers; of sums, as they are combined; and of partial results on their way:
       by contributions and demands, when the movement begins. */
    cleave_type value_type, sum_type, partial_type;
    CLEAVE_LIST(move_contribution) contributions;
    CLEAVE_LIST(move_demand) demands;
    /* What cutting gives: */
    CLEAVE_LIST(move_flow) flows;
    CLEAVE_LIST(move_transfer) transfers; /* in the order in which they were met */
    CLEAVE_LIST(move_local) locals;
    CLEAVE_LIST(cleave_box) boxes;  /* of flows and locals */
    CLEAVE_LIST(int64_t) sizes;     /* [boxes] elements */
    CLEAVE_LIST(move_place) places; /* of flows */
    CLEAVE_LIST(move_sum) sums;
    CLEAVE_LIST(move_target) targets;
    CLEAVE_LIST(move_bucket) buckets;
    CLEAVE_LIST(move_cell) cells;
    CLEAVE_LIST(int32_t) cell_members;
    CLEAVE_LIST(move_exchange) exchanges;
    move_member *members[MOVE_N_STAGES]; /* [n_devices]; null: no exchange in the stage */
    int32_t *transfer_table;             /* [transfer_table_size] open addressing: id + 1 */
    int32_t transfer_table_size;
    int32_t *posting;              /* [transfers] as they are posted */
    int32_t *flows_by_transfer;    /* but for partial results in an exchange */
    int32_t *first_target;         /* [demands] or -1 */
    int32_t *first_local;          /* [demands] or -1 */
    struct lower_cutting *cutting; /* see cell.h */
    bool *involved; /* [n_devices] has items in the communication lane; null: nobody has */
    bool begun, combined;
} movement;

/* Adds a contribution whose region is left to the caller, and which is otherwise as if zeroed. */
static inline move_contribution *move_contribute(lower_builder *builder, movement *move,
                                                 int64_t key, int32_t device) {
    move_contribution *added = LOWER_ROOM(builder, &move->contributions);
    move->contributions.n++;
    added->key = key;
    added->device = device;
    added->may_take = added->taken = added->sent[0] = added->sent[1] = false;
    added->becomes_sum = added->every_window = false;
    added->of_window = 0;
    return added;
}

/* Adds a demand and returns its region, which is left to the caller. */
static inline lower_region *move_demand_of(lower_builder *builder, movement *move, int32_t device,
                                           int32_t operand, bool may_move) {
    move_demand *added = LOWER_ROOM(builder, &move->demands);
    move->demands.n++;
    added->device = device;
    added->operand = operand;
    added->may_move = may_move;
    added->of_window = 0;
    return &added->at;
}

/* What a contribution is comes anew in every micro-batch: it becomes what all of them give
   together, in a buffer of its own of this kind. */
void move_carry(lower_builder *builder, const movement *move, cleave_buffer_kind kind,
                move_contribution *contribution);

/* Cuts the tensor and posts what can be posted: values, and partial results to their owners.  Call
   once, in the slot of the last contributor.  Demands whose box is that of a local contribution may
   come to lie in that contribution's buffer: read their regions afterwards. */
void move_begin(lower_builder *builder, movement *move);

/* Combines at the owners and posts the results; nothing the second time. */
void move_combine(lower_builder *builder, movement *move);

/* Waits for and unpacks all that goes to one demand, in the slot of its first reader. */
void move_arrive(lower_builder *builder, movement *move, int32_t demand);

/* All three for all demands, in the movement's lane. */
void move_all(lower_builder *builder, movement *move);

/* Empties a movement but keeps the memory of its lists; and gives that back. */
void movement_clear(movement *move);
void movement_free(movement *move);

/* Where a transfer starts and ends, if its elements lie in one run there. */
bool move_sent_in_place(const lower_builder *builder, const movement *move,
                        const move_transfer *transfer, move_end *end);
bool move_received_in_place(const lower_builder *builder, const movement *move,
                            const move_transfer *transfer, move_end *end);
static inline const lower_region *move_place_of(const movement *move, move_place at) {
    return at >= 0 ? &move->contributions.items[at].at : &move->sums.items[~at].at;
}
/* The i-th flow of a transfer. */
static inline move_flow *move_flow_of(const movement *move, const move_transfer *transfer,
                                      int32_t i) {
    return &move->flows.items[move->flows_by_transfer[transfer->first_flow + i]];
}

/* Flows and transfers (transfer.c).  A flow of a box between two devices, whose places the caller
   has listed: the last `n_sources` there are, but for the owner's sum of a partial result; of
   others the last `n_targets` targets are its own. */
void move_add_value(lower_builder *builder, movement *move, move_stage stage, int32_t source,
                    int32_t destination, int32_t box, int32_t n_targets);
void move_add_partial(lower_builder *builder, movement *move, int32_t source, int32_t destination,
                      int32_t box, int32_t n_sources, bool starts);
/* Once all cells are settled: the order of posting. */
void move_sort_transfers(lower_builder *builder, movement *move);
/* Once exchanges are found: flows by transfers, and what arrives, and local copies, by demands. */
void move_index_flows(lower_builder *builder, movement *move);

/* Exchanges (exchange.c): found once transfers are; posted and combined with the messages of
   a stage.  What arrives for a demand is awaited transfer by transfer, of each so many bytes, and
   then unpacked. */
void move_exchanges_find(lower_builder *builder, movement *move);
void move_exchanges_post(lower_builder *builder, movement *move, move_stage stage);
void move_exchanges_combine(lower_builder *builder, movement *move);
void move_exchange_arrive(lower_builder *builder, movement *move, const move_transfer *transfer,
                          int64_t bytes, cleave_packing *unpacking);
void move_exchange_unpack(lower_builder *builder, movement *move, int32_t demand,
                          const cleave_packing *unpacking);

/* Collectives (collective.c). */
bool move_group_is_collective(const lower_builder *builder, int32_t n_devices);

void move_collectives_combine(lower_builder *builder, movement *move);

/* Of the elements of a message of this stage. */
static inline cleave_type move_type(const movement *move, move_stage stage) {
    return stage == MOVE_PARTIAL ? move->partial_type : move->value_type;
}

static inline cleave_copy_mode move_mode(const movement *move) {
    return move->combiner == CLEAVE_COMBINE_MAX          ? CLEAVE_COPY_MAX
           : move->combiner == CLEAVE_COMBINE_MOMENTS    ? CLEAVE_COPY_MOMENTS
           : move->combiner == CLEAVE_COMBINE_STATISTICS ? CLEAVE_COPY_STATISTICS
                                                         : CLEAVE_COPY_SUM;
}

#endif
