/* What the scores of classes say of targets: their mean cross-entropy, as of the loss that a model
   without one gets, and how many are right.  Scores may come in any pieces, in row-major order. */
#ifndef CLEAVE_EXEC_TRAINING_SCORES_H
#define CLEAVE_EXEC_TRAINING_SCORES_H

#include "base/arena.h"
#include "base/error.h"
#include "graph/model/model.h"

/* Sums over all batches so far. */
typedef struct cleave_scored {
    int64_t n, n_right; /* targets; those that are ignored don't count */
    double loss;        /* sum, in nats */
} cleave_scored;

typedef struct cleave_scores {
    int64_t n_rows, n_classes;
    int64_t inner; /* rows whose scores of one class lie side by side */
    const cleave_tensor *targets;
    int64_t *labels, *best;      /* [n_rows] */
    double *highest, *sum, *own; /* [n_rows] so far: the highest score, sum of exp(score - highest),
                                    and the score of the label */
} cleave_scores;

/* Of the model's first output, which has a score per class of every target; of rank 3 the classes
   are its last dimension, else its second.  BAD_INPUT where it has not. */
cleave_status cleave_scores_check(const cleave_model *model, cleave_error *error);
cleave_status cleave_scores_create(const cleave_model *model, cleave_arena *arena,
                                   cleave_scores *scores, cleave_error *error);

/* Begins a batch with its targets, dense in their memory order. */
void cleave_scores_begin(cleave_scores *scores, const int64_t *targets);
/* The scores from element `first` on. */
void cleave_scores_add(cleave_scores *scores, int64_t first, int64_t n, const float *values);
/* Adds up the first `n_rows` rows. */
void cleave_scores_end(const cleave_scores *scores, int64_t n_rows, cleave_scored *scored);

#endif
