/* Does a checkpoint belong to this run?  Model, data, seed, precision and what an optimizer keeps
   have to be the same; the numbers that it is told, and the schedule of its rate, too, unless
   options->overrides says that those of the run hold from there on. */
#ifndef CLEAVE_EXEC_TRAINING_CHECKPOINT_MATCH_H
#define CLEAVE_EXEC_TRAINING_CHECKPOINT_MATCH_H

#include "exec/data/manifest.h"
#include "exec/run.h"

/* What a checkpoint of this run says of it, but for what it holds. */
cleave_manifest checkpoint_describe(const cleave_model *model, const cleave_run_options *options,
                                    int64_t step);

/* BAD_INPUT naming the folder, and what was there and what is here. */
cleave_status checkpoint_check_matches(const char *folder, const cleave_manifest *there,
                                       const cleave_model *model, const cleave_run_options *options,
                                       cleave_arena *arena, cleave_error *error);

#endif
