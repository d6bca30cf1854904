/* What scores say of targets, against sums by hand. */
#include "exec/training/scores.h"
#include "../../support/ok.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

/* A model of an output and its targets, and nothing else. */
static cleave_tensor tensors[2];
static int32_t outputs[1] = {0};

static cleave_model ends_in(int rank, const int64_t *shape, const int64_t *targets) {
    memset(tensors, 0, sizeof tensors);
    tensors[0] = (cleave_tensor){.name = "y", .type = CLEAVE_F32, .rank = rank};
    tensors[1] = (cleave_tensor){.name = "targets", .type = CLEAVE_I64, .rank = rank - 1};
    memcpy(tensors[0].shape, shape, (size_t)rank * sizeof *shape);
    memcpy(tensors[1].shape, targets, (size_t)(rank - 1) * sizeof *targets);
    for (int t = 0; t < 2; t++)
        for (int d = 0; d < CLEAVE_MAX_RANK; d++)
            tensors[t].order[d] = d;
    return (cleave_model){.file = "hand",
                          .n_tensors = 2,
                          .tensors = tensors,
                          .n_outputs = 1,
                          .outputs = outputs,
                          .targets = 1};
}

static cleave_scored score(const cleave_model *model, const float *values, int64_t n,
                           const int64_t *targets, int64_t n_rows) {
    cleave_arena arena = {0};
    cleave_scores scores;
    cleave_scored scored = {0};
    OK(cleave_scores_create, model, &arena, &scores);
    cleave_scores_begin(&scores, targets);
    for (int64_t i = 0; i < n; i += 2) /* in pieces that end within rows */
        cleave_scores_add(&scores, i, n - i < 2 ? n - i : 2, values + i);
    cleave_scores_end(&scores, n_rows, &scored);
    cleave_arena_free(&arena);
    return scored;
}

Test(scores, loss_and_accuracy_are_those_of_the_rows_that_count) {
    const cleave_model model = ends_in(2, (int64_t[]){3, 3}, (int64_t[]){3});
    const float values[] = {0, 0, 0, 1, 3, 2, 1000, 0, 0};
    /* ln 3; ln(e^1 + e^3 + e^2) - 2 = 3.40761 - 2; 0, however large the score.  Of equal scores the
       first is the highest, so the first row is wrong, and so is the second. */
    cleave_scored scored = score(&model, values, 9, (int64_t[]){1, 2, 0}, 3);
    cr_assert(scored.n == 3 && scored.n_right == 1);
    cr_assert_float_eq(scored.loss, log(3) + 1.4076059644443801, 1e-12);
    scored = score(&model, values, 9, (int64_t[]){0, 2, 0}, 1);
    cr_assert(scored.n == 1 && scored.n_right == 1);
    scored = score(&model, values, 9, (int64_t[]){-100, 2, 0}, 3); /* ignored */
    cr_assert(scored.n == 2 && scored.n_right == 1);
}

Test(scores, classes_are_where_the_loss_has_them) {
    /* [1, 2 words, 3 classes]: the last dimension.  [1, 3 classes, 1, 2 pixels]: the second. */
    const cleave_model words = ends_in(3, (int64_t[]){1, 2, 3}, (int64_t[]){1, 2});
    cr_assert_eq(score(&words, (float[]){0, 1, 2, 9, 1, 2}, 6, (int64_t[]){2, 0}, 2).n_right, 2);
    const cleave_model pixels = ends_in(4, (int64_t[]){1, 3, 1, 2}, (int64_t[]){1, 1, 2});
    cr_assert_eq(score(&pixels, (float[]){0, 9, 1, 1, 2, 2}, 6, (int64_t[]){2, 0}, 2).n_right, 2);
}

Test(scores, a_model_that_ends_in_a_loss_is_refused) {
    cleave_error error = {{0}};
    cleave_model model = ends_in(2, (int64_t[]){3, 3}, (int64_t[]){4});
    cr_assert_eq(cleave_scores_check(&model, &error), CLEAVE_BAD_INPUT);
    model = ends_in(2, (int64_t[]){3, 3}, (int64_t[]){3});
    OK(cleave_scores_check, &model);
    model.targets = -1;
    cr_assert_eq(cleave_scores_check(&model, &error), CLEAVE_BAD_INPUT);
    cr_assert(strstr(error.message, "output y") != NULL);
}
