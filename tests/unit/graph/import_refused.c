/* What the importer refuses, each with its reason, whatever bytes it is given. */
#include "imported.h"

TestSuite(import_refused, .fini = tear_down);

static bytes relu_graph(const char *shape) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", shape);
    graph_output(&graph, "y");
    node(&graph, "Relu", "relu", "x", "y", NULL);
    return graph;
}

Test(import_refused, empty_random_and_truncated_files_are_refused) {
    bytes graph = relu_graph("batch 3"), file = model_file(&graph, 13);
    expect_bytes_refused("", 0, 2, "hand: the file is empty");
    expect_bytes_refused("\x89PNG\r\n\x1a\n", 8, 2, "not an ONNX model");
    expect_bytes_refused(file.data, file.n - 3, 2, "not an ONNX model");
    /* Whatever is cut off or changed, nothing crashes. */
    for (size_t n = 0; n < file.n; n++) {
        bytes broken = file;
        broken.data[n] ^= 0x55;
        cleave_model any;
        cleave_error error = {""};
        cleave_model_import_as(
            &(cleave_import_request){
                .file = "hand", .data = file.data, .bytes = n, .batch = 2, .with_loss = true},
            &arena, &any, &error);
        cleave_model_import_as(&(cleave_import_request){.file = "hand",
                                                        .data = broken.data,
                                                        .bytes = file.n,
                                                        .batch = 2,
                                                        .with_loss = true},
                               &arena, &any, &error);
    }
}

Test(import_refused, messages_nested_without_end_are_refused) {
    /* An attribute that holds a graph (6) whose node (1) has an attribute (5), and so on. */
    bytes inner = {.n = 0};
    for (int i = 0; i < 50; i++) {
        static const unsigned fields[] = {5, 1, 6};
        bytes outer = {.n = 0};
        put_message(&outer, fields[i % 3], &inner);
        inner = outer;
    }
    bytes graph = {.n = 0}, attribute = {.n = 0}, holder = {.n = 0};
    put_message(&attribute, 6, &inner);
    put_message(&holder, 5, &attribute);
    put_message(&graph, 1, &holder);
    expect_refused(&graph, 13, 2, "not an ONNX model");
}

Test(import_refused, a_shape_that_depends_on_data_is_said_to) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 3");
    graph_output(&graph, "y");
    node(&graph, "NonZero", "found", "x", "y", NULL);
    expect_refused(&graph, 13, 2,
                   "node found (NonZero): its inputs are not constants: the shape of what it gives "
                   "would depend on data");
}

Test(import_refused, an_operator_that_is_not_supported_is_named) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 3");
    graph_output(&graph, "y");
    node(&graph, "Loop", "cell", "x", "y", NULL);
    expect_refused(
        &graph, 13, 2,
        "hand: node cell (Loop): operator Loop is not supported; `cleave show operators` lists "
        "those that are");
}

Test(import_refused, an_attribute_that_is_not_supported_is_named) {
    bytes graph = {.n = 0}, attributes = {.n = 0};
    graph_input(&graph, "x", "batch 3");
    graph_output(&graph, "y");
    attribute_integer(&attributes, "twist", 1);
    node(&graph, "Relu", "relu", "x", "y", &attributes);
    expect_refused(&graph, 13, 2, "hand: node relu (Relu): attribute twist is not supported");
}

Test(import_refused, a_cycle_is_refused) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 3");
    graph_output(&graph, "b");
    node(&graph, "Add", "one", "x b", "a", NULL);
    node(&graph, "Relu", "two", "a", "b", NULL);
    expect_refused(&graph, 13, 2, "hand: node one (Add): lies on a cycle");
}

Test(import_refused, what_is_not_defined_or_defined_twice_is_refused) {
    bytes graph = {.n = 0};
    graph_output(&graph, "y");
    node(&graph, "Relu", "relu", "nowhere", "y", NULL);
    expect_refused(&graph, 13, 2, "hand: node relu (Relu): input nowhere is not defined");
    graph = relu_graph("batch 3");
    node(&graph, "Tanh", "again", "x", "y", NULL);
    expect_refused(&graph, 13, 2, "hand: node again (Tanh): y is defined twice");
}

Test(import_refused, a_tensor_of_2_to_the_62_is_refused) {
    bytes graph = relu_graph("batch 4611686018427387904");
    expect_refused(&graph, 13, 2, "hand: node relu (Relu): x has more than 2^46 elements");
    graph = relu_graph("batch 4294967296 4294967296");
    expect_refused(&graph, 13, 2, "x has more than 2^46 elements");
    graph = relu_graph("batch 3");
    initializer(&graph, "big", 1, (int64_t[]){INT64_C(1) << 62}, 1, "", 0);
    expect_refused(&graph, 13, 2, "dimension 0 of big is 4611686018427387904");
}

