/* A program: what a layout of a model is lowered to, and the one thing that is simulated and run.

   Items stand in one global order, which is topological and independent of costs; each device runs
   its projection of it.  A device has two program orders, its lanes: the main lane runs compute and
   the movement of activations; the communication lane runs the movement of parameter gradients
   beside it. Within a lane a device blocks on the head of its order.  A SYNC item waits for an
   earlier item of the same device's other lane.

   All data movement is COPY items (pack, unpack, local copies, sums) and messages of contiguous
   bytes. */
#ifndef CLEAVE_GRAPH_PROGRAM_PROGRAM_H
#define CLEAVE_GRAPH_PROGRAM_PROGRAM_H

#include "graph/model/collective_steps.h"
#include "graph/model/micro_batch.h"
#include "graph/model/part.h"
#include "graph/program/eager.h"
#include "graph/program/framework.h"

typedef enum cleave_item_kind {
    CLEAVE_ITEM_COMPUTE, /* subject: computes[] */
    CLEAVE_ITEM_UPDATE,  /* subject: updates[] */
    CLEAVE_ITEM_LOAD,    /* subject: loads[]; fills a local piece of data from outside */
    CLEAVE_ITEM_COPY,    /* subject: copies[] */
    CLEAVE_ITEM_SEND,    /* subject: messages[]; posts, does not block */
    CLEAVE_ITEM_RECEIVE, /* subject: messages[]; posts, does not block */
    CLEAVE_ITEM_WAIT,    /* subject: messages[]; at the receiver until it has arrived; at the sender
                            until    its buffer may be written again */
    CLEAVE_ITEM_SYNC, /* subject: an item of the other lane of this device that must have ended */
    CLEAVE_ITEM_JOIN, /* subject: collectives[], symbolic form only: this device has its
                         contribution ready */
    CLEAVE_ITEM_AWAIT /* subject: collectives[], symbolic form only: until the collective has ended
                       */
} cleave_item_kind;

typedef enum cleave_lane {
    CLEAVE_LANE_MAIN,
    CLEAVE_LANE_COMMUNICATION,
    CLEAVE_N_LANES
} cleave_lane;

typedef struct cleave_item {
    uint8_t kind, lane;
    uint8_t
        when; /* cleave_when: of a fragment, in which micro-batches; a program has each by itself */
    int32_t device;
    int32_t slot; /* (operator, pass) that it belongs to: see slots */
    int32_t subject;
} cleave_item;

/* A slot: one (nest, pass, generation); update slots have a parameter tensor instead of a nest. */
typedef struct cleave_slot {
    int32_t nest;       /* -1 for an update */
    int32_t tensor;     /* -1 except for an update */
    uint8_t pass;       /* cleave_pass */
    uint8_t generation; /* 1: forward once more, before backward */
    uint8_t block;      /* cleave_block_kind that it belongs to; of no update */
} cleave_slot;

typedef enum cleave_buffer_kind {
    CLEAVE_BUFFER_PARAMETER,
    CLEAVE_BUFFER_GRADIENT, /* of a parameter, as the update reads it */
    CLEAVE_BUFFER_STATE,    /* of the optimizer */
    CLEAVE_BUFFER_RUNNING,  /* model buffers */
    CLEAVE_BUFFER_CONSTANT,
    CLEAVE_BUFFER_DATA,
    CLEAVE_BUFFER_ACTIVATION,
    CLEAVE_BUFFER_ACTIVATION_GRADIENT,
    CLEAVE_BUFFER_MESSAGE,   /* packed, sent or received */
    CLEAVE_BUFFER_WORKSPACE, /* of a kernel, during one item */
    CLEAVE_N_BUFFER_KINDS
} cleave_buffer_kind;

