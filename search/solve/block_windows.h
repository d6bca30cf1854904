/* A model as a chain of blocks of operators, and what the choices in a block, and in two
   neighbouring ones, add to sums that the step is no shorter than.  block_windows.c has the proof.

   A value of an operator is one of its candidates at one of its starts; a value of a block is one
   of each of its operators, numbered with the last operator innermost. */
#ifndef CLEAVE_SEARCH_SOLVE_BLOCK_WINDOWS_H
#define CLEAVE_SEARCH_SOLVE_BLOCK_WINDOWS_H

#include "search/problem/candidates.h"

/* Sums over blocks and over neighbours, in picoseconds.  With D devices:
     0                  path: through the last operator of every block, forward and back
     1 .. D             path, and the updates of device d
     D + 1 .. 2 D       synchronisation of parameters in device d's communication lane
     2 D + 1 .. 3 D     work of device d's main lane
     3 D + 1            work of all devices
     3 D + 2 .. 4 D + 1 path to the loss, and the work of device d's main lane that follows
     4 D + 2            D times the path to the loss, and such work of all devices
     behind these       mixtures: i D times the sum of path and updates of device d, and 4 - i times
                        the one before, for i = 1, 2, 3 */
enum { BLOCKS_MIXTURES = 3 };
static inline int32_t blocks_first_mixture(int32_t n_devices) { return 4 * n_devices + 3; }
static inline int32_t blocks_n_sums(int32_t n_devices) {
    return blocks_first_mixture(n_devices) + BLOCKS_MIXTURES * n_devices;
}

typedef struct cleave_block {
    int32_t n_operators;
    int32_t *operators; /* [n_operators] ascending */
    int32_t n_values;
    int64_t *sums; /* [n_values][n_sums] of the block by itself */
    int64_t *next; /* [n_values][values of the next block][n_sums] of both together */
    int64_t *tail; /* [n_values][values of the next block][1 + D] forward part of their path; and
                      from where the next block begins its backward pass to when both have
                      been synchronised in the communication lane of each device */
    int64_t *rest; /* [n_values][n_sums] least of all that blocks behind it may add */
} cleave_block;

typedef struct cleave_bound_blocks {
    struct cleave_bound_blocks_maker *maker;
    int32_t n_devices, n_sums, n_blocks;
    cleave_block *blocks;
    int32_t *n_values;     /* [n_operators] */
    cleave_split **values; /* [n_operators][n_values] */
    int64_t *end;          /* [values of block 0][1 + n_devices] added to the sums of paths: what
                              follows the start of its backward pass, and what does so on a device
                              before its updates */
    int32_t *end_group;    /* [values of block 0][n_devices] groups of parts (block_windows.c) that
                              begin it on each device; -1: none */
} cleave_bound_blocks;

typedef struct cleave_bound_blocks_options {
    const cleave_layout *like; /* its updates and collectives */
    const cleave_lower_options *lower;
    double until_seconds; /* clock; 0: none */
} cleave_bound_blocks_options;

/* `made` is false where there are too many values, or the time was up.  Destroy what was made; its
   tables live in the arena.  Options must outlive it. */
cleave_status cleave_bound_blocks_create(const cleave_model *model,
                                         const cleave_candidates *candidates,
                                         const cleave_bound_blocks_options *options,
                                         cleave_cost_cache *cache, cleave_arena *arena,
                                         cleave_bound_blocks *blocks, bool *made,
                                         cleave_error *error);

void cleave_bound_blocks_destroy(cleave_bound_blocks *blocks);

/* What is known of a layout whose blocks 0..k have values. */
typedef struct cleave_bound_blocks_prefix {
    int64_t *sums;   /* [n_sums] of these blocks, and of neighbours among them */
    int64_t forward; /* path to the end of block k's forward pass */
    int64_t
        *synced; /* [n_devices] path up to block k's backward pass, and then on to the end in the
                    communication lane: the largest over the blocks where the two may part */
} cleave_bound_blocks_prefix;

/* Adds block k's value to the prefix before it (null for block 0), whose last value is `last`. */
void cleave_bound_blocks_add(const cleave_bound_blocks *blocks,
                             const cleave_bound_blocks_prefix *before, int32_t last, int32_t k,
                             int32_t value, cleave_bound_blocks_prefix *after);

/* No layout that begins so, with `first` the value of block 0, has a shorter step. */
int64_t cleave_bound_blocks_bound(const cleave_bound_blocks *blocks,
                                  const cleave_bound_blocks_prefix *prefix, int32_t first,
                                  int32_t k, int32_t value);

/* The same by simulating, without the charge of one lane on the other, all that blocks 0..k do with
   these values, and the path through the blocks behind: closer, and dearer. */
cleave_status cleave_bound_blocks_simulate(const cleave_bound_blocks *blocks, const int32_t *value,
                                           int32_t k, int64_t *bound, cleave_error *error);

#endif