Test(import_refused, data_that_does_not_fill_its_shape_is_refused) {
    bytes graph = relu_graph("batch 3");
    initializer(&graph, "w", 1, (int64_t[]){3}, 1, (float[]){1, 2}, 8);
    expect_refused(&graph, 13, 2, "w has 3 elements by its dimensions, but 2 in its data");
}

Test(import_refused, the_batch_has_to_be_said_where_it_is_symbolic_and_only_there) {
    bytes graph = relu_graph("batch 3");
    expect_refused(&graph, 13, 0,
                   "the batch dimension (batch) is symbolic: a batch size is needed (--batch N)");
    expect_refused(&graph, 13, -5, "a batch of -5 is not possible");
    graph = relu_graph("batch time");
    expect_refused(&graph, 13, 2, "dimension 1 of graph input x is symbolic (time)");
    graph = relu_graph("4 3");
    initializer(&graph, "w", 1, (int64_t[]){1}, 1, (float[]){1}, 4);
    expect_refused(&graph, 13, 2, "x has a fixed batch of 4, not 2");
}

Test(import_refused, operator_sets_out_of_range_are_refused) {
    bytes graph = relu_graph("batch 3");
    expect_refused(&graph, 25, 2, "uses ONNX operator set 25, supported are 1 to 24");
}

Test(import_refused, operators_that_meant_something_else_in_old_sets_are_refused_there) {
    bytes graph = {.n = 0}, attributes = {.n = 0};
    graph_input(&graph, "x", "batch 3");
    graph_output(&graph, "y");
    node(&graph, "BatchNormalization", "op", "x x x x x", "y", NULL);
    expect_refused(&graph, 6, 2, "is of operator set 6, supported is this operator from 7 on");
    attribute_integers(&attributes, "consumed_inputs", 1, (int64_t[]){0});
    one_node("Relu", "1 3", &attributes, 5); /* a hint without a meaning */
    graph.n = 0;
    graph_input(&graph, "x", "batch 3");
    graph_output(&graph, "y");
    node(&graph, "Relu", "op", "x", "y", &attributes);
    expect_refused(&graph, 6, 2, "attribute consumed_inputs is not supported");
}

Test(import_refused, shapes_that_do_not_fit_are_refused) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 3");
    graph_input(&graph, "w", "4 2");
    graph_output(&graph, "y");
    node(&graph, "MatMul", "op", "x w", "y", NULL);
    expect_refused(&graph, 13, 2, "node op (MatMul): sums over 3 on one side and 4 on the other");
    bytes pool = {.n = 0}, attributes = {.n = 0};
    graph_input(&pool, "x", "batch 1 3");
    graph_output(&pool, "y");
    attribute_integers(&attributes, "kernel_shape", 1, (int64_t[]){5});
    node(&pool, "MaxPool", "op", "x", "y", &attributes);
    expect_refused(&pool, 13, 2, "a window of 5 does not fit the 3 positions of dimension 2");
}

Test(import_refused, samples_between_pixels_are_linear_or_nearest) {
    bytes graph = {.n = 0}, attributes = {.n = 0};
    graph_input(&graph, "x", "batch 1 3 3");
    graph_input(&graph, "places", "batch 2 2 2");
    graph_output(&graph, "y");
    attribute_text(&attributes, "mode", "bicubic");
    node(&graph, "GridSample", "op", "x places", "y", &attributes);
    expect_refused(&graph, 16, 2,
                   "node op (GridSample): attribute mode is bicubic, which is not supported");
    bytes places = {.n = 0};
    graph_input(&places, "x", "batch 1 3 3");
    graph_input(&places, "places", "batch 2 2 3");
    graph_output(&places, "y");
    node(&places, "GridSample", "op", "x places", "y", NULL);
    expect_refused(&places, 16, 2, "its grid has 2 samples of 3 places, its image 2 of 2");
}

Test(import_refused, views_without_end_are_refused) {
    /* Concat(x, x) thirteen times would have 2^13 pieces. */
    bytes graph = {.n = 0}, axis = {.n = 0};
    char inputs[32], output[16];
    graph_input(&graph, "t0", "batch 1");
    graph_output(&graph, "t13");
    attribute_integer(&axis, "axis", 1);
    for (int i = 0; i < 13; i++) {
        snprintf(inputs, sizeof inputs, "t%d t%d", i, i);
        snprintf(output, sizeof output, "t%d", i + 1);
        node(&graph, "Concat", output, inputs, output, &axis);
    }
    expect_refused(&graph, 13, 1, "over 8192 pieces");
}
