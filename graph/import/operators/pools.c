/* Pools: maxima, averages and sums of powers, over windows and over all positions. */
#include "graph/import/operators/windows.h"

#include <string.h>

enum { MOST_POSITIONS = 1 << 20 };

static int64_t floor_divide(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

/* How many places of the window at `position` have an index in [low, high). */
static int64_t count_places(const cleave_windows *win, int d, int64_t position, int64_t low,
                            int64_t high) {
    int64_t start = position * win->stride[d] - win->before[d] - win->zeros_before[d];
    int64_t first = -floor_divide(start - low, win->dilation[d]); /* ceil((low - start) / ...) */
    int64_t last = floor_divide(high - 1 - start, win->dilation[d]);
    first = first < 0 ? 0 : first;
    last = last > win->kernel[d] - 1 ? win->kernel[d] - 1 : last;
    return last >= first ? last - first + 1 : 0;
}

static cleave_status read_pool(cleave_importer *im, cleave_windows *win, int32_t *input) {
    int64_t ceil_mode;
    CLEAVE_TRY(cleave_import_tensor(im, 0, input));
    cleave_tensor tensor = im->tensors.items[*input].tensor;
    CLEAVE_TRY(cleave_windows_rank(im, &tensor, win));
    if (cleave_import_attribute(im, "kernel_shape") == NULL)
        return cleave_import_fail(im, "attribute kernel_shape is missing");
    CLEAVE_TRY(
        cleave_import_integers(im, "kernel_shape", win->n, 1, CLEAVE_MOST_WINDOW, 1, win->kernel));
    CLEAVE_TRY(cleave_import_integer(im, "ceil_mode", 0, &ceil_mode));
    CLEAVE_TRY(cleave_windows_read(im, &tensor, ceil_mode != 0, win));
    for (int d = 0; d < win->n; d++)
        if (win->out[d] > MOST_POSITIONS)
            return cleave_import_fail(im,
                                      "%lld positions in dimension %d, at most %d are supported",
                                      (long long)win->out[d], 2 + d, MOST_POSITIONS);
    return CLEAVE_OK;
}

static bool is_identity(const cleave_windows *win) {
    for (int d = 0; d < win->n; d++)
        if (win->kernel[d] != 1 || win->stride[d] != 1 || win->before[d] != 0 || win->after[d] != 0)
            return false;
    return true;
}

/* Places per position along one dimension, which must not be 0 anywhere: that window would have
   nothing in it. */
static cleave_status count_along(cleave_importer *im, const cleave_windows *win, int d, int64_t low,
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
static cleave_status open_pool(cleave_importer *im, const cleave_windows *win, int32_t input,
                               cleave_combiner combiner, int32_t *op, cleave_nest *nest) {
    int32_t output;
    int64_t shape[CLEAVE_MAX_RANK] = {im->tensors.items[input].tensor.shape[0],
                                      im->tensors.items[input].tensor.shape[1]};
    memcpy(shape + 2, win->out, (size_t)win->n * sizeof *shape);
    CLEAVE_TRY(cleave_import_new_operator(im, false, op));
    CLEAVE_TRY(cleave_import_new_tensor(
        im, (cleave_new_tensor){im->node->outputs[0], *op, "", 2 + win->n, shape, -1}, &output));
    cleave_import_channels_last(im, output);
    im->operators.items[*op].output = output;
    *nest = (cleave_nest){.kind = CLEAVE_NEST_POOL, .op = *op, .combiner = combiner};
    nest->output.tensor = output;
    for (int d = 0; d < 2 + win->n; d++) {
        const char *name =
            d < 2 ? cleave_import_axis_name(2, d) : cleave_spatial_names[win->n - 1][d - 2];
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
        int place = cleave_nest_add_axis(nest, cleave_window_names[win->n - 1][d - 2],
                                         win->kernel[d - 2], true, -1);
        cleave_windows_map(&nest->inputs[0], win, d - 2, d, place);
    }
    return CLEAVE_OK;
}

static cleave_status close_pool(cleave_importer *im, int32_t op, const cleave_nest *nest) {
    CLEAVE_TRY(cleave_import_add_nest(im, nest, "", &im->operators.items[op].main_nest));
    cleave_import_set_output(im, 0, nest->output.tensor, false);
    return CLEAVE_OK;
}

cleave_status cleave_import_max_pool(cleave_importer *im) {
    cleave_windows win = {0};
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
static cleave_status add_divisors(cleave_importer *im, const cleave_windows *win,
                                  int64_t *const counts[CLEAVE_MOST_SPATIAL], int32_t op,
                                  cleave_nest *nest) {
    int64_t size = 1;
    int32_t tensor;
    for (int d = 0; d < win->n; d++) {
        size *= win->out[d]; /* both factors are at most 2^20 */
        if (size > MOST_POSITIONS)
            return cleave_import_fail(im, "averages over more than %d different windows",
                                      MOST_POSITIONS);
    }
    CLEAVE_TRY(cleave_import_spend(im, size, 1));
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
    CLEAVE_TRY(cleave_import_constant_tensor(
        im, (cleave_new_tensor){NULL, op, ".weights", win->n, win->out, -1}, values, &tensor));
    int input = cleave_nest_add_input(nest, tensor);
    for (int d = 0; d < win->n; d++)
        cleave_map_axis(&nest->inputs[input], d, 2 + d);
    cleave_nest_emit(nest, CLEAVE_OP_MUL, 0, input, 0, 0);
    return CLEAVE_OK;
}

cleave_status cleave_import_average_pool(cleave_importer *im) {
    cleave_windows win = {0};
    int32_t input, op;
    int64_t include, *counts[CLEAVE_MOST_SPATIAL] = {NULL};
    bool uniform = true;
    double scale = 1;
    cleave_nest nest;
    CLEAVE_TRY(cleave_import_integer(im, "count_include_pad", 0, &include));
    CLEAVE_TRY(read_pool(im, &win, &input));
    if (is_identity(&win))
        return cleave_import_identity(im);
    cleave_windows_take_padding(im, &win, &input);
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

/* ---- sums of powers -------------------------------------------------------------------------- */

/* |x| ^ p */
static void emit_power(cleave_nest *nest, int64_t p) {
    if (p == 2) {
        cleave_nest_emit(nest, CLEAVE_OP_MUL, 0, 0, 0, 0);
        return;
    }
    int size = cleave_nest_emit(nest, CLEAVE_OP_ABS, 0, 0, 0, 0);
    if (p == 1)
        return;
    int exponent = cleave_nest_emit(nest, CLEAVE_OP_CONSTANT, 0, 0, (double)p, 0);
    cleave_nest_emit(nest, CLEAVE_OP_POW, size, exponent, 0, 0);
}

/* The p-th root of the operator's sums, in its tail. */
static cleave_status add_root(cleave_importer *im, int32_t op, int64_t p) {
    int32_t tail;
    if (p == 1)
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_import_tail(im, op, 2, 0, &tail));
    cleave_nest *nest = &im->nests.items[tail].nest;
    if (p == 2) {
        cleave_nest_emit(nest, CLEAVE_OP_SQRT, 0, 0, 0, 0);
    } else {
        int exponent = cleave_nest_emit(nest, CLEAVE_OP_CONSTANT, 0, 0, 1 / (double)p, 0);
        cleave_nest_emit(nest, CLEAVE_OP_POW, 0, exponent, 0, 0);
    }
    return CLEAVE_OK;
}

static cleave_status read_power(cleave_importer *im, int64_t *p) {
    CLEAVE_TRY(cleave_import_integer(im, "p", 2, p));
    return *p >= 1 && *p <= 64
               ? CLEAVE_OK
               : cleave_import_fail(im, "attribute p is %lld, supported are 1 to 64",
                                    (long long)*p);
}

cleave_status cleave_import_lp_pool(cleave_importer *im) {
    cleave_windows win = {0};
    int32_t input, op;
    int64_t p;
    cleave_nest nest;
    CLEAVE_TRY(read_power(im, &p));
    CLEAVE_TRY(read_pool(im, &win, &input));
    CLEAVE_TRY(open_pool(im, &win, input, CLEAVE_COMBINE_SUM, &op, &nest));
    emit_power(&nest, p);
    CLEAVE_TRY(close_pool(im, op, &nest));
    return add_root(im, op, p);
}

/* ---- over all positions ---------------------------------------------------------------------- */

/* Opens an operator that writes [n, c, 1 ...] from a tensor [n, c, positions...].  Its axes are n,
   c and, where `splits`, the positions; else those are axes of the nest alone, whole. */
static cleave_status open_global(cleave_importer *im, bool splits, int64_t *count, int32_t *op,
                                 cleave_nest *nest) {
    int32_t input, output;
    int64_t shape[CLEAVE_MAX_RANK] = {0};
    CLEAVE_TRY(cleave_import_tensor(im, 0, &input));
    cleave_tensor from = im->tensors.items[input].tensor;
    if (from.rank < 3)
        return cleave_import_fail(im, "input %s has rank %d, at least 3 is needed",
                                  im->node->inputs[0], from.rank);
    *count = cleave_shape_size(from.rank - 2, from.shape + 2);
    for (int d = 0; d < from.rank; d++)
        shape[d] = d < 2 ? from.shape[d] : 1;
    CLEAVE_TRY(cleave_import_new_operator(im, false, op));
    CLEAVE_TRY(cleave_import_new_tensor(
        im, (cleave_new_tensor){im->node->outputs[0], *op, "", from.rank, shape, -1}, &output));
    cleave_import_channels_last(im, output);
    im->operators.items[*op].output = output;
    *nest = (cleave_nest){.op = *op};
    nest->output.tensor = output;
    cleave_nest_add_input(nest, input);
    for (int d = 0; d < from.rank; d++) {
        const char *name = cleave_import_axis_name(from.rank, d);
        bool of_operator = d < 2 || splits;
        int axis = of_operator ? cleave_import_add_axis(im, *op, name, from.shape[d], false) : -1;
        if (of_operator && axis < 0)
            return cleave_import_no_memory(im);
        axis = cleave_nest_add_axis(nest, name, from.shape[d], !of_operator, axis);
        cleave_map_axis(&nest->inputs[0], d, axis);
        if (d < 2)
            cleave_map_axis(&nest->output, d, axis);
        else
            cleave_map_offset(&nest->output, d, 0);
    }
    return CLEAVE_OK;
}

cleave_status cleave_import_global_average_pool(cleave_importer *im) {
    int32_t op;
    int64_t count;
    cleave_nest nest;
    CLEAVE_TRY(open_global(im, true, &count, &op, &nest));
    nest.kind = CLEAVE_NEST_REDUCE;
    nest.combiner = CLEAVE_COMBINE_SUM;
    cleave_nest_emit(&nest, CLEAVE_OP_SCALE, 0, 0, 1 / (double)count, 0);
    return close_pool(im, op, &nest);
}

cleave_status cleave_import_global_lp_pool(cleave_importer *im) {
    int32_t op;
    int64_t count, p;
    cleave_nest nest;
    CLEAVE_TRY(read_power(im, &p));
    CLEAVE_TRY(open_global(im, true, &count, &op, &nest));
    nest.kind = CLEAVE_NEST_REDUCE;
    nest.combiner = CLEAVE_COMBINE_SUM;
    emit_power(&nest, p);
    CLEAVE_TRY(close_pool(im, op, &nest));
    return add_root(im, op, p);
}

/* A maximum has a gradient as a window that is never split. */
cleave_status cleave_import_global_max_pool(cleave_importer *im) {
    int32_t op;
    int64_t count;
    cleave_nest nest;
    CLEAVE_TRY(open_global(im, false, &count, &op, &nest));
    nest.kind = CLEAVE_NEST_POOL;
    nest.combiner = CLEAVE_COMBINE_MAX;
    cleave_nest_emit(&nest, CLEAVE_OP_COPY, 0, 0, 0, 0);
    return close_pool(im, op, &nest);
}
