/* A perceptron built by hand, for tests that must not depend on the importer: `layers` dense layers
   without bias of `width` features, each with a rectifier, and the sum of squares as loss. */
#ifndef CLEAVE_TESTS_SUPPORT_PERCEPTRON_H
#define CLEAVE_TESTS_SUPPORT_PERCEPTRON_H

#include "hand_model.h"
#include "ok.h"

#include <criterion/criterion.h>

static inline cleave_model make_perceptron(cleave_arena *arena, int layers, int64_t batch,
                                           int64_t width) {
    cleave_model model = begin_model("perceptron", batch, 3 * layers + 2, 2 * layers + 1, arena);
    int32_t x = add_tensor(&model, CLEAVE_TENSOR_DATA, "x", 2, batch, width);
    for (int l = 0; l < layers; l++) {
        int32_t w = add_tensor(&model, CLEAVE_TENSOR_PARAMETER,
                               cleave_arena_printf(arena, "weight%d", l), 2, width, width);
        int32_t y = add_tensor(&model, CLEAVE_TENSOR_ACTIVATION,
                               cleave_arena_printf(arena, "y%d", l), 2, batch, width);
        int32_t r = add_tensor(&model, CLEAVE_TENSOR_ACTIVATION,
                               cleave_arena_printf(arena, "r%d", l), 2, batch, width);
        add_product(&model, cleave_arena_printf(arena, "dense%d", l), x, w, y);
        add_pointwise(&model, cleave_arena_printf(arena, "relu%d", l), y, r, CLEAVE_OP_RELU);
        x = r;
    }
    add_loss(&model, x);
    OK(cleave_model_finish, &model);
    return model;
}

#endif
