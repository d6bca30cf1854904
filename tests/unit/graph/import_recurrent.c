/* LSTM, GRU and RNN: the operators that they become, and what is refused.  Their numbers are
   checked by ONNX's own tests, by the oracles and by tests/property/recurrences_learn.c. */
#include "imported.h"

TestSuite(import_recurrent, .fini = tear_down);

/* Three steps of two samples with five features; four hidden units. */
static bytes lstm_graph(const char *inputs, const bytes *attributes, int64_t directions) {
    static float zeros[512];
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "3 2 5");
    graph_input(&graph, "lengths_given", "2");
    graph_output(&graph, "y");
    initializer(&graph, "w", 3, (int64_t[]){directions, 16, 5}, 1, zeros, (size_t)directions * 320);
    initializer(&graph, "r", 3, (int64_t[]){directions, 16, 4}, 1, zeros, (size_t)directions * 256);
    initializer(&graph, "b", 2, (int64_t[]){directions, 32}, 1, zeros, (size_t)directions * 128);
    initializer(&graph, "short", 1, (int64_t[]){2}, 7, (int64_t[]){3, 2}, 16);
    initializer(&graph, "full", 1, (int64_t[]){2}, 7, (int64_t[]){3, 3}, 16);
    node(&graph, "LSTM", "lstm", inputs, "y", attributes);
    return graph;
}

Test(import_recurrent, lstm_is_a_product_of_all_inputs_and_a_cell_for_each_step) {
    bytes graph = lstm_graph("x w r b full", NULL, 1);
    import(&graph, 14, 0, false);
    cr_assert_eq(model.n_operators, 4);
    expect_axes("lstm", "t=3 n=2 k=4 c=5");
    expect_roles("lstm", "attribute sample parameter reduction");
    /* Nothing comes before the first step: no product. */
    expect_axes("lstm@t=0", "n=2 k=4");
    expect_axes("lstm@t=1", "n=2 k=4 c=4!");
    expect_axes("lstm@t=2", "n=2 k=4 c=4!");
    expect_roles("lstm@t=2", "sample parameter reduction");
    cr_expect_str_eq(find_operator("lstm")->type, "LSTM");
    cr_expect_str_eq(find_operator("lstm@t=2")->type, "LSTM cell");
    expect_shape("y", 4, (int64_t[]){3, 1, 2, 4});
    expect_shape("lstm@t=2", 2, (int64_t[]){2, 4});
    cr_expect_eq(find_tensor("r")->fan_in, 4);
    cr_expect_eq(find_tensor("b")->fan_in, 4);
}

Test(import_recurrent, the_other_direction_has_names_of_its_own) {
    bytes attributes = {.n = 0};
    attribute_text(&attributes, "direction", "bidirectional");
    bytes graph = lstm_graph("x w r b", &attributes, 2);
    import(&graph, 14, 0, false);
    cr_assert_eq(model.n_operators, 8);
    expect_axes("lstm/reverse", "t=3 n=2 k=4 c=5");
    /* It comes from the end. */
    expect_axes("lstm/reverse@t=2", "n=2 k=4");
    expect_axes("lstm/reverse@t=0", "n=2 k=4 c=4!");
    expect_shape("y", 4, (int64_t[]){3, 2, 2, 4});
}

/* Stored as one box for each share of the hidden units; files keep what they have. */
Test(import_recurrent, gates_are_a_dimension_of_the_parameters) {
    bytes graph = lstm_graph("x w r b", NULL, 1);
    import(&graph, 14, 0, false);
    expect_shape("w", 4, (int64_t[]){1, 4, 4, 5});
    expect_shape("r", 4, (int64_t[]){1, 4, 4, 4});
    expect_shape("b", 3, (int64_t[]){2, 4, 4}); /* of the inputs, of the state */
    const cleave_tensor *w = find_tensor("w"), *b = find_tensor("b");
    cr_assert_eq(w->file_rank, 3);
    cr_expect(w->file_shape[0] == 1 && w->file_shape[1] == 16 && w->file_shape[2] == 5);
    cr_assert_eq(b->file_rank, 2);
    cr_expect(b->file_shape[0] == 1 && b->file_shape[1] == 32);
}

/* PyTorch has another order of gates, and ONNX's is put together of slices: cells see through. */
Test(import_recurrent, parameters_behind_slices_are_read_as_they_lie) {
    read_model("configs/models/rnnlm.onnx", 4, true);
    expect_shape("lstm.weight_ih_l0", 4, (int64_t[]){1, 4, 2048, 2048});
    expect_shape("lstm.bias_hh_l1", 3, (int64_t[]){1, 4, 2048});
    for (int32_t t = 0; t < model.n_tensors; t++)
        for (int32_t s = 0; s < model.tensors[t].view.n_sources; s++)
            cr_expect(!cleave_tensor_sees_parameter(&model, model.tensors[t].view.sources[s]),
                      "%s is a view of a parameter", model.tensors[t].name);
}

