/* Weights of which each device keeps a share, as FSDP gathers them: layer by layer.

   What a layer has (graph/model/layer_name.h) is gathered in one vector when it is first read, in
   the type that is computed with: the share has the exact one alone.  It goes behind the layer, and
   is gathered once more for backward.  What is in no layer (the embedding, the last norm, the head)
   is the root's: gathered when the first of it is read, and kept until backward has ended.

   - FSDP2 copies the weights out of that vector.  Forward the vector stays until that of the next
     layer has come, that of the last until the root is through.  Backward it goes at once, and the
     next layer's is asked for (PyTorch: <torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py>,
     FSDPParamGroup.wait_for_unshard and FSDPParamGroup.pre_backward; the root's is not resharded:
     <torch/distributed/fsdp/_fully_shard/_fsdp_state.py>).  In FullyShardedDataParallel weights are
     views of the vector, which backward asks for one layer ahead, too
     (<torch/distributed/fsdp/_runtime_utils.py>).
   - Gradients, in the type of the weights, stay until backward of the layer has ended, of the root
     until all has.  Then they are copied into a vector in the type in which they are summed, and
     go; it stays until the next layer's gradients are there (FSDPParamGroup.post_backward).  The
   share of the sum is in the exact type, of a stream of its own.

   Of one micro-batch after the other each reads and gives anew. */
#ifndef CLEAVE_GRAPH_PROGRAM_GATHERED_LAYERS_H
#define CLEAVE_GRAPH_PROGRAM_GATHERED_LAYERS_H

#include "graph/program/allocations.h"
#include "graph/program/program.h"

/* Adds what these weights and their gradients take, if the framework gathers by layers, and marks
   the buffers of the program, `done` [n_buffers], for which that stands.  False when memory is
   short. */
bool cleave_gathered_layers_add(const cleave_program *program,
                                const cleave_framework_row *framework, cleave_allocations *all,
                                bool *done);

#endif
