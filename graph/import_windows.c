/* Convolutions and pools: operators with windows.

   A position of the output and a place in the window give an index of the input:
   stride x position + dilation x place - padding before.  A Pad of zeros before a convolution or an
   average pool becomes part of that padding. */
#include "graph/import_internal.h"

#include <string.h>

enum { MOST_SPATIAL = 3, MOST_WINDOW = INT32_MAX, MOST_POSITIONS = 1 << 20 };

typedef struct windows {
    int n; /* spatial dimensions */
    int64_t in[MOST_SPATIAL], out[MOST_SPATIAL], kernel[MOST_SPATIAL], stride[MOST_SPATIAL],
        dilation[MOST_SPATIAL];
    int64_t before[MOST_SPATIAL], after[MOST_SPATIAL]; /* padding of the operator itself */
    int64_t zeros_before[MOST_SPATIAL], zeros_after[MOST_SPATIAL]; /* of a Pad node before it */
} windows;

static const char *const spatial_names[MOST_SPATIAL][MOST_SPATIAL] = {
    {"w"}, {"h", "w"}, {"d", "h", "w"}};
static const char *const window_names[MOST_SPATIAL][MOST_SPATIAL] = {
    {"s"}, {"r", "s"}, {"q", "r", "s"}};

static int64_t window_extent(const windows *win, int d) {
    return (win->kernel[d] - 1) * win->dilation[d] + 1;
}

static cleave_status read_padding(cleave_importer *im, windows *win) {
    const char *mode;
    int64_t pads[2 * MOST_SPATIAL];
    CLEAVE_TRY(cleave_import_string(im, "auto_pad", "NOTSET", &mode));
    bool upper = strcmp(mode, "SAME_UPPER") == 0, lower = strcmp(mode, "SAME_LOWER") == 0;
    if (!upper && !lower && strcmp(mode, "NOTSET") != 0 && strcmp(mode, "VALID") != 0)
        return cleave_import_fail(im,
                                  "attribute auto_pad is %s, supported are NOTSET, VALID, "
                                  "SAME_UPPER and SAME_LOWER",
                                  mode);
    CLEAVE_TRY(cleave_import_integers(im, "pads", 2 * win->n, 0, MOST_WINDOW, 0, pads));
    for (int d = 0; d < win->n; d++) {
        bool given = strcmp(mode, "NOTSET") == 0;
        win->before[d] = given ? pads[d] : 0;
        win->after[d] = given ? pads[win->n + d] : 0;
        if (!upper && !lower)
            continue;
        int64_t out = (win->in[d] + win->stride[d] - 1) / win->stride[d];
        int64_t total = (out - 1) * win->stride[d] + window_extent(win, d) - win->in[d];
        total = total < 0 ? 0 : total;
        win->before[d] = upper ? total / 2 : total - total / 2;
        win->after[d] = total - win->before[d];
    }
    return CLEAVE_OK;
}

/* Strides, padding and output extents; the kernel is known. */
static cleave_status read_windows(cleave_importer *im, const cleave_tensor *input, bool ceil_mode,
                                  windows *win) {
    CLEAVE_TRY(cleave_import_integers(im, "strides", win->n, 1, MOST_WINDOW, 1, win->stride));
    CLEAVE_TRY(cleave_import_integers(im, "dilations", win->n, 1, MOST_WINDOW, 1, win->dilation));
    for (int d = 0; d < win->n; d++) {
        win->in[d] = input->shape[2 + d];
        if (window_extent(win, d) > MOST_WINDOW)
            return cleave_import_fail(im, "a window of %lld is too long",
                                      (long long)window_extent(win, d));
    }
    CLEAVE_TRY(read_padding(im, win));
    for (int d = 0; d < win->n; d++) {
        int64_t padded = win->in[d] + win->before[d] + win->after[d];
        int64_t room = padded - window_extent(win, d);
        if (room < 0)
            return cleave_import_fail(im,
                                      "a window of %lld does not fit the %lld positions of "
                                      "dimension %d with its padding",
                                      (long long)window_extent(win, d), (long long)padded, 2 + d);
        win->out[d] = room / win->stride[d] + 1;
        /* A window more where some are left over, unless it would begin in the padding behind. */
        if (ceil_mode && room % win->stride[d] != 0 &&
            win->out[d] * win->stride[d] < win->in[d] + win->before[d])
            win->out[d]++;
    }
    return CLEAVE_OK;
}

