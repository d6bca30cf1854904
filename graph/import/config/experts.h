/* A unit of experts: a router chooses some of them for each token.

   Chosen tokens are copied to a table of rows, `capacity` for each expert and sample (Route, in
   graph/import/operators/routing.c); the experts are products over it; the rows come back to the
   tokens, weighed.  So experts are an axis, `e`, and what moves between devices that have samples
   and devices that have experts is those rows.  Without a capacity there are rows for every token
   at every expert: nothing is dropped. */
#ifndef CLEAVE_GRAPH_IMPORT_EXPERTS_H
#define CLEAVE_GRAPH_IMPORT_EXPERTS_H

#include "graph/import/config/family_llama.h"

/* From a router's logits to the weights of the experts that it chooses. */
typedef enum cleave_routing {
    CLEAVE_ROUTING_SOFTMAX,
    CLEAVE_ROUTING_SIGMOID,
    CLEAVE_ROUTING_SIGMOID_OF_CHOSEN, /* the same, chosen by logits */
    CLEAVE_ROUTING_OF_CHOSEN          /* a softmax over the logits of a token's choices alone */
} cleave_routing;

typedef struct cleave_expert_style {
    cleave_routing routing;
    const char *router;     /* the module in the unit; null: "gate" */
    const char *correction; /* the parameter that is added where experts are chosen; null: none */
    int64_t correction_rank;
    bool biases;            /* of the router and of the experts */
    bool transposed;        /* weights of experts have what they read before what they give */
    bool interleaved;       /* elements of gate and up take turns, else the gate's come first */
    double up_shift, limit; /* up + shift; limit: of up, and of the gate from above; 0: none */
    double gate_scale;      /* above 0: gate x sigmoid(gate_scale x gate), whatever the file says */
    bool in_matrices;       /* of gate, up and down, the experts below each other: w1, v1 and w2 */
    bool weighs_inputs;     /* of an expert, not its results; a token has one expert then */
} cleave_expert_style;

/* The unit whose modules are in `scope`, of x [batch, length, width]. */
const char *cleave_compose_experts(const cleave_decoder *d, const char *scope, const char *x,
                                   const cleave_expert_style *style);

/* A layer's unit: experts beside those that all tokens go through, or, where the layer has none, a
   dense one; and the same with DeepSeek's router. */
const char *cleave_feed_beside_shared(const cleave_decoder *d, const char *block, const char *x,
                                      int64_t layer, const cleave_expert_style *how);
const char *cleave_feed_deepseek(const cleave_decoder *d, const char *block, const char *x,
                                 int64_t layer);

#endif
