/* What one layout takes: its step, and what it sends and keeps. */
#ifndef CLEAVE_CLI_PREDICT_H
#define CLEAVE_CLI_PREDICT_H

#include "simulator/step/priced_program.h"

typedef struct prediction {
    double step_seconds;
    int64_t bytes_sent, peak_bytes; /* of all devices; of the fullest one */
} prediction;

cleave_status predict_layout(const cleave_pricing *of, prediction *result, cleave_error *error);

#endif
