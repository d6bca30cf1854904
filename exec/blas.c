/* The only home of cblas.h.  The serial OpenBLAS is linked: a device is a rank. */
#include "exec/blas.h"

#include <cblas.h>
#include <string.h>

void cleave_blas_multiply(const cleave_blas_product *product) {
    cblas_sgemm(CblasRowMajor, product->a_transposed ? CblasTrans : CblasNoTrans,
                product->b_transposed ? CblasTrans : CblasNoTrans, (blasint)product->m,
                (blasint)product->n, (blasint)product->k, product->alpha, product->a,
                (blasint)product->a_row, product->b, (blasint)product->b_row, product->beta,
                product->c, (blasint)product->c_row);
}

/* The library's own text has a blank at both ends. */
const char *cleave_blas_version(void) {
    static const char text[] = OPENBLAS_VERSION "and oneDNN " CLEAVE_ONEDNN_VERSION;
    return text + strspn(text, " ");
}