/* A piece of a device's memory.  Dense, in the memory order of its tensor. */
typedef struct cleave_buffer {
    cleave_buffer_kind kind;
    int32_t device;
    int32_t tensor;   /* whose piece it is (its gradient, for gradients); -1: none (messages,
                         workspace) */
    cleave_box box;   /* of that tensor */
    cleave_type type; /* of its elements (graph/model/precision.h) */
    int64_t bytes;
    int64_t padding; /* bytes behind it that the memory plan sets aside as well: a share takes as
                        much as the largest of its like, so that all windows of a fold have one
                        plan */
    int32_t first, last; /* global positions of the first and last item that uses it; persistent
                            ones: 0 and n_items - 1 */
    int32_t lane_first, lane_last; /* where the communication lane alone uses it: its items that do
                                      so first and last */
    bool lane_only;
    bool persistent; /* keeps its contents from step to step */
    int32_t storage; /* shares the memory of this buffer: its own id, or a buffer it lies in (in
                        place) */
    int64_t offset;  /* in the device's arena, bytes; by the memory plan */
} cleave_buffer;

typedef struct cleave_compute {
    int32_t nest;
    cleave_pass pass;
    cleave_part part;
    /* Buffer ids, -1 where the pass does not use the operand.  Each has the box of the operand. */
    int32_t inputs[CLEAVE_MAX_INPUTS];
    int32_t output;   /* forward: written; backward: read, where kept */
    int32_t combined; /* backward of moments: the combined output; of attention: its statistics,
                         which forward writes */
    int32_t output_gradient;                    /* backward: read */
    int32_t input_gradients[CLEAVE_MAX_INPUTS]; /* backward: written */
    uint32_t accumulated;                       /* bit i: input_gradients[i] is added to instead */
    int32_t workspace;                          /* or -1 */
    int32_t pieces; /* 1 or more: cut into so many, with a poll of the communication lane between
                       them; see graph/program/work.h */
} cleave_compute;

typedef struct cleave_update {
    int32_t tensor;              /* parameter */
    int32_t parameter, gradient; /* buffers: the gradient has the box that is updated, */
    int64_t first;    /* and the elements of the parameter from this one on are of that box */
    int32_t master;   /* buffer of that box, of which the parameter gets a rounded copy; -1: the
                         parameter is exact itself */
    int32_t state[2]; /* buffers, -1 where the optimizer has fewer */
    int32_t squares; /* buffer: the sum of the squares of all gradients; -1: they are not clipped */
} cleave_update;

typedef struct cleave_load {
    int32_t buffer; /* piece of a data tensor, or of a view of one */
} cleave_load;

typedef enum cleave_copy_mode {
    CLEAVE_COPY_ASSIGN,
    CLEAVE_COPY_SUM,
    CLEAVE_COPY_MAX,
    CLEAVE_COPY_MOMENTS,    /* merge: dimension 0 of the piece is the record (count, mean, M2) */
    CLEAVE_COPY_STATISTICS, /* merge those of rows of attention (cleave_row_statistics) */
    CLEAVE_COPY_SHARE,  /* its sum becomes the share that it has in the source's, of the same row */
    CLEAVE_COPY_SCALE,  /* f32 by a share: the source's sum */
    CLEAVE_COPY_FILL,   /* no source: every element becomes `fill` */
    CLEAVE_COPY_SQUARES /* to one element is added `fill` times the sum of the source's squares */
} cleave_copy_mode;

/* destination[...] = / += / max= source[...] over a strided block; elements in row-major order of
 * extent. */
typedef struct cleave_copy_piece {
    cleave_copy_mode mode;
    cleave_type type, source_type;             /* of the destination; of the source, if any */
    int32_t destination, source;               /* buffers */
    int64_t destination_offset, source_offset; /* elements */
    float fill;
    int rank;
    int64_t extent[CLEAVE_MAX_RANK], destination_stride[CLEAVE_MAX_RANK],
        source_stride[CLEAVE_MAX_RANK];
} cleave_copy_piece;

typedef struct cleave_copy {
    int32_t first_piece, n_pieces; /* of copy_pieces, done in order */
    int64_t bytes;                 /* read and written, for the cost; */
    bool carries; /* of a fragment: it assigns in the first micro-batch, and adds in those after it
                   */
    int64_t summed_bytes; /* of these, what is combined with what is there; */
    int64_t n_rows;       /* and in so many rows that are contiguous at both ends; 0: not counted */
    /* Or nothing is copied, and so many bytes are the chore of frameworks, for their prices
       (graph/program/framework.h). */
    int64_t chore_bytes;
    cleave_chore chore;
    cleave_additions additions; /* of gradients: by whom */
    int32_t n_copies; /* 1; or, beside a symbolic all-to-all, so many of which no piece is listed */
} cleave_copy;

