/* Which layer a name is of, as frameworks name modules and parameters: model.layers.7.mlp.up is of
   layer 7 of model.layers. */
#ifndef CLEAVE_GRAPH_MODEL_LAYER_NAME_H
#define CLEAVE_GRAPH_MODEL_LAYER_NAME_H

#include "graph/model/model.h"

/* The first number among the words of a name, which . and / part; -1: it has none.  `end`, unless
   it is null, becomes the length of the name up to there, which is the layer's own. */
int64_t cleave_layer_of(const char *name, size_t *end);

/* The layer of each parameter, from 1 on, and 0 of those that are in none; -1 of other tensors.
   `layer` is [n_tensors].  Quick where parameters of a layer come together. */
void cleave_layers_number(const cleave_model *model, int32_t *layer);

#endif
