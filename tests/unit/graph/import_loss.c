/* Losses over classes, as nodes and as what a model is trained on. */
#include "../../support/ok.h"
#include "imported.h"

#include "../../support/interpreter.h"
#include "graph/lower/lower.h"

TestSuite(import_loss, .fini = tear_down);

/* Rows 1 2 3 and 4 5 6 with labels 2 and 0 have the losses L and L + 2, with
   L = log(1 + 1/e + 1/e^2). */
static double row_loss(void) { return log(1 + exp(-1) + exp(-2)); }

static void import_losses(const char *type, const char *inputs, const char *reduction,
                          const int64_t *ignored) {
    bytes graph = {.n = 0}, attributes = {.n = 0};
    graph_input(&graph, "x", "2 3");
    graph_output(&graph, "y");
    integers(&graph, "labels", 2, (int64_t[]){2, 0});
    initializer(&graph, "weights", 1, (int64_t[]){3}, 1, (float[]){1, 5, 3}, 12);
    if (reduction != NULL)
        attribute_text(&attributes, "reduction", reduction);
    if (ignored != NULL)
        attribute_integer(&attributes, "ignore_index", *ignored);
    node(&graph, type, "op", inputs, "y", &attributes);
    import(&graph, 13, 2, false);
}

Test(import_loss, cross_entropy_is_the_mean_of_its_rows) {
    import_losses("SoftmaxCrossEntropyLoss", "x labels", NULL, NULL);
    expect_values("y", 1, (double[]){row_loss() + 1});
    expect_axes("op", "n=2 v=3");
    expect_roles("op", "sample reduction");
}

Test(import_loss, cross_entropy_may_be_a_sum_or_a_loss_for_each_row) {
    import_losses("SoftmaxCrossEntropyLoss", "x labels", "sum", NULL);
    expect_values("y", 1, (double[]){2 * row_loss() + 2});
    import_losses("SoftmaxCrossEntropyLoss", "x labels", "none", NULL);
    expect_values("y", 2, (double[]){row_loss(), row_loss() + 2});
}

/* Weights 3 and 1 of the labels: (3 L + L + 2) / 4. */
Test(import_loss, mean_of_weighted_rows_is_over_their_weights) {
    import_losses("SoftmaxCrossEntropyLoss", "x labels weights", "mean", NULL);
    expect_values("y", 1, (double[]){row_loss() + 0.5});
}

Test(import_loss, ignored_rows_count_nothing) {
    import_losses("SoftmaxCrossEntropyLoss", "x labels", "mean", (int64_t[]){2});
    expect_values("y", 1, (double[]){row_loss() + 2});
    import_losses("SoftmaxCrossEntropyLoss", "x labels weights", "mean", (int64_t[]){0});
    expect_values("y", 1, (double[]){row_loss()});
    import_losses("SoftmaxCrossEntropyLoss", "x labels weights", "none", (int64_t[]){0});
    expect_values("y", 2, (double[]){3 * row_loss(), 0});
}

Test(import_loss, likelihood_loss_is_the_weighted_negative_input) {
    import_losses("NegativeLogLikelihoodLoss", "x labels", "none", NULL);
    expect_values("y", 2, (double[]){-3, -4});
    import_losses("NegativeLogLikelihoodLoss", "x labels weights", "mean", NULL);
    expect_values("y", 1, (double[]){-(3 * 3 + 4) / 4.0});
}

Test(import_loss, cross_entropy_gives_the_logarithms_of_probabilities_too) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "1 2");
    graph_output(&graph, "loss");
    graph_output(&graph, "log_prob");
    integers(&graph, "labels", 1, (int64_t[]){0});
    node(&graph, "SoftmaxCrossEntropyLoss", "op", "x labels", "loss log_prob", NULL);
    import(&graph, 13, 1, false);
    double low = -log(1 + exp(1)), high = -log(1 + exp(-1));
    expect_values("log_prob", 2, (double[]){low, high});
    expect_values("loss", 1, (double[]){-low});
}

