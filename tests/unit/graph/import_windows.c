/* Convolutions, resizing and pools: what the importer makes of them, by hand. */
#include "imported.h"

TestSuite(import_windows, .fini = tear_down);

/* ---- convolutions ---------------------------------------------------------------------------- */

Test(import_windows, a_grouped_convolution_has_an_axis_of_groups) {
    /* 4 channels in 2 groups of 2, 2 outputs a group, windows of 1 x 1, weights 1 .. 8:
       output g k = weight[2g + k] . x[2g .. 2g + 1], x = 1 2 3 4. */
    bytes graph = {.n = 0}, attributes = {.n = 0};
    graph_input(&graph, "x", "batch 4 1 1");
    graph_input(&graph, "w", "4 2 1 1");
    graph_output(&graph, "y");
    attribute_integer(&attributes, "group", 2);
    node(&graph, "Conv", "op", "x w", "y", &attributes);
    import(&graph, 13, 1, false);
    expect_axes("op", "n=1 g=2 k=2! h=1 w=1 c=2! r=1! s=1!");
    expect_shape("w", 5, (int64_t[]){2, 2, 2, 1, 1});
    cr_expect_eq(find_tensor("w")->fan_in, 2);
    expect_values("y", 4, (double[]){1 * 1 + 2 * 2, 3 * 1 + 4 * 2, 5 * 3 + 6 * 4, 7 * 3 + 8 * 4});
}

Test(import_windows, a_convolution_strides_dilates_and_pads) {
    /* x = 1 .. 5, weight 1 2, stride 2, dilation 2, one zero in front: positions -1 and 1, 1 and 3
       of x (counted from 0): 0 + 2 * 2, 2 + 2 * 4. */
    bytes graph = {.n = 0}, attributes = {.n = 0};
    graph_input(&graph, "x", "batch 1 5");
    graph_input(&graph, "w", "1 1 2");
    graph_output(&graph, "y");
    attribute_integers(&attributes, "strides", 1, (int64_t[]){2});
    attribute_integers(&attributes, "dilations", 1, (int64_t[]){2});
    attribute_integers(&attributes, "pads", 2, (int64_t[]){1, 0});
    node(&graph, "Conv", "op", "x w", "y", &attributes);
    import(&graph, 13, 1, false);
    expect_axes("op", "n=1 k=1 w=2 c=1 s=2!");
    expect_values("y", 2, (double[]){4, 10});
}

Test(import_windows, same_padding_puts_the_odd_element_behind_or_in_front) {
    /* x = 1 2 3, weight 1 2: SAME_UPPER pads behind, SAME_LOWER in front. */
    for (int lower = 0; lower < 2; lower++) {
        bytes graph = {.n = 0}, attributes = {.n = 0};
        graph_input(&graph, "x", "batch 1 3");
        graph_input(&graph, "w", "1 1 2");
        graph_output(&graph, "y");
        attribute_text(&attributes, "auto_pad", lower ? "SAME_LOWER" : "SAME_UPPER");
        node(&graph, "Conv", "op", "x w", "y", &attributes);
        import(&graph, 13, 1, false);
        expect_values("y", 3, lower ? (double[]){2, 5, 8} : (double[]){5, 8, 3});
    }
}

/* ---- transposed convolutions ----------------------------------------------------------------- */

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

/* ---- resizing -------------------------------------------------------------------------------- */

/* y = Resize(x) of the last of three dimensions, by a scale or, where that is 0, to a size. */
static bytes resize_graph(const char *x, float scale, int64_t size, const bytes *attributes) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", x);
    graph_output(&graph, "y");
    initializer(&graph, "scales", 1, (int64_t[]){3}, 1, (float[]){1, 1, scale}, 12);
    integers(&graph, "sizes", 3, (int64_t[]){1, 1, size});
    node(&graph, "Resize", "resize", scale > 0 ? "x - scales" : "x - - sizes", "y", attributes);
    return graph;
}

Test(import_windows, nearest_upscaling_repeats) {
    bytes graph = resize_graph("batch 1 3", 2, 0, NULL);
    import(&graph, 13, 1, false);
    expect_values("y", 6, (double[]){1, 1, 2, 2, 3, 3});
    expect_axes("resize", "n=1 c=1 w=3");
    cr_expect_eq(model.nests[0].kind, CLEAVE_NEST_POINTWISE);
}

