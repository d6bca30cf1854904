/* Priced fragments that are remembered.  A fragment follows from the splits of the operators that
   touch it: for its place it is found again by these.  Without its slots it follows from less, from
   what the parts of its nests read and write, and so is shared by all places where that is alike,
   as it is in blocks that repeat one another. */
#ifndef CLEAVE_SIMULATOR_STEP_FRAGMENT_MEMORY_H
#define CLEAVE_SIMULATOR_STEP_FRAGMENT_MEMORY_H

#include "base/list.h"
#include "costmodel/cost.h"
#include "simulator/delta/delta.h"
#include "simulator/step/estimate.h"
#include "simulator/step/price_members.h"

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
    size_t price_bytes; /* of shared->price, which is far from here */
    cleave_delta_made *made;
    int32_t uses; /* of who has found it: while there are any it is not forgotten */
    struct remembered_fragment *next;
} remembered_fragment;

typedef CLEAVE_LIST(remembered_fragment *) remembered_list;

typedef struct fragment_memory {
    const cleave_model *model;
    cleave_lowerer *lowerer; /* whose splits are those that the digests are of */
    cleave_cost_cache *cache;
    cleave_delta *delta;  /* that fragments are made ready for */
    int32_t *image;       /* of the links of a fold, or null */
    int32_t *link_number; /* of a fold: of each link as `delta` counts them; -1: nothing takes it */
    int32_t n_devices, n_families;
    fragment_digest *split_digest;  /* [n_operators] */
    fragment_digest *family_digest; /* [n_families] sums of what operators that touch them give */
    uint64_t *shard_digest;         /* [n_families] of the parameters whose updates are sharded */
    cleave_alike alike;
    int32_t *slot_number;  /* [slots] of the step, among those of the place at hand */
    member_memory members; /* of families that are put together */
    cleave_arena lasting, scratch;
    cleave_priced_chunk *chunks; /* [room_chunks] of a fragment that is made ready */
    int32_t room_chunks;
    /* Each as large as it has fragments, so that few share a bucket: what is found is in no cache,
       and all that is passed on the way to it is not, either. */
    remembered_fragment **table; /* [table_size] */
    shared_price **prices;       /* [prices_size] */
    int32_t table_size, prices_size, n_remembered, n_prices;
    CLEAVE_LIST(fragment_digest) wanted; /* keys of what is looked for */
    size_t remembered_bytes, room_bytes;
    cleave_estimate_counts counts, counted; /* and when something was forgotten last */
} fragment_memory;

/* Of a memory whose first members, to n_devices, are set and whose others are zeroed.  FAILED when
   memory is short; release it in any case. */
cleave_status fragment_memory_begin(fragment_memory *memory, cleave_error *error);
void fragment_memory_free(fragment_memory *memory);

/* The lowerer's split of an operator is now one of this digest. */
void fragment_memory_set_split(fragment_memory *memory, int32_t op, fragment_digest digest);

/* Appends the fragments of these places as the splits now are: remembered, or lowered and priced.
   All are in use from then on; those that are appended when it fails, too. */
cleave_status fragment_memory_find(fragment_memory *memory, int32_t n, const int32_t *places,
                                   remembered_list *found, cleave_error *error);

#endif
