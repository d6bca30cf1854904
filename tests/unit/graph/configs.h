/* What tests of config.json share: a graph of a text, and sizes of tiny models. */
#ifndef CLEAVE_TESTS_UNIT_GRAPH_CONFIGS_H
#define CLEAVE_TESTS_UNIT_GRAPH_CONFIGS_H

#include "base/file.h"
#include "graph/import/config/config.h"
#include "imported.h"

#define SIZES                                                                                      \
    "\"hidden_size\": 16, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "                  \
    "\"vocab_size\": 20, \"intermediate_size\": 24"
#define SIZES_OF_OPT                                                                               \
    "\"hidden_size\": 16, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"vocab_size\": "  \
    "20"
#define LLAMA "\"model_type\": \"llama\", " SIZES
#define GPT2                                                                                       \
    "\"model_type\": \"gpt2\", \"n_embd\": 16, \"n_head\": 4, \"n_layer\": 1, \"vocab_size\": 20"

static inline cleave_status decode(const char *text, int64_t sequence, bool trains,
                                   cleave_onnx_graph *graph, cleave_error *error) {
    const cleave_config_request request = {.file = "hand.json",
                                           .data = text,
                                           .bytes = strlen(text),
                                           .sequence = sequence,
                                           .trains = trains};
    return cleave_config_decode(&request, &arena, graph, error);
}

static inline char *read_text(const char *format, const char *name) {
    char path[512], full[1024], *text;
    size_t size;
    snprintf(path, sizeof path, format, name);
    snprintf(full, sizeof full, "%s/%s", CLEAVE_SOURCE_DIR, path);
    OK(cleave_file_read, full, &arena, &text, &size);
    return text;
}

static inline cleave_onnx_graph graph_of(const char *text, int64_t sequence, bool trains) {
    cleave_onnx_graph graph = {0};
    OK(decode, text, sequence, trains, &graph);
    return graph;
}

#endif