/* Looks through a Pad of zeros on the spatial dimensions. */
static void take_padding(const cleave_importer *im, windows *win, int32_t *tensor) {
    const cleave_tensor *padded = &im->tensors.items[*tensor].tensor;
    const cleave_view *view = &padded->view;
    if (view->kind != CLEAVE_VIEW_PAD || view->fill != 0)
        return;
    const cleave_tensor *source = &im->tensors.items[view->sources[0]].tensor;
    for (int d = 0; d < 2; d++)
        if (source->shape[d] != padded->shape[d])
            return;
    for (int d = 0; d < win->n; d++) {
        win->zeros_before[d] = view->begin[2 + d];
        win->zeros_after[d] = padded->shape[2 + d] - view->begin[2 + d] - source->shape[2 + d];
        win->in[d] = source->shape[2 + d];
    }
    *tensor = view->sources[0];
}

static void map_window(cleave_operand *operand, const windows *win, int d, int position,
                       int place) {
    cleave_map_offset(operand, 2 + d, -(win->before[d] + win->zeros_before[d]));
    cleave_map_term(operand, 2 + d, position, win->stride[d]);
    cleave_map_term(operand, 2 + d, place, win->dilation[d]);
}

static cleave_status spatial_rank(cleave_importer *im, const cleave_tensor *input, windows *win) {
    win->n = input->rank - 2;
    if (win->n < 1 || win->n > MOST_SPATIAL)
        return cleave_import_fail(im, "input %s has rank %d, supported are 3 to 5",
                                  im->node->inputs[0], input->rank);
    return CLEAVE_OK;
}

/* ---- convolution ----------------------------------------------------------------------------- */

typedef struct convolution {
    windows win;
    int64_t groups, k, c;  /* k, c: per group */
    int32_t input, weight; /* tensors */
} convolution;

static cleave_status read_convolution(cleave_importer *im, convolution *conv) {
    windows *win = &conv->win;
    CLEAVE_TRY(cleave_import_tensor(im, 0, &conv->input));
    CLEAVE_TRY(cleave_import_tensor(im, 1, &conv->weight));
    cleave_tensor input = im->tensors.items[conv->input].tensor;
    cleave_tensor weight = im->tensors.items[conv->weight].tensor;
    CLEAVE_TRY(spatial_rank(im, &input, win));
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
        if (win->kernel[d] > MOST_WINDOW)
            return cleave_import_fail(im, "a window of %lld is too long",
                                      (long long)win->kernel[d]);
    }
    if (cleave_import_attribute(im, "kernel_shape") != NULL) {
        int64_t said[MOST_SPATIAL];
        CLEAVE_TRY(cleave_import_integers(im, "kernel_shape", win->n, 1, MOST_WINDOW, 1, said));
        for (int d = 0; d < win->n; d++)
            if (said[d] != win->kernel[d])
                return cleave_import_fail(im, "attribute kernel_shape has %lld, its weight %lld",
                                          (long long)said[d], (long long)win->kernel[d]);
    }
    CLEAVE_TRY(read_windows(im, &input, false, win));
    take_padding(im, win, &conv->input);
    return CLEAVE_OK;
}

/* In memory k r s c, with g outermost: what is summed lies together, channels innermost as in the
   activations.  Convolutions of one dimension have row-major activations and weights. */
static cleave_status refine_weight(cleave_importer *im, convolution *conv) {
    bool grouped = conv->groups > 1;
    int rank = 0, order[CLEAVE_MAX_RANK] = {0};
    int64_t shape[CLEAVE_MAX_RANK] = {0};
    if (grouped)
        shape[rank++] = conv->groups;
    shape[rank++] = conv->k;
    shape[rank++] = conv->c;
    for (int d = 0; d < conv->win.n; d++)
        shape[rank++] = conv->win.kernel[d];
    int c = grouped ? 2 : 1;
    for (int i = 0; i < rank; i++)
        order[i] = conv->win.n == 1 || i < c ? i : i == rank - 1 ? c : i + 1;
    return cleave_import_refine(im, 1, conv->weight, rank, shape, order, &conv->weight);
}

