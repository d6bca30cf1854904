/* What prices of a program's items share: everything that is remembered from program to program.

   A compute is priced once for each (nest, pass, extents, padding, kind of device) and then found
   again by a 128-bit hash of these, so that pricing a program after a small change of its layout
   costs a look-up an item.  cost_cache.c keeps it; cost.c has the durations, cost_basis.c what they
   rest on. */
#ifndef CLEAVE_COSTMODEL_COST_CACHE_H
#define CLEAVE_COSTMODEL_COST_CACHE_H

#include "costmodel/byte_price.h"
#include "costmodel/collective_rounds.h"
#include "costmodel/cost_exchange.h"
#include "costmodel/sent_together.h"

/* The price of a compute. */
typedef struct cost_entry {
    uint64_t index, check; /* both 0: free */
    int64_t picoseconds;
    cleave_provenance provenance;
    int32_t source;     /* the kernel or the fit among those of its kind; -1 for a data sheet */
    int32_t family_fit; /* among those of its kind; -1: none */
} cost_entry;

/* The rounds of the collectives of some devices. */
typedef struct cost_rounds {
    cleave_collective like; /* kind, algorithm and devices count */
    int32_t *devices;       /* [like.n_devices] */
    cleave_collective_rounds rounds;
} cost_rounds;

enum { COST_N_ROUNDS = 1024 };

struct cleave_cost_cache {
    const cleave_model *model;
    const cleave_machine *machine;
    cleave_copy_price *copy;           /* [machine's n_kinds] */
    cleave_byte_price *load, *update;  /* the same */
    cost_entry *entries;               /* [capacity] open addressing, at most half full */
    size_t capacity, n_entries;        /* capacity: a power of two */
    cost_rounds *known[COST_N_ROUNDS]; /* by a hash; null: none yet */
    cleave_sent_together together;
    double *shares;                 /* [machine's n_links] scratch, all 0 */
    cleave_exchange_price exchange; /* of the last all-to-all */
    cleave_route_price *routes;     /* [n_routes] what was asked for last at each place */
    size_t n_routes;                /* a power of two */
    int32_t *route_links;           /* [n_routes x CLEAVE_MAX_ROUTE] */
    size_t n_route_links;           /* in use, where all routes have places of their own */
    uint32_t *padded_axes;          /* [n_nests] cleave_nest_padded_axes */
    bool loads_data;                /* else data are there already */
    cleave_arena arena;
};

static inline size_t cost_cache_route_place(const cleave_cost_cache *cache, int32_t source,
                                            int32_t destination) {
    size_t pair = (size_t)source * (size_t)cache->machine->n_devices + (size_t)destination;
    return pair & (cache->n_routes - 1);
}
/* The price of this route will be asked for soon. */
static inline void cost_cache_expect_route(const cleave_cost_cache *cache, int32_t source,
                                           int32_t destination) {
    __builtin_prefetch(&cache->routes[cost_cache_route_place(cache, source, destination)]);
}

/* The priced entry of a compute; null when memory is short. */
const cost_entry *cost_cache_compute(cleave_cost_cache *cache, const cleave_compute *compute);

/* The same for one compute after the other: neighbours mostly cost the same, and then only one is
   looked up. */
typedef struct cost_cursor {
    const cleave_compute *before;
    const cost_entry *price;
} cost_cursor;
cleave_status cost_cache_next(cleave_cost_cache *cache, cost_cursor *cursor,
                              const cleave_compute *compute, cleave_error *error);

/* Is the program one of the cache's model, on devices of its machine? */
cleave_status cost_cache_check(const cleave_cost_cache *cache, const cleave_program *program,
                               cleave_error *error);

/* The fit of a family among those of a kind, or -1. */
int32_t cost_find_fit(const cleave_device_kind *kind, const char *family);

/* Seconds of a compute; where they come from, and the kernel or fit among those of the kind. */
double cost_find_price(const cleave_device_kind *kind, const cleave_work *work,
                       cleave_provenance *provenance, int32_t *source);

#endif