Test(import_loss, classes_that_can_not_be_have_no_part_in_it) {
    bytes graph = {.n = 0};
    graph_output(&graph, "y");
    integers(&graph, "labels", 1, (int64_t[]){1});
    initializer(&graph, "mask", 2, (int64_t[]){1, 2}, 1, (float[]){-INFINITY, 0}, 8);
    node(&graph, "SoftmaxCrossEntropyLoss", "op", "mask labels", "y", NULL);
    import(&graph, 13, 1, false);
    expect_values("y", 1, (double[]){0});
}

Test(import_loss, what_does_not_fit_is_refused) {
    bytes graph = {.n = 0}, attributes = {.n = 0};
    graph_input(&graph, "x", "2 3");
    graph_output(&graph, "y");
    integers(&graph, "labels", 3, (int64_t[]){2, 0, 1});
    node(&graph, "SoftmaxCrossEntropyLoss", "op", "x labels", "y", NULL);
    expect_refused(&graph, 13, 2, "labels does not have the dimensions of x without the classes");
    graph.n = 0;
    graph_input(&graph, "x", "2 3");
    graph_output(&graph, "y");
    integers(&graph, "labels", 2, (int64_t[]){2, 0});
    attribute_text(&attributes, "reduction", "median");
    node(&graph, "SoftmaxCrossEntropyLoss", "op", "x labels", "y", &attributes);
    expect_refused(&graph, 13, 2,
                   "attribute reduction is median, supported are none, mean and sum");
}

/* ---- training -------------------------------------------------------------------------------- */

Test(import_loss, the_loss_goes_over_the_last_axis_at_rank_3_and_over_axis_1_else) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 5 7");
    graph_output(&graph, "y");
    node(&graph, "Relu", "relu", "x", "y", NULL);
    import(&graph, 13, 3, true);
    expect_axes("@loss", "n=3 t=5 v=7");
    expect_shape("targets", 2, (int64_t[]){3, 5});
    cr_expect_eq(find_tensor("targets")->below, 7);
    graph = (bytes){.n = 0};
    graph_input(&graph, "x", "batch 5 7 2");
    graph_output(&graph, "y");
    node(&graph, "Relu", "relu", "x", "y", NULL);
    import(&graph, 13, 3, true);
    expect_axes("@loss", "n=3 v=5 h=7 w=2");
    expect_shape("targets", 3, (int64_t[]){3, 7, 2});
}

enum { ROWS = 6, FEATURES = 2, CLASSES = 3, N_DEVICES = 5, N_LAYOUTS = 60 };
static const float class_weights[CLASSES] = {1, 5, 3};
static const float features[ROWS][FEATURES] = {{1, 2}, {-1, 0.5f}, {3, 1}, {0, 1}, {2, -2}, {1, 1}};
static const float truths[ROWS] = {1, 0, 0, 1, 1, 0}; /* [ROWS, 1] */
static const int64_t labels[ROWS] = {2, 0, -100, 1, 1, -100};

/* x w under a weighted loss of which rows are ignored; w starts at zero. */
static void import_classifier(void) {
    bytes graph = {.n = 0}, attributes = {.n = 0};
    graph_input(&graph, "x", "batch 2");
    value_info(&graph, 11, "labels", 7, "batch");
    graph_output(&graph, "objective");
    initializer(&graph, "w", 2, (int64_t[]){2, 3}, 1, (float[6]){0}, 24);
    initializer(&graph, "weights", 1, (int64_t[]){3}, 1, class_weights, 12);
    node(&graph, "MatMul", "product", "x w", "logits", NULL);
    attribute_integer(&attributes, "ignore_index", -100);
    node(&graph, "SoftmaxCrossEntropyLoss", "criterion", "logits labels weights", "objective",
         &attributes);
    import(&graph, 13, ROWS, true);
}

