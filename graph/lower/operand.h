/* Operands: the local pieces that parts read.  Equal needs (tensor, device, box) share one.  An
   operand is filled from demands on the base tensors under its views, from what its device holds of
   a parameter, or from another operand; where the box and the memory order agree it is that other
   memory. */
#ifndef CLEAVE_GRAPH_LOWER_OPERAND_H
#define CLEAVE_GRAPH_LOWER_OPERAND_H

#include "graph/lower/move.h"
#include "graph/lower/slots.h"

typedef struct lower_operand {
    int32_t tensor, device;
    cleave_box box;
    int32_t again_in; /* the stage whose backward reads it, where something of it comes again; else
                         -1 */
    int32_t visit;    /* that reads it, where there are weights under it that are sharded; or -1 */
    int32_t buffer;
    int32_t first_piece, n_pieces;
    bool whole;  /* one piece that covers it and lies as in its base tensor: may be other memory */
    bool filled; /* what no piece covers has its value */
    bool arrived;
    bool passed; /* of keys that go round: it comes from another part's, and no other need shares it
                  */
} lower_operand;

typedef struct lower_operand_piece {
    cleave_piece piece; /* of the base tensor */
    bool again;         /* it comes from the second forward */
    int32_t demand;     /* in the forward movement of an activation, or that of the visit; or -1 */
    int32_t from_operand; /* an operand over the base tensor to copy from, else -1 */
} lower_operand_piece;

/* What a device holds of a parameter or buffer. */
typedef struct lower_holder {
    int32_t device, buffer;
    cleave_box box;    /* bounding box of what it uses */
    int32_t first_use; /* linked list through uses[].next */
} lower_holder;

/* What a holder updates of a parameter, as it lies in the memory that the update changes. */
typedef struct lower_share {
    int32_t holder;
    lower_region at;
    int32_t master;        /* buffer that it updates first, of its box; -1: none */
    int32_t first_demand;  /* of its gradient */
    int32_t gradient;      /* once it was looked at before the update; else -1 */
    int32_t first_counted; /* linked list through counted[].next */
    /* A block of so many along a dimension; no blocks: it is all that the holder has.  Of a fold
       whose windows share out what all use, the like of it in the next window is `per_window`
       blocks further; 0: there is none. */
    int dimension;
    int32_t block, n_blocks, per_window;
    int64_t start, extent; /* of what is cut into blocks */
} lower_share;

/* A box of a parameter that a share updates, and so many devices alike. */
typedef struct lower_counted {
    cleave_box box;
    int32_t n_devices;
    int32_t next; /* of the same share, or -1 */
} lower_counted;

typedef struct lower_use {
    cleave_box box;
    int32_t next;
} lower_use;

typedef struct lower_accumulator {
    int32_t nest, input;
} lower_accumulator;

/* What visits of a group have given for a share so far. */
typedef struct lower_total {
    int32_t group, share;
    lower_region at;
} lower_total;

/* What a visit does with one base tensor. */
typedef struct lower_visiting {
    movement move;
    int32_t *after; /* [n_devices] mark in the communication lane, or -1; null: nobody's */
} lower_visiting;

/* How a turn of keys that go round gets what it reads, or adds to (ring.h). */
typedef struct lower_passing {
    int32_t *after;    /* [n_devices] mark in the communication lane, or -1; null: nobody's */
    int32_t *received; /* [parts] buffers */
} lower_passing;

/* Everything that is known per tensor; movements and holders of base tensors only. */
typedef struct lower_tensor {
    movement forward, backward;
    movement again;                    /* forward, where it comes the second time */
    int32_t pending;                   /* backward passes that have not contributed yet */
    CLEAVE_LIST(lower_holder) holders; /* by device of first use */
    CLEAVE_LIST(lower_share) shares;   /* of a parameter, in training: see share.c */
    CLEAVE_LIST(lower_total) totals;   /* of a gradient that visits give */
    uint8_t sharded; /* cleave_sharded: shares cover each element once; or not at all: each holder
                        has all that it holds */
    /* Gradients of this tensor, a view perhaps, that later backward passes may add to: (nest,
       input) of those that began one. */
    CLEAVE_LIST(lower_accumulator) accumulators;
    int32_t *main_after; /* [holders] mark in the communication lane that the update waits for; -1:
                            none */
} lower_tensor;

