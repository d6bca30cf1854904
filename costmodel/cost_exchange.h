/* What an all-to-all of unequal messages costs (cost_exchange.c has the form). */
#ifndef CLEAVE_COSTMODEL_COST_EXCHANGE_H
#define CLEAVE_COSTMODEL_COST_EXCHANGE_H

#include "costmodel/byte_price.h"
#include "costmodel/cost.h"

typedef struct cleave_exchange_price {
    double *seconds_per_byte; /* [machine's n_links] */
    double *load;             /* [machine's n_links] scratch, all 0 before and after */
    double *processor;        /* [machine's n_devices] seconds of each member: packs and posts */
    int32_t *n_sent;          /* [machine's n_devices] messages of each member */
    int32_t n_links;
    int32_t *links;                /* [machine's n_links] those that are crossed */
    double link, message, latency; /* seconds: of the slowest link, message and route */
} cleave_exchange_price;

/* `copy` is of each kind of device.  Linear in the hops of the transfers. */
void cleave_exchange_price_find(cleave_cost_cache *cache, const cleave_collective *collective,
                                const cleave_copy_price *copy, cleave_exchange_price *price);
/* Its links; what a JOIN takes is of each member its own. */
cleave_collective_cost cleave_exchange_price_cost(const cleave_collective *collective,
                                                  const cleave_exchange_price *price);

/* Remembers nothing: holds until the next all-to-all is priced. */
const cleave_exchange_price *cleave_cost_cache_exchange(cleave_cost_cache *cache,
                                                        const cleave_collective *collective);

#endif
