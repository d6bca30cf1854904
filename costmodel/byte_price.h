/* What a byte costs in a family of work that has no key of its own: copies, loads, updates. */
#ifndef CLEAVE_COSTMODEL_BYTE_PRICE_H
#define CLEAVE_COSTMODEL_BYTE_PRICE_H

#include "costmodel/machine.h"

typedef struct cleave_byte_price {
    double launch_seconds, seconds_per_byte;
    double near_bytes, far_excess; /* seconds more for each byte beyond those that are near */
    int32_t fit;                   /* among those of its kind; -1: by the data sheet */
} cleave_byte_price;

/* What `n` pieces of work of some bytes together take longer since not all of them are near. */
static inline double cleave_byte_price_excess(const cleave_byte_price *price, double n,
                                              double bytes) {
    double far = bytes - n * price->near_bytes;
    return far > 0 ? far * price->far_excess : 0;
}

/* Seconds of `n` pieces of work, 1 or more, of some bytes together. */
static inline double cleave_byte_price_seconds(const cleave_byte_price *price, double n,
                                               double bytes) {
    return n * price->launch_seconds + bytes * price->seconds_per_byte +
           cleave_byte_price_excess(price, n, bytes);
}

/* By the fit of the family, else by the bandwidth of the memory. */
cleave_byte_price cleave_byte_price_of(const cleave_device_kind *kind, const char *family);

#endif
