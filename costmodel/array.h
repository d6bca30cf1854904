/* Products on a device that is described and was never measured: cores with an array of multipliers
   each, what they keep on chip, and the memory behind.

   A core takes a tile of the output, as large as its memory on chip holds with what streams in. Its
   rows x columns multipliers do one step of the sum per cycle for as many outputs, over and over
   the tile; the array fills and empties once a tile. Cores take tiles in waves. Meanwhile the
   operands of a wave come from memory, once for all cores in a row or a column of tiles. The slower
   of the two is the product's time, by the tile for which that is least. */
#ifndef CLEAVE_COSTMODEL_ARRAY_H
#define CLEAVE_COSTMODEL_ARRAY_H

#include "costmodel/efficiency.h"

typedef struct cleave_array {
    double cores, rows, columns; /* arrays, and multipliers of each */
    double cycles_per_second;
    double on_chip_bytes;    /* of a core */
    double bytes_per_second; /* of the memory, for all cores */
    double
        sustained; /* share of the peak that large products reach: power, clocks, waits; (0, 1] */
} cleave_array;

/* A multiplication and an addition each cycle. */
static inline double cleave_array_flops(const cleave_array *array) {
    return 2 * array->cores * array->rows * array->columns * array->cycles_per_second;
}

/* What share of that a product of m x k and k x n reaches, elements of two bytes. */
double cleave_array_share(const cleave_array *array, double m, double n, double k);

/* The same by the smallest extent, where the others are 4096, the mean over which one it is. */
cleave_efficiency cleave_array_efficiency(const cleave_array *array);

#endif
