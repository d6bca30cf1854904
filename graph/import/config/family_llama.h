/* What models made like Llama share: a stack of blocks, each attention and then a unit that feeds
   forward, both behind a norm.  A family says how its blocks differ. */
#ifndef CLEAVE_GRAPH_IMPORT_FAMILY_LLAMA_H
#define CLEAVE_GRAPH_IMPORT_FAMILY_LLAMA_H

#include "graph/import/config/config_fields.h"

typedef struct cleave_decoder cleave_decoder;

typedef struct cleave_decoder_style {
    bool biases;     /* of queries, keys and values, whatever the file says */
    bool head_norms; /* of queries and keys */
    bool plus_one;   /* norms */
    bool scaled_embedding;
    /* In place of Llama's, where they are not null: of the block's normed x [batch, length, width],
       whose modules are in `block`. */
    const char *(*attend)(cleave_decoder *d, const char *block, const char *x, int64_t layer);
    const char *(*feed)(const cleave_decoder *d, const char *block, const char *x, int64_t layer);
} cleave_decoder_style;

struct cleave_decoder {
    cleave_composer *c;
    const cleave_config *config;
    const cleave_decoder_style *style;
    cleave_rotary_tables rotary;
};

/* The whole model; gives the logits. */
const char *cleave_compose_decoder(cleave_composer *c, const cleave_config *config,
                                   const cleave_decoder_style *style);

/* How many keys a query of a layer sees at most; 0: all before it. */
int64_t cleave_layer_window(const cleave_config *config, int64_t layer);

/* A gated unit with an inner width, whose modules are in `scope`. */
const char *cleave_compose_gated(cleave_composer *c, const cleave_config *config, const char *scope,
                                 const char *x, int64_t inner);

/* A window may stand in the file and be switched off. */
cleave_config cleave_with_switched_window(const cleave_config *config);

#endif
