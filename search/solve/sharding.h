/* How a tensor lies over the devices under one split of one operator: which box each device writes
   or reads, and which devices have the same.

   A shard is a box that devices have.  Those of a shard have the same values where they share a key
   (replicas), and partial results of it where they do not.  Boxes nearly always are the cells of a
   grid, ranges in each dimension, so what overlaps a box is found by arithmetic. */
#ifndef CLEAVE_SEARCH_SOLVE_SHARDING_H
#define CLEAVE_SEARCH_SOLVE_SHARDING_H

#include "base/arena.h"
#include "base/error.h"
#include "graph/model/model.h"

typedef struct cleave_shard_member {
    int32_t device;
    int32_t key; /* of the shard: 0 .. n_keys - 1 */
} cleave_shard_member;

typedef struct cleave_shard {
    cleave_box box;
    int32_t range[CLEAVE_MAX_RANK]; /* in each dimension, which of the ranges */
    int32_t first_member, n_members, n_keys;
} cleave_shard;

typedef struct cleave_range {
    int64_t lo, hi;
} cleave_range;

typedef struct cleave_sharding {
    int rank;
    int order[CLEAVE_MAX_RANK]; /* dimensions as they lie in memory, outermost first */
    int64_t element_bytes;
    int32_t n_devices, n_shards, n_members;
    int32_t first_device, last_device; /* that have a shard; of no use where none has */
    cleave_shard *shards;              /* [n_shards] by the first device that has each */
    cleave_shard_member *members;      /* [n_members] shard by shard, by (key, device) */
    int32_t *shard_of;                 /* [n_devices] -1: none */
    int32_t *rank_of;                  /* [n_devices] place among the members of its shard */
    int32_t n_ranges[CLEAVE_MAX_RANK];
    cleave_range *ranges[CLEAVE_MAX_RANK]; /* ascending */
    int32_t *grid;  /* [product of n_ranges] row-major: a shard or -1; null where that is large */
    double density; /* share of the boxes that is really there: pieces of a view may lie apart */
    bool has_replicas; /* some key of a shard has several members */
    bool overlaps;     /* boxes of different shards do */
    bool is_even; /* the grid is full, and each shard has as many members and keys as any other */
    bool tiles[CLEAVE_MAX_RANK]; /* ranges follow one another without gaps and overlaps */
    uint64_t hash;
} cleave_sharding;

/* What one device has. */
typedef struct cleave_shard_entry {
    cleave_box box;
    int64_t n_elements; /* that are really there, of the box; 0: the device has nothing */
    uint64_t key;       /* equal boxes with equal keys are replicas */
} cleave_shard_entry;

/* Of a base tensor, from one entry for each device, [n_devices].  FAILED when memory is short. */
cleave_status cleave_sharding_create(const cleave_tensor *tensor, int32_t n_devices,
                                     const cleave_shard_entry *entries, cleave_arena *arena,
                                     cleave_sharding *sharding, cleave_error *error);

/* Of another arena than the original. */
bool cleave_sharding_copy(const cleave_sharding *of, cleave_arena *arena, cleave_sharding *copy);

/* The same boxes and replicas on the same devices. */
bool cleave_sharding_equal(const cleave_sharding *a, const cleave_sharding *b);

#endif
