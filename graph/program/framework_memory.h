/* What a framework allocates that runs the same layout: not the arena of our plan, but what its
   tensors take.

   The lives of buffers are those of the program, and each is a tensor of its own there, too.  But:

   - A framework hands a collective the tensors themselves, and its library streams them through a
     few MiB: there are no packed messages.  A reduce-scatter leaves a device's share of a gradient
     where the whole was, if that stays.  How FSDP gathers weights and sums gradients is in
     graph/program/gathered_layers.h.
   - What was gathered from a group of which the device is one is gathered again for backward, and
     its own share kept (Megatron-LM's sequence parallelism: Korthikanti et al. 2022, 4.2.2; DTensor
     keeps the whole).
   - A softmax keeps what it gives, not its scores, and some layer norms likewise; dropout keeps a
     byte for each element, of all where a device drops out a share and gets the others'.
   - Without a compiler a selective checkpoint keeps what it is told to, read by backward or not
     (the policies of torch.utils.checkpoint): of a product between functions that are recomputed
     its result, until its own backward.  And a whole layer is made again when its backward begins,
     where a compiler does so function by function.
   - Checkpoints are of layers: between operators of one that are recomputed only products and
     attention keep what they give, and what we keep besides is made again, too.
   - Of logits a loss keeps what its row says, and not these (graph/program/framework.h).
   - The gradient of a parameter that the device has whole lies in a buffer that stays
     (Megatron-LM), or comes with backward, beside a bucket (graph/program/framework.h); it has the
     type in which gradients are added up over devices.
   - Logits may wait for those of other micro-batches (graph/program/framework.h).

   And what lives at a time is added up, without the holes that a plan may have.

   What the allocator reserves for that depends on the order of all steps: the first has no states
   of the optimizer, unless they are there from the beginning, until its end, where they lie in what
   activations have let go; steps follow until one asks the device for nothing more.  Where a
   framework records streams, the block of what a collective reads or writes is free when forward,
   or backward, of the micro-batch has ended: until then the device may not have got there. */
#ifndef CLEAVE_GRAPH_PROGRAM_FRAMEWORK_MEMORY_H
#define CLEAVE_GRAPH_PROGRAM_FRAMEWORK_MEMORY_H

#include "graph/program/program.h"

/* Of the device with most. */
typedef struct cleave_framework_memory {
    int64_t allocated_bytes; /* at once; each buffer a multiple of 512 */
    int64_t reserved_bytes;  /* by the allocator for these (graph/program/caching_allocator.h) */
} cleave_framework_memory;

/* Of a program in which all items stand.  FAILED when memory is short. */
cleave_status cleave_program_framework_memory(const cleave_program *program,
                                              cleave_framework framework,
                                              cleave_framework_memory *memory, cleave_error *error);

#endif
