/* Values that come into a run and go out of it: initial values or weights, data, and what is saved.
 */
#ifndef CLEAVE_EXEC_DATA_VALUES_H
#define CLEAVE_EXEC_DATA_VALUES_H

#include "exec/rank.h"

typedef struct cleave_values cleave_values;

/* Opens the weights and data that the options name and checks them against the model: every tensor
   known, its type and shape right, the batch a divisor of the data's first dimension, ids within
   their tables, other integers within +-CLEAVE_MOST_EXACT_INTEGER.  BAD_INPUT. */
cleave_status cleave_values_open(const cleave_model *model, const cleave_run_options *options,
                                 cleave_values **values, cleave_error *error);
void cleave_values_close(cleave_values *values);

/* Fills every persistent buffer of this rank. */
cleave_status cleave_values_fill(cleave_values *values, const cleave_rank *rank,
                                 cleave_error *error);

/* A cleave_rank_load with the values as context. */
cleave_status cleave_values_load(void *values, const cleave_buffer *buffer, int64_t step,
                                 void *data, cleave_error *error);

/* Rank 0 writes all parameters and buffers (forward: outputs) to options->save, the others send
 * theirs. */
cleave_status cleave_values_save(cleave_values *values, const cleave_rank *rank,
                                 cleave_error *error);

#endif
