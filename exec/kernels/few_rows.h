/* Matrix products with few rows and a large second operand, as a recurrent cell's: those of the
   libraries bring that operand into a format of their own first, which takes longer than the
   product. Here it is read once, as it lies. */
#ifndef CLEAVE_EXEC_KERNELS_FEW_ROWS_H
#define CLEAVE_EXEC_KERNELS_FEW_ROWS_H

#include "exec/kernels/blas.h"

#include <stdbool.h>

/* Few enough rows, and a second operand large enough, to be faster here? */
bool cleave_few_rows_fits(const cleave_blas_product *product);

/* A product that fits. */
void cleave_few_rows_multiply(const cleave_blas_product *product);

#endif
