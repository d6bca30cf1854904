/* Normalisations: what the importer makes of them, by hand. */
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
