/* Which nests a framework runs as one kernel, and what of their traffic then stays on the chip.

   We have a nest for each sum and maximum; frameworks have a kernel for a whole softmax, norm or
   loss, which reads a row once (PyTorch's softmax and layer norm, apex's scaled masked softmax,
   flash-attn's and inductor's cross-entropy).  One rule, for the prices of devices of which
   nothing was measured:

   - Nests of an operator that follow each other are one kernel, but for products, convolutions,
     pools, look-ups and attention, each of which is one of its own.
   - What one of them combines for another lies in rows: the last dimensions of what is read, whole
     on the device.  Where it does not (a batch norm; classes that devices share), they are apart.
   - Together they read each operand once and write each result once; what one makes for another
     is not written.  Backward likewise: gradients of what stayed on the chip stay there, too.
   - Without a compiler what comes before the first sum or maximum (a scale, a mask) is apart from
     it, each nest a kernel, as it is a function of its own in models' code.
   - Numbers that a product is scaled by, and what is added to it for all rows alike, are no kernel:
     alpha, beta and the bias of cuBLAS (cublasLtMatmul, by which torch.addmm has its bias).  Back
     the gradient of the product is that of the sum, and that of a bias is a kernel of its own. */
#ifndef CLEAVE_GRAPH_PROGRAM_ONE_KERNEL_H
#define CLEAVE_GRAPH_PROGRAM_ONE_KERNEL_H

#include "graph/model/model.h"
#include "graph/model/part.h"

/* What a nest reads and writes in memory for its kernel; others have read or will write the rest.
 */
typedef struct cleave_kernel_share {
    bool launches;      /* it is the first of its kernel in this pass */
    bool output;        /* forward it writes its output, backward it reads the gradient of that */
    uint32_t inputs;    /* bit i: it reads input i */
    uint32_t gradients; /* bit i: it writes the gradient of input i */
} cleave_kernel_share;

/* Of a nest that is a kernel of its own. */
#define CLEAVE_KERNEL_ALONE                                                                        \
    { .launches = true, .output = true, .inputs = UINT32_MAX, .gradients = UINT32_MAX }

/* Of a pass of a nest over a part. */
cleave_kernel_share cleave_kernel_share_of(const cleave_model *model, const cleave_nest *nest,
                                           cleave_pass pass, const cleave_part *part,
                                           bool is_eager);

#endif
