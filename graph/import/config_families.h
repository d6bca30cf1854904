/* The table of families: which fields each has, and what puts its graph together. */
#ifndef CLEAVE_GRAPH_IMPORT_CONFIG_FAMILIES_H
#define CLEAVE_GRAPH_IMPORT_CONFIG_FAMILIES_H

#include "graph/import/config_fields.h"

typedef struct cleave_family {
    const char *model_type;
    const cleave_field *fields;
    int n_fields;
    const char *(*compose)(cleave_composer *c, const cleave_config *config);
    bool has_text;     /* a length is needed */
    bool turns;        /* has rotary positions; else a table of positions, or neither */
    bool has_own_head; /* heads x size of a head need not be the width */
} cleave_family;

/* Sorted by model_type. */
extern const cleave_family cleave_families[];
extern const int cleave_n_families;

#endif
