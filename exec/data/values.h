/* Values that come into a run and go out of it: initial values or weights, data, and what is saved.
 */
#ifndef CLEAVE_EXEC_DATA_VALUES_H
#define CLEAVE_EXEC_DATA_VALUES_H

#include "exec/data/samples.h"
#include "exec/rank.h"

typedef struct cleave_values cleave_values;

/* Opens the weights and data (exec/data/samples.h) that the options name and checks them against
   the model: every tensor known, its type and shape right.  `checkpoint`, a folder, has the values
   instead of the weights, and the optimizer's state; null: none.  BAD_INPUT. */
cleave_status cleave_values_open(const cleave_model *model, const cleave_run_options *options,
                                 const char *checkpoint, cleave_values **values,
                                 cleave_error *error);
void cleave_values_close(cleave_values *values);

/* Names of the files of a checkpoint. */
#define CLEAVE_FILE_OF_VALUES "parameters.safetensors"
extern const char *const cleave_files_of_states[2];

/* Fills every persistent buffer of this rank. */
cleave_status cleave_values_fill(cleave_values *values, const cleave_rank *rank,
                                 cleave_error *error);

/* Of them constants alone. */
cleave_status cleave_values_fill_constants(cleave_values *values, const cleave_rank *rank,
                                           cleave_error *error);

/* A cleave_rank_load with the values as context: cleave_samples_load. */
cleave_status cleave_values_load(void *values, const cleave_buffer *buffer, int64_t step,
                                 void *data, cleave_error *error);

/* cleave_samples_order of its data. */
const cleave_sample_order *cleave_values_order(const cleave_values *values);

/* Is it a parameter or a buffer, with values of its own? */
bool cleave_values_has(const cleave_tensor *tensor);
/* A box of a parameter or buffer as it was before the first step, row-major. */
cleave_status cleave_values_initial(const cleave_values *values, int32_t tensor,
                                    const cleave_box *box, void *data, cleave_error *error);

#endif
