/* One product for several of a kind, such as queries, keys and values: which it is is an axis of
   its own, so that a split of what each gives leaves a device with the same share of all. */
#ifndef CLEAVE_GRAPH_IMPORT_SIDES_H
#define CLEAVE_GRAPH_IMPORT_SIDES_H

#include "graph/import/config/compose_layers.h"

/* The einsum of x [batch, length, width] and the weight SCOPE.weight [rows, width], seen as `shape`
   [.., width]. */
const char *cleave_compose_sides(cleave_composer *c, const char *scope, const char *x,
                                 const char *equation, int rank, const int64_t *shape);

/* One of them, [batch, length, n], by the dimension that tells them apart. */
const char *cleave_compose_side(cleave_composer *c, const char *name, const char *x, int dimension,
                                int64_t side, int64_t length, int64_t n);

/* A gated unit's first half, of one product for the gate and what it lets through. */
typedef struct cleave_gated_sides {
    const char *module, *function; /* in the unit: of the product, and what the gate goes through */
    const char *activation;
    int64_t length, width, inner;
    bool bias;
} cleave_gated_sides;

/* [batch, length, inner] of x [batch, length, width]; the unit is `scope`. */
const char *cleave_compose_gated_sides(cleave_composer *c, const char *scope, const char *x,
                                       const cleave_gated_sides *of);

#endif