/* Both see them with the gates as a dimension. */
Test(import_recurrent, weights_that_two_nodes_read_are_stored_as_these_see_them) {
    bytes graph = lstm_graph("x w r b", NULL, 1);
    graph_output(&graph, "z");
    node(&graph, "LSTM", "other", "x w r b", "z", NULL);
    import(&graph, 14, 0, false);
    expect_shape("w", 4, (int64_t[]){1, 4, 4, 5});
    cr_expect_eq(find_tensor("w")->file_rank, 3);
    cr_assert_eq(model.n_operators, 8);
}

/* All weights of an LSTM in PyTorch start within 1 / sqrt(hidden units), whatever views cut them.
 */
Test(import_recurrent, parameters_behind_views_start_by_the_hidden_units) {
    read_model("configs/models/rnnlm.onnx", 4, true);
    cr_expect_eq(find_tensor("lstm.weight_ih_l0")->fan_in, 2048);
    cr_expect_eq(find_tensor("lstm.weight_hh_l1")->fan_in, 2048);
    cr_expect_eq(find_tensor("lstm.bias_hh_l1")->fan_in, 2048);
    cr_expect_eq(model.n_operators, 2 * 41 + 3); /* the embedding, the decoder and the loss */
}

static void expect_attribute_refused(void (*put)(bytes *attributes), const char *message) {
    bytes attributes = {.n = 0};
    put(&attributes);
    bytes graph = lstm_graph("x w r b", &attributes, 1);
    expect_refused(&graph, 14, 0, message);
}

static void put_clip(bytes *a) { attribute_float(a, "clip", 3); }
static void put_coupled(bytes *a) { attribute_integer(a, "input_forget", 1); }
static void put_direction(bytes *a) { attribute_text(a, "direction", "sideways"); }
static void put_hidden(bytes *a) { attribute_integer(a, "hidden_size", 5); }
static void put_unknown(bytes *a) { attribute_texts(a, "activations", "Sigmoid Sine Tanh"); }
static void put_few(bytes *a) { attribute_texts(a, "activations", "Sigmoid Tanh"); }
static void put_affine(bytes *a) { attribute_texts(a, "activations", "Sigmoid Affine Tanh"); }
static void put_alpha(bytes *a) { attribute_floats(a, "activation_alpha", 1, (float[]){0.1f}); }

Test(import_recurrent, what_is_not_handled_is_refused) {
    expect_attribute_refused(put_clip, "attribute clip is not supported");
    expect_attribute_refused(put_coupled, "attribute input_forget is 1, supported is 0");
    expect_attribute_refused(put_direction, "attribute direction is sideways");
    expect_attribute_refused(put_hidden, "attribute hidden_size is 5, but input r has 4");
    expect_attribute_refused(put_unknown, "activation Sine is not supported");
    expect_attribute_refused(put_few, "activations is not a list of 3 strings");
    expect_attribute_refused(put_affine, "Affine needs a value in attribute activation_alpha");
    expect_attribute_refused(put_alpha, "activation_alpha has 1 values, its activations take 0");
}

Test(import_recurrent, sequences_that_are_shorter_are_refused) {
    bytes graph = lstm_graph("x w r b short", NULL, 1);
    expect_refused(&graph, 14, 0, "all its 2 lengths are 3");
    graph = lstm_graph("x w r b lengths_given", NULL, 1);
    expect_refused(&graph, 14, 0, "sequence_lens (input lengths_given) is supported where");
}

Test(import_recurrent, weights_of_other_shapes_are_refused) {
    bytes graph = lstm_graph("x r r b", NULL, 1);
    expect_refused(&graph, 14, 0, "input r is not f32 of shape 1 x 16 x 5");
    graph = lstm_graph("x w r r", NULL, 1);
    expect_refused(&graph, 14, 0, "input r is not f32 of shape 1 x 32");
}

/* An operator for each step, and views of all of them: not without end. */
Test(import_recurrent, sequences_of_very_many_steps_are_refused) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "5000 2 5");
    graph_output(&graph, "y");
    initializer(&graph, "w", 3, (int64_t[]){1, 1, 5}, 1, (float[5]){0}, 20);
    initializer(&graph, "r", 3, (int64_t[]){1, 1, 1}, 1, (float[1]){0}, 4);
    node(&graph, "RNN", "rnn", "x w r", "y", NULL);
    expect_refused(&graph, 14, 0, "has 5000 steps, at most 4096 are supported");
}
