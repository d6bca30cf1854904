/* Convolutions. */
#include "graph/import/operators/convolution.h"
#include "graph/import/operators/windows.h"

#include <string.h>

typedef struct convolution {
    cleave_windows win;
    int64_t groups, k, c;  /* k, c: per group */
    int32_t input, weight; /* tensors */
} convolution;

static cleave_status read_convolution(cleave_importer *im, convolution *conv) {
    cleave_windows *win = &conv->win;
    CLEAVE_TRY(cleave_import_tensor(im, 0, &conv->input));
    CLEAVE_TRY(cleave_import_tensor(im, 1, &conv->weight));
    cleave_tensor input = im->tensors.items[conv->input].tensor;
    cleave_tensor weight = im->tensors.items[conv->weight].tensor;
    CLEAVE_TRY(cleave_windows_rank(im, &input, win));
    if (weight.rank != input.rank)
        return cleave_import_fail(im, "its weight has rank %d, its input rank %d", weight.rank,
                                  input.rank);
    CLEAVE_TRY(cleave_import_integer(im, "group", 1, &conv->groups));
    conv->c = weight.shape[1];
    if (conv->groups < 1 || weight.shape[0] % conv->groups != 0 ||
        input.shape[1] % conv->groups != 0 || input.shape[1] / conv->groups != conv->c)
        return cleave_import_fail(im,
                                  "%lld channels in %lld groups do not fit a weight of %lld x %lld",
                                  (long long)input.shape[1], (long long)conv->groups,
                                  (long long)weight.shape[0], (long long)weight.shape[1]);
    conv->k = weight.shape[0] / conv->groups;
    for (int d = 0; d < win->n; d++) {
        win->kernel[d] = weight.shape[2 + d];
        if (win->kernel[d] > CLEAVE_MOST_WINDOW)
            return cleave_import_fail(im, "a window of %lld is too long",
                                      (long long)win->kernel[d]);
    }
    CLEAVE_TRY(cleave_convolution_check_kernel(im, win->n, win->kernel));
    CLEAVE_TRY(cleave_windows_read(im, &input, false, win));
    cleave_windows_take_padding(im, win, &conv->input);
    return CLEAVE_OK;
}

/* Axes n g k h w c r s, and where each stands. */
typedef struct convolution_axes {
    int n, g, k, c, position[CLEAVE_MOST_SPATIAL], place[CLEAVE_MOST_SPATIAL];
} convolution_axes;

static cleave_status add_convolution_axes(cleave_importer *im, const convolution *conv, int32_t op,
                                          int64_t batch, convolution_axes *at) {
    const cleave_windows *win = &conv->win;
    bool grouped = conv->groups > 1;
    at->n = cleave_import_add_axis(im, op, "n", batch, false);
    at->g = grouped ? cleave_import_add_axis(im, op, "g", conv->groups, false) : -1;
    /* A part of the output channels of every group would not be one box, so k and c are whole. */
    at->k = cleave_import_add_axis(im, op, "k", conv->k, grouped);
    for (int d = 0; d < win->n; d++)
        at->position[d] =
            cleave_import_add_axis(im, op, cleave_spatial_names[win->n - 1][d], win->out[d], false);
    at->c = cleave_import_add_axis(im, op, "c", conv->c, grouped);
    for (int d = 0; d < win->n; d++) {
        at->place[d] = cleave_import_add_axis(im, op, cleave_window_names[win->n - 1][d],
                                              win->kernel[d], true);
        if (at->place[d] < 0)
            return cleave_import_no_memory(im);
    }
    return CLEAVE_OK;
}

static void map_convolution(const convolution *conv, const convolution_axes *at,
                            cleave_nest *nest) {
    int input = cleave_nest_add_input(nest, conv->input);
    int weight = cleave_nest_add_input(nest, conv->weight), dimension = 0;
    cleave_map_axis(&nest->inputs[input], 0, at->n);
    cleave_convolution_map_channels(&nest->inputs[input], at->g, at->c, conv->c);
    if (at->g >= 0)
        cleave_map_axis(&nest->inputs[weight], dimension++, at->g);
    cleave_map_axis(&nest->inputs[weight], dimension++, at->k);
    cleave_map_axis(&nest->inputs[weight], dimension++, at->c);
    cleave_map_axis(&nest->output, 0, at->n);
    cleave_convolution_map_channels(&nest->output, at->g, at->k, conv->k);
    for (int d = 0; d < conv->win.n; d++) {
        cleave_windows_map(&nest->inputs[input], &conv->win, d, at->position[d], at->place[d]);
        cleave_map_axis(&nest->inputs[weight], dimension++, at->place[d]);
        cleave_map_axis(&nest->output, 2 + d, at->position[d]);
    }
    cleave_nest_emit(nest, CLEAVE_OP_MUL, input, weight, 0, 0);
}

cleave_status cleave_import_conv(cleave_importer *im) {
    convolution conv = {0};
    convolution_axes at;
    int32_t op, output;
    CLEAVE_TRY(read_convolution(im, &conv));
    int64_t shape[CLEAVE_MAX_RANK] = {im->tensors.items[conv.input].tensor.shape[0],
                                      conv.groups * conv.k};
    memcpy(shape + 2, conv.win.out, (size_t)conv.win.n * sizeof *shape);
    int64_t summed = conv.c * cleave_shape_size(conv.win.n, conv.win.kernel);
    /* In memory k r s c, so that what is summed lies together.  Convolutions of one dimension have
       row-major activations and weights. */
    CLEAVE_TRY(cleave_convolution_refine_weight(im, (int64_t[]){conv.groups, conv.k, conv.c},
                                                conv.win.n, conv.win.kernel, conv.win.n == 1,
                                                &conv.weight));
    /* A view is copied into the order that the kernels are fast in, if it does not lie so. */
    if (im->tensors.items[conv.input].tensor.view.kind != CLEAVE_VIEW_NONE)
        cleave_import_channels_last(im, conv.input);
    cleave_import_initialise(im, conv.weight, summed, 0);
    CLEAVE_TRY(cleave_import_new_operator(im, true, &op));
    CLEAVE_TRY(cleave_import_new_tensor(
        im, (cleave_new_tensor){im->node->outputs[0], op, "", 2 + conv.win.n, shape, -1}, &output));
    cleave_import_channels_last(im, output);
    CLEAVE_TRY(add_convolution_axes(im, &conv, op, shape[0], &at));
    cleave_nest nest = {.kind = CLEAVE_NEST_CONVOLUTION, .op = op, .combiner = CLEAVE_COMBINE_SUM};
    nest.output.tensor = output;
    cleave_nest_take_axes(&nest, &im->operators.items[op]);
    map_convolution(&conv, &at, &nest);
    CLEAVE_TRY(cleave_import_add_nest(im, &nest, "", &im->operators.items[op].main_nest));
    im->operators.items[op].output = output;
    im->operators.items[op].fan_in = summed;
    CLEAVE_TRY(cleave_convolution_add_bias(im, op, shape[1]));
    cleave_import_set_output(im, 0, output, false);
    return CLEAVE_OK;
}