/* One family under way. */
typedef struct lowering {
    lower_builder base;
    const lower_schedule *schedule;
    int32_t family;
    const int32_t *member; /* the base tensor that alone is lowered; null: all of the family are */
    int32_t n_events;
    const int32_t
        *events; /* [n_events] those that concern the member, ascending; of a family null */
    int32_t n_lent, first_lent; /* of schedule->members: those that have the spare lists */
    const lower_event *event;   /* that is planned or run */
    int32_t part;               /* of its nest */
    CLEAVE_LIST(cleave_fragment_stretch) stretches; /* of a member */
    lower_tensor *tensors; /* [n_tensors] base tensors of the family are in use */
    int32_t n_spare;
    lower_tensor
        *spare; /* [n_spare: most base tensors of a family] the memory of lists, which is lent to
                   the tensors of one family after the other: so it stays in caches */
    int32_t n_visiting;
    lower_visiting *visiting; /* [n_visiting: most of a family] as visits say */
    lower_passing *passing;   /* by the events' numbers */
    CLEAVE_LIST(lower_operand) operands;
    CLEAVE_LIST(lower_operand_piece) pieces;
    CLEAVE_LIST(lower_use) uses;
    CLEAVE_LIST(lower_counted) counted; /* of the parameter at hand */
    cleave_piece_list pulled;           /* of the operand at hand */
    int32_t *table;                     /* open addressing: operand id + 1 */
    int32_t table_size;
    int32_t *first_row; /* [events of the family] of rows */
    /* Per event and part (of an assignment: per holder of its target): the operand that is read, -1
       where there is none, LOWER_ADDS where a gradient is added to, LOWER_CARRIES where only
       micro-batches after the first add to it; and the buffer that is read or written. */
    CLEAVE_LIST(int32_t) rows;
    CLEAVE_LIST(int32_t) bindings;
} lowering;

enum { LOWER_ADDS = -2, LOWER_CARRIES = -3 };

/* The i-th event that is lowered, of schedule->events. */
static inline int32_t lower_nth_event(const lowering *state, int32_t i) {
    return state->events != NULL ? state->events[i]
                                 : state->schedule->first_event[state->family] + i;
}

/* What follows belongs to this piece of the event's part: noted where one member is lowered. */
void lower_begin_stretch(lowering *state, bool planned, int32_t piece);

/* Row of an event of this family. */
static inline int32_t *lower_row(const lowering *state, int32_t event) {
    int32_t first = state->schedule->first_event[state->family];
    return state->rows.items + state->first_row[event - first];
}
static inline int32_t *lower_binding(const lowering *state, int32_t event) {
    int32_t first = state->schedule->first_event[state->family];
    return state->bindings.items + state->first_row[event - first];
}

/* Finds or makes the operand; `again_in`: the stage whose backward reads it, for which some of it
   may come again; -1: forward does; `visit`: that weights under it are gathered for, or -1. */
int32_t lower_operand_need(lowering *state, int32_t tensor, int32_t device, const cleave_box *box,
                           int32_t again_in, int32_t visit);

/* Makes one for a box that another part has: see `passed`. */
int32_t lower_operand_passed(lowering *state, int32_t tensor, int32_t device,
                             const cleave_box *box);

/* What a visit does with a base tensor under its own; does it gather it?  And its main lane waits
   there (shard.c). */
lower_visiting *lower_visiting_of(const lowering *state, int32_t visit, int32_t base);
bool lower_is_gathered(const lowering *state, int32_t tensor);
/* True where it had still to wait. */
bool lower_await_visiting(lowering *state, lower_visiting *at, int32_t device);
/* What frameworks do with the gradient of a weight, of what each device gives that is sent: read as
   it arises and written as it is sent. */
void lower_chores_of_gradient(lowering *state, const movement *move, cleave_chore chore);

/* Once all needs are known: what the devices hold of parameters, buffers and constants. */
void lower_operand_place_holders(lowering *state);

/* Gives what a pad adds its value, in all operands that a forward movement goes to;
   before anything of the movement can arrive. */
void lower_operand_prepare(lowering *state, const movement *move);

/* Combines what it is made of, in the current slot. */
void lower_operand_combine(lowering *state, int32_t operand);
/* Makes sure the operand is there, in the current slot. */
void lower_operand_arrive(lowering *state, int32_t operand);

#endif
