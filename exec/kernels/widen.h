/* Calls with operands in bf16 by kernels that know f32 alone: their operands are widened into the
   workspace, and what they give is rounded from there.  So every kernel runs whatever its operands
   are stored as, only slower. */
#ifndef CLEAVE_EXEC_KERNELS_WIDEN_H
#define CLEAVE_EXEC_KERNELS_WIDEN_H

#include "exec/kernels/kernel_table.h"

/* The same call with all of its operands in f32, yet without data; false where it is that already.
 */
bool cleave_kernel_widen(const cleave_kernel_call *call, cleave_kernel_call *wide);

/* Bytes of the workspace that the operands take. */
int64_t cleave_kernel_widened_bytes(const cleave_kernel_call *call);

/* Runs a kernel's row so. */
cleave_status cleave_kernel_run_widened(cleave_kernels *kernels, const cleave_kernel_row *row,
                                        const cleave_kernel_call *call, cleave_error *error);

#endif