/* Longer ones are cut. */
#define CLEAVE_MOST_MESSAGE_BYTES (INT64_C(1) << 30)

typedef struct cleave_message {
    int32_t source, destination; /* devices, different */
    uint8_t lane;  /* of both ends: posted in the same order there, so one tag per lane will do */
    int64_t bytes; /* 1 or more */
    int32_t source_buffer, destination_buffer;
    int64_t source_offset, destination_offset; /* bytes */
    int32_t tensor;                            /* what it carries, for people */
    int32_t send_item, receive_item;           /* where it is posted */
} cleave_message;

/* What one member of an all-to-all sends another. */
typedef struct cleave_transfer {
    int32_t source, destination; /* indices of the collective's devices, different */
    int64_t bytes;               /* 1 or more */
} cleave_transfer;

/* Copies that a device makes one after the other, and what they read and write in all. */
typedef struct cleave_packing {
    int32_t n_copies;
    int64_t bytes;
} cleave_packing;

/* Recognised in the movement of one tensor and phase.  In the expanded form its messages and sums
   stand in the program; in the symbolic form JOIN and AWAIT do, and no messages.  All-to-alls, each
   message of which is a transfer, are recognised in the symbolic form only. */
typedef struct cleave_collective {
    cleave_collective_kind kind;
    cleave_collective_algorithm algorithm; /* never DEFAULT */
    int32_t node_members; /* two-level: devices of each node, consecutive; else 1 */
    int32_t n_devices;
    const int32_t *devices; /* ascending */
    int64_t bytes; /* of the whole vector that every device holds (all-reduce, reduce-scatter) or
                      gets; of all transfers (all-to-all) */
    int32_t tensor;
    uint8_t lane;
    /* Of an all-to-all: */
    int32_t n_transfers;
    const cleave_transfer *transfers; /* [n_transfers] in the order in which they would be posted */
    const cleave_packing *packing;    /* [n_devices] before a device joins */
} cleave_collective;

/* A box of a parameter or buffer that a device keeps right: what counts when it is saved.  (The
   rest of a holder's bounding box is dead.) */
typedef struct cleave_held {
    int32_t tensor, device;
    int32_t buffer; /* persistent; its box holds `box` */
    cleave_box box;
} cleave_held;

/* A box of a model's output, at the end of a step that is one pass forward, on the device that
   wrote it.  The boxes of an output cover it once. */
typedef struct cleave_output {
    int32_t output, device; /* the first: index among the model's outputs */
    int32_t buffer;         /* holds `box` dense in the memory order of the output's tensor */
    cleave_box box;
} cleave_output;

typedef struct cleave_program {
    const cleave_model *model;
    const cleave_parts *parts; /* [n_nests] */
    int32_t n_devices;
    int32_t n_windows; /* more than 1: this is the first window of a fold (graph/model/fold.h) with
                          so many */
    int32_t n_groups;  /* of a fold: devices are of the first window of each of so many groups; 0:
                          of one.  Lists of a collective's devices are of all windows and groups,
                          by the numbers that cleave_program_device gives */
    bool windows_outermost; /* of a fold with groups: see there */
    int32_t n_spanning;     /* of a fold: collectives of several windows */
    bool training;          /* with loss, backward and update; else forward only */
    bool has_stages;        /* on devices of their own */
    bool symbolic;          /* collectives join and await; else their steps are messages, too */
    int32_t n_items, n_slots, n_buffers, n_computes, n_updates, n_loads, n_copies, n_copy_pieces,
        n_messages, n_collectives, n_held;
    cleave_item *items;
    cleave_slot *slots;
    cleave_buffer *buffers;
    cleave_compute *computes;
    cleave_update *updates;
    cleave_load *loads;
    cleave_copy *copies;
    cleave_copy_piece *copy_pieces; /* null: they are counted alone, for a price */
    cleave_message *messages;
    cleave_collective *collectives;
    cleave_held *held;
    int32_t loss_buffer; /* the whole loss, on device loss_device; -1 without one */
    int32_t loss_device;
    int32_t squares_buffer; /* of all gradients, on device 0; -1: they are not clipped */
    int32_t n_outputs;      /* pieces of outputs, of a forward program; else 0 */
    cleave_output *outputs; /* [n_outputs] by output */
    int64_t *peak_bytes;    /* [n_devices] size of each device's arena; by the memory plan.  Null
                               where there is none */
} cleave_program;

