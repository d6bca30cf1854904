/* Normalisations, softmax among them: what the importer makes of them, by hand. */
#include "imported.h"

TestSuite(import_normalize, .fini = tear_down);

/* Rows 1 2 3 and 4 5 6 have variance 2/3; with epsilon 1/3 they become -1 0 1. */
Test(import_normalize, layer_normalisation_scales_and_shifts_by_element) {
    bytes graph = {.n = 0}, attributes = {.n = 0};
    graph_input(&graph, "x", "batch 3");
    graph_output(&graph, "y");
    initializer(&graph, "scale", 1, (int64_t[]){3}, 1, (float[]){1, 2, 3}, 12);
    initializer(&graph, "bias", 1, (int64_t[]){3}, 1, (float[]){10, 20, 30}, 12);
    attribute_float(&attributes, "epsilon", 1.0f / 3);
    node(&graph, "LayerNormalization", "norm", "x scale bias", "y", &attributes);
    import(&graph, 17, 2, false);
    expect_values("y", 6, (double[]){9, 20, 33, 9, 20, 33});
    expect_axes("norm", "n=2 c=3");
}

/* Over both dimensions: 1 .. 4 have mean 2.5 and variance 1.25. */
Test(import_normalize, layer_normalisation_begins_at_its_axis) {
    bytes graph = {.n = 0}, attributes = {.n = 0};
    double s = 1 / sqrt(1.25 + 0.75);
    graph_input(&graph, "x", "batch 2 2");
    graph_output(&graph, "y");
    initializer(&graph, "scale", 2, (int64_t[]){2, 2}, 1, (float[]){1, 1, 1, 2}, 16);
    attribute_float(&attributes, "epsilon", 0.75f);
    attribute_integer(&attributes, "axis", -2);
    node(&graph, "LayerNormalization", "norm", "x scale", "y", &attributes);
    import(&graph, 17, 1, false);
    expect_values("y", 4, (double[]){-1.5 * s, -0.5 * s, 0.5 * s, 3 * s});
}

/* Rows 1 2 3 and 4 5 6 again: means 2 and 5; with epsilon 10/3 the variance 2/3 becomes 4. */
Test(import_normalize, layer_normalisation_gives_its_statistics) {
    bytes graph = {.n = 0}, attributes = {.n = 0};
    graph_input(&graph, "x", "batch 3");
    graph_output(&graph, "y");
    graph_output(&graph, "mean");
    graph_output(&graph, "inverse");
    initializer(&graph, "scale", 1, (int64_t[]){3}, 1, (float[]){1, 1, 2}, 12);
    attribute_float(&attributes, "epsilon", 10.0f / 3);
    node(&graph, "LayerNormalization", "norm", "x scale", "y mean inverse", &attributes);
    import(&graph, 17, 2, false);
    expect_shape("mean", 2, (int64_t[]){2, 1});
    expect_values("mean", 2, (double[]){2, 5});
    expect_values("inverse", 2, (double[]){0.5, 0.5});
    expect_values("y", 6, (double[]){-0.5, 0, 1, -0.5, 0, 1});
}

/* y = type(x, scale, bias), with scale 1 2 3 ... and bias 10 20 30 ... of n elements. */
static bytes affine_graph(const char *type, const char *x, int n, const bytes *attributes) {
    static const float scale[] = {1, 2, 3, 4}, bias[] = {10, 20, 30, 40};
    bytes graph = {.n = 0};
    graph_input(&graph, "x", x);
    graph_output(&graph, "y");
    initializer(&graph, "scale", 1, (int64_t[]){n}, 1, scale, (size_t)n * sizeof *scale);
    initializer(&graph, "bias", 1, (int64_t[]){n}, 1, bias, (size_t)n * sizeof *bias);
    node(&graph, type, "norm", "x scale bias", "y", attributes);
    return graph;
}

