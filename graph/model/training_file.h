/* How the model of a layout was to be trained, as its file says it: the precision of activations
   and of sums that are sent, and the parameters that are frozen. */
#ifndef CLEAVE_GRAPH_MODEL_TRAINING_FILE_H
#define CLEAVE_GRAPH_MODEL_TRAINING_FILE_H

#include "base/json.h"
#include "graph/model/model.h"

/* BAD_INPUT where `"training"` of a layout's file, or its absence, is not what the model has,
   unless that was asked for. */
cleave_status cleave_training_read(const cleave_json_cursor *root, const cleave_model *model,
                                   cleave_error *error);
/* The key and its value; nothing for f32 with all parameters trained. */
void cleave_training_write(cleave_json_writer *out, const cleave_model *model);

/* Opens "model", which names the model that a file is about; who calls may say more of it, and ends
   it. */
void cleave_training_open_model(cleave_json_writer *out, const cleave_model *model);

#endif
