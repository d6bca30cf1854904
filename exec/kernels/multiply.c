/* oneDNN does the matrix products where vectors are wide, but for small ones, whose call costs it
   more than OpenBLAS; OpenBLAS does the others, unless it is older than the processor and half as
   fast as it could be.  Those with few rows and much to read are done here:
   exec/kernels/few_rows.h.  oneDNN alone has products of bf16. */
#include "exec/kernels/multiply.h"

#include "exec/kernels/few_rows.h"

#include <string.h>

static cleave_bf16_product product_of_halves(const cleave_blas_product *p,
                                             const cleave_matrices *at) {
    cleave_bf16_product key;
    memset(&key, 0, sizeof key);
    key.m = p->m;
    key.n = p->n;
    key.k = p->k;
    key.a_transposed = p->a_transposed;
    key.b_transposed = p->b_transposed;
    key.a_row = p->a_row;
    key.b_row = p->b_row;
    key.c_row = p->c_row;
    key.exact = at->result == (int64_t)sizeof(float);
    key.adds = p->beta > 0;
    key.alpha = (double)p->alpha;
    return key;
}

static cleave_status multiply(const cleave_kernels *kernels, const cleave_kernel_call *call,
                              const cleave_blas_product *of, const cleave_matrices *at,
                              cleave_error *error) {
    enum { SMALL = 1 << 18 }; /* multiply-adds */
    const char *a = (const char *)at->a_of + at->a, *b = (const char *)at->b_of + at->b;
    char *c = (char *)at->c_of + at->c;
    if (at->operand != (int64_t)sizeof(float)) {
        cleave_bf16_product halves = product_of_halves(of, at);
        return cleave_onednn_bf16_multiply(kernels->onednn, &halves, a, b, c, call->workspace,
                                           error);
    }
    cleave_blas_product product = *of;
    product.a = (const float *)(const void *)a;
    product.b = (const float *)(const void *)b;
    product.c = (float *)(void *)c;
    if (cleave_few_rows_fits(&product)) {
        cleave_few_rows_multiply(&product);
        return CLEAVE_OK;
    }
    bool small = (double)product.m * (double)product.n * (double)product.k < SMALL;
    if (small ? !kernels->small_products_by_blas : !kernels->large_products_by_blas)
        return cleave_onednn_multiply(&product, error);
    cleave_blas_multiply(&product);
    return CLEAVE_OK;
}

/* One matrix product in blocks of rows and columns of the result.  Every block reads its rows of A
   and its columns of B anew, and the libraries bring both into a format of their own first: so
   blocks are as square as what is read asks for.  The libraries' kernels are whole on blocks of
   this many.
 */
enum { BLOCK = 48, LEAST_BLOCKS = 2 };

typedef struct cut_product {
    const cleave_blas_product *whole;
    int64_t pieces, down; /* at least 1: all pieces, and bands of rows that these are in */
} cut_product;

static int64_t blocks_of(int64_t extent) { return (extent + BLOCK - 1) / BLOCK; }

static int64_t most_pieces(int64_t extent) {
    int64_t most = blocks_of(extent) / LEAST_BLOCKS;
    return most > 1 ? most : 1;
}

/* Into as many pieces as are asked for, or there can be, so that least is read; what lies across to
   the libraries' format counts twice. */
static cut_product cut(const cleave_blas_product *product, int64_t pieces) {
    cut_product c = {.whole = product, .pieces = 1, .down = 1};
    int64_t most_down = most_pieces(product->m), most_across = most_pieces(product->n);
    double least = 0;
    if (pieces > 1)
        c.pieces = pieces < most_down * most_across ? pieces : most_down * most_across;
    for (int64_t down = 1; down <= most_down && down <= c.pieces; down++) {
        int64_t across = (c.pieces + down - 1) / down;
        double read = (double)(product->a_transposed ? 2 : 1) * (double)(across * product->m) +
                      (double)(product->b_transposed ? 2 : 1) * (double)(down * product->n);
        if (across > most_across || (least > 0 && read >= least))
            continue;
        least = read;
        c.down = down;
    }
    return c;
}

/* Part i of n of an extent: where it begins, and its length. */
static int64_t range_of(int64_t extent, int64_t n, int64_t i, int64_t *start) {
    int64_t blocks = blocks_of(extent), end = BLOCK * cleave_block_start(blocks, n, i + 1);
    *start = BLOCK * cleave_block_start(blocks, n, i);
    return (end < extent ? end : extent) - *start;
}

/* The i-th piece; `at`, of the whole, becomes its own. */
static cleave_blas_product piece_of(const cut_product *c, int64_t i, cleave_matrices *at) {
    cleave_blas_product piece = *c->whole;
    int64_t band = 0, first, end, row, column;
    while (cleave_block_start(c->pieces, c->down, band + 1) <= i)
        band++;
    first = cleave_block_start(c->pieces, c->down, band);
    end = cleave_block_start(c->pieces, c->down, band + 1);
    piece.m = range_of(piece.m, c->down, band, &row);
    piece.n = range_of(piece.n, end - first, i - first, &column);
    at->a += row * (piece.a_transposed ? 1 : piece.a_row) * at->operand;
    at->b += column * (piece.b_transposed ? piece.b_row : 1) * at->operand;
    at->c += (row * piece.c_row + column) * at->result;
    return piece;
}

cleave_status cleave_multiply_in_pieces(const cleave_kernels *kernels,
                                        const cleave_kernel_call *call,
                                        const cleave_blas_product *product,
                                        const cleave_matrices *whole, int64_t pieces,
                                        cleave_error *error) {
    cut_product c = cut(product, pieces);
    for (int64_t i = 0; i < c.pieces; i++) {
        cleave_matrices at = *whole;
        cleave_blas_product piece = piece_of(&c, i, &at);
        if (i > 0)
            CLEAVE_TRY(cleave_kernel_poll_now(call, error));
        CLEAVE_TRY(multiply(kernels, call, &piece, &at, error));
    }
    return CLEAVE_OK;
}

int64_t cleave_multiply_workspace(cleave_kernels *kernels, const cleave_blas_product *product,
                                  const cleave_matrices *whole, int64_t pieces) {
    cut_product c = cut(product, pieces);
    int64_t most = 0;
    for (int64_t i = 0; i < c.pieces; i++) {
        cleave_matrices at = *whole;
        cleave_blas_product piece = piece_of(&c, i, &at);
        cleave_bf16_product key = product_of_halves(&piece, &at);
        int64_t bytes = cleave_onednn_bf16_workspace(kernels->onednn, &key);
        if (bytes < 0)
            return -1;
        most = bytes > most ? bytes : most;
    }
    return most;
}
