/* What the inputs of a graph are taken for, and the names of its outputs. */
#include "../../support/ok.h"
#include "imported.h"

TestSuite(import_inputs, .fini = tear_down);

static cleave_status import_as(const bytes *graph, const char *inputs, cleave_error *error) {
    bytes file = model_file(graph, 14);
    const cleave_import_request request = {
        .file = "hand", .data = file.data, .bytes = file.n, .batch = 2, .inputs = inputs};
    return cleave_model_import_as(&request, &arena, &model, error);
}

static void expect_kinds(const bytes *graph, const char *inputs, const char *expected) {
    static const char letters[] = {
        [CLEAVE_TENSOR_PARAMETER] = 'p', [CLEAVE_TENSOR_BUFFER] = 'b', [CLEAVE_TENSOR_DATA] = 'd'};
    char kinds[32] = "";
    OK(import_as, graph, inputs);
    for (int32_t i = 0; i < model.n_inputs; i++) {
        int32_t t = model.inputs[i].tensor;
        kinds[i] = t < 0 ? '-' : letters[model.tensors[t].kind];
        cr_expect_eq(t < 0, model.inputs[i].why == NULL);
        if (t >= 0)
            cr_expect_str_eq(model.tensors[t].name, model.inputs[i].name);
    }
    cr_expect_str_eq(kinds, expected);
}

/* The loss of x w under weights of classes: x [2, 3], w [3, 4]; `spare` is not read. */
static bytes structure(const char *batch) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", batch);
    graph_input(&graph, "w", "3 4");
    value_info(&graph, 11, "labels", 7, "2");
    graph_input(&graph, "weights", "4");
    graph_input(&graph, "spare", "5");
    graph_output(&graph, "y");
    node(&graph, "MatMul", "product", "x w", "logits", NULL);
    node(&graph, "SoftmaxCrossEntropyLoss", "op", "logits labels weights", "y", NULL);
    return graph;
}

Test(import_inputs, floats_of_fixed_shape_are_parameters_unless_the_batch_is_open) {
    bytes graph = structure("batch 3");
    expect_kinds(&graph, NULL, "dpdd-");
    graph = structure("2 3");
    expect_kinds(&graph, NULL, "ppdd-");
}

Test(import_inputs, what_is_named_is_data_and_other_floats_are_not) {
    bytes graph = structure("2 3");
    expect_kinds(&graph, "x", "dpdb-");
    expect_kinds(&graph, "weights,x", "dpdd-");
    expect_kinds(&graph, "x,w,labels,weights,spare", "dddd-");
    expect_kinds(&graph, "w", "pddb-");
}

Test(import_inputs, floats_beside_initializers_are_data_unless_others_are_named) {
    bytes graph = structure("2 3");
    initializer(&graph, "shift", 1, (int64_t[]){4}, 1, (float[4]){0}, 16);
    graph_output(&graph, "z");
    node(&graph, "Add", "add", "logits shift", "z", NULL);
    expect_kinds(&graph, NULL, "dddd-");
    expect_kinds(&graph, "x", "dpdb-");
}

static void constant(bytes *graph, const char *name, int rank, const int64_t *shape, int64_t n) {
    static const float values[16] = {1, 2, 3};
    bytes attributes = {.n = 0};
    attribute_tensor(&attributes, "value", rank, shape, 1, values, (size_t)n * sizeof *values);
    node(graph, "Constant", name, "", name, &attributes);
}

/* y = (x w + shift + one) turn; where w is an input, a structure. */
static bytes constants(bool has_weight) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "2 3");
    if (has_weight)
        constant(&graph, "w", 2, (int64_t[]){3, 4}, 12);
    else
        graph_input(&graph, "w", "3 4");
    constant(&graph, "shift", 1, (int64_t[]){4}, 4);
    constant(&graph, "one", 1, (int64_t[]){1}, 1);
    constant(&graph, "turn", 2, (int64_t[]){4, 4}, 16);
    graph_output(&graph, "y");
    node(&graph, "MatMul", "product", "x w", "z", NULL);
    node(&graph, "Add", "add", "z shift", "v", NULL);
    node(&graph, "Add", "last", "v one", "s", NULL);
    node(&graph, "MatMul", "turned", "s turn", "y", NULL);
    return graph;
}