Test(import_windows, nearest_downscaling_by_a_whole_number_is_a_slice) {
    /* (o + 1/2) 2 - 1/2 = 1/2, 5/2: halves go down, to elements 0 and 2 */
    bytes graph = resize_graph("batch 1 4", 0.5f, 0, NULL);
    import(&graph, 13, 1, false);
    expect_values("y", 2, (double[]){1, 3});
    /* What is left is the copy that makes a view of the input an output. */
    cr_assert_eq(model.n_nests, 1);
    cr_expect_eq(model.nests[0].combiner, CLEAVE_COMBINE_NONE);
    cr_expect_eq(model.tensors[model.nests[0].inputs[0].tensor].view.kind, CLEAVE_VIEW_SLICE);
}

Test(import_windows, nearest_resizing_rounds_as_it_is_told) {
    /* elements at 0, 0.6, 1.2, 1.8, 2.4 */
    bytes attributes = {.n = 0};
    attribute_text(&attributes, "coordinate_transformation_mode", "asymmetric");
    bytes rounded = resize_graph("batch 1 3", 0, 5, &attributes);
    import(&rounded, 13, 1, false);
    expect_values("y", 5, (double[]){1, 2, 2, 3, 3});
    attribute_text(&attributes, "nearest_mode", "floor");
    bytes down = resize_graph("batch 1 3", 0, 5, &attributes);
    import(&down, 13, 1, false);
    expect_values("y", 5, (double[]){1, 1, 2, 2, 3});
}

Test(import_windows, linear_resizing_weighs_neighbours) {
    /* half pixels: -1/4, 1/4, 3/4, 5/4, 7/4, 9/4; beyond the ends they are repeated */
    bytes attributes = {.n = 0};
    attribute_text(&attributes, "mode", "linear");
    bytes graph = resize_graph("batch 1 3", 2, 0, &attributes);
    import(&graph, 13, 1, false);
    expect_values("y", 6, (double[]){1, 1.25, 1.75, 2.25, 2.75, 3});
    attribute_text(&attributes, "coordinate_transformation_mode", "align_corners");
    bytes corners = resize_graph("batch 1 3", 0, 5, &attributes);
    import(&corners, 13, 1, false);
    expect_values("y", 5, (double[]){1, 1.5, 2, 2.5, 3});
}

Test(import_windows, cubic_resizing_has_four_weights) {
    /* At 1/2 between elements 1 and 2 of 4, with a = -3/4: (1 + 4) (-3/32) + (2 + 3) (19/32);
       asymmetric, so that positions are 0, 1/2, ... */
    bytes graph = {.n = 0}, attributes = {.n = 0};
    attribute_text(&attributes, "mode", "cubic");
    attribute_text(&attributes, "coordinate_transformation_mode", "asymmetric");
    graph = resize_graph("batch 1 4", 2, 0, &attributes);
    import(&graph, 13, 1, false);
    const cleave_tensor *y = find_tensor("y");
    cr_expect_eq(y->shape[2], 8);
    /* Ends are repeated: at 1/2, 1 1 2 3; at 5/2, 2 3 4 4; at 7/2, 3 4 4 4. */
    double outer = -3. / 32, inner = 19. / 32;
    expect_values(
        "y", 8,
        (double[]){1, outer * (1 + 3) + inner * (1 + 2), 2, outer * (1 + 4) + inner * (2 + 3), 3,
                   outer * (2 + 4) + inner * (3 + 4), 4, outer * (3 + 4) + inner * (4 + 4)});
}

Test(import_windows, resizing_by_a_region_or_with_a_filter_is_refused) {
    bytes crop = {.n = 0}, filter = {.n = 0};
    attribute_text(&crop, "coordinate_transformation_mode", "tf_crop_and_resize");
    bytes graph = resize_graph("batch 1 4", 2, 0, &crop);
    expect_refused(&graph, 13, 1, "tf_crop_and_resize, which is not supported");
    attribute_integer(&filter, "antialias", 1);
    graph = resize_graph("batch 1 4", 2, 0, &filter);
    expect_refused(&graph, 18, 1, "attribute antialias is 1, supported is 0");
}

