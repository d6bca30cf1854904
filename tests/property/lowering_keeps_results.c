/* Law 1 and law 4 over random layouts: loss and updated parameters under any legal layout equal
   those of one device, to summation order, whatever the timing; every program passes its check. */
#include "../support/drawn_schedule.h"
#include "../support/draws.h"
#include "../support/interpreter.h"
#include "../support/models.h"
#include "../support/onnx_writer.h"
#include "base/random.h"
#include "graph/import/import.h"
#include "graph/lower/lower.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

enum { N_DEVICES = 6, N_STEPS = 2 };

static void run_steps(const cleave_model *model, const cleave_layout *layout, uint64_t timing,
                      int steps, double rate, cleave_arena *arena, interpreter_result *result,
                      const char *what) {
    cleave_error error = {""};
    cleave_lower_options lower = {.training = true,
                                  .optimizer_states = 1,
                                  .together_bytes = timing % 3 == 0 ? 800 : 0}; /* of a few */
    cleave_program program;
    cr_assert_eq(cleave_lower(model, layout, &lower, arena, &program, &error), CLEAVE_OK, "%s: %s",
                 what, error.message);
    cr_assert_eq(cleave_program_check(&program, &error), CLEAVE_OK, "%s: %s", what, error.message);
    interpreter_options options = {.seed = 3,
                                   .timing_seed = timing,
                                   .steps = steps,
                                   .optimizer = cleave_optimizer_default(CLEAVE_OPTIMIZER_SGD)};
    options.optimizer.learning_rate = rate;
    options.optimizer.momentum = 0.9;
    cr_assert_eq(interpreter_run(&program, &options, arena, result, &error), CLEAVE_OK, "%s: %s",
                 what, error.message);
}

static void run(const cleave_model *model, const cleave_layout *layout, uint64_t timing,
                cleave_arena *arena, interpreter_result *result, const char *what) {
    run_steps(model, layout, timing, N_STEPS, 0.1, arena, result, what);
}

static void compare_values(const cleave_model *model, const interpreter_result *result,
                           const interpreter_result *expected, const char *what) {
    for (int32_t t = 0; t < model->n_tensors; t++) {
        if (expected->values[t] == NULL)
            continue;
        for (int64_t i = 0; i < cleave_tensor_size(&model->tensors[t]); i++) {
            double got = (double)result->values[t][i], want = (double)expected->values[t][i];
            cr_assert(fabs(got - want) <= 1e-5 + 1e-4 * fabs(want), "%s: %s[%lld] is %g, not %g",
                      what, model->tensors[t].name, (long long)i, got, want);
        }
    }
}

static void compare(const cleave_model *model, const interpreter_result *result,
                    const interpreter_result *expected, const char *what) {
    compare_values(model, result, expected, what);
    for (int step = 0; step < N_STEPS; step++)
        cr_assert_float_eq(result->loss[step], expected->loss[step], 1e-5,
                           "%s: loss %d: %g, not %g", what, step, result->loss[step],
                           expected->loss[step]);
}

static bool same_axes(const cleave_operator *a, const cleave_operator *b) {
    bool same = a->n_axes == b->n_axes;
    for (int i = 0; same && i < a->n_axes; i++)
        same = a->axes[i].extent == b->axes[i].extent && a->axes[i].whole == b->axes[i].whole;
    return same;
}

/* Independent draws hardly ever agree; repeated operators often do. */
static void repeat_some_splits(const cleave_model *model, uint64_t seed, cleave_layout *layout) {
    for (int32_t i = 1; i < model->n_operators; i++)
        for (int32_t j = 0; j < i; j++)
            if (same_axes(&model->operators[i], &model->operators[j]) &&
                (cleave_hash_join(seed, (uint64_t)i) & 1) != 0) {
                layout->splits[i] = layout->splits[j];
                break;
            }
}

