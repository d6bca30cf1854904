/* Fits by least absolute deviations: a few odd measurements don't count for much. */
#ifndef CLEAVE_BASE_LEAST_DEVIATIONS_H
#define CLEAVE_BASE_LEAST_DEVIATIONS_H

#include "base/error.h"

#include <stdint.h>

/* The x for which the sum over i of weight[i] |1 - sum over f of feature[i][f] x[f]| is least, with
   lower <= x <= upper.  Features are best of the order of 1. */
typedef struct cleave_least_deviations {
    const char *of; /* what is fitted, for messages */
    int32_t n, n_figures;
    const double *features;      /* [n x n_figures] */
    const double *weight;        /* [n] 0 or more; null: 1 each */
    const double *lower, *upper; /* [n_figures]; an infinite bound is none */
} cleave_least_deviations;

/* x: [n_figures]; `off`, the sum that is least, may be null.  FAILED when memory is short, or where
   the bounds leave no x. */
cleave_status cleave_least_deviations_solve(const cleave_least_deviations *fit, double *x,
                                            double *off, cleave_error *error);

#endif
