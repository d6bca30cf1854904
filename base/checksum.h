/* A checksum of bytes that come by pieces: XXH64 with seed 0, as Yann Collet's specification of
   xxHash has it, so that `xxh64sum` gives the same.  Against accidents, not against people. */
#ifndef CLEAVE_BASE_CHECKSUM_H
#define CLEAVE_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

typedef struct cleave_checksum {
    uint64_t lane[4];
    uint64_t bytes;         /* so far */
    unsigned char rest[32]; /* what does not fill a stripe yet */
} cleave_checksum;

void cleave_checksum_begin(cleave_checksum *sum);
void cleave_checksum_add(cleave_checksum *sum, const void *data, size_t bytes);
/* Of all so far; more may follow. */
uint64_t cleave_checksum_value(const cleave_checksum *sum);

#endif
