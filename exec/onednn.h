/* Convolutions and matrix products over oneDNN, which only onednn.c includes.

   Compiled primitives are kept from call to call, by shape.  oneDNN runs on OpenMP here: creating
   this sets the calling thread's OpenMP to one thread, because a device is a rank and threads of
   several ranks would fight.  Use it from the thread that created it. */
#ifndef CLEAVE_EXEC_ONEDNN_H
#define CLEAVE_EXEC_ONEDNN_H

#include "base/error.h"
#include "exec/blas.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct cleave_onednn cleave_onednn;

cleave_status cleave_onednn_create(cleave_onednn **onednn, cleave_error *error);
void cleave_onednn_destroy(cleave_onednn *onednn);

/* The matrix product of blas.h, by oneDNN. */
cleave_status cleave_onednn_multiply(const cleave_blas_product *product, cleave_error *error);

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
    int64_t n_spatial, batch, groups, c, k;
    int64_t in[CLEAVE_MAX_SPATIAL], out[CLEAVE_MAX_SPATIAL], window[CLEAVE_MAX_SPATIAL],
        stride[CLEAVE_MAX_SPATIAL], dilation[CLEAVE_MAX_SPATIAL] /* 1: dense */,
        pad_lo[CLEAVE_MAX_SPATIAL], pad_hi[CLEAVE_MAX_SPATIAL];
    int64_t x_stride[2 + CLEAVE_MAX_SPATIAL], w_stride[3 + CLEAVE_MAX_SPATIAL],
        y_stride[2 + CLEAVE_MAX_SPATIAL];
} cleave_convolution;

/* Bytes of workspace of a convolution, or -1 where oneDNN has none of this shape.  The first call
   for a shape compiles it, in milliseconds. */
int64_t cleave_onednn_convolution_workspace(cleave_onednn *onednn,
                                            const cleave_convolution *convolution);

/* Forward writes y; backward data writes x, backward weights w, from the other two. */
cleave_status cleave_onednn_convolution_run(cleave_onednn *onednn,
                                            const cleave_convolution *convolution, float *x,
                                            float *w, float *y, void *workspace,
                                            cleave_error *error);

#endif
