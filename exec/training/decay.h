/* Parameters on which no weight decay acts, as biases and scales of norms often want it: by
   patterns of their names, "a,b*", as of fnmatch(3). */
#ifndef CLEAVE_EXEC_TRAINING_DECAY_H
#define CLEAVE_EXEC_TRAINING_DECAY_H

#include "graph/model/model.h"

/* Does it act on a parameter of this name?  Null: on all. */
bool cleave_decay_acts(const char *patterns, const char *name);

/* BAD_INPUT where a pattern matches no parameter. */
cleave_status cleave_decay_check(const char *patterns, const cleave_model *model,
                                 cleave_error *error);

#endif
