/* Matrix products over rows of which many are zero, as tables of experts have them: blocks of rows
   that are zero are left out.

   Rows are looked at as they are, so wherever they are filled the result is that of the whole
   product (but for factors that are no numbers), and its work that of the filled rows and of less
   than a block beside each run of them. */
#ifndef CLEAVE_EXEC_KERNELS_FILLED_ROWS_H
#define CLEAVE_EXEC_KERNELS_FILLED_ROWS_H

#include "exec/kernels/multiply.h"

/* What the rows are in a product. */
typedef enum cleave_filled_place {
    CLEAVE_FILLED_NOT,
    CLEAVE_FILLED_ROWS,    /* rows of a and of the result */
    CLEAVE_FILLED_COLUMNS, /* columns of b and of the result */
    CLEAVE_FILLED_SUMMED   /* what is summed over; a is looked at, or b, which is as good */
} cleave_filled_place;

/* As cleave_multiply_in_pieces, each run by itself. */
cleave_status cleave_filled_multiply(const cleave_kernels *kernels, const cleave_kernel_call *call,
                                     const cleave_blas_product *product,
                                     const cleave_matrices *whole, cleave_filled_place place,
                                     int64_t pieces, cleave_error *error);

/* What the same takes of bf16; -1: a run may be none that oneDNN has. */
int64_t cleave_filled_workspace(cleave_kernels *kernels, const cleave_blas_product *product,
                                const cleave_matrices *whole, cleave_filled_place place);

#endif
