/* What a training leaves for plots: a table that grows by a row a step, in a file of
   comma-separated values.

       step,epoch,loss,learning_rate,gradient_norm,seconds,samples_per_second,validation_loss,
       validation_accuracy

   `epoch` is how often all samples were gone through by the end of the step; what there is not, or
   was not in this step, is left empty.  A run that goes on from a checkpoint drops the rows of the
   steps that it does once more, and what a torn write left, and goes on behind the others. */
#ifndef CLEAVE_EXEC_TRAINING_TRAINING_LOG_H
#define CLEAVE_EXEC_TRAINING_TRAINING_LOG_H

#include "base/error.h"

#include <stdint.h>
#include <stdio.h>

typedef struct cleave_training_row {
    int64_t step; /* from 1 */
    /* NAN: there is none */
    double epoch, loss, learning_rate, gradient_norm, seconds, samples_per_second, validation_loss,
        validation_accuracy;
} cleave_training_row;

/* For people who watch: a few words, cut off where they need more than `bytes`. */
void cleave_training_row_format(const cleave_training_row *row, char *text, size_t bytes);

typedef struct cleave_training_log {
    const char *path;
    FILE *stream; /* null: none is written */
} cleave_training_log;

/* BAD_INPUT where a file is there that is no such table, which is left alone. */
cleave_status cleave_training_log_check(const char *path, cleave_error *error);

/* For a run that goes on after `done` steps; 0: it begins the table anew. */
cleave_status cleave_training_log_open(cleave_training_log *log, const char *path, int64_t done,
                                       cleave_error *error);
/* Hands the row to the system at once.  FAILED with the reason, as of a full disk. */
cleave_status cleave_training_log_put(cleave_training_log *log, const cleave_training_row *row,
                                      cleave_error *error);
void cleave_training_log_close(cleave_training_log *log);

#endif
