/* The operands that a call uses, in one list; and what stands between an operand and a kernel: its
   elements are bf16, or it has gaps, as the box of one thread has in the array of all. */
#ifndef CLEAVE_EXEC_KERNELS_KERNEL_OPERANDS_H
#define CLEAVE_EXEC_KERNELS_KERNEL_OPERANDS_H

#include "exec/kernels/kernel_table.h"

typedef struct cleave_kernel_operand {
    const cleave_operand *operand;
    size_t at; /* of its array in a call, bytes */
    bool reads, writes;
} cleave_kernel_operand;

enum { CLEAVE_MOST_KERNEL_OPERANDS = 2 * CLEAVE_MAX_INPUTS + 3 };

/* Those that the pass reads or writes; how many. */
int cleave_kernel_operands(const cleave_kernel_call *call, cleave_kernel_operand *list);

static inline cleave_array *cleave_kernel_array(cleave_kernel_call *call,
                                                const cleave_kernel_operand *of) {
    return (cleave_array *)(void *)((char *)call + of->at);
}
static inline const cleave_array *cleave_kernel_array_of(const cleave_kernel_call *call,
                                                         const cleave_kernel_operand *of) {
    return (const cleave_array *)(const void *)((const char *)call + of->at);
}

/* Has the array no gaps? */
bool cleave_kernel_is_dense(const cleave_kernel_call *call, const cleave_operand *operand,
                            const cleave_array *array);

#endif
