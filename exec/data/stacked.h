/* Weights of experts that a file has one by one, as published checkpoints do, seen as the stacked
   tensors that the framework's classes and our models have:

       P.experts.I.{gate_proj, up_proj}.weight [f, d]   P.experts.gate_up_proj [experts, 2 f, d]
       P.experts.I.down_proj.weight [d, f]              P.experts.down_proj [experts, d, f]

   or w1, w3 and w2, as Mixtral's, whose `block_sparse_moe` is a model's `mlp`.  What is stacked
   lies in parts of equal sizes, one after the other. */
#ifndef CLEAVE_EXEC_DATA_STACKED_H
#define CLEAVE_EXEC_DATA_STACKED_H

#include "exec/data/safetensors.h"

typedef struct cleave_stack {
    cleave_safetensors_entry entry; /* under the name of the model */
    int32_t n_parts;
    int32_t *parts; /* [n_parts] entries of the file */
} cleave_stack;

typedef struct cleave_stacks {
    int32_t n;
    cleave_stack *items;
} cleave_stacks;

/* Those of which the entries of a file have every part.  They live in the arena. */
cleave_status cleave_stacks_find(const cleave_safetensors_entry *entries, int32_t n,
                                 cleave_arena *arena, cleave_stacks *stacks, cleave_error *error);

#endif
