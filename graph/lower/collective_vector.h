/* The vector of a collective: every device of the group lays its cells into it, in one order, and
   takes them out again; both may be nothing where it lies where it is wanted. */
#ifndef CLEAVE_GRAPH_LOWER_COLLECTIVE_VECTOR_H
#define CLEAVE_GRAPH_LOWER_COLLECTIVE_VECTOR_H

#include "graph/lower/move.h"

typedef struct reduction {
    lower_builder *builder;
    movement *move;
    const move_bucket *bucket;
    /* Of a fold, by their numbers among all devices; of all windows, where all take part. */
    int32_t n_members;
    const int32_t *members; /* [n_members] devices, ascending */
    int64_t unit_elements;
    cleave_type type; /* of the vector */
    int64_t unit_bytes;
    /* [cells of the bucket] in the bucket's order: where each begins in the vector, and how it lies
       there. */
    int64_t *first_unit;
    lower_region *region;
    cleave_collective_plan plan;
    int64_t n_units;
    int64_t
        *block; /* [n_blocks + 1] first unit of every block of a root; null: they are balanced */
    /* The vector on each device of the group: contiguous. */
    int32_t *buffer;
    int64_t *offset;   /* bytes */
    int32_t *demand;   /* that it lies in; -1: none */
    int32_t *received; /* buffer for what comes in and is added */
    /* What the cells have on every device, in the order of the cells: contributions and demands of
       device i are [first[i], first[i + 1]) of these. */
    int32_t *first_source, *first_target;
    struct reduction_member *sources, *targets;
} reduction;

typedef struct reduction_member {
    int32_t cell; /* of the bucket */
    int32_t id;   /* of the contribution or demand */
} reduction_member;

/* Units of all cells. */
int64_t reduction_units(const reduction *state);
/* Which member does in a window what device i of the bucket does in window 0. */
int32_t reduction_member_of(const reduction *state, int32_t window, int32_t i);
/* Lays the vector out, by the plan. */
void reduction_lay_out(reduction *state);
/* Of device i of the group: what it has itself into its vector; from there to its demands. */
void reduction_pack(const reduction *state, int32_t i);
void reduction_unpack(const reduction *state, int32_t i);

/* Of a block, or behind the last one. */
static inline int64_t reduction_first_unit(const reduction *state, int32_t block) {
    return state->block != NULL ? state->block[block]
                                : cleave_block_start(state->n_units, state->plan.n_blocks, block);
}

#endif