static const void *datum(void *context, const char *name) {
    (void)context;
    return strcmp(name, "x") == 0       ? (const void *)features
           : strcmp(name, "truth") == 0 ? (const void *)truths
                                        : labels;
}

static interpreter_result train(const cleave_layout *layout, uint64_t timing,
                                cleave_arena *scratch) {
    cleave_program program;
    interpreter_result result;
    cleave_lower_options lower = {.training = true};
    interpreter_options options = {.timing_seed = timing,
                                   .steps = 1,
                                   .optimizer = cleave_optimizer_default(CLEAVE_OPTIMIZER_SGD),
                                   .datum = datum};
    options.optimizer.learning_rate = 1;
    OK(cleave_lower, &model, layout, &lower, scratch, &program);
    OK(interpreter_run, &program, &options, scratch, &result);
    return result;
}

/* All classes have probability 1/3, so the loss is log 3, and the gradient of a row's logits is
   (1/3 - [class is the label]) x weight / sum of weights. */
static void expect_first_step(const interpreter_result *result) {
    double total = 0, want[FEATURES][CLASSES] = {{0}};
    for (int n = 0; n < ROWS; n++)
        total += labels[n] < 0 ? 0 : (double)class_weights[labels[n]];
    for (int n = 0; n < ROWS; n++)
        for (int c = 0; c < CLASSES && labels[n] >= 0; c++)
            for (int f = 0; f < FEATURES; f++)
                want[f][c] -= (double)features[n][f] * (1.0 / 3 - (c == labels[n])) *
                              (double)class_weights[labels[n]] / total;
    const float *got = result->values[cleave_model_find_tensor(&model, "w")];
    cr_assert_float_eq(result->loss[0], log(3), 1e-6);
    for (int i = 0; i < FEATURES * CLASSES; i++)
        cr_assert_float_eq((double)got[i], want[i / CLASSES][i % CLASSES], 1e-6, "w[%d] is %g", i,
                           (double)got[i]);
}

Test(import_loss, scalar_of_a_model_is_its_loss) {
    import_classifier();
    cr_assert_str_eq(model.tensors[model.loss].name, "objective");
    cr_expect_eq(model.targets, -1);
    cr_expect_eq(find_tensor("labels")->below, CLASSES);
    cr_expect_eq(find_tensor("labels")->also, -100);
    cr_expect_eq(find_tensor("weights")->kind, CLEAVE_TENSOR_BUFFER, "weights are not trained");
    expect_axes("criterion", "n=6 v=3");
}

Test(import_loss, own_loss_trains_the_same_under_any_layout) {
    import_classifier();
    for (uint64_t seed = 0; seed < N_LAYOUTS; seed++) {
        cleave_arena scratch = {0};
        cleave_layout layout;
        OK(cleave_layout_random, &model, N_DEVICES, seed, &scratch, &layout);
        interpreter_result result = train(&layout, seed, &scratch);
        expect_first_step(&result);
        cleave_arena_free(&scratch);
    }
}

/* ---- losses of plain nodes ------------------------------------------------------------------- */

/* Ends in the mean of `loss`, which nodes between give from z = x w, [ROWS, 1], and the truth. */
static void import_regression(const char *(*nodes)[3], int n) {
    bytes graph = {.n = 0}, attributes = {.n = 0};
    graph_input(&graph, "x", "batch 2");
    graph_input(&graph, "truth", "batch 1");
    graph_output(&graph, "objective");
    initializer(&graph, "w", 2, (int64_t[]){2, 1}, 1, (float[2]){0}, 8);
    initializer(&graph, "one", 0, NULL, 1, (float[]){1}, 4);
    node(&graph, "MatMul", "product", "x w", "z", NULL);
    for (int i = 0; i < n; i++)
        node(&graph, nodes[i][0], nodes[i][2], nodes[i][1], nodes[i][2], NULL);
    attribute_integer(&attributes, "keepdims", 0);
    node(&graph, "ReduceMean", "criterion", "loss", "objective", &attributes);
    import(&graph, 13, ROWS, true);
}

