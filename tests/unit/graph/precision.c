/* What lies and travels in bf16, and what in f32: bytes by hand, of a perceptron of 7 samples:
   x [7, 9], g1 [7, 10], g2 [7, 8], each with a bias and a ReLU on the owners of its sum ("g1.z").
 */
#include "graph/model/precision.h"
#include "../../support/models.h"
#include "graph/lower/lower.h"

#include <criterion/criterion.h>
#include <string.h>

typedef struct lowered {
    cleave_arena arena;
    cleave_model model;
    cleave_layout layout;
    cleave_program program;
} lowered;

static void begin(lowered *of) {
    cleave_error error = {""};
    *of = (lowered){0};
    cr_assert(hand_model(MODEL_MLP, &of->arena, &of->model, &error), "%s", error.message);
    cr_assert_eq(cleave_layout_create(&of->model, 2, &of->arena, &of->layout, &error), CLEAVE_OK);
}

static void split(lowered *of, const char *name, const char *axis) {
    cleave_error error = {""};
    int32_t op = cleave_model_find_operator(&of->model, name), degree[CLEAVE_MAX_AXES];
    for (int a = 0; a < CLEAVE_MAX_AXES; a++)
        degree[a] = a < of->model.operators[op].n_axes &&
                            strcmp(of->model.operators[op].axes[a].name, axis) == 0
                        ? 2
                        : 1;
    cr_assert_eq(
        cleave_layout_set(&of->layout, op, 1, degree, (const int32_t[]){0, 1}, &of->arena, &error),
        CLEAVE_OK);
}

/* Bytes of all messages that carry a tensor. */
static int64_t sent(lowered *of, cleave_type precision, cleave_type reduce, const char *tensor) {
    cleave_error error = {""};
    cleave_lower_options options = {.training = true};
    int64_t bytes = 0;
    cleave_model_set_precision(&of->model, precision, reduce);
    cr_assert_eq(cleave_lower(&of->model, &of->layout, &options, &of->arena, &of->program, &error),
                 CLEAVE_OK, "%s", error.message);
    cr_assert_eq(cleave_program_check(&of->program, &error), CLEAVE_OK, "%s", error.message);
    for (int32_t m = 0; m < of->program.n_messages; m++)
        if (strcmp(of->model.tensors[of->program.messages[m].tensor].name, tensor) == 0)
            bytes += of->program.messages[m].bytes;
    return bytes;
}

static void expect_sent(lowered *of, const char *tensor, int64_t f32, int64_t bf16,
                        int64_t reduced) {
    cr_expect_eq(sent(of, CLEAVE_F32, CLEAVE_F32, tensor), f32);
    cr_expect_eq(sent(of, CLEAVE_BF16, CLEAVE_F32, tensor), bf16);
    cr_expect_eq(sent(of, CLEAVE_BF16, CLEAVE_BF16, tensor), reduced);
    cleave_arena_free(&of->arena);
}

/* g1's columns lie on two devices and g2 on the first: 7 x 5 elements come, and their gradients go
   back: 70 elements in all. */
Test(precision, activations_and_their_gradients_take_half_the_bytes) {
    lowered of;
    begin(&of);
    split(&of, "g1", "k");
    expect_sent(&of, "g1", 70 * 4, 70 * 2, 70 * 2);
}

/* g2 sums on two devices: each owns 7 x 4 of the 7 x 8 sums and sends the other's: 56 partial
   results.  Backward each sends the gradients of its own: 56 values. */
Test(precision, partial_sums_are_f32_unless_they_may_be_rounded) {
    lowered of;
    begin(&of);
    split(&of, "g2", "c");
    expect_sent(&of, "g2.z", (56 + 56) * 4, 56 * 4 + 56 * 2, (56 + 56) * 2);
}

/* g1's samples lie on two devices; its weight has 10 x 9 elements, whose gradients are added up
   half by half, and sent back. */
