/* Gradients that are clipped by their norm.  What one device learns of gradients that are not
   clipped, in a step at rate 1, is what they are; so their norm, and what clipping makes of them,
   is worked out here, of whole tensors.  Then law 1: any layout, with stages, micro-batches, shares
   and recomputation, has that norm, and learns what one device learns; and law 6: whatever the
   timing, to the bit. */
#include "../support/drawn_schedule.h"
#include "../support/draws.h"
#include "../support/interpreter.h"
#include "../support/models.h"
#include "../support/ok.h"
#include "graph/lower/lower.h"
#include "graph/model/precision.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N_DEVICES = 6, N_STEPS = 3, N_LAYOUTS = 40 };

typedef struct subject {
    cleave_model model;
    cleave_arena arena;
    cleave_optimizer optimizer;
    int steps;
} subject;

static void run(const subject *s, const cleave_layout *layout, uint64_t timing, cleave_arena *arena,
                interpreter_result *result, const char *what) {
    cleave_error error = {""};
    cleave_program program;
    const cleave_lower_options how = {.training = true, .optimizer_states = 1};
    cr_assert_eq(cleave_lower(&s->model, layout, &how, arena, &program, &error), CLEAVE_OK,
                 "%s: %s", what, error.message);
    cr_assert_eq(cleave_program_check(&program, &error), CLEAVE_OK, "%s: %s", what, error.message);
    const interpreter_options options = {
        .seed = 3, .timing_seed = timing, .steps = s->steps, .optimizer = s->optimizer};
    cr_assert_eq(interpreter_run(&program, &options, arena, result, &error), CLEAVE_OK, "%s: %s",
                 what, error.message);
}

static void run_single(subject *s, double rate, int steps, interpreter_result *result) {
    cleave_layout single;
    s->optimizer.learning_rate = rate;
    s->steps = steps;
    OK(cleave_layout_create, &s->model, 1, &s->arena, &single);
    run(s, &single, 1, &s->arena, result, "one device");
}

static bool is_trained(const cleave_model *model, int32_t t) {
    return model->tensors[t].kind == CLEAVE_TENSOR_PARAMETER && !model->tensors[t].frozen;
}

/* Is `got` within 1e-4 of how far the parameters went in all? */
static void expect_near(const cleave_model *model, const interpreter_result *got,
                        const interpreter_result *want, double far, const char *what) {
    double sum = 0;
    for (int32_t t = 0; t < model->n_tensors; t++)
        for (int64_t i = 0; want->values[t] != NULL && i < cleave_tensor_size(&model->tensors[t]);
             i++)
            sum += pow((double)got->values[t][i] - (double)want->values[t][i], 2);
    cr_assert(sqrt(sum) <= 1e-4 * far, "%s: %g from what is wanted, of %g", what, sqrt(sum), far);
}

/* One step on one device against what is worked out: returns the norm of its gradients. */
static double check_single(subject *s) {
    interpreter_result before, after, clipped;
    double squares = 0;
    run_single(s, 0, 1, &before);
    run_single(s, 1, 1, &after);
    for (int32_t t = 0; t < s->model.n_tensors; t++)
        for (int64_t i = 0;
             is_trained(&s->model, t) && i < cleave_tensor_size(&s->model.tensors[t]); i++)
            squares += pow((double)before.values[t][i] - (double)after.values[t][i], 2);
    double norm = sqrt(squares);
    OK(cleave_model_clip, &s->model);
    s->optimizer.clip_norm = norm / 3;
    run_single(s, 0.5, 1, &clipped);
    cr_expect(fabs(sqrt(clipped.squares[0]) - norm) <= 1e-5 * norm, "%s: norm %g, not %g",
              s->model.file, sqrt(clipped.squares[0]), norm);
    for (int32_t t = 0; t < s->model.n_tensors - 1; t++)
        for (int64_t i = 0;
             is_trained(&s->model, t) && i < cleave_tensor_size(&s->model.tensors[t]); i++)
            before.values[t][i] += 0.5f / 3 * (after.values[t][i] - before.values[t][i]);
    for (int32_t t = 0; t < s->model.n_tensors - 1; t++) /* running statistics go on as ever */
        if (!is_trained(&s->model, t))
            before.values[t] = after.values[t];
    before.values[s->model.n_tensors - 1] = NULL;
    expect_near(&s->model, &clipped, &before, norm / 6, s->model.file);
    return norm;
}

