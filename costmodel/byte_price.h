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

/* Copies are contiguous, or in rows, of which each takes its time: the shorter they are, the more
   of them there are, and the more of what is fetched with them is not wanted.  The longest rows
   that are timed have so many bytes; longer ones take no more than these beside what a contiguous
   copy of their bytes takes, each. */
enum { CLEAVE_LONG_ROW_BYTES = 1 << 12 };
typedef struct cleave_copy_price {
    cleave_byte_price dense, rows;
    double seconds_per_row;
    cleave_byte_price sum; /* of what is combined with what is there */
    bool is_measured;      /* by our kernels, which have no chores */
    cleave_framework framework;
} cleave_copy_price;

/* By the fit of "sum", and as copies of as many bytes where there is none. */
cleave_byte_price cleave_sum_price_of(const cleave_device_kind *kind);

/* By the fits of "copy", "copy rows" and "sum"; without the others all goes as dense copies. */
cleave_copy_price cleave_copy_price_of(const cleave_device_kind *kind);

static inline double cleave_copy_price_of_rows(const cleave_copy_price *price, double n,
                                               double bytes, double n_rows) {
    return cleave_byte_price_seconds(&price->rows, n, bytes) + n_rows * price->seconds_per_row;
}

/* Seconds of `n` contiguous copies of some bytes, of which so many are summed. */
static inline double cleave_copy_price_of_dense(const cleave_copy_price *price, double n,
                                                double bytes, double summed) {
    if (summed >= bytes)
        return cleave_byte_price_seconds(&price->sum, n, bytes);
    double copied = cleave_byte_price_seconds(&price->dense, n, bytes - summed);
    return copied + summed * price->sum.seconds_per_byte +
           cleave_byte_price_excess(&price->sum, n, summed);
}

/* Seconds of `n` copies, 1 or more, of some bytes (read plus written), so many of them summed, and
   rows together: no fewer than of dense ones, to which those of longer rows come near.  Of a sum,
   whose operands are near, the bytes of rows take what those of others do. */
static inline double cleave_copy_price_seconds(const cleave_copy_price *price, double n,
                                               double bytes, double summed, double n_rows) {
    double dense = cleave_copy_price_of_dense(price, n, bytes, summed);
    if (summed >= bytes)
        return n_rows > n ? dense + n_rows * price->seconds_per_row : dense;
    double rows = n_rows > n ? cleave_copy_price_of_rows(price, n, bytes, n_rows) : dense;
    double longest = 2 * CLEAVE_LONG_ROW_BYTES * n_rows; /* bytes, if all rows were so long */
    if (rows <= dense)
        return dense;
    return longest < bytes ? dense + (rows - dense) * longest / bytes : rows;
}

#endif
