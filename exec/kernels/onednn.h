/* Convolutions and matrix products over oneDNN, which only onednn.c includes.

   Compiled primitives are kept from call to call, by shape.  oneDNN runs on OpenMP here: creating
   this sets the calling thread's OpenMP to one thread, because a device is a rank and threads of
   several ranks would fight.  Use it from the thread that created it. */
#ifndef CLEAVE_EXEC_KERNELS_ONEDNN_H
#define CLEAVE_EXEC_KERNELS_ONEDNN_H

#include "base/error.h"
#include "exec/kernels/blas.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct cleave_onednn cleave_onednn;

cleave_status cleave_onednn_create(cleave_onednn **onednn, cleave_error *error);
void cleave_onednn_destroy(cleave_onednn *onednn);

/* The matrix product of blas.h, by oneDNN. */
cleave_status cleave_onednn_multiply(const cleave_blas_product *product, cleave_error *error);

/* Has the processor instructions for products of bf16 that are quicker than those of f32?  Without,
   what follows has none. */
bool cleave_onednn_multiplies_bf16(void);

/* c[m, n] = alpha a[m, k] b[k, n], a and b in bf16, as blas.h has them.  Every byte is part of the
   key: start from zeroes. */
typedef struct cleave_bf16_product {
    int64_t m, n, k, a_transposed, b_transposed, a_row, b_row, c_row;
    int64_t exact; /* c is f32, else bf16; */
    int64_t adds;  /* and added to */
    double alpha;
} cleave_bf16_product;

/* Bytes of workspace; -1 where oneDNN has none of this shape. */
int64_t cleave_onednn_bf16_workspace(cleave_onednn *onednn, const cleave_bf16_product *product);
cleave_status cleave_onednn_bf16_multiply(cleave_onednn *onednn, const cleave_bf16_product *product,
                                          const void *a, const void *b, void *c, void *workspace,
                                          cleave_error *error);

enum { CLEAVE_MAX_SPATIAL = 3 };

typedef enum cleave_convolution_pass {
    CLEAVE_CONVOLUTION_FORWARD,
    CLEAVE_CONVOLUTION_BACKWARD_DATA,
    CLEAVE_CONVOLUTION_BACKWARD_WEIGHTS
} cleave_convolution_pass;

/* Every byte is part of the key: start from zeroes.  Channels are per group.  Strides of arrays are
   in elements: x [batch, groups x c, in...], w [groups, k, c, window...], y [batch, groups x k,
   out...]. */
typedef struct cleave_convolution {
    int64_t pass;
    int64_t half_x, half_w, half_y; /* in bf16, else f32 */
    int64_t n_spatial, batch, groups, c, k;
    int64_t in[CLEAVE_MAX_SPATIAL], out[CLEAVE_MAX_SPATIAL], window[CLEAVE_MAX_SPATIAL],
        stride[CLEAVE_MAX_SPATIAL], dilation[CLEAVE_MAX_SPATIAL] /* 1: dense */,
        pad_lo[CLEAVE_MAX_SPATIAL], pad_hi[CLEAVE_MAX_SPATIAL];
    int64_t x_stride[2 + CLEAVE_MAX_SPATIAL], w_stride[3 + CLEAVE_MAX_SPATIAL],
        y_stride[2 + CLEAVE_MAX_SPATIAL];
} cleave_convolution;

/* A convolution may be run in pieces, which differ in their batch alone.  Its steps are

       forward, backward data:  reorder, then run every piece
       backward weights:        run every piece, each adding to what those before it gave; reorder

   where the reorder, of the first piece, brings the weights as they lie into the format that
   oneDNN likes best, or the result back from it. */
typedef enum cleave_convolution_place {
    CLEAVE_CONVOLUTION_WHOLE,
    CLEAVE_CONVOLUTION_FIRST_PIECE,
    CLEAVE_CONVOLUTION_LATER_PIECE
} cleave_convolution_place;

typedef struct cleave_convolution_arrays {
    char *x, *w, *y; /* of the piece; w as it lies */
    void *workspace;
} cleave_convolution_arrays;

/* Bytes of workspace of a convolution, as a piece where it is cut; -1 where oneDNN has none of this
   shape.  The first call for a shape compiles it, in milliseconds. */
int64_t cleave_onednn_convolution_workspace(cleave_onednn *onednn,
                                            const cleave_convolution *convolution, bool cut);

/* Can the two be pieces of one convolution: is oneDNN's format of their weights the same? */
bool cleave_onednn_same_weights(cleave_onednn *onednn, const cleave_convolution *a,
                                const cleave_convolution *b);

cleave_status cleave_onednn_convolution_reorder(cleave_onednn *onednn,
                                                const cleave_convolution *convolution, void *w,
                                                void *workspace, cleave_error *error);

/* Forward writes y; backward data writes x, backward weights the weights in oneDNN's format, from
   the other two. */
cleave_status cleave_onednn_convolution_run(cleave_onednn *onednn,
                                            const cleave_convolution *convolution,
                                            cleave_convolution_arrays arrays,
                                            cleave_convolution_place place, cleave_error *error);

#endif