static void check_layout(const subject *s, uint64_t seed, const interpreter_result *one,
                         double norm) {
    cleave_arena arena = {0};
    cleave_layout layout;
    interpreter_result result, again;
    char what[64];
    snprintf(what, sizeof what, "%s, layout seed %d", s->model.file, (int)seed);
    OK(cleave_layout_random, &s->model, N_DEVICES, seed, &arena, &layout);
    draw_schedule(&s->model, seed, 8, &arena, &layout);
    run(s, &layout, seed + 100, &arena, &result, what);
    for (int step = 0; step < N_STEPS; step++)
        cr_assert(fabs(result.squares[step] - one->squares[step]) <= 1e-4 * one->squares[step],
                  "%s, step %d: squares %g, not %g", what, step, result.squares[step],
                  one->squares[step]);
    expect_near(&s->model, &result, one, norm, what);
    if (seed % 4 == 0) {
        run(s, &layout, seed + 200, &arena, &again, what);
        cr_assert_eq(memcmp(again.squares, result.squares, N_STEPS * sizeof(double)), 0, "%s",
                     what);
        for (int32_t t = 0; t < s->model.n_tensors; t++)
            cr_assert(
                result.values[t] == NULL ||
                    memcmp(result.values[t], again.values[t],
                           sizeof(float) * (size_t)cleave_tensor_size(&s->model.tensors[t])) == 0,
                "%s: %s is another one in another order", what, s->model.tensors[t].name);
    }
    cleave_arena_free(&arena);
}

static void check_model(int which, const char *frozen, cleave_type precision) {
    cleave_error error = {""};
    subject s = {.optimizer = cleave_optimizer_default(CLEAVE_OPTIMIZER_SGD)};
    interpreter_result one;
    cr_assert(hand_model(which, &s.arena, &s.model, &error), "%s", error.message);
    OK(cleave_model_freeze, &s.model, frozen);
    cleave_model_set_precision(&s.model, precision, CLEAVE_F32);
    double norm = check_single(&s);
    s.optimizer.momentum = 0.9;
    run_single(&s, 0.5, N_STEPS, &one);
    for (uint64_t seed = seed_from(0); seed < seed_end(N_LAYOUTS) && precision == CLEAVE_F32;
         seed++)
        check_layout(&s, seed, &one, norm);
    cleave_arena_free(&s.arena);
}

Test(clipping, any_layout_of_a_perceptron_has_the_norm_of_one_device) {
    check_model(MODEL_MLP, NULL, CLEAVE_F32);
}
Test(clipping, any_layout_of_a_convolutional_network_has_the_norm_of_one_device) {
    check_model(MODEL_CNN, NULL, CLEAVE_F32);
}
Test(clipping, tied_parameters_count_once) { check_model(MODEL_TIED, NULL, CLEAVE_F32); }
Test(clipping, any_layout_of_a_recurrence_has_the_norm_of_one_device) {
    check_model(MODEL_RECURRENT, NULL, CLEAVE_F32);
}
Test(clipping, any_layout_of_an_embedding_has_the_norm_of_one_device) {
    check_model(MODEL_EMBEDDING, NULL, CLEAVE_F32);
}
Test(clipping, any_layout_of_experts_has_the_norm_of_one_device) {
    check_model(MODEL_EXPERTS, NULL, CLEAVE_F32);
}
Test(clipping, what_is_frozen_does_not_count) { check_model(MODEL_MLP, "?1,w2", CLEAVE_F32); }
Test(clipping, masters_in_f32_are_clipped_where_weights_are_bf16) {
    check_model(MODEL_MLP, NULL, CLEAVE_BF16);
    check_model(MODEL_EMBEDDING, NULL, CLEAVE_BF16);
}
