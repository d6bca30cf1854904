/* What models made like Llama share: a stack of blocks, each attention and then a unit that feeds
   forward, both behind a norm.  A family says how its blocks differ. */
#ifndef CLEAVE_GRAPH_IMPORT_FAMILY_LLAMA_H
#define CLEAVE_GRAPH_IMPORT_FAMILY_LLAMA_H

#include "graph/import/config/config_fields.h"

typedef struct cleave_decoder cleave_decoder;

/* The modules of a block that norm what attention and the unit read, and what they give; null:
   nothing does. */
typedef struct cleave_decoder_norms {
    const char *before_attention, *after_attention, *before_feed, *after_feed;
    const char *last; /* of the model, behind all blocks; null: "norm" */
} cleave_decoder_norms;

/* Queries, keys or values ("q", "k", "v") of one layer, split into heads; the modules of its
   attention are in `scope`. */
typedef const char *(*cleave_heads_of_layer)(const cleave_decoder *d, const char *scope,
                                             const char *which, const char *x,
                                             const cleave_heads *heads, int64_t layer);

extern const cleave_decoder_norms cleave_norms_behind;

typedef struct cleave_decoder_style {
    const char *model; /* the module that has the layers; null: "model" */
    bool biases;       /* of queries, keys and values, whatever the file says */
    bool head_norms;   /* of queries and keys, head by head */
    bool own_norms;    /* of queries and keys, of each head another one, without a bias */
    bool wide_norms;   /* of queries and keys, over all heads */
    bool parallel;     /* the unit reads what attention reads */
    bool sinks;        /* heads have them */
    bool sees_ahead;   /* a query sees later keys, too */
    bool gates;        /* what heads give is weighed, element by element */
    cleave_norm norm;
    const cleave_decoder_norms *norms; /* null: Llama's */
    /* In place of Llama's, where they are not null: of the block's normed x [batch, length, width],
       whose modules are in `block`. */
    cleave_heads_of_layer heads;
    const char *(*attend)(cleave_decoder *d, const char *block, const char *x, int64_t layer);
    const char *(*feed)(const cleave_decoder *d, const char *block, const char *x, int64_t layer);
} cleave_decoder_style;

struct cleave_decoder {
    cleave_composer *c;
    const cleave_config *config;
    const cleave_decoder_style *style;
    cleave_rotary_tables rotary, local_rotary; /* local: of layers with a window */
};

/* The whole model; gives the logits. */
const char *cleave_compose_decoder(cleave_composer *c, const cleave_config *config,
                                   const cleave_decoder_style *style);

/* How many keys a query of a layer sees at most; 0: all before it. */
int64_t cleave_layer_window(const cleave_config *config, int64_t layer);

/* Has a layer rotary positions? */
bool cleave_layer_turns(const cleave_config *config, int64_t layer);

/* How the queries of a layer attend. */
cleave_composed_attention cleave_decoder_attention(const cleave_config *config, int64_t layer);

/* A layer's queries, keys or values ("q", "k", "v"), as Llama has them. */
const char *cleave_decoder_project(const cleave_decoder *d, const char *scope, const char *which,
                                   const char *x, const cleave_heads *heads, int64_t layer);

/* What a layer's queries, keys or values ("q", "k", "v") are projected to, split into heads, and
   normed and turned where the style says so. */
const char *cleave_decoder_heads(const cleave_decoder *d, const char *scope, const char *which,
                                 const char *x, const cleave_heads *heads, int64_t layer);

/* A gated unit with an inner width, whose modules are in `scope`. */
const char *cleave_compose_gated(cleave_composer *c, const cleave_config *config, const char *scope,
                                 const char *x, int64_t inner);

/* A window may stand in the file and be switched off. */
cleave_config cleave_with_switched_window(const cleave_config *config);

#endif
