/* Operands as a kernel wants them: of bf16 in f32, those with gaps in arrays that have none, in the
   workspace; what was written goes back from there. */
#ifndef CLEAVE_EXEC_KERNELS_WIDEN_H
#define CLEAVE_EXEC_KERNELS_WIDEN_H

#include "exec/kernels/kernel_table.h"

/* What may be in a kernel's way, as bits. */
enum { CLEAVE_HALVES = 1, CLEAVE_GAPS = 2 };

/* What of that the operands have that the pass uses. */
unsigned cleave_kernel_obstacles(const cleave_kernel_call *call);

/* The call without these, and without data. */
void cleave_kernel_adapt(const cleave_kernel_call *call, unsigned without,
                         cleave_kernel_call *adapted);

/* Bytes of workspace for its operands. */
int64_t cleave_kernel_adapted_bytes(const cleave_kernel_call *call, unsigned without);

/* Runs a kernel on operands so made; the rest of the workspace is its own. */
cleave_status cleave_kernel_run_adapted(cleave_kernels *kernels, const cleave_kernel_row *row,
                                        const cleave_kernel_call *call, unsigned without,
                                        cleave_error *error);

#endif