/* Pairs of neighbours have variance 1/4; with epsilon 3/4 they become -1/2 and 1/2. */
Test(import_normalize, instance_normalisation_is_by_sample_and_channel) {
    bytes attributes = {.n = 0};
    attribute_float(&attributes, "epsilon", 0.75f);
    bytes graph = affine_graph("InstanceNormalization", "batch 2 2", 2, &attributes);
    import(&graph, 13, 1, false);
    expect_values("y", 4, (double[]){9.5, 10.5, 19, 21});
    expect_axes("norm", "n=1 c=2 w=2");
}

Test(import_normalize, group_normalisation_scales_groups_at_first_and_channels_since) {
    bytes attributes = {.n = 0};
    attribute_float(&attributes, "epsilon", 0.75f);
    attribute_integer(&attributes, "num_groups", 2);
    bytes graph = affine_graph("GroupNormalization", "batch 4 1", 2, &attributes);
    import(&graph, 18, 1, false);
    expect_values("y", 4, (double[]){9.5, 10.5, 19, 21});
    expect_axes("norm", "n=1 g=2 c=2! w=1");
    bytes later = affine_graph("GroupNormalization", "batch 4 1", 4, &attributes);
    import(&later, 21, 1, false);
    expect_values("y", 4, (double[]){9.5, 21, 28.5, 42});
    expect_refused(&graph, 21, 1, "input scale is not of 4 elements");
}

Test(import_normalize, an_activation_after_group_normalisation_is_a_nest_of_its_own) {
    bytes graph = {.n = 0}, attributes = {.n = 0};
    attribute_float(&attributes, "epsilon", 0.75f);
    attribute_integer(&attributes, "num_groups", 2);
    graph_input(&graph, "x", "batch 4 1");
    graph_output(&graph, "y");
    initializer(&graph, "scale", 1, (int64_t[]){2}, 1, (float[]){1, 1}, 8);
    initializer(&graph, "bias", 1, (int64_t[]){2}, 1, (float[]){0, 0}, 8);
    initializer(&graph, "shift", 3, (int64_t[]){1, 4, 1}, 1, (float[]){1, 2, 3, 4}, 16);
    node(&graph, "GroupNormalization", "norm", "x scale bias", "z", &attributes);
    node(&graph, "Add", "add", "z shift", "a", NULL);
    node(&graph, "Relu", "relu", "a", "y", NULL);
    import(&graph, 18, 1, false);
    cr_expect_eq(model.n_operators, 1);
    expect_values("y", 4, (double[]){0.5, 2.5, 2.5, 4.5});
}

Test(import_normalize, mean_and_variance_go_over_the_axes_named) {
    bytes attributes = {.n = 0};
    attribute_integers(&attributes, "axes", 1, (int64_t[]){-1});
    one_node("MeanVarianceNormalization", "batch 2 2", &attributes, 13);
    expect_values("y", 4, (double[]){-1, 1, -1, 1});
    one_node("MeanVarianceNormalization", "batch 2 1 2", NULL, 13);
    expect_values("y", 4, (double[]){-1, 1, -1, 1});
}

Test(import_normalize, norms_are_of_absolute_values_or_squares) {
    bytes attributes = {.n = 0};
    one_node("LpNormalization", "batch 2", NULL, 13);
    expect_values("y", 2, (double[]){1 / sqrt(5), 2 / sqrt(5)});
    attribute_integer(&attributes, "p", 1);
    one_node("LpNormalization", "batch 2", &attributes, 13);
    expect_values("y", 2, (double[]){1. / 3, 2. / 3});
    bytes graph = {.n = 0}, cubes = {.n = 0};
    attribute_integer(&cubes, "p", 3);
    graph_input(&graph, "x", "batch 2");
    graph_output(&graph, "y");
    node(&graph, "LpNormalization", "norm", "x", "y", &cubes);
    expect_refused(&graph, 13, 1, "attribute p is 3, supported are 1 and 2");
}

