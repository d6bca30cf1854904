#include "graph/program/framework.h"

/* PyTorch's logarithm of a softmax reads and writes; picking the targets reads one of each row.
   Back that fills, and the other reads this and its result, and writes: three at once
   (PyTorch: <aten/src/ATen/native/LossNLL.cpp>, <aten/src/ATen/native/SoftMax.cpp>).  Who asks for
   f32 converts before, as torchtitan's loss, which lets the logits go (torchtitan: <train.py>). */
#define LOSS_OF_TORCH                                                                              \
    { .apart = true, .exact = true, .forward = {1, 2}, .backward = {2, 4}, .beside = 2 }
/* Megatron-LM's cross entropy over classes that may be split, unless it is told to fuse it: the
   maximum (1), the difference to it (2), its power (2), their sum (1) and the shares (2); back
   these times the gradient (2), in their place (<megatron/core/tensor_parallel/cross_entropy.py>).
   Since it is Megatron-core's, the difference, too, is taken in the place of what was converted. */
#define LOSS_OF_MEGATRON(in_f32, of_core)                                                          \
    {                                                                                              \
        .apart = true, .exact = in_f32, .in_place = of_core, .forward = {5, 8}, .backward = {      \
            1,                                                                                     \
            2                                                                                      \
        }                                                                                          \
    }

#define FSDP2(last)                                                                                \
    { .by_layers = true, .copies = true, .keeps_last = last }

/* Two are read and one is written; or one more is read on the way. */
#define BY_A_KERNEL                                                                                \
    { 1, 3 }
#define ON_THE_WAY                                                                                 \
    { 0, 1 }

#define CHORES_OF_TORCH(add)                                                                       \
    {                                                                                              \
        [CLEAVE_CHORE_BUCKET] = {2, 2}, [CLEAVE_CHORE_PACK] = {1, 1},                              \
        [CLEAVE_CHORE_UNPACK] = {1, 1}, [CLEAVE_CHORE_ACCUMULATE] = BY_A_KERNEL,                   \
        [CLEAVE_CHORE_ADD] = add                                                                   \
    }

/* Its softmax of f32 is PyTorch's, and the mask before it is filled in place. */
#define MEGATRON_DEEPSPEED(called, keeps_the_normed)                                               \
    {                                                                                              \
        .name = called, .is_eager = true, .fills_masks = true, .holds_for_messages = true,         \
        .records_streams = true, .keeps_outputs = true, .keeps_normed = keeps_the_normed,          \
        .buckets = CLEAVE_BUCKETS_AT_ONCE, .loss = LOSS_OF_MEGATRON(true, false), .chores = {      \
            [CLEAVE_CHORE_ADD] = BY_A_KERNEL,                                                      \
            [CLEAVE_CHORE_ACCUMULATE] = BY_A_KERNEL,                                               \
            [CLEAVE_CHORE_PACK] = {1, 1},                                                          \
            [CLEAVE_CHORE_BUCKET] = {3, 3}                                                         \
        }                                                                                          \
    }

const cleave_framework_row cleave_frameworks[CLEAVE_N_FRAMEWORKS] = {
    [CLEAVE_COMPILED] = {.name = "compiled",
                         .gathers = FSDP2(false),
                         .buckets = CLEAVE_BUCKETS_KEPT,
                         .chores = CHORES_OF_TORCH(ON_THE_WAY)},
    [CLEAVE_EAGER] = {.name = "eager",
                      .is_eager = true,
                      .spells_out = true,
                      .loss = LOSS_OF_TORCH,
                      .gathers = FSDP2(false),
                      .buckets = CLEAVE_BUCKETS_KEPT,
                      .chores = CHORES_OF_TORCH(BY_A_KERNEL)},
    /* It compiles each block, and its loss is torch's, of f32; rotary positions are complex
       (<torchtitan/models/llama3/model.py>). */
    [CLEAVE_TORCHTITAN] = {.name = "torchtitan",
                           .turns_complex = true,
                           .loss = LOSS_OF_TORCH,
                           .gathers = FSDP2(true),
                           .buckets = CLEAVE_BUCKETS_KEPT,
                           .chores = CHORES_OF_TORCH(ON_THE_WAY)},
    /* FullyShardedDataParallel, and flash-attn's loss. */
    [CLEAVE_LLM_FOUNDRY] = {.name = "llm-foundry",
                            .is_eager = true,
                            .spells_out = true,
                            .gathers = {.by_layers = true},
                            .buckets = CLEAVE_BUCKETS_KEPT,
                            .chores = {[CLEAVE_CHORE_ADD] = BY_A_KERNEL,
                                       [CLEAVE_CHORE_ACCUMULATE] = BY_A_KERNEL,
                                       [CLEAVE_CHORE_PACK] = {1, 1},
                                       [CLEAVE_CHORE_BUCKET] = {2, 2}}},
    /* Norms, rotary positions and softmaxes of its own or of apex and Transformer Engine; products
       add to the gradients of weights (unless it is told not to: <megatron/training/arguments.py>).
     */
    [CLEAVE_MEGATRON] = {.name = "megatron",
                         .loss = LOSS_OF_MEGATRON(true, true),
                         .chores = {[CLEAVE_CHORE_ADD] = BY_A_KERNEL}},
    /* Told to fuse it by Transformer Engine (--cross-entropy-fusion-impl te), which reads the
       logits once for the maximum and the sum, and once more to put their gradient in their place;
       back that is multiplied (<transformer_engine/common/triton/cross_entropy.py>). */
    [CLEAVE_MEGATRON_FUSED] =
        {.name = "megatron-fused",
         .loss = {.apart = true, .in_place = true, .forward = {2, 3}, .backward = {1, 2}},
         .chores = {[CLEAVE_CHORE_ADD] = BY_A_KERNEL}},
    [CLEAVE_MEGATRON_DEEPSPEED] = MEGATRON_DEEPSPEED("megatron-deepspeed", true),
    [CLEAVE_MEGATRON_DEEPSPEED_TORCH_NORM] =
        MEGATRON_DEEPSPEED("megatron-deepspeed-torch-norm", false),
    /* flash-attn's norms and products, and Megatron-LM's loss of logits as they come; its
       optimizers are made with their states (<mist/re_swap_manager/optimizer.py>). */
    [CLEAVE_MIST] =
        {.name = "mist",
         .begins_with_states = true,
         .loss = LOSS_OF_MEGATRON(false, false),
         .chores = {[CLEAVE_CHORE_ADD] = BY_A_KERNEL, [CLEAVE_CHORE_ACCUMULATE] = BY_A_KERNEL}},
};