/* Axes n g k h w c r s, and where each stands. */
typedef struct convolution_axes {
    int n, g, k, c, position[MOST_SPATIAL], place[MOST_SPATIAL];
} convolution_axes;

static cleave_status add_convolution_axes(cleave_importer *im, const convolution *conv, int32_t op,
                                          int64_t batch, convolution_axes *at) {
    const windows *win = &conv->win;
    bool grouped = conv->groups > 1;
    at->n = cleave_import_add_axis(im, op, "n", batch, false);
    at->g = grouped ? cleave_import_add_axis(im, op, "g", conv->groups, false) : -1;
    /* A part of the output channels of every group would not be one box, so k and c are whole. */
    at->k = cleave_import_add_axis(im, op, "k", conv->k, grouped);
    for (int d = 0; d < win->n; d++)
        at->position[d] =
            cleave_import_add_axis(im, op, spatial_names[win->n - 1][d], win->out[d], false);
    at->c = cleave_import_add_axis(im, op, "c", conv->c, grouped);
    for (int d = 0; d < win->n; d++) {
        at->place[d] =
            cleave_import_add_axis(im, op, window_names[win->n - 1][d], win->kernel[d], true);
        if (at->place[d] < 0)
            return cleave_import_no_memory(im);
    }
    return CLEAVE_OK;
}

static void map_channels(cleave_operand *operand, int g, int inner, int64_t per_group) {
    cleave_map_offset(operand, 1, 0);
    if (g >= 0)
        cleave_map_term(operand, 1, g, per_group);
    cleave_map_term(operand, 1, inner, 1);
}

static void map_convolution(const convolution *conv, const convolution_axes *at,
                            cleave_nest *nest) {
    int input = cleave_nest_add_input(nest, conv->input);
    int weight = cleave_nest_add_input(nest, conv->weight), dimension = 0;
    cleave_map_axis(&nest->inputs[input], 0, at->n);
    map_channels(&nest->inputs[input], at->g, at->c, conv->c);
    if (at->g >= 0)
        cleave_map_axis(&nest->inputs[weight], dimension++, at->g);
    cleave_map_axis(&nest->inputs[weight], dimension++, at->k);
    cleave_map_axis(&nest->inputs[weight], dimension++, at->c);
    cleave_map_axis(&nest->output, 0, at->n);
    map_channels(&nest->output, at->g, at->k, conv->k);
    for (int d = 0; d < conv->win.n; d++) {
        map_window(&nest->inputs[input], &conv->win, d, at->position[d], at->place[d]);
        cleave_map_axis(&nest->inputs[weight], dimension++, at->place[d]);
        cleave_map_axis(&nest->output, 2 + d, at->position[d]);
    }
    cleave_nest_emit(nest, CLEAVE_OP_MUL, input, weight, 0, 0);
}

