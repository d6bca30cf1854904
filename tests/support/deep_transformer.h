/* Transformers of any depth as ONNX files: every layer has weights of its own, which are graph
   inputs without values. */
#ifndef CLEAVE_TESTS_SUPPORT_DEEP_TRANSFORMER_H
#define CLEAVE_TESTS_SUPPORT_DEEP_TRANSFORMER_H

#include <stddef.h>

typedef struct deep_transformer {
    int layers, width, heads, tokens, vocabulary;
} deep_transformer;

/* The file's bytes, *n_bytes of them; release with free().  Aborts where memory is short. */
char *deep_transformer_make(const deep_transformer *shape, size_t *n_bytes);

#endif
