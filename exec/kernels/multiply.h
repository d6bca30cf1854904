/* One matrix product of a contraction, of f32 or bf16, by whichever library is quicker, in pieces.
 */
#ifndef CLEAVE_EXEC_KERNELS_MULTIPLY_H
#define CLEAVE_EXEC_KERNELS_MULTIPLY_H

#include "exec/kernels/kernel_table.h"

/* Where the matrices of a product begin: so many bytes behind the start of their arrays; and bytes
   of the elements of the operands and of the result. */
typedef struct cleave_matrices {
    const void *a_of, *b_of;
    void *c_of;
    int64_t a, b, c;
    int64_t operand, result;
} cleave_matrices;

/* The product, whose a, b and c are those of `whole`, in so many pieces, or as its shape allows,
   with a poll between two; of bf16 in the call's workspace. */
cleave_status cleave_multiply_in_pieces(const cleave_kernels *kernels,
                                        const cleave_kernel_call *call,
                                        const cleave_blas_product *product,
                                        const cleave_matrices *whole, int64_t pieces,
                                        cleave_error *error);

/* What the same takes of bf16; -1: a piece is none that oneDNN has. */
int64_t cleave_multiply_workspace(cleave_kernels *kernels, const cleave_blas_product *product,
                                  const cleave_matrices *whole, int64_t pieces);

#endif
