/* What a byte costs in a family of work that has no key of its own: copies, loads, updates. */
#ifndef CLEAVE_COSTMODEL_BYTE_PRICE_H
#define CLEAVE_COSTMODEL_BYTE_PRICE_H

#include "costmodel/machine.h"

typedef struct cleave_byte_price {
    double launch_seconds, seconds_per_byte;
    int32_t fit; /* among those of its kind; -1: by the data sheet */
} cleave_byte_price;

/* By the fit of the family, else by the bandwidth of the memory. */
cleave_byte_price cleave_byte_price_of(const cleave_device_kind *kind, const char *family);

#endif
