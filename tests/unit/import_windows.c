/* Transposed convolutions, resizing and pools: what the importer makes of them, by hand. */
#include "imported.h"

TestSuite(import_windows, .fini = tear_down);

/* y = ConvTranspose(x, 1 2 3 ...) of one dimension, with a batch of 1. */
static void transpose_convolution(const char *x, const int64_t *weight, const bytes *attributes) {
    static const float ones[] = {1, 2, 3, 4, 5, 6};
    bytes graph = {.n = 0};
    graph_input(&graph, "x", x);
    graph_output(&graph, "y");
    initializer(&graph, "w", 3, weight, 1, ones,
                (size_t)(weight[0] * weight[1] * weight[2]) * sizeof *ones);
    node(&graph, "ConvTranspose", "up", "x w", "y", attributes);
    import(&graph, 13, 1, false);
}

/* x = 1 2 3 and w = 1 2 3: x[i] w[r] is added to y[2 i + r]. */
Test(import_windows, a_transposed_convolution_adds_what_overlaps) {
    bytes attributes = {.n = 0};
    attribute_integers(&attributes, "strides", 1, (int64_t[]){2});
    transpose_convolution("batch 1 3", (int64_t[]){1, 1, 3}, &attributes);
    expect_values("y", 7, (double[]){1, 2, 3 + 2, 4, 6 + 3, 6, 9});
    expect_axes("up", "n=1 k=1 w=4 c=1");
    attribute_integers(&attributes, "pads", 2, (int64_t[]){1, 1});
    transpose_convolution("batch 1 3", (int64_t[]){1, 1, 3}, &attributes);
    expect_values("y", 5, (double[]){2, 5, 4, 9, 6});
    attribute_integers(&attributes, "output_padding", 1, (int64_t[]){1});
    transpose_convolution("batch 1 3", (int64_t[]){1, 1, 3}, &attributes);
    expect_values("y", 6, (double[]){2, 5, 4, 9, 6, 9});
}

Test(import_windows, a_transposed_convolution_without_strides_has_its_taps_reversed) {
    bytes attributes = {.n = 0};
    attribute_integers(&attributes, "dilations", 1, (int64_t[]){2});
    transpose_convolution("batch 1 3", (int64_t[]){1, 1, 2}, &attributes);
    /* 1 2 3 0 0 + 2 (0 0 1 2 3) */
    expect_values("y", 5, (double[]){1, 2, 5, 4, 6});
    cr_expect_eq(model.n_nests, 1);
}

Test(import_windows, transposed_windows_that_touch_are_one_product) {
    bytes attributes = {.n = 0};
    attribute_integers(&attributes, "strides", 1, (int64_t[]){2});
    attribute_integer(&attributes, "group", 2);
    transpose_convolution("batch 2 2", (int64_t[]){2, 1, 2}, &attributes);
    /* channel 0: 1 2 by 1 2; channel 1: 3 4 by 3 4 */
    expect_values("y", 8, (double[]){1, 2, 2, 4, 9, 12, 12, 16});
    cr_expect_eq(model.n_nests, 1);
    cr_expect_eq(model.nests[0].kind, CLEAVE_NEST_PRODUCT);
}

Test(import_windows, what_no_tap_of_a_transposed_convolution_reaches_is_zero) {
    bytes attributes = {.n = 0};
    attribute_integers(&attributes, "strides", 1, (int64_t[]){3});
    attribute_integers(&attributes, "output_shape", 1, (int64_t[]){8});
    transpose_convolution("batch 1 3", (int64_t[]){1, 1, 2}, &attributes);
    expect_values("y", 8, (double[]){1, 2, 0, 2, 4, 0, 3, 6});
}

Test(import_windows, an_output_shape_or_same_padding_decides_the_padding) {
    bytes attributes = {.n = 0};
    attribute_integers(&attributes, "strides", 1, (int64_t[]){2});
    attribute_text(&attributes, "auto_pad", "SAME_UPPER");
    transpose_convolution("batch 1 3", (int64_t[]){1, 1, 3}, &attributes);
    /* 7 positions, 6 are wanted: the odd one is cut off at the end. */
    expect_values("y", 6, (double[]){1, 2, 5, 4, 9, 6});
    attribute_integers(&attributes, "output_shape", 1, (int64_t[]){5});
    transpose_convolution("batch 1 3", (int64_t[]){1, 1, 3}, &attributes);
    expect_values("y", 5, (double[]){2, 5, 4, 9, 6});
}

Test(import_windows, a_transposed_convolution_that_does_not_fit_is_refused) {
    bytes graph = {.n = 0}, attributes = {.n = 0};
    graph_input(&graph, "x", "batch 3 3");
    graph_output(&graph, "y");
    initializer(&graph, "w", 3, (int64_t[]){2, 1, 1}, 1, (float[]){1, 2}, 8);
    node(&graph, "ConvTranspose", "up", "x w", "y", &attributes);
    expect_refused(&graph, 13, 1, "3 channels in 1 groups do not fit a weight of 2 x 1");
}
