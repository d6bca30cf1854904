/* A contraction of two operands into a third, taken apart into loops around a matrix product.

   Call the operands X, Y and the result Z.  Every axis is in at least two of them: in all three
   (batch), in X and Z (rows), in Y and Z (columns), or in X and Y (summed).  Axes of one class that
   lie densely in both of its operands merge.  Of what remains, the best choice of one row, one
   column and one summed axis makes a matrix product; the others are looped over.

   Where the axes of a class lie in another order in one operand than in the others (steps by
   samples in what a recurrence gives, samples by steps in what is made of it), that operand is
   *packed*: it is brought into their order first, or Z out of it afterwards, if it is small beside
   the product and there are fewer and larger matrix products then. */
#ifndef CLEAVE_EXEC_KERNELS_CONTRACTION_H
#define CLEAVE_EXEC_KERNELS_CONTRACTION_H

#include "exec/kernels/filled_rows.h"
#include "graph/program/program.h"

enum { X, Y, Z, N_ROLES };
enum { BATCH, ROWS, COLUMNS, SUMMED, N_CLASSES };

typedef struct loop {
    int64_t extent, stride[N_ROLES];
} loop;

typedef struct loops {
    int n;
    loop items[CLEAVE_MAX_AXES];
} loops;

typedef struct contraction {
    const cleave_array *arrays[N_ROLES];
    int64_t base[N_ROLES];
    loops classes[N_CLASSES];
    int taken[N_CLASSES]; /* the loop of each class that the matrix product does; -1: none */
    bool swapped;         /* of the matrix product: Z^T = Y^T X^T */
    /* The class, or BATCH, and the strides of the loop along rows that may be zero. */
    int filled;
    int64_t filled_stride[N_ROLES];
    cleave_blas_product product;
    cleave_filled_place place; /* in it, of rows that may be zero */
    int n_outer;
    loops rest; /* the loops that the matrix product leaves over, the summed ones innermost */
    int64_t steps;
    int packed;             /* role, -1: none */
    cleave_copy_piece move; /* into the packed one, of X or Y, or out of it, of Z */
    int64_t packed_elements;
} contraction;

/* The contraction of a pass: forward (`wanted` is -1), or the gradient of input `wanted`.  False
   where it is none that matrix products can do. */
bool contraction_take_apart(const cleave_kernel_call *call, int wanted, double alpha,
                            contraction *c);

#endif
