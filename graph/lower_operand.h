/* Operands: the local pieces that parts read.  Equal needs (tensor, device, box) share one.  An
   operand is filled from demands on the base tensors under its views, from what its device holds of
   a parameter, or from another operand; where the box and the memory order agree it is that other
   memory. */
#ifndef CLEAVE_GRAPH_LOWER_OPERAND_H
#define CLEAVE_GRAPH_LOWER_OPERAND_H

#include "graph/lower_move.h"

typedef struct lower_operand {
    int32_t tensor, device;
    cleave_box box;
    int32_t buffer;
    int32_t first_piece, n_pieces;
    bool whole;  /* one piece that covers it and lies as in its base tensor: may be other memory */
    bool filled; /* what no piece covers has its value */
    bool arrived;
} lower_operand;

typedef struct lower_operand_piece {
    cleave_piece piece;   /* of the base tensor */
    int32_t demand;       /* in the forward movement of an activation, else -1 */
    int32_t from_operand; /* an operand over the base tensor to copy from, else -1 */
} lower_operand_piece;

/* What a device holds of a parameter or buffer. */
typedef struct lower_holder {
    int32_t device, buffer;
    cleave_box box;    /* bounding box of what it uses */
    int32_t first_use; /* linked list through uses[].next */
} lower_holder;

typedef struct lower_use {
    cleave_box box;
    int32_t next;
} lower_use;

typedef struct lower_accumulator {
    int32_t nest, input;
} lower_accumulator;

/* Everything that is known per tensor; movements and holders of base tensors only. */
typedef struct lower_tensor {
    movement forward, backward;
    int32_t pending;                   /* backward passes that have not contributed yet */
    CLEAVE_LIST(lower_holder) holders; /* by device of first use */
    lower_region *shards;  /* [holders] of a sharded update, else null; empty box: no shard */
    int32_t *first_demand; /* [holders] of the gradient */
    /* Gradients of this tensor, a view perhaps, that later backward passes may add to: (nest,
       input) of those that began one. */
    CLEAVE_LIST(lower_accumulator) accumulators;
    int32_t *main_after; /* [n_devices] parameter gradients: last item of the communication lane, or
                            -1 */
} lower_tensor;

typedef struct lowering {
    lower_builder base;
    lower_tensor *tensors; /* [n_tensors] */
    CLEAVE_LIST(lower_operand) operands;
    CLEAVE_LIST(lower_operand_piece) pieces;
    CLEAVE_LIST(lower_use) uses;
    int32_t *table; /* open addressing: operand id + 1 */
    int32_t table_size;
    int32_t *operand_of;  /* [sum of parts][CLEAVE_MAX_INPUTS + 1] operand of every input, then the
                             combined output */
    int32_t *gradient_of; /* likewise: buffer of the gradient of every input, or -1 */
    int32_t *first_part;  /* [n_nests] row of the nest's first part in operand_of */
    CLEAVE_LIST(int32_t)
    updated; /* parameters in the order in which their gradients are complete */
} lowering;

/* Finds or makes the operand. */
int32_t lower_operand_need(lowering *state, int32_t tensor, int32_t device, const cleave_box *box);

/* Once all needs are known: what the devices hold of parameters, buffers and constants. */
void lower_operand_place_holders(lowering *state);

/* Gives what a pad adds its value, in all operands that the forward movement of a tensor goes to;
   before anything of the movement can arrive. */
void lower_operand_prepare(lowering *state, int32_t tensor);

/* Makes sure the operand is there, in the current slot. */
void lower_operand_arrive(lowering *state, int32_t operand);

lower_holder *lower_holder_find(lower_tensor *tensor, int32_t device);

#endif
