/* What one layout takes: its step, and what it sends and keeps. */
#ifndef CLEAVE_CLI_PREDICT_H
#define CLEAVE_CLI_PREDICT_H

#include "costmodel/machine.h"
#include "graph/model/layout.h"

typedef struct prediction {
    double step_seconds;
    int64_t bytes_sent, peak_bytes; /* of all devices; of the fullest one */
} prediction;

/* `model` is as cleave_model_fuse_attention makes it for the layout. */
cleave_status predict_layout(const cleave_model *model, const cleave_machine *machine,
                             const cleave_layout *layout, int optimizer_states, prediction *result,
                             cleave_error *error);

#endif
