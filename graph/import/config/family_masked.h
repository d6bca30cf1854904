/* What encoders that predict masked tokens differ in. */
#ifndef CLEAVE_GRAPH_IMPORT_FAMILY_MASKED_H
#define CLEAVE_GRAPH_IMPORT_FAMILY_MASKED_H

#include "graph/import/config/family_encoder.h"

/* What gives logits over tokens: a layer, a norm, and the embedding's table or one like it. */
typedef struct cleave_masked_head {
    const char *layer, *act, *norm, *decoder, *bias, *logits;
    const char *activation; /* null: the blocks' */
} cleave_masked_head;

struct cleave_masked {
    const char *model;     /* the module of all but the head */
    const char *blocks;    /* in it, the list of blocks */
    const char *last_norm; /* behind blocks that norm what attention and unit read, and not what the
                              embedding gives; null: they norm what they give */
    const char *widening;  /* of embeddings that are narrower than the stream; null: none is */
    bool repeats;          /* all layers are one block, and embeddings of any width are widened */
    double epsilon;        /* 0: as the file says */
    cleave_encoder_names names;
    cleave_masked_head head;
};

cleave_encoder cleave_masked_encoder(cleave_composer *c, const cleave_config *config,
                                     const cleave_masked *of);
/* What blocks read of texts, whose tables are in MODEL.embeddings: [batch, length, width]. */
const char *cleave_masked_embed(const cleave_encoder *e, const cleave_masked *of,
                                const char **table);
/* Logits of what is x before the blocks. */
const char *cleave_masked_logits(const cleave_encoder *e, const cleave_masked *of,
                                 const char *table, const char *x);

#endif
