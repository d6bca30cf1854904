/* What a framework without a compiler makes of a nest.

   An operator that it has no kernel of is spelled out in its models' code, and each function in it
   is a kernel of its own, whose result lies in memory: the instructions of a tape, and the sum of
   what combines.  Norms by the mean square work in f32 in between and are converted before and
   after (as the Llama of Hugging Face transformers, where rotary positions, too, are spelled out
   in the type of queries and keys).  Backward each function is as many kernels
   as it has operands: about twice of forward.  All else (softmax, layer norms, activations, losses)
   is one kernel there as well, as PyTorch has them. */
#ifndef CLEAVE_GRAPH_PROGRAM_EAGER_H
#define CLEAVE_GRAPH_PROGRAM_EAGER_H

#include "graph/model/model.h"
#include "graph/model/part.h"

typedef struct cleave_eager {
    int32_t n_kernels; /* 0: it is one kernel, as with a compiler */
    double bytes;      /* that all of them read and write */
} cleave_eager;

cleave_eager cleave_eager_of(const cleave_model *model, const cleave_nest *nest, cleave_pass pass,
                             const cleave_part *part);

#endif
