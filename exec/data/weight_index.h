/* The index of weights that lie in several files, `model.safetensors.index.json`: which tensor is
   in which of the files beside it.

       {"metadata": {...}, "weight_map": {"lm_head.weight": "model-00002-of-00002.safetensors",
   ...}}

   Nothing in it is trusted: a file's name is one of its folder, and no path. */
#ifndef CLEAVE_EXEC_DATA_WEIGHT_INDEX_H
#define CLEAVE_EXEC_DATA_WEIGHT_INDEX_H

#include "base/arena.h"
#include "base/error.h"

#include <stdint.h>

/* Files that are open at the same time. */
enum { CLEAVE_MOST_SHARDS = 512 };

typedef struct cleave_indexed_tensor {
    const char *name;
    int32_t shard;
} cleave_indexed_tensor;

typedef struct cleave_weight_index {
    int32_t n_tensors, n_shards;
    cleave_indexed_tensor *tensors; /* in the order of the file */
    const char **shards;            /* in the order of their first tensors */
} cleave_weight_index;

/* `path` stands for the file in errors.  Everything lives in the arena.  BAD_INPUT. */
cleave_status cleave_weight_index_parse(const char *text, size_t bytes, const char *path,
                                        cleave_arena *arena, cleave_weight_index *index,
                                        cleave_error *error);

#endif
