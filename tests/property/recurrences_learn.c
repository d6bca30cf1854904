/* LSTM, GRU and RNN in all their forms: gradients equal differences of the loss in doubles, and any
   layout learns what one device does. */
#include "base/random.h"
#include "graph/import.h"
#include "graph/lower/lower.h"
#include "tests/support/double_evaluator.h"
#include "tests/support/interpreter.h"
#include "tests/support/onnx_writer.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 3, BATCH = 2, FEATURES = 3, HIDDEN = 4, N_DEVICES = 5, N_LAYOUTS = 40 };

typedef struct form {
    const char *type, *direction, *activations;
    int n_gates;
    int64_t batch_first, linear_before_reset;
    bool states, peepholes, biases;
} form;

/* A parameter between -0.5 and 0.5. */
static void parameter(bytes *graph, const char *name, int rank, const int64_t *shape) {
    float values[1024];
    int64_t n = 1;
    for (int d = 0; d < rank; d++)
        n *= shape[d];
    cr_assert_leq(n, 1024);
    for (int64_t i = 0; i < n; i++)
        values[i] = (float)cleave_random_uniform((uint64_t)name[0], (uint64_t)i) - 0.5f;
    initializer(graph, name, rank, shape, 1, values, (size_t)n * sizeof *values);
}

/* All outputs of the node, below each other, are the logits of as many rows. */
static bytes graph_of(const form *f) {
    static bytes graph;
    bytes attributes = {.n = 0}, along = {.n = 0};
    int64_t d = strcmp(f->direction, "bidirectional") == 0 ? 2 : 1, g = f->n_gates;
    bool lstm = strcmp(f->type, "LSTM") == 0, first = f->batch_first != 0;
    graph.n = 0;
    graph_input(&graph, "x", first ? "2 3 3" : "3 2 3");
    graph_output(&graph, "logits");
    parameter(&graph, "W", 3, (int64_t[]){d, g * HIDDEN, FEATURES});
    parameter(&graph, "R", 3, (int64_t[]){d, g * HIDDEN, HIDDEN});
    parameter(&graph, "B", 2, (int64_t[]){d, 2 * g * HIDDEN});
    parameter(&graph, "P", 2, (int64_t[]){d, 3 * HIDDEN});
    parameter(&graph, "H", 3, (int64_t[]){first ? BATCH : d, first ? d : BATCH, HIDDEN});
    parameter(&graph, "C", 3, (int64_t[]){first ? BATCH : d, first ? d : BATCH, HIDDEN});
    attribute_text(&attributes, "direction", f->direction);
    attribute_integer(&attributes, "hidden_size", HIDDEN);
    attribute_integer(&attributes, "layout", f->batch_first);
    if (f->linear_before_reset != 0)
        attribute_integer(&attributes, "linear_before_reset", 1);
    if (f->activations != NULL)
        attribute_texts(&attributes, "activations", f->activations);
    char inputs[64];
    snprintf(inputs, sizeof inputs, "x W R %s -%s%s%s", f->biases ? "B" : "-",
             f->states ? " H" : " -",
             lstm && f->states ? " C"
             : lstm            ? " -"
                               : "",
             f->peepholes ? " P" : "");
    node(&graph, f->type, "cell", inputs, lstm ? "y h c" : "y h", &attributes);
    integers(&graph, "flat", 2, (int64_t[]){-1, HIDDEN});
    const char *const outputs[] = {"y", "h", "c"}, *const flats[] = {"y_flat", "h_flat", "c_flat"};
    for (int i = 0; i < (lstm ? 3 : 2); i++) {
        char words[32];
        snprintf(words, sizeof words, "%s flat", outputs[i]);
        node(&graph, "Reshape", flats[i], words, flats[i], NULL);
    }
    attribute_integer(&along, "axis", 0);
    node(&graph, "Concat", "join", lstm ? "y_flat h_flat c_flat" : "y_flat h_flat", "logits",
         &along);
    return graph;
}

static float data[STEPS * BATCH * FEATURES];
static int64_t targets[64];

static const void *datum(void *context, const char *name) {
    (void)context;
    return strcmp(name, "x") == 0 ? (const void *)data : targets;
}

static void train(const cleave_model *model, const cleave_layout *layout, uint64_t timing,
                  int steps, cleave_arena *arena, interpreter_result *result) {
    cleave_error error = {""};
    cleave_lower_options lower = {.training = true};
    cleave_program program;
    cr_assert_eq(cleave_lower(model, layout, &lower, arena, &program, &error), CLEAVE_OK, "%s",
                 error.message);
    cr_assert_eq(cleave_program_check(&program, &error), CLEAVE_OK, "%s", error.message);
    interpreter_options options = {.timing_seed = timing,
                                   .steps = steps,
                                   .datum = datum,
                                   .optimizer = cleave_optimizer_default(CLEAVE_OPTIMIZER_SGD)};
    options.optimizer.learning_rate = 0.5;
    cr_assert_eq(interpreter_run(&program, &options, arena, result, &error), CLEAVE_OK, "%s",
                 error.message);
}

