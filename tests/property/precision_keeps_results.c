/* Law 1 in bf16: what a layout learns differs from what one device learns in bf16 by no more than
   that differs from f32; and what is saved is exact, whatever is computed with.

   Layouts differ from one device where a partial sum of another order comes to lie on the other
   side of a rounding's middle, or is rounded (a gradient that several readers give) once more: of
   every number far fewer are off by a unit of bf16 than rounding took half a unit from.  So the
   distance of all parameters, as one vector, needs no factor: it is compared as it is.  A loss is
   one number and may be right by chance, so it may be off by 2^-9 of itself, half a unit of bf16.
 */
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

enum { N_DEVICES = 6, N_STEPS = 3, N_LAYOUTS = 60 };

static void run(const cleave_model *model, const cleave_layout *layout, cleave_kernels *kernels,
                cleave_arena *arena, interpreter_result *result, const char *what) {
    cleave_error error = {""};
    cleave_program program;
    cleave_lower_options how = {.training = true, .optimizer_states = 1};
    how.workspace = kernels != NULL ? cleave_kernel_workspace : NULL;
    how.workspace_context = kernels;
    cr_assert_eq(cleave_lower(model, layout, &how, arena, &program, &error), CLEAVE_OK, "%s: %s",
                 what, error.message);
    cr_assert_eq(cleave_program_check(&program, &error), CLEAVE_OK, "%s: %s", what, error.message);
    interpreter_options options = {.seed = 3,
                                   .timing_seed = 7,
                                   .steps = N_STEPS,
                                   .kernels = kernels,
                                   .optimizer = cleave_optimizer_default(CLEAVE_OPTIMIZER_SGD)};
    options.optimizer.learning_rate = 0.1;
    options.optimizer.momentum = 0.9;
    cr_assert_eq(interpreter_run(&program, &options, arena, result, &error), CLEAVE_OK, "%s: %s",
                 what, error.message);
}

static double distance(const cleave_model *model, const interpreter_result *a,
                       const interpreter_result *b) {
    double sum = 0;
    for (int32_t t = 0; t < model->n_tensors; t++)
        for (int64_t i = 0; a->values[t] != NULL && i < cleave_tensor_size(&model->tensors[t]); i++)
            sum += pow((double)a->values[t][i] - (double)b->values[t][i], 2);
    return sqrt(sum);
}

static void check_layout(const cleave_model *model, uint64_t seed, cleave_kernels *kernels,
                         const interpreter_result *one, double off) {
    cleave_arena arena = {0};
    cleave_layout layout;
    interpreter_result result;
    char what[64];
    snprintf(what, sizeof what, "%s, layout seed %d", model->file, (int)seed);
    OK(cleave_layout_random, model, N_DEVICES, seed, &arena, &layout);
    draw_schedule(model, seed, 8, &arena, &layout);
    run(model, &layout, kernels, &arena, &result, what);
    double further = distance(model, &result, one);
    cr_expect(further <= off, "%s: %g from one device, which is %g from f32", what, further, off);
    for (int s = 0; s < N_STEPS; s++)
        cr_expect(fabs(result.loss[s] - one->loss[s]) <= 0x1p-9 * fabs(one->loss[s]),
                  "%s: loss %d: %g, not %g", what, s, result.loss[s], one->loss[s]);
    cleave_arena_free(&arena);
}

static void check_model(int which, bool fast) {
    cleave_error error = {""};
    cleave_arena arena = {0};
    cleave_model model;
    cleave_layout single;
    cleave_kernels *kernels = NULL;
    interpreter_result exact, one;
    cr_assert(hand_model(which, &arena, &model, &error), "%s", error.message);
    if (fast)
        OK(cleave_kernels_create, &kernels);
    OK(cleave_layout_create, &model, 1, &arena, &single);
    run(&model, &single, kernels, &arena, &exact, "f32");
    cleave_model_set_precision(&model, CLEAVE_BF16, CLEAVE_F32);
    run(&model, &single, kernels, &arena, &one, "bf16");
    double off = distance(&model, &one, &exact);
    cr_assert_gt(off, 0, "%s: bf16 is f32", hand_model_names[which]);
    for (uint64_t seed = seed_from(0); seed < seed_end(N_LAYOUTS); seed++)
        check_layout(&model, seed, kernels, &one, off);
    cleave_kernels_destroy(kernels);
    cleave_arena_free(&arena);
}

Test(precision, any_layout_of_a_perceptron_is_as_near_as_bf16_is_to_f32) {
    check_model(MODEL_MLP, false);
}
Test(precision, any_layout_of_a_convolutional_network_is_as_near_as_bf16_is_to_f32) {
    check_model(MODEL_CNN, false);
}
Test(precision, any_layout_with_tied_parameters_is_as_near_as_bf16_is_to_f32) {
    check_model(MODEL_TIED, false);
}
Test(precision, any_layout_of_a_recurrence_is_as_near_as_bf16_is_to_f32) {
    check_model(MODEL_RECURRENT, false);
}
Test(precision, any_layout_of_an_embedding_is_as_near_as_bf16_is_to_f32) {
    check_model(MODEL_EMBEDDING, false);
}
Test(precision, any_layout_of_a_model_of_experts_is_as_near_as_bf16_is_to_f32) {
    check_model(MODEL_EXPERTS, false);
}
Test(precision, fast_kernels_keep_to_it) {
    check_model(MODEL_MLP, true);
    check_model(MODEL_CNN, true);
    check_model(MODEL_EMBEDDING, true);
    check_model(MODEL_EXPERTS, true);
}
