/* Weights that a file has in nodes of type Constant.

   Exporters of PaddlePaddle write all weights so, where others write initializers, and for ONNX
   both are the same.  For who trains they are not: a constant is part of what is computed.  So
   where products have their weights in constants, and the file has neither float initializers nor
   products that take weights from an input, its float constants of more than one element are
   read as initializers. */
#include "graph/import/onnx/onnx_constants.h"

#include "graph/model/name_map.h"

#include <string.h>

/* The float tensor of more than one element that a node gives; null: it gives another thing. */
static const cleave_onnx_tensor *weight_of(const cleave_onnx_node *node) {
    if (strcmp(node->type, "Constant") != 0 || node->n_outputs != 1)
        return NULL;
    for (int32_t i = 0; i < node->n_attributes; i++) {
        const cleave_onnx_tensor *tensor = node->attributes[i].tensor;
        if (tensor != NULL && tensor->type == CLEAVE_ONNX_FLOAT && tensor->n > 1)
            return tensor;
    }
    return NULL;
}

/* What the node multiplies its first input by; null: it is no product. */
static const char *product_weight(const cleave_onnx_node *node) {
    static const char *const types[] = {"Conv", "ConvTranspose", "Gemm", "MatMul"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(node->type, types[i]) == 0 && node->n_inputs > 1)
            return node->inputs[1];
    return NULL;
}

/* Does a product take its weight from a constant, and none from an input of the graph? */
static cleave_status find_weights(const cleave_onnx_graph *graph, cleave_arena *scratch, bool *has,
                                  cleave_error *error) {
    cleave_name_map inputs = {.arena = scratch}, constants = {.arena = scratch};
    *has = false;
    for (int32_t i = 0; i < graph->n_inputs; i++)
        if (!cleave_name_map_set(&inputs, graph->inputs[i].name, i))
            return cleave_fail_memory(error, "reading constants");
    for (int32_t i = 0; i < graph->n_nodes; i++)
        if (weight_of(&graph->nodes[i]) != NULL &&
            !cleave_name_map_set(&constants, graph->nodes[i].outputs[0], i))
            return cleave_fail_memory(error, "reading constants");
    bool is_there = false;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const char *weight = product_weight(&graph->nodes[i]);
        if (weight != NULL && cleave_name_map_find(&inputs, weight) >= 0)
            return CLEAVE_OK;
        is_there = is_there || (weight != NULL && cleave_name_map_find(&constants, weight) >= 0);
    }
    *has = is_there;
    return CLEAVE_OK;
}

static cleave_status move_weights(cleave_onnx_graph *graph, cleave_arena *arena,
                                  cleave_error *error) {
    int32_t n = graph->n_initializers, n_nodes = 0;
    cleave_onnx_tensor *all =
        CLEAVE_ARENA_ARRAY(arena, cleave_onnx_tensor, (int64_t)n + graph->n_nodes);
    if (all == NULL)
        return cleave_fail_memory(error, "reading constants");
    memcpy(all, graph->initializers, (size_t)n * sizeof *all);
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const cleave_onnx_tensor *weight = weight_of(&graph->nodes[i]);
        if (weight == NULL) {
            graph->nodes[n_nodes++] = graph->nodes[i];
        } else {
            all[n] = *weight;
            all[n++].name = graph->nodes[i].outputs[0];
        }
    }
    graph->initializers = all;
    graph->n_initializers = n;
    graph->n_nodes = n_nodes;
    return CLEAVE_OK;
}

cleave_status cleave_onnx_take_weights(cleave_onnx_graph *graph, cleave_arena *arena,
                                       cleave_error *error) {
    for (int32_t i = 0; i < graph->n_initializers; i++)
        if (graph->initializers[i].type == CLEAVE_ONNX_FLOAT)
            return CLEAVE_OK;
    cleave_arena scratch = {0};
    bool has;
    cleave_status status = find_weights(graph, &scratch, &has, error);
    cleave_arena_free(&scratch);
    return status == CLEAVE_OK && has ? move_weights(graph, arena, error) : status;
}
