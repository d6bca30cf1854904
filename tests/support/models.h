/* Small models built by hand, independent of the importer, that together have every kind of nest
   and view: overlapping windows, strides, batch norm, residuals, concatenation, transposition,
   flattening, a slice, a pad, tied parameters, a recurrence, look-ups and a vocabulary-split loss.
   And one that is imported: a language model of experts, whose attention stores no scores. */
#ifndef CLEAVE_TESTS_SUPPORT_MODELS_H
#define CLEAVE_TESTS_SUPPORT_MODELS_H

#include "graph/model/model.h"

enum {
    MODEL_MLP,
    MODEL_CNN,
    MODEL_TIED,
    MODEL_RECURRENT,
    MODEL_EMBEDDING,
    MODEL_EXPERTS,
    N_MODELS
};
extern const char *const hand_model_names[N_MODELS];

/* Aborts the test by returning false when the model does not check. */
bool hand_model(int which, cleave_arena *arena, cleave_model *model, cleave_error *error);

#endif
