/* The manifest of a checkpoint: what was trained, how far, and which files hold it.

       {"cleave_checkpoint": 2, "step": 50, "seed": "0",
        "model": {"file": "byte_gpt.onnx", "hash": "..."}, "precision": "f32",
        "reduce_precision": "f32",
        "optimizer": {"name": "adam", "learning_rate": 0.001, "weight_decay": 0, "beta1": 0.9,
                      "beta2": 0.999, "epsilon": 1e-08, "clip_norm": 0},
        "data": {"file": "README.md", "bytes": 12345, "xxh64": "..."},
        "files": [{"name": "parameters.safetensors", "bytes": 3300000, "xxh64": "..."}, ...],
        "xxh64": "..."}

   `data` is left out where they are made up, and has `"shuffled": true` where their samples are;
   an optimizer has `no_decay` where its decay leaves out parameters; `schedule`, as {"name":
   "cosine", "warmup": 10, "steps": 300, "final": 0.0001}, is left out of a rate that is constant.
   The last checksum is that of the manifest written without it.  Nothing in a manifest is trusted:
   a file's name is one of its folder and no path. */
#ifndef CLEAVE_EXEC_DATA_MANIFEST_H
#define CLEAVE_EXEC_DATA_MANIFEST_H

#include "base/arena.h"
#include "base/error.h"
#include "exec/kernels/optimizer.h"

#include <stdbool.h>
#include <stdint.h>

enum { CLEAVE_MOST_MANIFEST_FILES = 8, CLEAVE_MOST_MANIFEST_BYTES = 1 << 16 };

typedef struct cleave_manifest_file {
    const char *name;
    int64_t bytes;
    uint64_t checksum;
} cleave_manifest_file;

typedef struct cleave_manifest {
    int64_t step; /* steps that were done */
    uint64_t seed;
    const char *model_file, *model_hash, *precision, *reduce_precision;
    cleave_optimizer optimizer;
    const char *no_decay;      /* null: the decay is of all parameters */
    cleave_manifest_file data; /* its name as it was given; null: made up */
    bool shuffled;
    int32_t n_files;
    cleave_manifest_file files[CLEAVE_MOST_MANIFEST_FILES];
} cleave_manifest;

/* `path` stands for the file in errors.  Strings live in the arena.  BAD_INPUT. */
cleave_status cleave_manifest_parse(const char *text, size_t bytes, const char *path,
                                    cleave_arena *arena, cleave_manifest *manifest,
                                    cleave_error *error);

/* The text of a manifest, in the arena. */
cleave_status cleave_manifest_format(const cleave_manifest *manifest, cleave_arena *arena,
                                     const char **text, cleave_error *error);

#endif