/* Returns how many layouts had micro-batches; there are some with stages. */
static int check_model(const cleave_model *model, cleave_arena *arena) {
    int n_cut = 0, n_staged = 0;
    cleave_error error = {""};
    cleave_layout single;
    cr_assert_eq(cleave_layout_create(model, 1, arena, &single, &error), CLEAVE_OK);
    interpreter_result expected;
    run(model, &single, 1, arena, &expected, "one device");
    for (uint64_t seed = seed_from(0); seed < seed_end(200); seed++) {
        char what[64];
        snprintf(what, sizeof what, "%s, layout seed %d", model->file, (int)seed);
        cleave_arena scratch = {0};
        cleave_layout layout;
        cr_assert_eq(cleave_layout_random(model, N_DEVICES, seed, &scratch, &layout, &error),
                     CLEAVE_OK, "%s", error.message);
        repeat_some_splits(model, seed, &layout);
        if (draw_schedule(model, seed, 8, &scratch, &layout)) {
            n_cut += layout.schedule.micro_batches > 1;
            n_staged += layout.schedule.n_stages > 1;
        }
        interpreter_result result;
        run(model, &layout, seed + 100, &scratch, &result, what);
        compare(model, &result, &expected, what);
        cleave_arena_free(&scratch);
    }
    cr_assert(n_staged > 0 || model->n_operators == 1, "%s: no layout had stages", model->file);
    return n_cut;
}

static void check_hand_model(int which) {
    cleave_error error = {""};
    cleave_arena arena = {0};
    cleave_model model;
    cr_assert(hand_model(which, &arena, &model, &error), "%s", error.message);
    int n_cut = check_model(&model, &arena);
    /* One takes statistics over the batch, and one has two targets for each sample. */
    if (which == MODEL_CNN || which == MODEL_TIED)
        cr_assert_eq(n_cut, 0, "%s was cut into micro-batches", hand_model_names[which]);
    else
        cr_assert_gt(n_cut, 0, "%s was not cut into micro-batches", hand_model_names[which]);
    cleave_arena_free(&arena);
}

Test(lowering, any_layout_of_a_multi_layer_perceptron_learns_the_same) {
    check_hand_model(MODEL_MLP);
}
Test(lowering, any_layout_of_a_convolutional_network_learns_the_same) {
    check_hand_model(MODEL_CNN);
}
Test(lowering, any_layout_with_tied_parameters_and_views_learns_the_same) {
    check_hand_model(MODEL_TIED);
}
Test(lowering, any_layout_of_a_recurrence_learns_the_same) { check_hand_model(MODEL_RECURRENT); }
Test(lowering, any_layout_of_an_embedding_tied_to_its_head_learns_the_same) {
    check_hand_model(MODEL_EMBEDDING);
}

/* Its attention stores no scores, and its keys are split, too. */
Test(lowering, any_layout_of_a_model_of_experts_learns_the_same) {
    check_hand_model(MODEL_EXPERTS);
}

/* Gradients of what is trained are those of the model with nothing frozen, so on one device a step
   gives these the values that they have there, and the others keep theirs; then any layout. */
static void check_frozen(int which, const char *patterns) {
    cleave_error error = {""};
    cleave_arena arena = {0};
    cleave_model model;
    cleave_layout single;
    interpreter_result before, expected, result;
    cr_assert(hand_model(which, &arena, &model, &error), "%s", error.message);
    cr_assert_eq(cleave_layout_create(&model, 1, &arena, &single, &error), CLEAVE_OK);
    run_steps(&model, &single, 1, 1, 0, &arena, &before, "no rate");
    run_steps(&model, &single, 1, 1, 0.1, &arena, &expected, "nothing frozen");
    cr_assert_eq(cleave_model_freeze(&model, patterns, &error), CLEAVE_OK, "%s", error.message);
    for (int32_t t = 0; t < model.n_tensors; t++)
        if (model.tensors[t].frozen)
            expected.values[t] = before.values[t];
    run_steps(&model, &single, 1, 1, 0.1, &arena, &result, patterns);
    compare_values(&model, &result, &expected, patterns);
    check_model(&model, &arena);
    cleave_arena_free(&arena);
}