Test(precision, gradients_of_parameters_stay_exact) {
    lowered of;
    begin(&of);
    split(&of, "g1", "n");
    expect_sent(&of, "w1", (90 + 90) * 4, (90 + 90) * 4, 90 * 2 + 90 * 4);
}

/* As people train: those of activations are rounded, those of parameters are not. */
Test(precision, mixed_sums_are_rounded_for_activations_alone) {
    lowered of;
    begin(&of);
    cr_assert_eq(cleave_model_choose_precision(&of.model, "bf16", "mixed", NULL), CLEAVE_OK);
    cr_expect_str_eq(cleave_reduce_precision_name(&of.model), "mixed");
    split(&of, "g1", "n");
    cr_expect_eq(sent(&of, CLEAVE_BF16, CLEAVE_BF16, "w1"), 90 * 4 + 90 * 4);
    cleave_arena_free(&of.arena);
    begin(&of);
    cr_assert_eq(cleave_model_choose_precision(&of.model, "bf16", "mixed", NULL), CLEAVE_OK);
    split(&of, "g2", "c");
    cr_expect_eq(sent(&of, CLEAVE_BF16, CLEAVE_BF16, "g2.z"), (56 + 56) * 2);
    cleave_arena_free(&of.arena);
}

/* With its update sharded what goes back are the weights. */
Test(precision, gathered_weights_take_half_the_bytes) {
    lowered of;
    begin(&of);
    split(&of, "g1", "n");
    of.layout.sharded[cleave_model_find_tensor(&of.model, "w1")] = true;
    expect_sent(&of, "w1", (90 + 90) * 4, 90 * 4 + 90 * 2, 90 * 2 + 90 * 2);
}

/* The weight, its master, and its gradient; what is saved is the master. */
Test(precision, a_parameter_has_a_master_and_a_copy) {
    lowered of;
    begin(&of);
    sent(&of, CLEAVE_BF16, CLEAVE_F32, "w1");
    int32_t w1 = cleave_model_find_tensor(&of.model, "w1");
    int n = 0;
    int64_t bytes[2] = {0};
    for (int32_t b = 0; b < of.program.n_buffers; b++)
        if (of.program.buffers[b].tensor == w1 && of.program.buffers[b].persistent)
            bytes[n++ % 2] = of.program.buffers[b].bytes;
    cr_expect_eq(n, 2);
    cr_expect_eq(bytes[0] + bytes[1], 90 * (2 + 4));
    for (int32_t h = 0; h < of.program.n_held; h++)
        cr_expect_eq(of.program.buffers[of.program.held[h].buffer].type, CLEAVE_F32);
    for (int32_t u = 0; u < of.program.n_updates; u++) {
        cr_expect_eq(of.program.buffers[of.program.updates[u].gradient].type, CLEAVE_F32);
        cr_expect_eq(of.program.buffers[of.program.updates[u].parameter].type, CLEAVE_BF16);
    }
    cr_expect_eq(of.model.tensors[of.model.loss].stored, CLEAVE_F32);
    cr_expect_eq(of.model.tensors[cleave_model_find_tensor(&of.model, "x")].stored, CLEAVE_F32);
    cleave_arena_free(&of.arena);
}

Test(precision, names_are_checked) {
    lowered of;
    cleave_error error = {""};
    begin(&of);
    cr_expect_eq(cleave_model_choose_precision(&of.model, "f64", NULL, &error), CLEAVE_BAD_INPUT);
    cr_expect_eq(cleave_model_choose_precision(&of.model, NULL, "bf16", &error), CLEAVE_BAD_INPUT);
    cr_expect_eq(cleave_model_choose_precision(&of.model, "bf16", "bf16", &error), CLEAVE_OK);
    cr_expect_eq(of.model.precision, CLEAVE_BF16);
    cr_expect(of.model.precision_asked);
    cleave_arena_free(&of.arena);
}
