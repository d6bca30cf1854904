/* What frameworks run that do as a layout says: a row each, by what their code says.

   Prices of devices of which nothing was measured are those of a framework's kernels.  Which nests
   it runs as one is in graph/program/one_kernel.h, what it spells out in graph/program/eager.h; and
   besides the passes of nests it has chores, which our kernels do as they write, or need not do:

   - Autograd adds what several kernels give for an activation (its InputBuffer); a compiler does so
     in the kernel that reads the sum.
   - What a micro-batch gives for a weight is added to its gradient (AccumulateGrad).  Megatron-LM's
     product does that (its fusion of gradient accumulation).
   - FSDP2 of PyTorch gathers the weights of a group in one vector, copies each out of it, and
     copies gradients into the vector that is reduced and scattered, converted.
     FullyShardedDataParallel has views of one flat parameter, which need no copy; the gradient
     of that is put together of what its views get.
   - DDP copies gradients into buckets, divided, and out again (PyTorch's Reducer); they are there
     from its beginning, and gradients come with backward and go behind the update.  DeepSpeed
     without ZeRO flattens all gradients when backward is through, multiplies that and copies it
     out again (DeepSpeed: <deepspeed/runtime/engine.py>, 500 million elements at most).  In
     Megatron-LM gradients lie in their bucket.
   - Backward of a layer norm reads what it read, or, as Megatron-DeepSpeed asks of apex unless told
     not to (--disable-mem-efficient-ln), what it gave, which a product has kept anyway.
   - torch.distributed records its stream for what a collective reads and writes (PyTorch:
     <torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp>, unless TORCH_NCCL_AVOID_RECORD_STREAMS is
     set): when that is let go, its block is free again once the device has got there
     (<c10/cuda/CUDACachingAllocator.cpp>).  The host is ahead meanwhile, and allocates what comes
     then; not of the next micro-batch, for whose sizes DeepSpeed's stages wait.
   - The last of DeepSpeed's stages has two buffers at least, for micro-batches in turn, and lets
     what it gave go when the next of the same buffer gives (<deepspeed/runtime/pipe/engine.py>,
     PipelineEngine._exec_forward_pass; <deepspeed/runtime/pipe/schedule.py>).
   - DeepSpeed's stages send and receive by calls for which the stream of kernels waits
     (<deepspeed/runtime/pipe/p2p.py>: torch.distributed's send and recv, one after the other): both
     ends compute nothing meanwhile.  Megatron-LM sends and receives at once, and waits for both. */
#ifndef CLEAVE_GRAPH_PROGRAM_FRAMEWORK_H
#define CLEAVE_GRAPH_PROGRAM_FRAMEWORK_H

#include <stdbool.h>
#include <stdint.h>

typedef enum cleave_framework {
    CLEAVE_COMPILED, /* PyTorch with torch.compile, of all */
    CLEAVE_EAGER,    /* PyTorch without */
    CLEAVE_TORCHTITAN,
    CLEAVE_LLM_FOUNDRY,
    CLEAVE_MEGATRON,
    CLEAVE_MEGATRON_FUSED, /* its loss is */
    CLEAVE_MEGATRON_DEEPSPEED,
    CLEAVE_MEGATRON_DEEPSPEED_TORCH_NORM, /* its models have torch's layer norm */
    CLEAVE_MIST,
    CLEAVE_N_FRAMEWORKS
} cleave_framework;

typedef enum cleave_chore {
    CLEAVE_CHORE_NONE,
    CLEAVE_CHORE_ADD,        /* a gradient to what another kernel gave for an activation */
    CLEAVE_CHORE_ACCUMULATE, /* that of a weight to those of the micro-batches before */
    CLEAVE_CHORE_UNPACK,     /* a weight out of what its group was gathered in */
    CLEAVE_CHORE_PACK,       /* a gradient into what its group is reduced in */
    CLEAVE_CHORE_BUCKET, /* a gradient into what is all-reduced, and what that gives out of it */
    CLEAVE_N_CHORES
} cleave_chore;

/* So many kernels, which read and write so many times the bytes of the chore. */
typedef struct cleave_chore_kernels {
    int n, passes;
} cleave_chore_kernels;

/* A loss over classes: kernels, and how often they pass over as many numbers as there are logits;
   and whether these are f32, into which short ones are converted before and back after.  In memory
   one result of theirs waits for backward, and so the logits need not; `beside` it backward has so
   many more at once.  In place that lies where the logits do, or where they were converted to. */
typedef struct cleave_loss_kernels {
    bool apart; /* else it is one kernel */
    bool exact, in_place;
    cleave_chore_kernels forward, backward;
    int beside;
} cleave_loss_kernels;

/* Where gradients are all-reduced that lie in tensors of their own. */
typedef enum cleave_buckets {
    CLEAVE_BUCKETS_NONE,   /* where they arise, which stays */
    CLEAVE_BUCKETS_KEPT,   /* in a copy that stays */
    CLEAVE_BUCKETS_AT_ONCE /* in a copy of all, of so many elements at most, behind backward */
} cleave_buckets;
enum { CLEAVE_MOST_AT_ONCE = 500000000 };

/* How weights of which each device keeps a share come together (graph/program/gathered_layers.h).
 */
typedef struct cleave_gathering {
    bool by_layers;  /* and the rest as one; else each operator's as it is reached */
    bool copies;     /* they are copied out of what was gathered; else views of it */
    bool keeps_last; /* those of the last layer stay for its backward */
} cleave_gathering;

typedef struct cleave_framework_row {
    const char *name;
    bool is_eager;           /* no compiler makes one kernel of several */
    bool spells_out;         /* norms by the mean square and rotary positions */
    bool turns_complex;      /* rotary positions by complex numbers, with a compiler, too */
    bool fills_masks;        /* of stored scores in place, in a view of them */
    bool holds_for_messages; /* both ends compute nothing while one is on its way */
    bool records_streams;    /* of what collectives send */
    bool keeps_outputs;      /* logits, until those of the micro-batch after the next are there */
    bool keeps_normed;       /* of a layer norm its result for backward, not what it read */
    bool begins_with_states; /* of the optimizer; else its first update makes them */
    cleave_loss_kernels loss;
    cleave_gathering gathers;
    cleave_buckets buckets;
    cleave_chore_kernels chores[CLEAVE_N_CHORES];
} cleave_framework_row;
extern const cleave_framework_row cleave_frameworks[CLEAVE_N_FRAMEWORKS];

#endif
