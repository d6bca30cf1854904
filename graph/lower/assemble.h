/* Fragments become a program: the last step of lowering.  Items get their places in the global
   order and all ids their final values, computes join them, and buffers get their lifetimes. */
#ifndef CLEAVE_GRAPH_LOWER_ASSEMBLE_H
#define CLEAVE_GRAPH_LOWER_ASSEMBLE_H

#include "graph/lower/operand.h"
#include "graph/program/memory_plan.h"

typedef struct lower_placed_chunk {
    cleave_fragment_chunk chunk; /* of the assembly's items and marks */
    int32_t place;               /* among chunks of one slot and rank: the family */
} lower_placed_chunk;

/* Buffers of a device: its part of the squares of all gradients, and their sum. */
typedef struct lower_squares {
    int32_t part, sum;
} lower_squares;

/* The last item of a block that uses a buffer. */
typedef struct lower_block_end {
    int32_t block, item, next; /* of the same buffer; -1: none */
} lower_block_end;

typedef struct lower_assembly {
    lower_builder *builder; /* for its arena, and to unwind to */
    const lower_schedule *schedule;
    CLEAVE_LIST(lower_placed_chunk) chunks;
    CLEAVE_LIST(cleave_lane_mark) marks;
    CLEAVE_LIST(cleave_item) unplaced; /* by fragment */
    CLEAVE_LIST(cleave_item) items;    /* in the global order */
    CLEAVE_LIST(cleave_buffer) buffers;
    CLEAVE_LIST(bool) sent;
    CLEAVE_LIST(cleave_compute) computes;
    CLEAVE_LIST(cleave_update) updates;
    CLEAVE_LIST(cleave_load) loads;
    CLEAVE_LIST(cleave_copy) copies;
    CLEAVE_LIST(cleave_copy_piece) copy_pieces;
    CLEAVE_LIST(cleave_message) unposted; /* by fragment */
    CLEAVE_LIST(cleave_message) messages; /* in the order in which they are sent */
    CLEAVE_LIST(cleave_collective) collectives;
    CLEAVE_LIST(cleave_held) held;
    CLEAVE_LIST(lower_touch_mark) touches;
    CLEAVE_LIST(lower_touch_mark) placed_touches; /* by items of the global order */
    CLEAVE_LIST(int32_t) rows;
    CLEAVE_LIST(int32_t) bindings;
    int32_t *first_row;                 /* [n_events] of rows and bindings */
    CLEAVE_LIST(lower_squares) squares; /* [n_devices], or none: see norm.c */
    /* Of a step that is told by a few micro-batches (turns.h): */
    struct {
        CLEAVE_LIST(int32_t) begins;  /* first items of blocks */
        CLEAVE_LIST(uint8_t) windows; /* of blocks */
        CLEAVE_LIST(cleave_turn) turns;
        int32_t *first_turn, *turns_of; /* once all are there: cleave_turns' */
        CLEAVE_LIST(uint8_t) owners;    /* of buffers */
        int32_t *block_of; /* [2 + lists of blocks][few] 0: none yet, else 1 more than the block */
        CLEAVE_LIST(lower_block_end) block_ends; /* of buffers of the micro-batch in between */
        int32_t *block_end;                      /* [buffers before they are renamed] -1: none */
        CLEAVE_LIST(int32_t) first_ends;         /* [n_buffers + 1] */
        CLEAVE_LIST(int32_t) ends;
    } told;
    /* Of micro-batches (instances.h): */
    int32_t n_windows;
    bool *is_shared;         /* [buffers of the first] it is that of all */
    int32_t *first_instance; /* [buffers of the first] that of the second; others follow */
    int32_t n_collectives;   /* of the first */
    int32_t *collective_of;  /* [n_windows][n_collectives] 0: none yet */
    /* Some lists of devices of collectives, in the builder's lasting arena: most have the same. */
    struct {
        int32_t n;
        const int32_t *devices;
    } kept[LOWER_KNOWN_MEMBERS];
    int next_kept;
} lower_assembly;

/* Puts an element behind a list of the assembly; unwinds when memory is short. */
#define LOWER_PUSH_TO(assembly, list, ...)                                                         \
    LOWER_PUSH((assembly)->builder, &(assembly)->list, __VA_ARGS__)

/* Adds the fragment that the state has just lowered; of what lies in the builder's arena nothing is
   needed afterwards. */
void lower_assembly_add(lower_assembly *assembly, const lowering *state);
/* Once all are there: those that stand for the buffers of squares become these. */
void lower_assembly_bind_squares(lower_assembly *assembly);
/* Puts everything into order. */
void lower_assembly_finish(lower_assembly *assembly, cleave_program *program);
void lower_assembly_free(lower_assembly *assembly);

#endif
