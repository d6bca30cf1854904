/* Steps of cleave_model_finish that live in files of their own. */
#ifndef CLEAVE_GRAPH_MODEL_INTERNAL_H
#define CLEAVE_GRAPH_MODEL_INTERNAL_H

#include "graph/model.h"

/* Every count, id, register and axis index is in its range, so that the model may be walked. */
cleave_status cleave_model_check_references(const cleave_model *model, cleave_error *error);

/* Fills model->hash: 128 bits of the graph with its shapes; neither values, nor addresses, nor the
   file's name. */
void cleave_model_hash(cleave_model *model);

#endif
