/* Orders for qsort, sorted arrays, and medians. */
#ifndef CLEAVE_BASE_ORDER_H
#define CLEAVE_BASE_ORDER_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Of a function that compares: what comes first of a and b, where that is decided by them; and the
   last word, ascending. */
#define CLEAVE_ORDER_BY(a, b)                                                                      \
    do {                                                                                           \
        if ((a) < (b))                                                                             \
            return -1;                                                                             \
        if ((a) > (b))                                                                             \
            return 1;                                                                              \
    } while (0)
#define CLEAVE_ORDER(a, b) (((a) > (b)) - ((a) < (b)))

/* An array of n; it may be null where n is 0. */
#define CLEAVE_SORT(items, n, compare) cleave_sort((items), (n), sizeof *(items), (compare))
static inline void cleave_sort(void *items, int64_t n, size_t size,
                               int (*compare)(const void *, const void *)) {
    if (n > 1)
        qsort(items, (size_t)n, size, compare);
}

/* Moves `low` up to the first place before `high` of which `is_before`, an expression of `middle`,
   does not hold, or to `high`; it holds of all that is before a place of which it holds. */
#define CLEAVE_BISECT(low, high, middle, is_before)                                                \
    do {                                                                                           \
        for (int32_t bisect_end = (high); (low) < bisect_end;) {                                   \
            int32_t middle = (low) + (bisect_end - (low)) / 2;                                     \
            if (is_before)                                                                         \
                (low) = middle + 1;                                                                \
            else                                                                                   \
                bisect_end = middle;                                                               \
        }                                                                                          \
    } while (0)

static inline int cleave_order_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return CLEAVE_ORDER(x, y);
}

static inline int cleave_order_int32(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return CLEAVE_ORDER(x, y);
}

/* Of strings, or of structs that begin with one. */
static inline int cleave_order_strings(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static inline void cleave_sort_doubles(double *values, int64_t n) {
    qsort(values, (size_t)n, sizeof *values, cleave_order_doubles);
}

static inline void cleave_sort_int32(int32_t *values, int64_t n) {
    qsort(values, (size_t)n, sizeof *values, cleave_order_int32);
}

/* The last of n ascending numbers, the first of which is no larger, that is no larger. */
static inline int32_t cleave_last_not_above(const int32_t *ascending, int32_t n, int32_t number) {
    int32_t end = 1;
    CLEAVE_BISECT(end, n, middle, ascending[middle] <= number);
    return end - 1;
}

/* Of n values, 1 or more, which get sorted. */
static inline double cleave_median(double *values, int64_t n) {
    cleave_sort_doubles(values, n);
    return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

#endif
