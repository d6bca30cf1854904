/* Where not-a-numbers come from.  A run looks at its loss alone; when that is none, it goes over
   the steps since its last checkpoint once more, which gives the same bits, and looks at all that
   is written. */
#ifndef CLEAVE_EXEC_TRAINING_WATCH_H
#define CLEAVE_EXEC_TRAINING_WATCH_H

#include "exec/data/values.h"

/* On every rank, with the values of `from` steps: runs the steps up to `last` and fails with
   BAD_INPUT, naming step and operator of the first NaN in the order of the program. */
cleave_status cleave_watch_again(cleave_values *values, cleave_rank *rank, int64_t from,
                                 int64_t last, cleave_error *error);

#endif
