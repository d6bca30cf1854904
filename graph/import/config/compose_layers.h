/* The layers that families of language models are made of, each with parameters of the framework's
   names and shapes.

   Every layer has a scope, such as "model.layers.0.mlp.up_proj": its parameters are SCOPE.weight
   and SCOPE.bias, and its main node is SCOPE, so operators of a layout are called as the modules of
   the framework are.  x is [batch, length, width] where nothing else is said. */
#ifndef CLEAVE_GRAPH_IMPORT_COMPOSE_LAYERS_H
#define CLEAVE_GRAPH_IMPORT_COMPOSE_LAYERS_H

#include "graph/import/config/compose.h"

/* x W^T + b with W [n_out, n_in]. */
const char *cleave_compose_linear(cleave_composer *c, const char *scope, const char *x,
                                  int64_t n_in, int64_t n_out, bool bias);
/* x W + b with W [n_in, n_out], as GPT-2 keeps it. */
const char *cleave_compose_conv1d(cleave_composer *c, const char *scope, const char *x,
                                  int64_t n_in, int64_t n_out);
/* x W^T with a weight [n_out, n_in] that is there already; the node is `name`. */
const char *cleave_compose_tied(cleave_composer *c, const char *name, const char *x,
                                const char *weight);

/* What values over the last dimension, of extent `width`, are divided by: the root of their mean
   square, or of their variance, once the mean is taken away; with `epsilon` below the root. */
typedef enum cleave_norm {
    CLEAVE_NORM_RMS,
    CLEAVE_NORM_RMS_BARE,     /* times nothing */
    CLEAVE_NORM_RMS_PLUS_ONE, /* times 1 + weight, else times the weight */
    CLEAVE_NORM_LAYER,
    CLEAVE_NORM_LAYER_BARE, /* times nothing, and nothing added */
    CLEAVE_NORM_LAYER_PLUS_ONE,
    CLEAVE_NORM_LAYER_UNBIASED /* without a bias */
} cleave_norm;
const char *cleave_compose_norm(cleave_composer *c, const char *scope, const char *x, int64_t width,
                                double epsilon, cleave_norm norm);

/* Rows of a table [rows, width], by ids [batch, length]; `weight` may be null. */
const char *cleave_compose_embedding(cleave_composer *c, const char *scope, const char *ids,
                                     int64_t rows, int64_t width, const char **weight);
/* Rows first..first+length-1 of a table [rows, width], which is SCOPE.weight. */
const char *cleave_compose_rows(cleave_composer *c, const char *scope, int64_t rows, int64_t width,
                                int64_t first, int64_t length);

/* A function by the name that configurations call it; null where there is none of that name. */
typedef struct cleave_activation {
    const char *name, *type, *approximate; /* of the ONNX operator; "Swish": x sigmoid(scale x);
                                           "SquaredRelu": max(x, 0)^2 */
    double scale;
} cleave_activation;
const cleave_activation *cleave_activation_find(const char *name);
const char *cleave_compose_activation(cleave_composer *c, const cleave_activation *activation,
                                      const char *name, const char *x);
/* Drops elements in training; x itself where the rate is 0 or the graph is not for it. */
const char *cleave_compose_dropout(cleave_composer *c, const char *name, const char *x,
                                   double rate);

/* x times a number, called NAME.scaled; x itself where it is 0 or 1. */
const char *cleave_compose_scaled(cleave_composer *c, const char *name, const char *x,
                                  double scale);
/* x within -most and most; x itself where that is 0. */
const char *cleave_compose_clip(cleave_composer *c, const char *name, const char *x, double most);
/* cap x tanh(x / cap); x itself where the cap is 0. */
const char *cleave_compose_soft_cap(cleave_composer *c, const char *name, const char *x,
                                    double cap);

/* ---- attention ------------------------------------------------------------------------------- */

typedef struct cleave_heads {
    int64_t length, heads, kv_heads, size; /* size: of a head; length: of queries or keys */
} cleave_heads;

/* [batch, length, heads x size] as [batch, length, heads, size]; that as [batch, heads, length,
   size]; and both at once. */
const char *cleave_compose_cut_heads(cleave_composer *c, const char *name, const char *x,
                                     const cleave_heads *of, bool is_query);
const char *cleave_compose_turn_heads(cleave_composer *c, const char *name, const char *x);
const char *cleave_compose_split_heads(cleave_composer *c, const char *name, const char *x,
                                       const cleave_heads *of, bool is_query);

typedef struct cleave_composed_attention {
    cleave_heads heads; /* length: of queries */
    double scale;       /* of scores; 1: none */
    double cap;         /* of them, then, as below; 0: none */
    const char *bias;   /* of scores, [queries, keys] or with heads before; null: none */
    const char *sinks;  /* [heads] scores of no key, which take their share of a row; null: none */
    bool is_causal;     /* a query sees no later key, and */
    int64_t window;     /* above 0: as many keys at most, the last of them its own */
    int64_t ahead;      /* above 0: beside those of a window as many later ones */
    double dropout;     /* of the weights */
} cleave_composed_attention;

/* softmax(capped(scale q k^T) + bias) v of split heads, over the keys that a query sees, joined
   again: [batch, queries, heads x size].  Where several heads share keys there are as many keys as
   queries, and keys are repeated. */
const char *cleave_compose_attention(cleave_composer *c, const char *scope,
                                     const cleave_composed_attention *a, const char *q,
                                     const char *k, const char *v);

#endif
