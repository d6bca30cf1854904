/* How well predictions agree with measurements: how far off they are, and whether they tell which
   of two is quicker. */
#ifndef CLEAVE_BASE_ACCURACY_H
#define CLEAVE_BASE_ACCURACY_H

#include "base/error.h"

#include <stdint.h>

/* A predicted figure with its measurement, both above 0.  Only those of the same group are ranked
   against each other: layouts of one model on one machine. */
typedef struct cleave_compared {
    double predicted, measured;
    int32_t group;
} cleave_compared;

typedef struct cleave_accuracy {
    int32_t n;
    double median_error, ninth_decile_error; /* of |predicted / measured - 1|; 0 of none */
    double median_bias;                      /* of predicted / measured - 1 */
    int64_t n_pairs;                         /* whose measurements differ enough */
    double tau; /* Kendall's over them: pairs ranked alike less those ranked the other way, by all;
                   predictions that are equal rank neither way.  0 of none */
} cleave_accuracy;

/* Measurements differ enough where the larger is above the smaller by this share of it. */
static const double cleave_accuracy_apart = 0.05;

/* Quantiles are interpolated between order statistics (type 7 of Hyndman and Fan 1996).  FAILED
   when memory is short. */
cleave_status cleave_accuracy_find(const cleave_compared *compared, int32_t n,
                                   cleave_accuracy *accuracy, cleave_error *error);

#endif
