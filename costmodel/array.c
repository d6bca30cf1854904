#include "costmodel/array.h"

#include <math.h>

enum { ELEMENT_BYTES = 2, SUM_BYTES = 4, STREAMED = 64, MOST_TILE = 1024 };

/* Seconds by tiles of that size; infinite where the chip does not hold one. */
static double seconds_by(const cleave_array *a, double m, double n, double k, double rows,
                         double columns) {
    double held = rows * columns * SUM_BYTES + 2 * (rows + columns) * STREAMED * ELEMENT_BYTES;
    if (held > a->on_chip_bytes)
        return INFINITY;
    double tiles_down = ceil(m / rows), tiles_across = ceil(n / columns);
    double waves = ceil(tiles_down * tiles_across / a->cores);
    double cycles = rows / a->rows * (columns / a->columns) * k + a->rows + a->columns +
                    rows * columns / a->columns;
    double down = fmin(sqrt(a->cores), tiles_down), across = a->cores / down;
    double read = waves * (rows * down + columns * across) * k * ELEMENT_BYTES;
    double bytes = fmax(read, (m + n) * k * ELEMENT_BYTES) + m * n * ELEMENT_BYTES;
    return fmax(waves * cycles / a->cycles_per_second, bytes / a->bytes_per_second);
}

double cleave_array_share(const cleave_array *array, double m, double n, double k) {
    double least = INFINITY;
    for (double rows = array->rows; rows <= fmax(MOST_TILE, array->rows); rows *= 2)
        for (double columns = array->columns; columns <= fmax(MOST_TILE, array->columns);
             columns *= 2)
            least = fmin(least, seconds_by(array, m, n, k, rows, columns));
    return array->sustained * fmin(1, 2 * m * n * k / least / cleave_array_flops(array));
}

cleave_efficiency cleave_array_efficiency(const cleave_array *array) {
    const double others = 4096;
    cleave_efficiency made = {0};
    for (double size = 16; size <= 8192; size *= 2) {
        double mean = (cleave_array_share(array, size, others, others) +
                       cleave_array_share(array, others, size, others) +
                       cleave_array_share(array, others, others, size)) /
                      3;
        made.size[made.n] = size;
        made.share[made.n++] = fmax(mean, 1e-6);
    }
    return made;
}