/* One block after the other, as a step of many micro-batches goes through them, of a program that
   has the first, one in between and the last.  All in between are alike: a block of one of them is
   that of the program's, with messages, collectives and buffers of its own. */
typedef struct cleave_turn {
    int32_t block, micro_batch;
} cleave_turn;

enum { CLEAVE_FEW_MICRO_BATCHES = 3, CLEAVE_WINDOW_NONE = UINT8_MAX };

typedef struct cleave_turns {
    int32_t micro_batches; /* of the step, more than there are in the program */
    int32_t n_blocks, n_turns;
    int32_t *first_item; /* [n_blocks + 1] of each in the program's items: of the prologue, those of
                            the schedule, and the updates, which are one */
    uint8_t *window;     /* [n_blocks] 0, 1 or 2; NONE: the updates */
    cleave_turn *turns;  /* [n_turns]; the micro-batch of the updates is the last */
    int32_t *first_turn, *turns_of; /* [n_blocks + 1], [n_turns]: those of each block, ascending */
    uint8_t *owner; /* [n_buffers] the window whose own it is; NONE: it is there once */
    /* Blocks of one micro-batch need not come in the order in which they do in the second, which is
       in between in the program: of a buffer of its own, [first_end[b], first_end[b + 1]), the last
       items of other blocks that in some micro-batch use it later than its last item does. */
    int32_t *first_end, *ends; /* [n_buffers + 1] */
} cleave_turns;

/* Devices of a window, in one group. */
static inline int32_t cleave_program_window(const cleave_program *program) {
    return program->n_groups > 1 ? program->n_devices / program->n_groups : program->n_devices;
}

/* Of a fold the number, among all devices, of one of the program's. */
static inline int32_t cleave_program_device(const cleave_program *program, int32_t device) {
    int32_t window = cleave_program_window(program);
    return program->n_windows < 2 || program->windows_outermost
               ? device
               : device + device / window * window * (program->n_windows - 1);
}

/* Devices from one of them to its like in the next window. */
static inline int32_t cleave_program_stride(const cleave_program *program) {
    return program->windows_outermost ? program->n_devices : cleave_program_window(program);
}

/* The other way: which of the program's devices does what one of all devices does. */
static inline int32_t cleave_program_stands_for(const cleave_program *program, int32_t device) {
    int32_t window = cleave_program_window(program);
    return program->n_windows < 2 ? device
           : program->windows_outermost
               ? device % program->n_devices
               : device / (window * program->n_windows) * window + device % window;
}

/* Of a fold: is it one of the program's, of the first windows? */
static inline bool cleave_program_has(const cleave_program *program, int32_t device) {
    int32_t window = cleave_program_window(program);
    return program->n_windows < 2 ||
           (program->windows_outermost ? device < program->n_devices
                                       : device % (window * program->n_windows) < window);
}

/* What an update reads and writes. */
double cleave_update_bytes(const cleave_program *program, const cleave_update *update);

/* Do several windows join a collective; and how many of the program's list are such? */
bool cleave_program_spans(const cleave_program *program, const cleave_collective *collective);
int32_t cleave_program_count_spanning(const cleave_program *program);

/* Memory that the program itself takes on every rank that runs it, beside the rank's arena: its
   arrays, and what a rank keeps for each item and message.  Grows with the number of devices. */
int64_t cleave_program_own_bytes(const cleave_program *program);

/* The invariants written down above: subjects in range, messages posted in the same order at both
   ends of a lane, waits after posts, copies inside their buffers.  FAILED, naming the item.  Takes
   up to a tenth of lowering: what is simulated for people or run is checked in every build, what a
   search prices is not. */
cleave_status cleave_program_check(const cleave_program *program, cleave_error *error);

#endif