Test(import_inputs, weights_in_constants_are_parameters) {
    bytes graph = constants(true);
    expect_kinds(&graph, NULL, "d");
    cr_expect_eq(find_tensor("w")->kind, CLEAVE_TENSOR_PARAMETER);
    cr_expect_eq(find_tensor("shift")->kind, CLEAVE_TENSOR_PARAMETER);
    graph = constants(false);
    expect_kinds(&graph, NULL, "pp");
    cr_expect_neq(find_tensor("turn")->kind, CLEAVE_TENSOR_PARAMETER);
    cr_expect_neq(find_tensor("shift")->kind, CLEAVE_TENSOR_PARAMETER);
    graph = constants(true);
    initializer(&graph, "scale", 1, (int64_t[]){4}, 1, (float[4]){0}, 16);
    expect_kinds(&graph, NULL, "d");
    cr_expect_neq(find_tensor("shift")->kind, CLEAVE_TENSOR_PARAMETER);
}

Test(import_inputs, weights_of_classes_are_data_that_is_1_where_none_is_given) {
    bytes graph = structure("2 3");
    expect_kinds(&graph, NULL, "ppdd-");
    cr_expect_eq(find_tensor("weights")->initial_value, 1.0f);
}

Test(import_inputs, running_statistics_are_buffers_unless_they_are_named) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "2 3");
    for (int i = 0; i < 4; i++)
        graph_input(&graph, (const char *[]){"scale", "bias", "mean", "variance"}[i], "3");
    graph_output(&graph, "y");
    node(&graph, "BatchNormalization", "norm", "x scale bias mean variance", "y", NULL);
    expect_kinds(&graph, NULL, "pppbb");
    expect_kinds(&graph, "x", "dppbb");
    expect_kinds(&graph, "x,mean,variance", "dppdd");
}

/* scores = x w; out = scores[the place of the largest of scores + bias]: w learns, the bias not. */
Test(import_inputs, what_does_no_more_than_choose_is_kept_and_not_trained) {
    bytes graph = {.n = 0}, attributes = {.n = 0};
    attribute_integer(&attributes, "axis", 1);
    graph_input(&graph, "x", "batch 3");
    graph_input(&graph, "w", "3 4");
    graph_input(&graph, "bias", "4");
    initializer(&graph, "k", 1, (int64_t[]){1}, 7, (int64_t[]){1}, 8);
    graph_output(&graph, "y");
    node(&graph, "MatMul", "product", "x w", "scores", NULL);
    node(&graph, "Add", "add", "scores bias", "biased", NULL);
    node(&graph, "TopK", "top", "biased k", "values places", NULL);
    node(&graph, "GatherElements", "pick", "scores places", "y", &attributes);
    expect_kinds(&graph, NULL, "dpb");
    expect_kinds(&graph, "x", "dpb");
    expect_kinds(&graph, "x,bias", "dpd");
    cr_expect_eq(find_tensor("bias")->initial_value, 0.0f);
}

Test(import_inputs, names_that_are_no_inputs_are_refused) {
    static const char *const names[] = {"logits", "x,,w", "", "nobody", "x,y"};
    bytes graph = structure("2 3");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        cleave_error error = {""};
        cr_expect_eq(import_as(&graph, names[i], &error), CLEAVE_BAD_INPUT, "%s", names[i]);
        cr_expect_not_null(strstr(error.message, "is no input of the graph"), "%s", error.message);
    }
    cleave_error error = {""};
    initializer(&graph, "shift", 1, (int64_t[]){4}, 1, (float[4]){0}, 16);
    cr_expect_eq(import_as(&graph, "shift", &error), CLEAVE_BAD_INPUT);
    cr_expect_not_null(strstr(error.message, "has its value in the file"), "%s", error.message);
}

/* ---- outputs --------------------------------------------------------------------------------- */

Test(import_inputs, outputs_that_are_views_or_constants_have_their_names_and_types) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 3");
    graph_output(&graph, "y");
    graph_output(&graph, "mask");
    graph_output(&graph, "turned");
    node(&graph, "Dropout", "drop", "x", "y mask", NULL);
    node(&graph, "Transpose", "turn", "x", "turned", NULL);
    OK(import_as, &graph, NULL);
    cr_assert_eq(model.n_outputs, 3);
    static const char *const names[] = {"y", "mask", "turned"};
    for (int i = 0; i < 3; i++) {
        const cleave_tensor *output = &model.tensors[model.outputs[i]];
        cr_expect_str_eq(output->name, names[i]);
        cr_expect_eq(output->truth, i == 1);
    }
    static const double ones[] = {1, 1, 1, 1, 1, 1};
    expect_values("mask", 6, ones);
}
