/* The price of a family put together from those of its members (cleave_lowerer_members), of which
   the last few are remembered: a change concerns some members, and the others are found.  What
   comes out is what cleave_price_fragment makes of the whole family. */
#ifndef CLEAVE_SIMULATOR_STEP_PRICE_MEMBERS_H
#define CLEAVE_SIMULATOR_STEP_PRICE_MEMBERS_H

#include "simulator/step/price_fragment.h"

/* A member that was lowered and priced. */
typedef struct priced_member priced_member;

typedef struct member_memory {
    /* What they are lowered and priced with: */
    cleave_lowerer *lowerer;
    cleave_cost_cache *cache;
    int32_t *image; /* see cleave_price_fragment */
    int32_t n_families;
    priced_member ***known; /* [n_families] null, or [members x a few] of a family */
    int64_t n_uses;
    cleave_arena merging; /* while a family is put together */
} member_memory;

/* Of a memory whose first members, to n_families, are set and whose others are zeroed.  FAILED when
   memory is short; release it in any case. */
cleave_status member_memory_begin(member_memory *memory, cleave_error *error);
void member_memory_free(member_memory *memory);

/* Of a family with members, as the splits now are.  `scratch` is emptied.  Release with free(). */
cleave_status member_memory_price(member_memory *memory, int32_t family, cleave_arena *scratch,
                                  cleave_fragment_price **price, cleave_error *error);

#endif
