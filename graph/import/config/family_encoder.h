/* What encoders have in common: blocks of attention and a unit of two products, whose modules a
   family calls as it likes. */
#ifndef CLEAVE_GRAPH_IMPORT_FAMILY_ENCODER_H
#define CLEAVE_GRAPH_IMPORT_FAMILY_ENCODER_H

#include "graph/import/config/config_fields.h"

/* The modules of a block; null: it has none. */
typedef struct cleave_encoder_names {
    const char *attention, *query, *key, *value; /* the last three in the first */
    const char *attended, *wide, *act, *narrow;
    const char *up; /* gives what `wide` lets through, which is a gate then */
    const char *attention_norm, *unit_norm;   /* of what they give, or of what they read */
    const char *attention_scale, *unit_scale; /* [width], times what they give */
    const char *attended_dropout, *dropout;
    bool is_gated; /* `wide` gives a gate and, behind it, what that lets through */
    bool is_plain; /* what heads give, and what the unit is made of, has no bias */
} cleave_encoder_names;

typedef struct cleave_encoder cleave_encoder;
struct cleave_encoder {
    cleave_composer *c;
    const cleave_config *config;
    int64_t length; /* of the texts, or of an image's patches and tokens */
    const cleave_encoder_names *names;
    bool biases; /* of queries, keys and values */
    bool is_causal;
    const char *bias;                   /* of scores; null: none */
    const cleave_rotary_tables *rotary; /* that turn queries and keys; null: nothing does */
    /* Scores' bias of one layer in place of `bias`, by its queries and keys; null: none. */
    const char *(*score)(const cleave_encoder *e, const char *scope, const char *queries,
                         const char *keys);
    const void *scored; /* what `score` reads beside */
    double scale;       /* of scores; 0: 1 / sqrt of a head's size */
};

/* SCOPE.WHAT */
const char *cleave_encoder_name(const cleave_encoder *e, const char *scope, const char *what);

const char *cleave_encoder_norm(const cleave_encoder *e, const char *scope, const char *what,
                                const char *x);
/* What a block's unit gives of x. */
const char *cleave_encoder_feed(const cleave_encoder *e, const char *block, const char *x);
/* x through one block, which norms what attention and unit give. */
const char *cleave_encoder_normed_block(const cleave_encoder *e, const char *block, const char *x);
/* x through all blocks BLOCKS.0, BLOCKS.1, ..., which norm what attention and unit read. */
const char *cleave_encoder_run(const cleave_encoder *e, const char *blocks, const char *x);
/* Row `row` of each sample of x: [batch, width]; the node is `name`. */
const char *cleave_encoder_row(const cleave_encoder *e, const char *name, const char *x,
                               int64_t row);

#endif