/* With w = 0: the loss, and the gradient of w where the one of z is `scale` x (truth - shift) /
 * ROWS. */
static void expect_regression(double loss, double scale, double shift) {
    double want[FEATURES] = {0};
    for (int n = 0; n < ROWS; n++)
        for (int f = 0; f < FEATURES; f++)
            want[f] -= (double)features[n][f] * scale * ((double)truths[n] - shift) / ROWS;
    for (uint64_t seed = 0; seed < N_LAYOUTS; seed++) {
        cleave_arena scratch = {0};
        cleave_layout layout;
        OK(cleave_layout_random, &model, N_DEVICES, seed, &scratch, &layout);
        interpreter_result result = train(&layout, seed, &scratch);
        const float *got = result.values[cleave_model_find_tensor(&model, "w")];
        cr_assert_float_eq(result.loss[0], loss, 1e-6, "loss %g", result.loss[0]);
        for (int f = 0; f < FEATURES; f++)
            cr_assert_float_eq((double)got[f], want[f], 1e-6, "w[%d] is %g", f, (double)got[f]);
        cleave_arena_free(&scratch);
    }
}

/* Half of the truths are 1. */
Test(import_loss, mean_squared_error_of_plain_nodes_is_trained) {
    const char *nodes[][3] = {{"Sub", "z truth", "error"}, {"Mul", "error error", "loss"}};
    import_regression(nodes, 2);
    expect_regression(0.5, -2, 0);
}

/* -(t log p + (1 - t) log(1 - p)) with p = 1/2: the gradient of z is p - t. */
Test(import_loss, binary_cross_entropy_of_plain_nodes_is_trained) {
    const char *nodes[][3] = {
        {"Sigmoid", "z", "p"},       {"Sub", "one p", "q"},         {"Log", "p", "log_p"},
        {"Log", "q", "log_q"},       {"Sub", "one truth", "false"}, {"Mul", "truth log_p", "a"},
        {"Mul", "false log_q", "b"}, {"Add", "a b", "likelihood"},  {"Neg", "likelihood", "loss"}};
    import_regression(nodes, 9);
    expect_regression(log(2), -1, 0.5);
}

/* ---- nothing to train ------------------------------------------------------------------------ */

/* y of classes [2 4] that nodes between make of x [2 3] times the parameter w. */
static bytes with_logits(void) {
    const float zeros[12] = {0};
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "2 3");
    graph_output(&graph, "y");
    initializer(&graph, "w", 2, (int64_t[]){3, 4}, 1, zeros, sizeof zeros);
    node(&graph, "MatMul", "product", "x w", "logits", NULL);
    return graph;
}

Test(import_loss, a_class_that_was_chosen_trains_nothing) {
    bytes graph = with_logits(), attributes = {.n = 0};
    attribute_integer(&attributes, "axis", 1);
    node(&graph, "Relu", "activation", "logits", "scores", NULL);
    node(&graph, "ArgMax", "choice", "scores", "y", &attributes);
    expect_refused(&graph, 13, 2, "none passes through choice (ArgMax)");
    import(&graph, 13, 2, false); /* forward it is as good as any */
}

/* Floor is fused into the product. */
Test(import_loss, what_stops_the_gradient_is_named_across_others) {
    bytes graph = with_logits();
    node(&graph, "Floor", "steps", "logits", "level", NULL);
    node(&graph, "Transpose", "turn", "level", "turned", NULL);
    node(&graph, "Exp", "growth", "turned", "y", NULL);
    expect_refused(&graph, 13, 2, "none passes through product (MatMul) or what is fused with it");
}

/* The maximum in a softmax has no gradient, but is not all that there is. */
Test(import_loss, one_way_to_a_parameter_is_enough) {
    bytes graph = with_logits();
    node(&graph, "Floor", "steps", "logits", "level", NULL);
    node(&graph, "Add", "sum", "level logits", "y", NULL);
    import(&graph, 13, 2, true);
}
