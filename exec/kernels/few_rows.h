/* Matrix products with few rows and a large second operand, as a recurrent cell's, and those of few
   summed with a large result, as the gradient of its weights: the libraries bring operands into a
   format of their own first, or pass over the result in small blocks, which takes longer than the
   product.  Here what is large is read once, as it lies. */
#ifndef CLEAVE_EXEC_KERNELS_FEW_ROWS_H
#define CLEAVE_EXEC_KERNELS_FEW_ROWS_H

#include "exec/kernels/blas.h"

#include <stdbool.h>

/* Few enough rows or summed, and the rest large enough, to be faster here? */
bool cleave_few_rows_fits(const cleave_blas_product *product);

/* A product that fits. */
void cleave_few_rows_multiply(const cleave_blas_product *product);

#endif
