/* What the scores of classes say of targets. */
#include "exec/training/scores.h"

#include <math.h>
#include <stdbool.h>

static int class_dimension(const cleave_tensor *output) { return output->rank == 3 ? 2 : 1; }

cleave_status cleave_scores_check(const cleave_model *model, cleave_error *error) {
    const cleave_tensor *output = &model->tensors[model->outputs[0]];
    bool fits = model->targets >= 0 && output->type == CLEAVE_F32 &&
                output->rank == model->tensors[model->targets].rank + 1;
    for (int d = 0, axis = class_dimension(output); fits && d < output->rank; d++)
        fits = d == axis ||
               output->shape[d] == model->tensors[model->targets].shape[d < axis ? d : d - 1];
    if (fits)
        return CLEAVE_OK;
    return cleave_fail(error, CLEAVE_BAD_INPUT,
                       "%s: validation needs a model that ends in scores of classes, not in a loss "
                       "of its own: output %s has none for the targets",
                       model->file, output->name);
}

cleave_status cleave_scores_create(const cleave_model *model, cleave_arena *arena,
                                   cleave_scores *scores, cleave_error *error) {
    CLEAVE_TRY(cleave_scores_check(model, error));
    const cleave_tensor *output = &model->tensors[model->outputs[0]];
    const int axis = class_dimension(output);
    cleave_scores made = {
        .targets = &model->tensors[model->targets], .n_classes = output->shape[axis], .inner = 1};
    made.n_rows = cleave_tensor_size(made.targets);
    for (int d = axis + 1; d < output->rank; d++)
        made.inner *= output->shape[d];
    made.labels = CLEAVE_ARENA_ARRAY(arena, int64_t, made.n_rows);
    made.best = CLEAVE_ARENA_ARRAY(arena, int64_t, made.n_rows);
    made.highest = CLEAVE_ARENA_ARRAY(arena, double, made.n_rows);
    made.sum = CLEAVE_ARENA_ARRAY(arena, double, made.n_rows);
    made.own = CLEAVE_ARENA_ARRAY(arena, double, made.n_rows);
    if (made.labels == NULL || made.best == NULL || made.highest == NULL || made.sum == NULL ||
        made.own == NULL)
        return cleave_fail_memory(error, "preparing a validation");
    *scores = made;
    return CLEAVE_OK;
}

void cleave_scores_begin(cleave_scores *scores, const int64_t *targets) {
    const cleave_tensor *of = scores->targets;
    const cleave_box whole = cleave_box_of_shape(of->rank, of->shape);
    int64_t strides[CLEAVE_MAX_RANK];
    cleave_tensor_strides(of, &whole, strides);
    for (int64_t row = 0; row < scores->n_rows; row++) {
        int64_t at = 0, rest = row;
        for (int d = of->rank - 1; d >= 0; rest /= of->shape[d--])
            at += rest % of->shape[d] * strides[d];
        scores->labels[row] = targets[at];
        scores->best[row] = -1;
        scores->highest[row] = -HUGE_VAL;
        scores->sum[row] = scores->own[row] = 0;
    }
}

void cleave_scores_add(cleave_scores *scores, int64_t first, int64_t n, const float *values) {
    const int64_t inner = scores->inner, n_classes = scores->n_classes;
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = first + i, class = at / inner % n_classes;
        const int64_t row = at / (inner * n_classes) * inner + at % inner;
        const double score = (double)values[i];
        if (score > scores->highest[row]) {
            scores->sum[row] = scores->sum[row] * exp(scores->highest[row] - score) + 1;
            scores->highest[row] = score;
            scores->best[row] = class;
        } else {
            scores->sum[row] += exp(score - scores->highest[row]);
        }
        if (class == scores->labels[row])
            scores->own[row] = score;
    }
}

void cleave_scores_end(const cleave_scores *scores, int64_t n_rows, cleave_scored *scored) {
    for (int64_t row = 0; row < n_rows; row++) {
        if (scores->labels[row] < 0 || scores->labels[row] >= scores->n_classes)
            continue;
        scored->n++;
        scored->n_right += scores->best[row] == scores->labels[row];
        scored->loss += scores->highest[row] + log(scores->sum[row]) - scores->own[row];
    }
}
