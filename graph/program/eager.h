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

/* False, and nothing, where it is not spelled out. */
bool cleave_kernels_spelled_out(const cleave_model *model, const cleave_nest *nest,
                                cleave_pass pass, const cleave_part *part,
                                cleave_framework_kernels *made);

#endif
