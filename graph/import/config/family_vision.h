/* What encoders of images read: patches, tokens before them, and where they are. */
#ifndef CLEAVE_GRAPH_IMPORT_FAMILY_VISION_H
#define CLEAVE_GRAPH_IMPORT_FAMILY_VISION_H

#include "graph/import/config/family_encoder.h"

typedef struct cleave_image_names {
    const char *patches;   /* the module that makes them */
    const char *tokens[2]; /* in front of them, alike for all images; null: none */
    const char *registers; /* as many rows as the file says, behind the first token; null: none */
    const char *positions; /* of patches and tokens */
    bool is_flat;          /* a token is [width], and positions are a module's table; else
                              [1, rows, width] */
    bool plain_patches;    /* they have no bias */
} cleave_image_names;

/* An encoder of patches, tokens and registers. */
cleave_encoder cleave_image_encoder(cleave_composer *c, const cleave_config *config,
                                    const cleave_encoder_names *names,
                                    const cleave_image_names *image);

/* What the blocks read: [batch, length, width]; the modules are in `scope`. */
const char *cleave_embed_image(const cleave_encoder *e, const char *scope,
                               const cleave_image_names *names);

#endif
