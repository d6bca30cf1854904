/* Priced fragments that are remembered.  A fragment follows from the splits of the operators that
   touch it: for its place it is found again by these.  Without its slots it follows from less, from
   what the parts of its nests read and write, and so is shared by all places where that is alike,
   as it is in blocks that repeat one another. */
#ifndef CLEAVE_SIMULATOR_FRAGMENT_MEMORY_H
#define CLEAVE_SIMULATOR_FRAGMENT_MEMORY_H

#include "costmodel/cost.h"
#include "simulator/delta/delta.h"
#include "simulator/estimate.h"
#include "simulator/price_fragment.h"

/* Two independent hashes of what a fragment follows from. */
typedef struct fragment_digest {
    uint64_t a, b;
} fragment_digest;

fragment_digest fragment_digest_of_split(const cleave_split *split);

/* Slots are named by their numbers among those that a place may name. */
typedef struct shared_price {
    fragment_digest key;
    cleave_fragment_price *price;
    int32_t uses; /* remembered fragments */
    struct shared_price *next;
} shared_price;

typedef struct remembered_fragment {
    fragment_digest key;
    int32_t place;
    shared_price *shared;
    cleave_delta_made *made;
    int32_t uses; /* of who has found it: while there are any it is not forgotten */
    struct remembered_fragment *next;
} remembered_fragment;

typedef struct fragment_memory {
    const cleave_model *model;
    cleave_lowerer *lowerer; /* whose splits are those that the digests are of */
    cleave_cost_cache *cache;
    cleave_delta *delta;  /* that fragments are made ready for */
    int32_t *image;       /* of the links of a fold, or null */
    int32_t *link_number; /* of a fold: of each link as `delta` counts them; -1: nothing takes it */
    bool folds;
    int32_t n_devices, n_families;
    fragment_digest *split_digest; /* [n_operators] */
    uint64_t *shard_digest;        /* [n_families] of the parameters whose updates are sharded */
    int32_t *first_op, *ops;       /* operators that touch each family: [n_families + 1] */
    cleave_alike alike;
    cleave_arena lasting, scratch;
    cleave_priced_chunk *chunks; /* [room_chunks] of a fragment that is made ready */
    int32_t room_chunks;
    remembered_fragment **table; /* [table_size] */
    shared_price **prices;       /* [table_size] */
    int32_t table_size;
    size_t remembered_bytes, room_bytes;
    cleave_estimate_counts counts, counted; /* and when something was forgotten last */
} fragment_memory;

/* Of a memory whose first members, to n_devices, are set and whose others are zeroed.  FAILED when
   memory is short; release it in any case. */
cleave_status fragment_memory_begin(fragment_memory *memory, cleave_error *error);
void fragment_memory_free(fragment_memory *memory);

/* The fragment of a place as the splits now are: remembered, or lowered and priced. */
cleave_status fragment_memory_find(fragment_memory *memory, int32_t place,
                                   remembered_fragment **found, cleave_error *error);

#endif
