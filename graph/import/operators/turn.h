/* Rotary positions: an operator that turns pairs of dimensions. */
#ifndef CLEAVE_GRAPH_IMPORT_TURN_H
#define CLEAVE_GRAPH_IMPORT_TURN_H

#include "graph/import/internal.h"

typedef struct cleave_turn {
    int32_t whole, exchanged; /* tensors of one shape: x, and x with its halves exchanged */
    int64_t turned;           /* columns of x that are turned; the tables have as many */
    int64_t negative;         /* the first columns of `exchanged` that count negatively */
    int cosine, sine;         /* inputs of the node */
} cleave_turn;

/* whole x cosines + exchanged x sines, with the signs: output 0 of the node. */
cleave_status cleave_import_turn(cleave_importer *im, const cleave_turn *turn);

#endif
