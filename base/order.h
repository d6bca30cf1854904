/* Ascending orders for qsort, and medians. */
#ifndef CLEAVE_BASE_ORDER_H
#define CLEAVE_BASE_ORDER_H

#include <stdint.h>
#include <stdlib.h>

static inline int cleave_order_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline int cleave_order_int32(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static inline void cleave_sort_doubles(double *values, int64_t n) {
    qsort(values, (size_t)n, sizeof *values, cleave_order_doubles);
}

static inline void cleave_sort_int32(int32_t *values, int64_t n) {
    qsort(values, (size_t)n, sizeof *values, cleave_order_int32);
}

/* Of n values, 1 or more, which get sorted. */
static inline double cleave_median(double *values, int64_t n) {
    cleave_sort_doubles(values, n);
    return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

#endif
