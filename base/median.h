/* How well a median is known. */
#ifndef CLEAVE_BASE_MEDIAN_H
#define CLEAVE_BASE_MEDIAN_H

#include <math.h>

/* Half the 95 % confidence interval of the median of n values, in medians, where their quartiles
   are `spread` medians apart.  Of a normal law sigma is the quartiles' distance / 1.349, a median's
   standard error 1.2533 sigma / sqrt(n), and half the interval 1.96 of these. */
static inline double cleave_median_uncertainty(double spread, int n) {
    return 1.96 * 1.2533 / 1.349 * spread / sqrt((double)n);
}

#endif