Test(import_windows, upsample_takes_its_scales_from_an_input) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 1 2");
    graph_output(&graph, "y");
    initializer(&graph, "scales", 1, (int64_t[]){3}, 1, (float[]){1, 1, 3}, 12);
    node(&graph, "Upsample", "up", "x scales", "y", NULL);
    import(&graph, 9, 1, false);
    expect_values("y", 6, (double[]){1, 1, 1, 2, 2, 2});
}

/* ---- pools ----------------------------------------------------------------------------------- */

Test(import_windows, an_average_leaves_padding_out_unless_told) {
    /* 1 2 3 4 padded by one on both sides, windows of 3. */
    bytes attributes = {.n = 0};
    attribute_integers(&attributes, "kernel_shape", 1, (int64_t[]){3});
    attribute_integers(&attributes, "pads", 2, (int64_t[]){1, 1});
    one_node("AveragePool", "batch 1 4", &attributes, 13);
    expect_values("y", 4, (double[]){1.5, 2, 3, 3.5});
    attribute_integer(&attributes, "count_include_pad", 1);
    one_node("AveragePool", "batch 1 4", &attributes, 13);
    expect_values("y", 4, (double[]){1, 2, 3, 7. / 3});
}

Test(import_windows, ceil_mode_adds_a_window_of_what_is_left) {
    /* 1 2 | 3 4 | 5 */
    bytes attributes = {.n = 0};
    attribute_integers(&attributes, "kernel_shape", 1, (int64_t[]){2});
    attribute_integers(&attributes, "strides", 1, (int64_t[]){2});
    one_node("AveragePool", "batch 1 5", &attributes, 13);
    expect_values("y", 2, (double[]){1.5, 3.5});
    attribute_integer(&attributes, "ceil_mode", 1);
    one_node("AveragePool", "batch 1 5", &attributes, 13);
    expect_values("y", 3, (double[]){1.5, 3.5, 5});
    one_node("MaxPool", "batch 1 5", &attributes, 13);
    expect_values("y", 3, (double[]){2, 4, 5});
}

Test(import_windows, a_pad_of_zeros_becomes_padding_of_the_average_and_counts) {
    /* 0 1 2 3 4 0, windows of 2, stride 2: (0 + 1) / 2, (2 + 3) / 2, (4 + 0) / 2 */
    bytes graph = {.n = 0}, attributes = {.n = 0};
    graph_input(&graph, "x", "batch 1 4");
    graph_output(&graph, "y");
    integers(&graph, "pads", 6, (int64_t[]){0, 0, 1, 0, 0, 1});
    node(&graph, "Pad", "pad", "x pads", "p", NULL);
    attribute_integers(&attributes, "kernel_shape", 1, (int64_t[]){2});
    attribute_integers(&attributes, "strides", 1, (int64_t[]){2});
    node(&graph, "AveragePool", "pool", "p", "y", &attributes);
    import(&graph, 13, 1, false);
    cr_expect_eq(cleave_model_find_tensor(&model, "p"), -1, "the pad is no tensor any more");
    expect_values("y", 3, (double[]){0.5, 2.5, 2});
}

Test(import_windows, a_pad_before_a_maximum_stays_a_view) {
    /* 0 1 2 3 4 -> windows of 3: 2, 3, 4, and with negative inputs the 0 would win. */
    bytes graph = {.n = 0}, attributes = {.n = 0};
    graph_input(&graph, "x", "batch 1 4");
    graph_output(&graph, "y");
    integers(&graph, "pads", 6, (int64_t[]){0, 0, 1, 0, 0, 0});
    node(&graph, "Neg", "neg", "x", "m", NULL);
    node(&graph, "Pad", "pad", "m pads", "p", NULL);
    attribute_integers(&attributes, "kernel_shape", 1, (int64_t[]){3});
    node(&graph, "MaxPool", "pool", "p", "y", &attributes);
    import(&graph, 13, 1, false);
    cr_expect_eq(find_tensor("p")->view.kind, CLEAVE_VIEW_PAD);
    expect_values("y", 3, (double[]){0, -1, -2});
}

