/* Which surroundings calibration gives to a kernel. */
#include "cli/calibrate_works.h"
#include "../test_machine.h"
#include "graph/import.h"
#include "tests/support/models.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static calibrate_work work(const char *key, int64_t input, int64_t output) {
    calibrate_work made = {.reuse = {.step = 100, .inputs = {input}, .output = output}};
    snprintf(made.work.key, sizeof made.work.key, "%s", key);
    return made;
}

Test(calibrate_works, work_of_one_key_is_measured_once_in_the_mean_of_its_surroundings) {
    calibrate_works works = {0};
    const calibrate_work all[] = {work("a", 30, 0), work("b", 7, 8), work("a", 60, 10),
                                  work("a", 0, 20)};
    for (int i = 0; i < 4; i++)
        cr_assert(CLEAVE_LIST_PUSH(&works, all[i]));
    calibrate_works_order(&works);
    cr_assert_eq(works.n, 2);
    cr_expect_eq(works.items[0].reuse.inputs[0], 30);
    cr_expect_eq(works.items[0].reuse.output, 10);
    cr_expect_eq(works.items[1].reuse.inputs[0], 7);
    CLEAVE_LIST_FREE(&works);
}

/* What a layer reads has mostly just been written; its weights are met again in the next step. */
Test(calibrate_works, surroundings_are_those_of_a_step) {
    cleave_error error = {""};
    cleave_arena arena = {0};
    cleave_model model;
    calibrate_works works = {0};
    int32_t n_near = 0, n_far = 0;
    cr_assert_eq(cleave_model_import(CLEAVE_SOURCE_DIR "/configs/models/mlp.onnx", 64, true, &arena,
                                     &model, &error),
                 CLEAVE_OK, "%s", error.message);
    cleave_machine machine = make_machine(&arena, 1, 2, "1 GiB");
    cr_assert_eq(calibrate_works_add(&works, &model, &machine, &error), CLEAVE_OK, "%s",
                 error.message);
    for (int32_t i = 0; i < works.n; i++) {
        const cleave_reuse *reuse = &works.items[i].reuse;
        bool forward = works.items[i].pass == CLEAVE_PASS_FORWARD;
        int64_t made = forward ? reuse->inputs[0] : reuse->output_gradient;
        cr_expect_gt(reuse->step, 0);
        n_near += made < reuse->step / 4;
        n_far += forward && works.items[i].nest->n_inputs > 1 && reuse->inputs[1] > reuse->step / 4;
    }
    cr_expect_gt(n_near, works.n / 2, "%d of %d", n_near, works.n);
    cr_expect_gt(n_far, 0);
    CLEAVE_LIST_FREE(&works);
    cleave_arena_free(&arena);
}

static const cleave_nest *find_nest(const cleave_model *model, const char *name) {
    for (int32_t n = 0; n < model->n_nests; n++)
        if (strcmp(model->nests[n].name, name) == 0)
            return &model->nests[n];
    cr_assert_fail("there is no nest %s", name);
    return NULL;
}

/* The head has a weight of its own; the bias of steps 1 to 4 is one. */
Test(calibrate_works, steps_that_share_a_parameter_are_counted) {
    cleave_error error = {""};
    cleave_arena arena = {0};
    cleave_model model;
    cr_assert(hand_model(MODEL_RECURRENT, &arena, &model, &error), "%s", error.message);
    cr_expect_eq(calibrate_works_uses(&model, find_nest(&model, "head")), 1);
    int32_t n_of_four = 0;
    for (int32_t n = 0; n < model.n_nests; n++)
        n_of_four += calibrate_works_uses(&model, &model.nests[n]) == 4;
    cr_expect_eq(n_of_four, 4, "%d nests read the bias", n_of_four);
    cleave_arena_free(&arena);
}

/* Every layer of a perceptron meets its weights once in a step. */
Test(calibrate_works, parameters_of_a_perceptron_are_met_once) {
    cleave_error error = {""};
    cleave_arena arena = {0};
    cleave_model model;
    cr_assert(hand_model(MODEL_MLP, &arena, &model, &error), "%s", error.message);
    for (int32_t n = 0; n < model.n_nests; n++)
        cr_expect_eq(calibrate_works_uses(&model, &model.nests[n]), 1, "%s", model.nests[n].name);
    cleave_arena_free(&arena);
}
