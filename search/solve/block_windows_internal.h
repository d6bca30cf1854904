/* What the files of block_windows.h share: the maker of the tables, which stays, to simulate
   prefixes. */
#ifndef CLEAVE_SEARCH_SOLVE_BLOCK_WINDOWS_INTERNAL_H
#define CLEAVE_SEARCH_SOLVE_BLOCK_WINDOWS_INTERNAL_H

#include "search/solve/block_windows.h"
#include "search/solve/link_window.h"
#include "simulator/step/price_fragment.h"

/* A sum that excludes nothing; thousands of them don't overflow. */
static const int64_t NO_PATH = -(INT64_C(1) << 50);

/* A family, or the computes of a nest. */
typedef struct place {
    int32_t n_operators;
    const int32_t *operators;          /* that it follows from, ascending */
    int32_t first, last;               /* their blocks */
    cleave_fragment_price **fragments; /* [product of their values], null: not made yet */
    int32_t n_fragments;
} place;

/* The group of every non-empty part of a nest, in their order: the number of the first such part
   with the same key. */
typedef struct part_keys {
    int32_t n, *group_of;
} part_keys;

/* Passes that paths go through: the last forward pass of the last operator of a block, and of the
   first; the first backward pass of the first. */
typedef enum path_side { FORWARD, BACKWARD, EARLIEST, N_SIDES } path_side;

typedef struct cleave_bound_blocks_maker {
    const cleave_model *model;
    const cleave_candidates *candidates;
    const cleave_machine *machine;
    cleave_cost_cache *cache;
    const cleave_bound_blocks_options *options;
    cleave_arena *arena; /* of the result */
    cleave_arena work, scratch;
    cleave_bound_blocks *made;
    cleave_lowerer *lowerer;
    window window;
    int32_t n_families, n_slots, n_places;
    int32_t first_backward, first_update; /* slots */
    place *places;
    int32_t *block_of; /* [n_operators] */
    int32_t *value;    /* [n_operators] that is looked at */
    int32_t *set;      /* [n_operators] that the lowerer has; -1: another */
    int32_t *path_place[N_SIDES], *path_slot[N_SIDES]; /* [n_blocks] slot -1: none */
    part_keys **keys[N_SIDES];                         /* [n_blocks][values of the operator] */
    bool *follows_loss;                                /* [n_nests] see bound_follow_loss */
    bool in_order;                                     /* blocks are, as the model's nests are */
    bool ends_at_loss;                                 /* the last block is the loss */
    int64_t *times;                                    /* [n_devices] */
    int32_t *one_group;                                /* [n_devices] zeros */
    bool too_large;
    cleave_error *error;
} maker;

static inline cleave_status blocks_short_of_memory(const maker *m) {
    return cleave_fail_memory(m->error, "bounding the step");
}

/* block_windows.c */
/* The operator that a path goes through. */
int32_t blocks_main_of(const maker *m, int32_t k, path_side side);

/* block_tables.c */
/* Looks at a value of block k. */
void blocks_set_block(maker *m, int32_t k, int32_t value);
/* Fills the window with the slots [first_slot, end_slot) of all that lies within blocks k and l. */
cleave_status blocks_fill_window(maker *m, int32_t k, int32_t l, int32_t first_slot,
                                 int32_t end_slot);
/* All sums of blocks and of neighbours, and the least of what is behind. */
cleave_status blocks_fill_tables(maker *m);

/* block_paths.c */

/* An entry of computes, and the groups of its items. */
typedef struct computes {
    int32_t entry; /* -1: none */
    int32_t *group_of;
} computes;

/* Those of a path in the window. */
computes blocks_find_computes(const maker *m, int32_t k, path_side side);
/* The latest group, by its first part. */
int64_t blocks_last_group(const maker *m, computes of);
/* Is there a backward path down to block k? */
bool blocks_has_backward(const maker *m, int32_t k);
/* Where a group of the first operator of block k + 1 begins its backward pass last: the least over
   the groups of what comes in the communication lane of each device until the end. */
cleave_status blocks_sync_behind(maker *m, int32_t k, int64_t *tail);
cleave_status blocks_delay_between(maker *m, int32_t k, int64_t *delay, int64_t *forward,
                                   int64_t *earliest);
cleave_status blocks_turn_at_end(maker *m, int64_t *delay);
cleave_status blocks_begin_path(maker *m, int64_t *begin, int64_t *earliest);
/* What follows where the last group of m(0) begins its backward pass. */
cleave_status blocks_end_path(maker *m, int64_t *end, int32_t *end_group);

#endif
