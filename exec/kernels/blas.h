/* Matrix products, over OpenBLAS, which only blas.c includes. */
#ifndef CLEAVE_EXEC_KERNELS_BLAS_H
#define CLEAVE_EXEC_KERNELS_BLAS_H

#include <stdbool.h>
#include <stdint.h>

/* c[m, n] = alpha a[m, k] b[k, n] + beta c, row-major with the given row strides; with
   a_transposed, a is stored as [k, m], and so for b.  All sizes below 2^31. */
typedef struct cleave_blas_product {
    int64_t m, n, k;
    bool a_transposed, b_transposed;
    const float *a, *b;
    float *c;
    int64_t a_row, b_row, c_row; /* elements between rows as stored */
    float alpha, beta;
} cleave_blas_product;

void cleave_blas_multiply(const cleave_blas_product *product);

/* Does the library use vectors as wide as the processor has?  It chooses its code by a list of
   known processors, and on one that is newer than the library falls back to code with half the
   speed. */
bool cleave_blas_knows_processor(void);

/* Has the processor AVX-512?  oneDNN is then the faster one. */
bool cleave_blas_has_wide_vectors(void);

/* "OpenBLAS 0.3.21 and oneDNN 2.6.3, own kernels 2": what was compiled against, and which kernels
   go with it; of static storage. */
const char *cleave_blas_version(void);

#endif
