/* Priced fragments that are kept, each in a block of its own, with the memory that it takes. */
#ifndef CLEAVE_SIMULATOR_STEP_PRICE_FRAGMENT_H
#define CLEAVE_SIMULATOR_STEP_PRICE_FRAGMENT_H

#include "graph/program/memory_plan.h"
#include "simulator/step/price.h"

typedef struct cleave_fragment_price {
    cleave_priced_fragment priced;
    int32_t n_live;
    cleave_life *live;  /* [n_live] buffers, and workspaces of computes, from slot to slot */
    int64_t own_bytes;  /* cleave_program_own_bytes */
    int64_t bytes_sent; /* of all devices */
    bool has_ends;      /* `priced` has what the ends of messages have to do */
    size_t size;        /* of the block that all this lies in */
} cleave_fragment_price;

/* One whose arrays are as large as the numbers of `counts` say, and not filled; null when memory is
   short. */
cleave_fragment_price *cleave_fragment_price_create(const cleave_priced_fragment *counts,
                                                    bool has_ends, int32_t n_hops, int32_t n_links,
                                                    int32_t n_live);

/* Of a family.  `image`: see price.h.  `scratch` is emptied.  Release with free(). */
cleave_status cleave_price_fragment(const cleave_fragment *fragment, cleave_cost_cache *cache,
                                    int32_t *image, cleave_arena *scratch,
                                    cleave_fragment_price **price, cleave_error *error);

/* Of the computes of a nest under its present parts. */
cleave_status cleave_price_computes(cleave_lowerer *lowerer, int32_t nest, cleave_cost_cache *cache,
                                    cleave_arena *scratch, cleave_fragment_price **price,
                                    cleave_error *error);

#endif