static cleave_status add_bias(cleave_importer *im, int32_t op, int64_t channels) {
    int32_t bias, tail;
    if (!cleave_import_has_input(im, 2))
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_import_tensor(im, 2, &bias));
    const cleave_tensor *tensor = &im->tensors.items[bias].tensor;
    if (tensor->rank != 1 || tensor->shape[0] != channels)
        return cleave_import_fail(im, "its bias is not of %lld elements", (long long)channels);
    cleave_import_initialise(im, bias, im->operators.items[op].fan_in, 0);
    CLEAVE_TRY(cleave_import_tail(im, op, 1, 1, &tail));
    cleave_nest *nest = &im->nests.items[tail].nest;
    int input = cleave_nest_add_input(nest, bias);
    cleave_map_axis(&nest->inputs[input], 0, 1);
    cleave_nest_emit(nest, CLEAVE_OP_ADD, 0, input, 0, 0);
    return CLEAVE_OK;
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
    CLEAVE_TRY(refine_weight(im, &conv));
    cleave_import_initialise(im, conv.weight, summed, 0);
    CLEAVE_TRY(cleave_import_new_operator(im, true, &op));
    CLEAVE_TRY(cleave_import_new_tensor(im, im->node->outputs[0], op, "", 2 + conv.win.n, shape, -1,
                                        &output));
    cleave_import_channels_last(im, output);
    CLEAVE_TRY(add_convolution_axes(im, &conv, op, shape[0], &at));
    cleave_nest nest = {.kind = CLEAVE_NEST_CONVOLUTION, .op = op, .combiner = CLEAVE_COMBINE_SUM};
    nest.output.tensor = output;
    cleave_nest_take_axes(&nest, &im->operators.items[op]);
    map_convolution(&conv, &at, &nest);
    CLEAVE_TRY(cleave_import_add_nest(im, &nest, "", &im->operators.items[op].main_nest));
    im->operators.items[op].output = output;
    im->operators.items[op].fan_in = summed;
    CLEAVE_TRY(add_bias(im, op, shape[1]));
    cleave_import_set_output(im, 0, output, false);
    return CLEAVE_OK;
}

/* ---- pools ----------------------------------------------------------------------------------- */