/* Squares 1 4 9; an even window has one neighbour more behind. */
Test(import_normalize, local_responses_are_summed_over_a_window_of_channels) {
    for (int size = 2; size <= 3; size++) {
        bytes attributes = {.n = 0};
        attribute_float(&attributes, "alpha", 6);
        attribute_float(&attributes, "beta", 1);
        attribute_integer(&attributes, "size", size);
        one_node("LRN", "batch 3 1", &attributes, 13);
        if (size == 3)
            expect_values("y", 3, (double[]){1. / 11, 2. / 29, 3. / 27});
        else
            expect_values("y", 3, (double[]){1. / 16, 2. / 40, 3. / 28});
    }
}

Test(import_normalize, inference_normalisation_uses_the_running_statistics) {
    /* (x - mean) / sqrt(variance + epsilon) x scale + bias; mean 0, variance 1, epsilon 3. */
    bytes graph = {.n = 0}, attributes = {.n = 0};
    graph_input(&graph, "x", "batch 1 2");
    graph_output(&graph, "y");
    const char *const names[] = {"scale", "bias", "mean", "variance"};
    for (int i = 0; i < 4; i++)
        initializer(&graph, names[i], 1, (int64_t[]){1}, 1, (float[]){(float[]){4, 1, 0, 1}[i]}, 4);
    attribute_float(&attributes, "epsilon", 3);
    node(&graph, "BatchNormalization", "op", "x scale bias mean variance", "y", &attributes);
    import(&graph, 15, 1, false);
    cr_expect_eq(find_operator("op")->n_nests, 1);
    expect_values("y", 2, (double[]){3, 5});
}

Test(import_normalize, training_normalisation_updates_by_the_population_variance) {
    /* x = 1 2 3 4: mean 2.5, variance 1.25; running mean 0 and variance 1, momentum 0.5. */
    bytes graph = {.n = 0}, attributes = {.n = 0};
    graph_input(&graph, "x", "batch 1 2");
    graph_output(&graph, "y");
    const char *const names[] = {"scale", "bias", "mean", "variance"};
    for (int i = 0; i < 4; i++)
        initializer(&graph, names[i], 1, (int64_t[]){1}, 1, (float[]){(float[]){1, 0, 0, 1}[i]}, 4);
    attribute_float(&attributes, "momentum", 0.5f);
    attribute_float(&attributes, "epsilon", 0);
    attribute_integer(&attributes, "training_mode", 1);
    node(&graph, "BatchNormalization", "op", "x scale bias mean variance", "y m v", &attributes);
    import(&graph, 15, 2, false);
    double s = sqrt(1.25);
    expect_values("y", 4, (double[]){-1.5 / s, -0.5 / s, 0.5 / s, 1.5 / s});
    expect_values("m", 1, (double[]){0.5 * 2.5});
    expect_values("v", 1, (double[]){0.5 * 1 + 0.5 * 1.25});
    cr_expect_eq(model.n_assignments, 2);
}

Test(import_normalize, softmax_reduces_one_axis_or_everything_behind_it_by_operator_set) {
    /* x = 1 .. 4 as [1, 2, 2].  From set 13 on, over the last axis: 1 / (1 + e), e / (1 + e).
       Before, axis 1 began a row of all four. */
    double e = exp(1), row = 1 + e + e * e + e * e * e;
    bytes attributes = {.n = 0};
    one_node("Softmax", "batch 2 2", NULL, 13);
    expect_values("y", 4, (double[]){1 / (1 + e), e / (1 + e), 1 / (1 + e), e / (1 + e)});
    one_node("Softmax", "batch 2 2", NULL, 12);
    expect_values("y", 4, (double[]){1 / row, e / row, e * e / row, e * e * e / row});
    attribute_integer(&attributes, "axis", 1);
    one_node("Softmax", "batch 2 2", &attributes, 13);
    double f = 1 + e * e;
    expect_values("y", 4, (double[]){1 / f, 1 / f, e * e / f, e * e / f});
    cr_expect_eq(find_operator("op")->n_nests, 3);
    cr_expect_not(find_operator("op")->axes[1].whole);
}
