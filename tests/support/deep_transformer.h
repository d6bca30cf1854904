/* Transformers of any depth, by way of ONNX files: every layer has weights of its own, which are
   graph inputs without values. */
#ifndef CLEAVE_TESTS_SUPPORT_DEEP_TRANSFORMER_H
#define CLEAVE_TESTS_SUPPORT_DEEP_TRANSFORMER_H

#include "graph/import/import.h"

typedef struct deep_transformer {
    int layers, width, heads, tokens, vocabulary;
} deep_transformer;

/* For training, at this batch.  Aborts where memory for the file is short. */
cleave_status deep_transformer_import(const deep_transformer *shape, int64_t batch,
                                      cleave_arena *arena, cleave_model *model,
                                      cleave_error *error);

#endif