static int64_t floor_divide(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

/* How many places of the window at `position` have an index in [low, high). */
static int64_t count_places(const windows *win, int d, int64_t position, int64_t low,
                            int64_t high) {
    int64_t start = position * win->stride[d] - win->before[d] - win->zeros_before[d];
    int64_t first = -floor_divide(start - low, win->dilation[d]); /* ceil((low - start) / ...) */
    int64_t last = floor_divide(high - 1 - start, win->dilation[d]);
    first = first < 0 ? 0 : first;
    last = last > win->kernel[d] - 1 ? win->kernel[d] - 1 : last;
    return last >= first ? last - first + 1 : 0;
}

static cleave_status read_pool(cleave_importer *im, windows *win, int32_t *input) {
    int64_t ceil_mode;
    CLEAVE_TRY(cleave_import_tensor(im, 0, input));
    cleave_tensor tensor = im->tensors.items[*input].tensor;
    CLEAVE_TRY(spatial_rank(im, &tensor, win));
    if (cleave_import_attribute(im, "kernel_shape") == NULL)
        return cleave_import_fail(im, "attribute kernel_shape is missing");
    CLEAVE_TRY(cleave_import_integers(im, "kernel_shape", win->n, 1, MOST_WINDOW, 1, win->kernel));
    CLEAVE_TRY(cleave_import_integer(im, "ceil_mode", 0, &ceil_mode));
    CLEAVE_TRY(read_windows(im, &tensor, ceil_mode != 0, win));
    for (int d = 0; d < win->n; d++)
        if (win->out[d] > MOST_POSITIONS)
            return cleave_import_fail(im,
                                      "%lld positions in dimension %d, at most %d are supported",
                                      (long long)win->out[d], 2 + d, MOST_POSITIONS);
    return CLEAVE_OK;
}

static bool is_identity(const windows *win) {
    for (int d = 0; d < win->n; d++)
        if (win->kernel[d] != 1 || win->stride[d] != 1 || win->before[d] != 0 || win->after[d] != 0)
            return false;
    return true;
}

/* Places per position along one dimension, which must not be 0 anywhere: that window would have
   nothing in it. */
static cleave_status count_along(cleave_importer *im, const windows *win, int d, int64_t low,
                                 int64_t high, int64_t *counts, bool *uniform) {
    for (int64_t o = 0; o < win->out[d]; o++) {
        int64_t count = count_places(win, d, o, low, high);
        if (count == 0)
            return cleave_import_fail(im,
                                      "the window at position %lld of dimension %d lies wholly "
                                      "in the padding",
                                      (long long)o, 2 + d);
        if (counts != NULL) {
            counts[o] = count;
            *uniform = *uniform && count == counts[0];
        }
    }
    return CLEAVE_OK;
}

/* Opens a pool over axes n c h w, with window axes of its own; its tape is still to be written. */
static cleave_status open_pool(cleave_importer *im, const windows *win, int32_t input,
                               cleave_combiner combiner, int32_t *op, cleave_nest *nest) {
    int32_t output;
    int64_t shape[CLEAVE_MAX_RANK] = {im->tensors.items[input].tensor.shape[0],
                                      im->tensors.items[input].tensor.shape[1]};
    memcpy(shape + 2, win->out, (size_t)win->n * sizeof *shape);
    CLEAVE_TRY(cleave_import_new_operator(im, false, op));
    CLEAVE_TRY(cleave_import_new_tensor(im, im->node->outputs[0], *op, "", 2 + win->n, shape, -1,
                                        &output));
    cleave_import_channels_last(im, output);
    im->operators.items[*op].output = output;
    *nest = (cleave_nest){.kind = CLEAVE_NEST_POOL, .op = *op, .combiner = combiner};
    nest->output.tensor = output;
    for (int d = 0; d < 2 + win->n; d++) {
        const char *name = d < 2 ? cleave_import_axis_name(2, d) : spatial_names[win->n - 1][d - 2];
        if (cleave_import_add_axis(im, *op, name, shape[d], false) < 0)
            return cleave_import_no_memory(im);
    }
    cleave_nest_take_axes(nest, &im->operators.items[*op]);
    cleave_nest_add_input(nest, input);
    for (int d = 0; d < 2 + win->n; d++) {
        cleave_map_axis(&nest->output, d, d);
        if (d < 2) {
            cleave_map_axis(&nest->inputs[0], d, d);
            continue;
        }
        int place = cleave_nest_add_axis(nest, window_names[win->n - 1][d - 2], win->kernel[d - 2],
                                         true, -1);
        map_window(&nest->inputs[0], win, d - 2, d, place);
    }
    return CLEAVE_OK;
}

static cleave_status close_pool(cleave_importer *im, int32_t op, const cleave_nest *nest) {
    CLEAVE_TRY(cleave_import_add_nest(im, nest, "", &im->operators.items[op].main_nest));
    cleave_import_set_output(im, 0, nest->output.tensor, false);
    return CLEAVE_OK;
}

cleave_status cleave_import_max_pool(cleave_importer *im) {
    windows win = {0};
    int32_t input, op;
    int64_t storage_order;
    cleave_nest nest;
    CLEAVE_TRY(cleave_import_integer(im, "storage_order", 0, &storage_order));
    if (cleave_import_uses_output(im, 1))
        return cleave_import_fail(im, "its output of indices is used, which is not supported");
    CLEAVE_TRY(read_pool(im, &win, &input));
    if (is_identity(&win))
        return cleave_import_identity(im);
    for (int d = 0; d < win.n; d++)
        CLEAVE_TRY(count_along(im, &win, d, 0, win.in[d], NULL, NULL));
    CLEAVE_TRY(open_pool(im, &win, input, CLEAVE_COMBINE_MAX, &op, &nest));
    cleave_nest_emit(&nest, CLEAVE_OP_COPY, 0, 0, 0, 0);
    return close_pool(im, op, &nest);
}

/* 1 / (number of elements averaged) per position, for averages that leave padding out. */
static cleave_status add_divisors(cleave_importer *im, const windows *win,
                                  int64_t *const counts[MOST_SPATIAL], int32_t op,
                                  cleave_nest *nest) {
    int64_t size = 1;
    int32_t tensor;
    for (int d = 0; d < win->n; d++) {
        size *= win->out[d]; /* both factors are at most 2^20 */
        if (size > MOST_POSITIONS)
            return cleave_import_fail(im, "averages over more than %d different windows",
                                      MOST_POSITIONS);
    }
    float *values = CLEAVE_ARENA_ARRAY(im->arena, float, size);
    if (values == NULL)
        return cleave_import_no_memory(im);
    for (int64_t i = 0; i < size; i++) {
        int64_t rest = i;
        double count = 1;
        for (int d = win->n - 1; d >= 0; d--) {
            count *= (double)counts[d][rest % win->out[d]];
            rest /= win->out[d];
        }
        values[i] = (float)(1 / count);
    }
    CLEAVE_TRY(
        cleave_import_constant_tensor(im, op, ".weights", win->n, win->out, values, &tensor));
    int input = cleave_nest_add_input(nest, tensor);
    for (int d = 0; d < win->n; d++)
        cleave_map_axis(&nest->inputs[input], d, 2 + d);
    cleave_nest_emit(nest, CLEAVE_OP_MUL, 0, input, 0, 0);
    return CLEAVE_OK;
}

cleave_status cleave_import_average_pool(cleave_importer *im) {
    windows win = {0};
    int32_t input, op;
    int64_t include, *counts[MOST_SPATIAL] = {NULL};
    bool uniform = true;
    double scale = 1;
    cleave_nest nest;
    CLEAVE_TRY(cleave_import_integer(im, "count_include_pad", 0, &include));
    CLEAVE_TRY(read_pool(im, &win, &input));
    if (is_identity(&win))
        return cleave_import_identity(im);
    take_padding(im, &win, &input);
    for (int d = 0; d < win.n; d++) {
        /* Zeros of a Pad node are elements like others; the pool's own padding may not be. */
        int64_t low = -win.zeros_before[d] - (include != 0 ? win.before[d] : 0);
        int64_t high = win.in[d] + win.zeros_after[d] + (include != 0 ? win.after[d] : 0);
        counts[d] = CLEAVE_ARENA_ARRAY(&im->scratch, int64_t, win.out[d]);
        if (counts[d] == NULL)
            return cleave_import_no_memory(im);
        CLEAVE_TRY(count_along(im, &win, d, low, high, counts[d], &uniform));
        scale /= (double)counts[d][0];
    }
    CLEAVE_TRY(open_pool(im, &win, input, CLEAVE_COMBINE_SUM, &op, &nest));
    if (uniform)
        cleave_nest_emit(&nest, CLEAVE_OP_SCALE, 0, 0, scale, 0);
    else
        CLEAVE_TRY(add_divisors(im, &win, counts, op, &nest));
    return close_pool(im, op, &nest);
}

cleave_status cleave_import_global_average_pool(cleave_importer *im) {
    int32_t input, output, op;
    int64_t shape[CLEAVE_MAX_RANK] = {0}, count = 1;
    CLEAVE_TRY(cleave_import_tensor(im, 0, &input));
    cleave_tensor from = im->tensors.items[input].tensor;
    if (from.rank < 3)
        return cleave_import_fail(im, "input %s has rank %d, at least 3 is needed",
                                  im->node->inputs[0], from.rank);
    for (int d = 0; d < from.rank; d++) {
        shape[d] = d < 2 ? from.shape[d] : 1;
        count *= d < 2 ? 1 : from.shape[d];
    }
    CLEAVE_TRY(cleave_import_new_operator(im, false, &op));
    CLEAVE_TRY(
        cleave_import_new_tensor(im, im->node->outputs[0], op, "", from.rank, shape, -1, &output));
    cleave_import_channels_last(im, output);
    im->operators.items[op].output = output;
    for (int d = 0; d < from.rank; d++)
        if (cleave_import_add_axis(im, op, cleave_import_axis_name(from.rank, d), from.shape[d],
                                   false) < 0)
            return cleave_import_no_memory(im);
    cleave_nest nest = {.kind = CLEAVE_NEST_REDUCE, .op = op, .combiner = CLEAVE_COMBINE_SUM};
    nest.output.tensor = output;
    cleave_nest_take_axes(&nest, &im->operators.items[op]);
    cleave_nest_add_input(&nest, input);
    for (int d = 0; d < from.rank; d++) {
        cleave_map_axis(&nest.inputs[0], d, d);
        if (d < 2)
            cleave_map_axis(&nest.output, d, d);
        else
            cleave_map_offset(&nest.output, d, 0);
    }
    cleave_nest_emit(&nest, CLEAVE_OP_SCALE, 0, 0, 1 / (double)count, 0);
    return close_pool(im, op, &nest);
}
