/* LSTM, GRU and RNN in all their forms: gradients equal differences of the loss in doubles, any
   layout learns what one device does, and a device holds no more of the weights than its share.

   The weights are initializers of ONNX's shapes, or, as PyTorch writes them, parameters of each
   direction, with an order of gates of their own, of which slices are put together. */
#include "../support/double_evaluator.h"
#include "../support/draws.h"
#include "../support/interpreter.h"
#include "../support/ok.h"
#include "../support/onnx_writer.h"
#include "base/random.h"
#include "graph/import/import.h"
#include "graph/lower/lower.h"

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
    const char *order; /* null: in ONNX's order; else digit g says where gate g is among the gates
                          of parameters that the weights are put together of */
    bool shared; /* with an order: the first parameter of the states has another reader, too */
    bool mixed;  /* with an order: the weights of the states have ONNX's */
} form;

/* Element i of a weight or state, between -0.5 and 0.5. */
static float drawn(const char *name, int64_t i) {
    return (float)cleave_random_uniform((uint64_t)name[0], (uint64_t)i) - 0.5f;
}

static void parameter(bytes *graph, const char *name, int rank, const int64_t *shape) {
    float values[1024];
    int64_t n = 1;
    for (int d = 0; d < rank; d++)
        n *= shape[d];
    cr_assert_leq(n, 1024);
    for (int64_t i = 0; i < n; i++)
        values[i] = drawn(name, i);
    initializer(graph, name, rank, shape, 1, values, (size_t)n * sizeof *values);
}

/* Of place `place` of a weight, gates of `size` elements in the form's order: NAME and the place;
   appends its slices, in ONNX's order, to `slices`. */
static void ordered_parameter(bytes *graph, const form *f, const char *name, int place,
                              const int64_t *shape, char *slices) {
    char own[16], words[64], slice[24];
    float values[1024];
    int64_t size = HIDDEN * shape[1], n = f->n_gates * size;
    int rank = shape[1] > 1 ? 2 : 1;
    const char *order = f->mixed && name[0] == 'R' ? "0123" : f->order;
    snprintf(own, sizeof own, "%s%d", name, place);
    cr_assert_leq(n, 1024);
    for (int g = 0; g < f->n_gates; g++)
        for (int64_t i = 0; i < size; i++)
            values[(order[g] - '0') * size + i] = drawn(name, (place * f->n_gates + g) * size + i);
    initializer(graph, own, rank, shape, 1, values, (size_t)n * sizeof *values);
    for (int g = 0; g < f->n_gates; g++) {
        int at = order[g] - '0';
        snprintf(slice, sizeof slice, "%s.gate%d", own, g);
        snprintf(words, sizeof words, "%s row%d row%d zero", own, at, at + 1);
        node(graph, "Slice", slice, words, slice, NULL);
        snprintf(slices + strlen(slices), 20, "%s%s", slices[0] != '\0' ? " " : "", slice);
    }
}

/* A weight of ONNX's shape: [directions, sides x gates x HIDDEN, columns], or without columns. */
static void weight(bytes *graph, const form *f, const char *name, int sides, int64_t columns) {
    int64_t d = strcmp(f->direction, "bidirectional") == 0 ? 2 : 1;
    int64_t rows = f->n_gates * HIDDEN;
    char directions[64] = "", whole[16];
    bytes along = {.n = 0};
    if (f->order == NULL) {
        parameter(graph, name, columns > 0 ? 3 : 2, (int64_t[]){d, sides * rows, columns});
        return;
    }
    attribute_integer(&along, "axis", 0);
    for (int i = 0; i < d; i++) {
        char slices[256] = "", words[32];
        for (int s = 0; s < sides; s++)
            ordered_parameter(graph, f, name, i * sides + s,
                              (int64_t[]){rows, columns > 0 ? columns : 1}, slices);
        snprintf(whole, sizeof whole, "%s.all%d", name, i);
        node(graph, "Concat", whole, slices, whole, &along);
        snprintf(words, sizeof words, "%s zero", whole);
        snprintf(whole, sizeof whole, "%s.dir%d", name, i);
        node(graph, "Unsqueeze", whole, words, whole, NULL);
        snprintf(directions + strlen(directions), 20, "%s%s", i > 0 ? " " : "", whole);
    }
    node(graph, "Concat", name, directions, name, &along);
}

