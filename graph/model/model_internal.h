/* Steps of cleave_model_finish that live in files of their own. */
#ifndef CLEAVE_GRAPH_MODEL_MODEL_INTERNAL_H
#define CLEAVE_GRAPH_MODEL_MODEL_INTERNAL_H

#include "graph/model/model.h"

/* Every count, id, register and axis index is in its range, so that the model may be walked. */
cleave_status cleave_model_check_references(const cleave_model *model, cleave_error *error);

/* Fills model->hash: 128 bits of the graph with its shapes; neither values, nor addresses, nor the
   file's name. */
void cleave_model_hash(cleave_model *model);

/* Gradients, and what backward keeps for them, of what leads from parameters that are trained to
   the loss. */
cleave_status cleave_model_derive_gradients(cleave_model *model, cleave_error *error);

/* Which tensors can change what is differentiated: the loss; in a model without one nothing, or
   everything where it names no outputs.  [n_tensors]. */
void cleave_model_find_useful(const cleave_model *model, bool *useful);

/* BAD_INPUT, naming the operator that stops the gradient, where a finished model has a loss and
   parameters of which none gets a gradient. */
cleave_status cleave_model_check_trained(const cleave_model *model, cleave_error *error);

/* May forward write its output over input 0? */
bool cleave_nest_can_run_in_place(const cleave_model *model, const cleave_nest *nest);

#endif