Test(import_windows, a_global_average_can_be_split_along_its_sums) {
    one_node("GlobalAveragePool", "batch 2 2 2", NULL, 13);
    expect_axes("op", "n=1 c=2 h=2 w=2");
    expect_values("y", 2, (double[]){2.5, 6.5});
}

Test(import_windows, power_pools_take_the_root_of_sums_of_powers) {
    for (int p = 1; p <= 3; p++) {
        bytes attributes = {.n = 0};
        attribute_integers(&attributes, "kernel_shape", 1, (int64_t[]){2});
        attribute_integer(&attributes, "p", p);
        one_node("LpPool", "batch 1 3", &attributes, 13);
        double first = 1 + pow(2, p), second = pow(2, p) + pow(3, p);
        expect_values("y", 2, (double[]){pow(first, 1. / p), pow(second, 1. / p)});
        expect_axes("op", "n=1 c=1 w=2");
    }
}

Test(import_windows, global_pools_go_over_all_positions_of_any_rank) {
    one_node("GlobalMaxPool", "batch 2 2 1 1", NULL, 13);
    expect_values("y", 2, (double[]){2, 4});
    expect_axes("op", "n=1 c=2");
    expect_shape("y", 5, (int64_t[]){1, 2, 1, 1, 1});
    one_node("GlobalLpPool", "batch 2 2", NULL, 13);
    expect_values("y", 2, (double[]){sqrt(5), 5});
    expect_axes("op", "n=1 c=2 w=2");
    one_node("GlobalAveragePool", "batch 2 2", NULL, 13);
    expect_values("y", 2, (double[]){1.5, 3.5});
}

Test(import_windows, averages_count_what_a_dilated_window_reaches) {
    /* 0 1 2 3 0, windows of two that are two apart: (0 + 2) / 1, (1 + 3) / 2, (2 + 0) / 1 */
    bytes attributes = {.n = 0};
    attribute_integers(&attributes, "kernel_shape", 1, (int64_t[]){2});
    attribute_integers(&attributes, "dilations", 1, (int64_t[]){2});
    attribute_integers(&attributes, "pads", 2, (int64_t[]){1, 1});
    one_node("AveragePool", "batch 1 3", &attributes, 19);
    expect_values("y", 3, (double[]){2, 2, 2});
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void expect_channels_last(const char *name) {
    const cleave_tensor *tensor = find_tensor(name);
    for (int d = 0; d < 4; d++)
        cr_expect_eq(tensor->order[d], ((int[]){0, 2, 3, 1})[d], "%s, place %d", name, d);
}

Test(import_windows, a_view_that_is_convolved_lies_with_channels_last) {
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 72");
    initializer(&graph, "shape", 1, (int64_t[]){4}, 7, (int64_t[]){0, 2, 6, 6}, 32);
    initializer(&graph, "w", 4, (int64_t[]){3, 2, 1, 1}, 1, (float[6]){0}, 24);
    graph_output(&graph, "y");
    node(&graph, "Reshape", "view", "x shape", "image", NULL);
    node(&graph, "Conv", "conv", "image w", "y", NULL);
    import(&graph, 13, 2, false);
    expect_channels_last("image");
}

Test(import_windows, channels_that_are_brought_forward_stay_where_they_lie) {
    /* A point-wise operator between, which takes the order of its input. */
    bytes graph = {.n = 0}, attributes = {.n = 0};
    graph_input(&graph, "x", "batch 72");
    initializer(&graph, "shape", 1, (int64_t[]){4}, 7, (int64_t[]){0, 6, 6, 2}, 32);
    initializer(&graph, "w", 4, (int64_t[]){3, 2, 1, 1}, 1, (float[6]){0}, 24);
    graph_output(&graph, "y");
    node(&graph, "Reshape", "view", "x shape", "rows", NULL);
    attribute_integers(&attributes, "perm", 4, (int64_t[]){0, 3, 1, 2});
    node(&graph, "Transpose", "forward", "rows", "image", &attributes);
    node(&graph, "Relu", "relu", "image", "positive", NULL);
    node(&graph, "Conv", "conv", "positive w", "y", NULL);
    import(&graph, 13, 2, false);
    expect_channels_last("image");
    expect_channels_last("positive");
}