Test(lowering, any_layout_of_a_perceptron_keeps_what_is_frozen) {
    check_frozen(MODEL_MLP, "?1,w2"); /* the lower layers, but a bias */
    check_frozen(MODEL_MLP, "?3,b2"); /* gradients go through it */
}
Test(lowering, any_layout_of_a_convolutional_network_keeps_what_is_frozen) {
    check_frozen(MODEL_CNN, "c?[12],bn.scale");
}
Test(lowering, any_layout_with_tied_parameters_keeps_what_is_frozen) {
    check_frozen(MODEL_TIED, "cw1");
}
Test(lowering, any_layout_of_a_recurrence_keeps_what_is_frozen) {
    check_frozen(MODEL_RECURRENT, "upper"); /* one of two that are read as one */
}
Test(lowering, any_layout_of_an_embedding_keeps_what_is_frozen) {
    check_frozen(MODEL_EMBEDDING, "w1");
}

/* Without parameters there is no backward: the step ends with its running statistics and
   its loss, behind all that computes them. */
Test(lowering, any_layout_of_a_step_without_gradients_has_the_same_loss_and_statistics) {
    cleave_error error = {""};
    cleave_arena arena = {0};
    cleave_model model;
    bytes graph = {.n = 0}, attributes = {.n = 0};
    const float one[] = {1, 1, 1, 1, 1, 1}, zero[6] = {0};
    graph_input(&graph, "x", "8 6");
    graph_input(&graph, "scale", "6");
    graph_input(&graph, "shift", "6");
    initializer(&graph, "mean", 1, (int64_t[]){6}, 1, zero, sizeof zero);
    initializer(&graph, "variance", 1, (int64_t[]){6}, 1, one, sizeof one);
    attribute_integer(&attributes, "training_mode", 1);
    node(&graph, "BatchNormalization", "norm", "x scale shift mean variance", "z next spread",
         &attributes);
    node(&graph, "Sign", "sign", "z", "y", NULL);
    graph_output(&graph, "y");
    bytes file = model_file(&graph, 15);
    cr_assert_eq(cleave_model_import_as(&(cleave_import_request){.file = "no gradients",
                                                                 .data = file.data,
                                                                 .bytes = file.n,
                                                                 .with_loss = true},
                                        &arena, &model, &error),
                 CLEAVE_OK, "%s", error.message);
    cr_assert_gt(model.n_assignments, 0);
    check_model(&model, &arena);
    cleave_arena_free(&arena);
}

/* A product of parameters runs once for all micro-batches, and so gives what it reads its gradient:
   in another stage than the last one, too, and to those that keep shares of it. */
Test(lowering, any_layout_of_a_product_of_parameters_learns_the_same) {
    cleave_error error = {""};
    cleave_arena arena = {0};
    cleave_model model;
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "8 6");
    graph_input(&graph, "probe", "1 6");
    graph_input(&graph, "w1", "6 6");
    graph_input(&graph, "w2", "6 6");
    graph_input(&graph, "w3", "6 6");
    graph_input(&graph, "w4", "6 6");
    node(&graph, "MatMul", "first", "x w1", "u", NULL);
    node(&graph, "MatMul", "second", "u w2", "y", NULL);
    node(&graph, "MatMul", "query", "probe w3", "q", NULL);
    node(&graph, "Mul", "score", "y q", "z", NULL);
    node(&graph, "MatMul", "last", "z w4", "v", NULL);
    graph_output(&graph, "v");
    bytes file = model_file(&graph, 15);
    const cleave_import_request request = {.file = "a product of parameters",
                                           .data = file.data,
                                           .bytes = file.n,
                                           .inputs = "x",
                                           .with_loss = true};
    cr_assert_eq(cleave_model_import_as(&request, &arena, &model, &error), CLEAVE_OK, "%s",
                 error.message);
    cr_assert_gt(check_model(&model, &arena), 0);
    cleave_arena_free(&arena);
}
