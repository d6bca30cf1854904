/* In which vectors a framework sends weights and their gradients, so that the latency of a
   collective is paid once for many tensors.

   What FSDP gathers, and reduces and scatters, is a layer (graph/program/gathered_layers.h), and
   what is in no layer together.  All else goes in buckets: of 25 MiB in PyTorch's
   DistributedDataParallel (<torch/nn/parallel/distributed.py>, bucket_cap_mb), of 40 million
   elements in Megatron-LM (<megatron/core/distributed/distributed_data_parallel.py>), of all up to
   500 million in DeepSpeed, and never of more than there is.  A tensor then pays its share of the
   price of its vector.  A machine file may say what was timed instead (`together_bytes` of its
   collectives): gradients that are all-reduced go in vectors of so many bytes, and all else alone,
   as the package in python/ has it, but for pieces that are concatenated: their gradient is one
   tensor, which the package brings to where they lie before it is taken apart.  There a tensor also
   sets out when its vector does (`together_bytes` in graph/lower/lower.h); elsewhere by itself, and
   when the vector is full is not modelled. */
#ifndef CLEAVE_COSTMODEL_SENT_TOGETHER_H
#define CLEAVE_COSTMODEL_SENT_TOGETHER_H

#include "costmodel/machine.h"
#include "graph/model/collective_steps.h"
#include "graph/model/model.h"

typedef struct cleave_sent_together {
    double *elements;         /* [n_tensors] of the weights of its layer; 0: none of them.  Null:
                                       every tensor goes alone */
    double *whole_over_piece; /* [n_tensors] of a piece that is read in a concatenation alone, else
                                 0; null: gradients of pieces go alone */
    const cleave_model *model;
    bool by_layers, sums_only;
    double all_elements;
    double most_bytes, most_elements; /* of a bucket; 0: no limit */
} cleave_sent_together;

/* By the framework of the machine's first kind, where it is known what a library's collectives
   take; our own steps are of one tensor each. */
cleave_status cleave_sent_together_create(const cleave_model *model, const cleave_machine *machine,
                                          cleave_arena *arena, cleave_sent_together *made,
                                          cleave_error *error);

/* Bytes of the vector in which so many of a tensor go; these alone where it is neither a weight nor
   a piece. */
int64_t cleave_sent_together_bytes(const cleave_sent_together *of, cleave_collective_kind kind,
                                   int32_t tensor, int64_t bytes);

#endif