/* What cuts rows of gates. */
static void row_numbers(bytes *graph) {
    integers(graph, "zero", 1, (int64_t[]){0});
    for (int64_t i = 0; i <= 4; i++) {
        char name[8];
        snprintf(name, sizeof name, "row%d", (int)i);
        integers(graph, name, 1, (int64_t[]){i * HIDDEN});
    }
}

/* All outputs of the node, below each other, are the logits of as many rows. */
static bytes graph_of(const form *f) {
    static bytes graph;
    bytes attributes = {.n = 0}, along = {.n = 0};
    int64_t d = strcmp(f->direction, "bidirectional") == 0 ? 2 : 1;
    bool lstm = strcmp(f->type, "LSTM") == 0, first = f->batch_first != 0;
    graph.n = 0;
    graph_input(&graph, "x", first ? "2 3 3" : "3 2 3");
    graph_output(&graph, "logits");
    row_numbers(&graph);
    weight(&graph, f, "W", 1, FEATURES);
    weight(&graph, f, "R", 1, HIDDEN);
    weight(&graph, f, "B", 2, 0);
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
    char rows[64];
    snprintf(rows, sizeof rows, "y_flat h_flat%s%s", lstm ? " c_flat" : "", f->shared ? " R0" : "");
    node(&graph, "Concat", "join", rows, "logits", &along);
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
    cleave_lower_options lower = {.training = true};
    cleave_program program;
    OK(cleave_lower, model, layout, &lower, arena, &program);
    OK(cleave_program_check, &program);
    interpreter_options options = {.timing_seed = timing,
                                   .steps = steps,
                                   .datum = datum,
                                   .optimizer = cleave_optimizer_default(CLEAVE_OPTIMIZER_SGD)};
    options.optimizer.learning_rate = 0.5;
    OK(interpreter_run, &program, &options, arena, result);
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
    interpreter_result expected;
    train(model, single, 1, 2, arena, &expected);
    for (uint64_t seed = seed_from(0); seed < seed_end(N_LAYOUTS); seed++) {
        cleave_arena scratch = {0};
        cleave_layout layout;
        interpreter_result result;
        OK(cleave_layout_random, model, N_DEVICES, seed, &scratch, &layout);
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

static void import(const form *f, const char *what, cleave_arena *arena, cleave_model *model) {
    bytes graph = graph_of(f), file = model_file(&graph, 14);
    OK(cleave_model_import_as,
       &(cleave_import_request){
           .file = what, .data = file.data, .bytes = file.n, .with_loss = true},
       arena, model);
}

/* The loss is that of the same weights in ONNX's order. */
static void compare_orders(const form *f, const interpreter_result *result, cleave_arena *arena,
                           const char *what) {
    form plain = *f;
    cleave_model model;
    cleave_layout single;
    interpreter_result expected;
    plain.order = NULL;
    import(&plain, what, arena, &model);
    OK(cleave_layout_create, &model, 1, arena, &single);
    train(&model, &single, 1, 2, arena, &expected);
    for (int step = 0; step < 2; step++)
        cr_assert_float_eq(result->loss[step], expected.loss[step], 1e-5, "%s, step %d", what,
                           step);
}

static void check(form f) {
    cleave_arena arena = {0};
    cleave_model model;
    cleave_layout single;
    char what[96];
    snprintf(what, sizeof what, "%s %s", f.type, f.direction);
    for (size_t i = 0; i < sizeof data / sizeof *data; i++)
        data[i] = (float)cleave_random_uniform(7, i) - 0.5f;
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        targets[i] = (int64_t)i % HIDDEN;
    import(&f, what, &arena, &model);
    OK(cleave_layout_create, &model, 1, &arena, &single);
    compare_gradients(&model, &single, &arena, what);
    compare_layouts(&model, &single, &arena, what);
    if (f.order != NULL && !f.shared) {
        interpreter_result result;
        train(&model, &single, 1, 2, &arena, &result);
        compare_orders(&f, &result, &arena, what);
    }
    cleave_arena_free(&arena);
}

/* Bytes of parameters that two devices keep where every operator has its hidden units cut in two,
   over those of all parameters. */
static double held_over_parameters(form f) {
    cleave_arena arena = {0};
    cleave_model model;
    cleave_layout layout;
    cleave_lower_options lower = {.training = true};
    cleave_program program;
    import(&f, f.type, &arena, &model);
    OK(cleave_layout_create, &model, 2, &arena, &layout);
    for (int32_t op = 0; op < model.n_operators; op++) {
        int32_t degree[CLEAVE_MAX_AXES] = {0};
        for (int a = 0; a < model.operators[op].n_axes; a++)
            if (strcmp(model.operators[op].axes[a].name, "k") == 0)
                degree[a] = 2;
        if (model.operators[op].n_axes > 1 && strstr(model.operators[op].type, f.type) != NULL)
            OK(cleave_layout_set, &layout, op, 1, degree, (int32_t[]){0, 1}, &arena);
    }
    OK(cleave_lower, &model, &layout, &lower, &arena, &program);
    int64_t held = 0;
    for (int32_t b = 0; b < program.n_buffers; b++)
        if (program.buffers[b].kind == CLEAVE_BUFFER_PARAMETER && program.buffers[b].persistent)
            held += program.buffers[b].bytes;
    double result = (double)held / (4 * (double)cleave_model_parameter_count(&model));
    cleave_arena_free(&arena);
    return result;
}

Test(recurrences_learn, hidden_units_that_are_split_hold_their_share_of_every_gate) {
    form forms[] = {{"LSTM", "forward", NULL, 4, .biases = true},
                    {"LSTM", "bidirectional", NULL, 4, .biases = true, .peepholes = true},
                    {"LSTM", "bidirectional", NULL, 4, .biases = true, .order = "0312"},
                    {"GRU", "forward", NULL, 3, .biases = true},
                    {"GRU", "bidirectional", NULL, 3, 0, 1, .biases = true, .order = "102"}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        double share = held_over_parameters(forms[i]);
        cr_expect_float_eq(share, 1, 1e-9, "%s, form %d: %g of the parameters are held",
                           forms[i].type, (int)i, share);
    }
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
Test(recurrences_learn, lstm_of_parameters_in_another_order) {
    check((form){"LSTM", "bidirectional", NULL, 4, .biases = true, .order = "0312"});
}
Test(recurrences_learn, gru_of_parameters_in_another_order) {
    check((form){"GRU", "bidirectional", NULL, 3, 0, 1, .biases = true, .order = "102"});
    check((form){"GRU", "forward", NULL, 3, .biases = true, .order = "102"});
}
Test(recurrences_learn, lstm_of_parameters_in_two_orders) {
    check((form){"LSTM", "forward", NULL, 4, .biases = true, .order = "0312", .mixed = true});
}
/* The last gate, a product of its own, is not the last one: read through a view. */
Test(recurrences_learn, gru_that_resets_the_state_of_parameters_in_another_order) {
    check((form){"GRU", "forward", NULL, 3, .biases = true, .order = "210"});
}
Test(recurrences_learn, lstm_of_parameters_that_others_read) {
    check((form){"LSTM", "forward", NULL, 4, .biases = true, .order = "0312", .shared = true});
    check((form){"LSTM", "bidirectional", NULL, 4, .order = "0123", .shared = true});
}
