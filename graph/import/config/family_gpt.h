/* What decoders with layer norms and a unit of two products have in common. */
#ifndef CLEAVE_GRAPH_IMPORT_FAMILY_GPT_H
#define CLEAVE_GRAPH_IMPORT_FAMILY_GPT_H

#include "graph/import/config/config_fields.h"

/* How queries attend to those before them. */
cleave_composed_attention cleave_gpt_attention(const cleave_config *config);

/* The function of a unit, whose modules are in `scope`. */
const char *cleave_gpt_activate(cleave_composer *c, const cleave_config *config, const char *scope,
                                const char *x);

/* x + y, y being dropped out first. */
const char *cleave_gpt_add(cleave_composer *c, const cleave_config *config, const char *name,
                           const char *x, const char *y);

const char *cleave_gpt_norm(cleave_composer *c, const cleave_config *config, const char *block,
                            const char *which, const char *x);

#endif
