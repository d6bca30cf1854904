/* The only home of cblas.h.  The serial OpenBLAS is linked: a device is a rank. */
#include "exec/kernels/blas.h"

#include <cblas.h>
#include <string.h>
#include <strings.h>

void cleave_blas_multiply(const cleave_blas_product *product) {
    cblas_sgemm(CblasRowMajor, product->a_transposed ? CblasTrans : CblasNoTrans,
                product->b_transposed ? CblasTrans : CblasNoTrans, (blasint)product->m,
                (blasint)product->n, (blasint)product->k, product->alpha, product->a,
                (blasint)product->a_row, product->b, (blasint)product->b_row, product->beta,
                product->c, (blasint)product->c_row);
}

bool cleave_blas_has_wide_vectors(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512f");
#else
    return false;
#endif
}

bool cleave_blas_knows_processor(void) {
    static const char *const wide[] = {"SkylakeX", "Cooperlake", "SapphireRapids"};
    if (!cleave_blas_has_wide_vectors())
        return true;
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++)
        if (strcasecmp(openblas_get_corename(), wide[i]) == 0)
            return true;
    return false;
}

/* The library's own text has a blank at both ends.  Cleave's own kernels count up when they become
   quicker, or are timed otherwise, so that old times are measured anew. */
const char *cleave_blas_version(void) {
    static const char text[] =
        OPENBLAS_VERSION "and oneDNN " CLEAVE_ONEDNN_VERSION ", own kernels 9";
    return text + strspn(text, " ");
}
