/* What a framework without a compiler makes of a nest.

   An operator that it has no kernel of is spelled out in its models' code, and each function in it
   is a kernel of its own, whose result lies in memory: the instructions of a tape, and the sum of
   what combines.  Norms by the mean square work in f32 in between and are converted before and
   after (as the Llama of Hugging Face transformers, where rotary positions, too, are spelled out
   in the type of queries and keys).  Backward each function is as many kernels
   as it has operands: about twice of forward.  All else is in the kernels of
   graph/program/one_kernel.h. */
#ifndef CLEAVE_GRAPH_PROGRAM_EAGER_H
#define CLEAVE_GRAPH_PROGRAM_EAGER_H

#include "graph/model/model.h"
#include "graph/model/part.h"

/* What a nest begins; others of its kernel begin nothing. */
typedef struct cleave_framework_kernels {
    int32_t n;
    double bytes; /* that it reads and writes in all of them, and in one that another began */
} cleave_framework_kernels;

/* Who has to add what a pass gives for an input to what another one gave, as autograd does by a
   kernel of its own, and a compiler in the kernel that reads the sum; within one kernel it is added
   on the chip. */
typedef struct cleave_additions {
    bool compiled, eager;
} cleave_additions;
cleave_additions cleave_additions_of(const cleave_model *model, const cleave_nest *nest,
                                     cleave_pass pass, const cleave_part *part, int input);

/* What each reads and writes, of so many bytes. */
static inline cleave_framework_kernels
cleave_kernels_of_addition(cleave_additions of, bool is_eager, double added_bytes) {
    if (is_eager)
        return (cleave_framework_kernels){of.eager, of.eager ? 3 * added_bytes : 0};
    return (cleave_framework_kernels){0, of.compiled ? added_bytes : 0};
}

/* False, and nothing, where it is not spelled out. */
bool cleave_kernels_spelled_out(const cleave_model *model, const cleave_nest *nest,
                                cleave_pass pass, const cleave_part *part,
                                cleave_framework_kernels *made);

#endif
