/* Validation: what a model makes of samples that it is not trained on, while it is trained.

   They go through the model as it is used once it was trained (`evaluates` in
   graph/import/import.h), by a program of its own under the layout of the training, every sample
   once; the last batch is filled up with samples that are not counted.  Loss and accuracy are those
   of the scores that the model ends in: the mean cross-entropy, and the share of targets whose
   class has the highest score.  Nothing of the training is changed by it.

   The program's memory lies in what steps of the training use and nothing uses between them, where
   that is enough. */
#ifndef CLEAVE_EXEC_TRAINING_VALIDATION_H
#define CLEAVE_EXEC_TRAINING_VALIDATION_H

#include "exec/data/values.h"
#include "graph/model/layout.h"

typedef struct cleave_validation cleave_validation;

/* The layout of a model that is evaluated, from that of the same model that is trained.  FAILED
   where their operators differ.  Lives in the arena. */
cleave_status cleave_validation_layout(const cleave_model *trained, const cleave_layout *layout,
                                       const cleave_model *evaluated, cleave_arena *arena,
                                       cleave_layout *made, cleave_error *error);

/* Can the samples that the options name be validated by?  BAD_INPUT: of their files, as of those of
   the training; and where the model does not end in scores of its targets. */
cleave_status cleave_validation_check(const cleave_run_options *options, cleave_error *error);

/* On every rank, for what `trained` trains with its options.  What it needs lives in the arena. */
cleave_status cleave_validation_open(const cleave_rank *trained, cleave_arena *arena,
                                     cleave_validation **validation, cleave_error *error);
void cleave_validation_close(cleave_validation *validation);

/* On every rank, between two steps: with the parameters as they are. */
cleave_status cleave_validation_run(cleave_validation *validation, const cleave_values *values,
                                    cleave_validated *validated, cleave_error *error);

#endif
