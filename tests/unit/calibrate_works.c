/* Which surroundings calibration gives to a kernel. */
#include "cli/calibrate_works.h"
#include "tests/support/models.h"

#include <criterion/criterion.h>
#include <string.h>

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