/* What one step of descent subtracts is the learning rate times the derivative of the loss. */
static void compare_gradients(const cleave_model *model, const cleave_layout *single,
                              cleave_arena *arena, const char *what) {
    interpreter_result result;
    double_evaluator e;
    train(model, single, 1, 1, arena, &result);
    cr_assert(double_evaluator_create(model, arena, &e));
    double_evaluator_set_floats(&e, cleave_model_find_tensor(model, "x"), data);
    double_evaluator_set_integers(&e, model->targets, targets);
    for (int32_t t = 0; t < model->n_tensors; t++) {
        const cleave_tensor *tensor = &model->tensors[t];
        for (int64_t i = 0;
             tensor->kind == CLEAVE_TENSOR_PARAMETER && i < cleave_tensor_size(tensor); i++) {
            double *at = &double_evaluator_values(&e, t)[i], was = *at, side[2], step = 1e-5;
            for (int s = 0; s < 2; s++) {
                *at = was + (s == 0 ? step : -step);
                double_evaluator_run(&e);
                side[s] = double_evaluator_element(&e, model->loss, 0);
            }
            *at = was;
            double want = (side[0] - side[1]) / (2 * step);
            double got = (was - (double)result.values[t][i]) / 0.5;
            cr_assert(fabs(got - want) <= 1e-6 + 1e-4 * fabs(want),
                      "%s: the gradient of %s[%lld] is %g, not %g", what, tensor->name,
                      (long long)i, got, want);
        }
    }
}

static void compare_layouts(const cleave_model *model, const cleave_layout *single,
                            cleave_arena *arena, const char *what) {
    cleave_error error = {""};
    interpreter_result expected;
    train(model, single, 1, 2, arena, &expected);
    for (uint64_t seed = 0; seed < N_LAYOUTS; seed++) {
        cleave_arena scratch = {0};
        cleave_layout layout;
        interpreter_result result;
        cr_assert_eq(cleave_layout_random(model, N_DEVICES, seed, &scratch, &layout, &error),
                     CLEAVE_OK, "%s", error.message);
        train(model, &layout, seed, 2, &scratch, &result);
        for (int32_t t = 0; t < model->n_tensors; t++)
            for (int64_t i = 0;
                 expected.values[t] != NULL && i < cleave_tensor_size(&model->tensors[t]); i++)
                cr_assert_float_eq(result.values[t][i], expected.values[t][i], 1e-5,
                                   "%s, layout %d: %s[%lld]", what, (int)seed,
                                   model->tensors[t].name, (long long)i);
        cleave_arena_free(&scratch);
    }
}

static void check(form f) {
    cleave_arena arena = {0};
    cleave_model model;
    cleave_layout single;
    cleave_error error = {""};
    char what[96];
    snprintf(what, sizeof what, "%s %s", f.type, f.direction);
    for (size_t i = 0; i < sizeof data / sizeof *data; i++)
        data[i] = (float)cleave_random_uniform(7, i) - 0.5f;
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        targets[i] = (int64_t)i % HIDDEN;
    bytes graph = graph_of(&f), file = model_file(&graph, 14);
    cr_assert_eq(
        cleave_model_import_memory(file.data, file.n, what, 0, true, &arena, &model, &error),
        CLEAVE_OK, "%s", error.message);
    cr_assert_eq(cleave_layout_create(&model, 1, &arena, &single, &error), CLEAVE_OK);
    compare_gradients(&model, &single, &arena, what);
    compare_layouts(&model, &single, &arena, what);
    cleave_arena_free(&arena);
}

Test(recurrences_learn, lstm) { check((form){"LSTM", "forward", NULL, 4, .biases = true}); }
Test(recurrences_learn, lstm_with_everything) {
    check((form){"LSTM", "bidirectional", NULL, 4, .biases = true, .states = true,
                 .peepholes = true});
}
Test(recurrences_learn, lstm_with_the_batch_first_and_other_activations) {
    check((form){"LSTM", "reverse", "HardSigmoid Softsign Elu", 4, 1, .states = true});
}
Test(recurrences_learn, gru_that_resets_the_state) {
    check((form){"GRU", "bidirectional", NULL, 3, .biases = true, .states = true});
}
Test(recurrences_learn, gru_that_resets_the_product) {
    check((form){"GRU", "bidirectional", NULL, 3, .linear_before_reset = 1, .biases = true});
}
Test(recurrences_learn, gru_without_biases) {
    check((form){"GRU", "forward", "Sigmoid Softplus", 3, 1, 1, .states = true});
}
Test(recurrences_learn, rnn) {
    check((form){"RNN", "bidirectional", "Tanh LeakyRelu", 1, .biases = true, .states = true});
}
