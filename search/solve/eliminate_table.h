/* The numbers of one step of an elimination. */
#ifndef CLEAVE_SEARCH_SOLVE_ELIMINATE_TABLE_H
#define CLEAVE_SEARCH_SOLVE_ELIMINATE_TABLE_H

#include <stdint.h>

/* A table that contains the step's variable x, as seen from the result, which has the dimensions
   0..n_dimensions-1: its entry is entries[sum of stride[d] x index[d] + x]. */
typedef struct cleave_elimination_operand {
    const int64_t *entries;
    const int64_t *stride; /* [n_dimensions] 0 where the table lacks the dimension */
    int32_t deepest;       /* the last dimension that it has, -1 for none */
} cleave_elimination_operand;

typedef struct cleave_elimination_sum {
    int32_t n_values;      /* of x */
    const int64_t *cost;   /* [n_values] of x alone */
    int32_t n_dimensions;  /* of the result, each of two values or more */
    const int32_t *extent; /* [n_dimensions] */
    int32_t n_operands;
    const cleave_elimination_operand *operands; /* by rising `deepest` */
} cleave_elimination_sum;

/* For every index of the result, row-major, the least over x of cost[x] plus all operands.  `rows`
   is room for [n_dimensions + 1][n_values]. */
void cleave_elimination_fill(const cleave_elimination_sum *sum, int64_t *rows, int64_t *result);

#endif
