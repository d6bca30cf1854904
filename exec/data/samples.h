/* The data of steps: samples out of files or made up, of which a rank reads its own part.

   A tensor whose first dimension in the file is that of the model is the same in every step; of
   the others it holds many samples, and a step takes the next batch of them in their order
   (exec/data/sample_order.h).  Files may be larger than memory: a load reads what it needs and has
   the system begin to read what the next step will. */
#ifndef CLEAVE_EXEC_DATA_SAMPLES_H
#define CLEAVE_EXEC_DATA_SAMPLES_H

#include "exec/data/sample_order.h"
#include "exec/run.h"
#include "graph/program/program.h"

typedef struct cleave_samples cleave_samples;

/* Opens what the options name and checks it against the model: every tensor that is data there, its
   type and shape right, as many samples in each and no fewer than a batch; ids within their tables,
   other integers within +-CLEAVE_MOST_EXACT_INTEGER (of tensors above a GiB as they are read).
   Forward needs no targets.  BAD_INPUT. */
cleave_status cleave_samples_open(const cleave_model *model, const cleave_run_options *options,
                                  cleave_samples **samples, cleave_error *error);
void cleave_samples_close(cleave_samples *samples);

/* How the samples follow each other; null where there are none: data are made up, the same in every
   step, or drawn from a text. */
const cleave_sample_order *cleave_samples_order(const cleave_samples *samples);

/* BAD_INPUT where both are images, but not of the same classes. */
cleave_status cleave_samples_check_same(const cleave_samples *a, const cleave_samples *b,
                                        cleave_error *error);

/* Fills a piece of a datum for a step.  FAILED when a file of the data was written to since it was
   opened. */
cleave_status cleave_samples_load(cleave_samples *samples, const cleave_buffer *buffer,
                                  int64_t step, void *data, cleave_error *error);

#endif
