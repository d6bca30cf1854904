#include "graph/program/framework.h"

/* PyTorch's logarithm of a softmax reads and writes; picking the targets reads one of each row.
   Back that fills, and the other reads this and its result, and writes. */
#define LOSS_OF_TORCH                                                                              \
    {                                                                                              \
        .apart = true, .exact = true, .forward = {1, 2}, .backward = { 2, 4 }                      \
    }
/* Megatron-LM's cross entropy over classes that may be split, unless it is told to fuse it: the
   maximum (1), the difference to it (2), its power (2), their sum (1) and the shares (2); back
   these times the gradient (2). */
#define LOSS_OF_MEGATRON(in_f32)                                                                   \
    {                                                                                              \
        .apart = true, .exact = in_f32, .forward = {5, 8}, .backward = { 1, 2 }                    \
    }

/* Two are read and one is written; or one more is read on the way. */
#define BY_A_KERNEL                                                                                \
    { 1, 3 }
#define ON_THE_WAY                                                                                 \
    { 0, 1 }

const cleave_framework_row cleave_frameworks[CLEAVE_N_FRAMEWORKS] = {
    [CLEAVE_COMPILED] = {.name = "compiled",
                         .chores = {[CLEAVE_CHORE_ADD] = ON_THE_WAY,
                                    [CLEAVE_CHORE_ACCUMULATE] = BY_A_KERNEL,
                                    [CLEAVE_CHORE_UNPACK] = {1, 1},
                                    [CLEAVE_CHORE_PACK] = {1, 1},
                                    [CLEAVE_CHORE_BUCKET] = {2, 2}}},
    [CLEAVE_EAGER] = {.name = "eager",
                      .is_eager = true,
                      .spells_out = true,
                      .loss = LOSS_OF_TORCH,
                      .chores = {[CLEAVE_CHORE_ADD] = BY_A_KERNEL,
                                 [CLEAVE_CHORE_ACCUMULATE] = BY_A_KERNEL,
                                 [CLEAVE_CHORE_UNPACK] = {1, 1},
                                 [CLEAVE_CHORE_PACK] = {1, 1},
                                 [CLEAVE_CHORE_BUCKET] = {2, 2}}},
    /* It compiles each block, and its loss is torch's, of f32. */
    [CLEAVE_TORCHTITAN] = {.name = "torchtitan",
                           .loss = LOSS_OF_TORCH,
                           .chores = {[CLEAVE_CHORE_ADD] = ON_THE_WAY,
                                      [CLEAVE_CHORE_ACCUMULATE] = BY_A_KERNEL,
                                      [CLEAVE_CHORE_UNPACK] = {1, 1},
                                      [CLEAVE_CHORE_PACK] = {1, 1},
                                      [CLEAVE_CHORE_BUCKET] = {2, 2}}},
    /* FullyShardedDataParallel, and flash-attn's loss. */
    [CLEAVE_LLM_FOUNDRY] = {.name = "llm-foundry",
                            .is_eager = true,
                            .spells_out = true,
                            .chores = {[CLEAVE_CHORE_ADD] = BY_A_KERNEL,
                                       [CLEAVE_CHORE_ACCUMULATE] = BY_A_KERNEL,
                                       [CLEAVE_CHORE_PACK] = {1, 1},
                                       [CLEAVE_CHORE_BUCKET] = {2, 2}}},
    /* Norms, rotary positions and softmaxes of its own or of apex and Transformer Engine. */
    [CLEAVE_MEGATRON] = {.name = "megatron",
                         .loss = LOSS_OF_MEGATRON(true),
                         .chores = {[CLEAVE_CHORE_ADD] = BY_A_KERNEL}},
    /* Its softmax of f32 is PyTorch's, and the mask before it is filled in place. */
    [CLEAVE_MEGATRON_DEEPSPEED] =
        {.name = "megatron-deepspeed",
         .is_eager = true,
         .fills_masks = true,
         .loss = LOSS_OF_MEGATRON(true),
         .chores = {[CLEAVE_CHORE_ADD] = BY_A_KERNEL,
                    [CLEAVE_CHORE_ACCUMULATE] = BY_A_KERNEL,
                    [CLEAVE_CHORE_PACK] = {1, 1},
                    [CLEAVE_CHORE_BUCKET] = {2, 2}}},
    /* flash-attn's norms and products, and Megatron-LM's loss of logits as they come. */
    [CLEAVE_MIST] =
        {.name = "mist",
         .loss = LOSS_OF_MEGATRON(false),
         .chores = {[CLEAVE_CHORE_ADD] = BY_A_KERNEL, [CLEAVE_CHORE_ACCUMULATE] = BY_A_KERNEL}},
};
