/* Transposed convolutions.

   y[s q + p] sums x[i] w[r] over s i + d r = s q + p + pad.  For each residue p only some of the
   taps r fit, r0, r0 + s/e, ... with e = gcd(s, d), and each with one i = q + constant - (d/e) m:
   an ordinary convolution of stride 1 with those taps in reversed order.  So there is one nest per
   phase (a residue in each dimension), all over the same positions q, and a last one that lays the
   phases between each other.  No multiplication by zero is done.

   Where windows neither overlap nor leave gaps (kernel = stride, no padding) every output has one
   tap, y[s q + p] = x[q] w[p]: a product that writes its output in place. */
#include "base/checked.h"
#include "graph/import/draft_views.h"
#include "graph/import/operators/convolution.h"
#include "graph/import/operators/windows.h"

#include <string.h>

static const char *const phase_names[CLEAVE_MOST_SPATIAL][CLEAVE_MOST_SPATIAL] = {
    {"pw"}, {"ph", "pw"}, {"pd", "ph", "pw"}};

typedef struct transposed {
    int n; /* spatial dimensions; stride, dilation and padding as ONNX says them */
    int64_t in[CLEAVE_MOST_SPATIAL], out[CLEAVE_MOST_SPATIAL], kernel[CLEAVE_MOST_SPATIAL];
    int64_t stride[CLEAVE_MOST_SPATIAL], dilation[CLEAVE_MOST_SPATIAL], before[CLEAVE_MOST_SPATIAL];
    int64_t positions[CLEAVE_MOST_SPATIAL]; /* of a phase: out / stride, rounded up */
    int64_t batch, groups, k, c;            /* k, c: per group */
    int32_t input, weight, op;
    int axis_n, axis_g, axis_k, axis_c, position[CLEAVE_MOST_SPATIAL];
} transposed;

static int64_t reach(const transposed *t, int d) { return (t->kernel[d] - 1) * t->dilation[d] + 1; }

/* ---- attributes ------------------------------------------------------------------------------ */

static cleave_status read_output_extents(cleave_importer *im, transposed *t) {
    const char *mode;
    int64_t pads[2 * CLEAVE_MOST_SPATIAL], extra[CLEAVE_MOST_SPATIAL],
        wanted[2 * CLEAVE_MAX_RANK] = {0};
    int n_wanted;
    CLEAVE_TRY(cleave_import_string(im, "auto_pad", "NOTSET", &mode));
    bool upper = strcmp(mode, "SAME_UPPER") == 0, lower = strcmp(mode, "SAME_LOWER") == 0;
    bool given = strcmp(mode, "NOTSET") == 0;
    if (!upper && !lower && !given && strcmp(mode, "VALID") != 0)
        return cleave_import_fail(im,
                                  "attribute auto_pad is %s, supported are NOTSET, VALID, "
                                  "SAME_UPPER and SAME_LOWER",
                                  mode);
    CLEAVE_TRY(cleave_import_integers(im, "pads", 2 * t->n, 0, CLEAVE_MOST_WINDOW, 0, pads));
    CLEAVE_TRY(cleave_import_integers(im, "output_padding", t->n, 0, CLEAVE_MOST_WINDOW, 0, extra));
    CLEAVE_TRY(cleave_import_list(im, "output_shape", im->node->n_inputs, &n_wanted, wanted));
    /* Some writers list all dimensions. */
    const int64_t *spatial = n_wanted == t->n + 2 ? wanted + 2 : wanted;
    if (n_wanted >= 0 && n_wanted != t->n && n_wanted != t->n + 2)
        return cleave_import_fail(im, "attribute output_shape has %d values, %d are needed",
                                  n_wanted, t->n);
    for (int d = 0; d < t->n; d++) {
        int64_t natural = (t->in[d] - 1) * t->stride[d] + reach(t, d) + extra[d];
        t->before[d] = given ? pads[d] : 0;
        t->out[d] = natural - t->before[d] - (given ? pads[t->n + d] : 0);
        if (n_wanted >= 0 || upper || lower) {
            t->out[d] = n_wanted >= 0 ? spatial[d] : t->in[d] * t->stride[d];
            int64_t total = natural > t->out[d] ? natural - t->out[d] : 0;
            t->before[d] = upper ? total / 2 : total - total / 2;
        }
        if (t->out[d] < 1 || t->out[d] > CLEAVE_MOST_WINDOW)
            return cleave_import_fail(im, "its output has %lld positions in dimension %d",
                                      (long long)t->out[d], 2 + d);
        t->positions[d] = (t->out[d] - 1) / t->stride[d] + 1;
    }
    return CLEAVE_OK;
}

static cleave_status read_windows(cleave_importer *im, const cleave_tensor *input,
                                  const cleave_tensor *weight, transposed *t) {
    CLEAVE_TRY(cleave_import_integers(im, "strides", t->n, 1, CLEAVE_MOST_WINDOW, 1, t->stride));
    CLEAVE_TRY(
        cleave_import_integers(im, "dilations", t->n, 1, CLEAVE_MOST_WINDOW, 1, t->dilation));
    for (int d = 0; d < t->n; d++) {
        t->in[d] = input->shape[2 + d];
        t->kernel[d] = weight->shape[2 + d];
        if (t->in[d] > CLEAVE_MOST_WINDOW || t->kernel[d] > CLEAVE_MOST_WINDOW ||
            reach(t, d) > CLEAVE_MOST_WINDOW)
            return cleave_import_fail(im, "a window of %lld over %lld positions is too long",
                                      (long long)t->kernel[d], (long long)t->in[d]);
    }
    CLEAVE_TRY(cleave_convolution_check_kernel(im, t->n, t->kernel));
    return read_output_extents(im, t);
}

static cleave_status read_transposed(cleave_importer *im, transposed *t) {
    CLEAVE_TRY(cleave_import_tensor(im, 0, &t->input));
    CLEAVE_TRY(cleave_import_tensor(im, 1, &t->weight));
    cleave_tensor input = im->tensors.items[t->input].tensor,
                  weight = im->tensors.items[t->weight].tensor;
    cleave_windows win;
    CLEAVE_TRY(cleave_windows_rank(im, &input, &win));
    t->n = win.n;
    if (weight.rank != input.rank)
        return cleave_import_fail(im, "its weight has rank %d, its input rank %d", weight.rank,
                                  input.rank);
    CLEAVE_TRY(cleave_import_integer(im, "group", 1, &t->groups));
    if (t->groups < 1 || input.shape[1] != weight.shape[0] || weight.shape[0] % t->groups != 0)
        return cleave_import_fail(im,
                                  "%lld channels in %lld groups do not fit a weight of %lld x %lld",
                                  (long long)input.shape[1], (long long)t->groups,
                                  (long long)weight.shape[0], (long long)weight.shape[1]);
    t->batch = input.shape[0];
    t->c = weight.shape[0] / t->groups;
    t->k = weight.shape[1];
    return read_windows(im, &input, &weight, t);
}

/* ---- axes ------------------------------------------------------------------------------------ */

static cleave_status add_axes(cleave_importer *im, transposed *t) {
    bool grouped = t->groups > 1;
    t->axis_n = cleave_import_add_axis(im, t->op, "n", t->batch, false);
    t->axis_g = grouped ? cleave_import_add_axis(im, t->op, "g", t->groups, false) : -1;
    /* A part of the channels of every group would not be one box, so k and c are whole. */
    t->axis_k = cleave_import_add_axis(im, t->op, "k", t->k, grouped);
    for (int d = 0; d < t->n; d++)
        t->position[d] = cleave_import_add_axis(im, t->op, cleave_spatial_names[t->n - 1][d],
                                                t->positions[d], false);
    t->axis_c = cleave_import_add_axis(im, t->op, "c", t->c, grouped);
    return t->axis_c < 0 ? cleave_import_no_memory(im) : CLEAVE_OK;
}

/* ---- windows that touch: one product --------------------------------------------------------- */

static bool windows_touch(const transposed *t) {
    bool touch = false;
    for (int d = 0; d < t->n; d++) {
        if (t->kernel[d] != t->stride[d] || t->dilation[d] != 1 || t->before[d] != 0 ||
            t->out[d] != t->in[d] * t->stride[d])
            return false;
        touch = touch || t->stride[d] > 1;
    }
    return touch;
}

static cleave_status add_product(cleave_importer *im, const transposed *t, int32_t output) {
    cleave_nest nest = {.kind = CLEAVE_NEST_PRODUCT, .op = t->op, .combiner = CLEAVE_COMBINE_SUM};
    int dimension = 0;
    nest.output.tensor = output;
    cleave_nest_take_axes(&nest, &im->operators.items[t->op]);
    int x = cleave_nest_add_input(&nest, t->input), w = cleave_nest_add_input(&nest, t->weight);
    cleave_map_axis(&nest.inputs[x], 0, t->axis_n);
    cleave_convolution_map_channels(&nest.inputs[x], t->axis_g, t->axis_c, t->c);
    if (t->axis_g >= 0)
        cleave_map_axis(&nest.inputs[w], dimension++, t->axis_g);
    cleave_map_axis(&nest.inputs[w], dimension++, t->axis_c);
    cleave_map_axis(&nest.inputs[w], dimension++, t->axis_k);
    cleave_map_axis(&nest.output, 0, t->axis_n);
    cleave_convolution_map_channels(&nest.output, t->axis_g, t->axis_k, t->k);
    for (int d = 0; d < t->n; d++) {
        int place =
            cleave_nest_add_axis(&nest, cleave_window_names[t->n - 1][d], t->kernel[d], true, -1);
        cleave_map_axis(&nest.inputs[x], 2 + d, t->position[d]);
        cleave_map_axis(&nest.inputs[w], dimension++, place);
        cleave_map_offset(&nest.output, 2 + d, 0);
        cleave_map_term(&nest.output, 2 + d, t->position[d], t->stride[d]);
        cleave_map_term(&nest.output, 2 + d, place, 1);
    }
    cleave_nest_emit(&nest, CLEAVE_OP_MUL, x, w, 0, 0);
    return cleave_import_add_nest(im, &nest, "", &im->operators.items[t->op].main_nest);
}

/* ---- phases ---------------------------------------------------------------------------------- */

/* The taps of one residue along one dimension. */
typedef struct taps {
    int64_t n, first, step; /* r = first + step x m, m from 0 to n - 1 */
    int64_t offset;         /* i = q + offset + dilation x (n - 1 - m) */
    int64_t dilation;
} taps;

static taps find_taps(const transposed *t, int d, int64_t residue) {
    int64_t stride = t->stride[d], dilation = t->dilation[d], at = residue + t->before[d];
    int64_t common = cleave_common_divisor(stride, dilation);
    taps found = {.step = stride / common, .dilation = dilation / common};
    while (found.first < found.step && (found.first * dilation - at) % stride != 0)
        found.first++;
    if (found.first < found.step && found.first < t->kernel[d]) {
        found.n = (t->kernel[d] - 1 - found.first) / found.step + 1;
        found.offset = (at - found.first * dilation) / stride - found.dilation * (found.n - 1);
    }
    return found;
}

static cleave_status name_piece(cleave_importer *im, const char *what, int64_t phase, int part,
                                const char **name) {
    *name = part < 0 ? cleave_arena_printf(im->arena, "%s.%s%lld", im->node->outputs[0], what,
                                           (long long)phase)
                     : cleave_arena_printf(im->arena, "%s.%s%lld.%d", im->node->outputs[0], what,
                                           (long long)phase, part);
    return *name == NULL ? cleave_import_no_memory(im) : CLEAVE_OK;
}

/* The taps of a phase along one dimension of the weight, the last one first. */
static cleave_status reverse_taps(cleave_importer *im, const taps *along, int dimension,
                                  int64_t phase, int32_t *weight) {
    CLEAVE_TRY(cleave_import_spend(im, along->n, 1));
    int32_t *pieces = CLEAVE_ARENA_ARRAY(&im->scratch, int32_t, along->n);
    const char *name;
    if (pieces == NULL)
        return cleave_import_no_memory(im);
    if (im->tensors.items[*weight].tensor.shape[dimension] == 1)
        return CLEAVE_OK;
    for (int64_t m = 0; m < along->n; m++) {
        int64_t tap = along->first + along->step * (along->n - 1 - m);
        CLEAVE_TRY(name_piece(im, "tap", phase * 8 + dimension, (int)m, &name));
        CLEAVE_TRY(cleave_import_range(im, name, *weight, dimension, tap, 1, &pieces[m]));
    }
    CLEAVE_TRY(name_piece(im, "taps", phase * 8 + dimension, -1, &name));
    return cleave_import_join(im, name, (int)along->n, pieces, dimension, weight);
}

/* [g,] k c and the phase's taps. */
static cleave_status view_weight(cleave_importer *im, const transposed *t, const taps *along,
                                 int64_t phase, int32_t *weight) {
    int first = t->groups > 1 ? 1 : 0;
    const char *name;
    *weight = t->weight;
    for (int d = 0; d < t->n; d++)
        CLEAVE_TRY(reverse_taps(im, &along[d], first + 2 + d, phase, weight));
    int permutation[CLEAVE_MAX_RANK];
    for (int d = 0; d < im->tensors.items[*weight].tensor.rank; d++)
        permutation[d] = d == first ? d + 1 : d == first + 1 ? d - 1 : d;
    CLEAVE_TRY(name_piece(im, "weight", phase, -1, &name));
    return cleave_import_permute(im, name, *weight, permutation, weight);
}

static cleave_status add_convolution(cleave_importer *im, const transposed *t, const taps *along,
                                     int32_t weight, int32_t output, const char *suffix) {
    cleave_nest nest = {
        .kind = CLEAVE_NEST_CONVOLUTION, .op = t->op, .combiner = CLEAVE_COMBINE_SUM};
    int dimension = 0;
    nest.output.tensor = output;
    cleave_nest_take_axes(&nest, &im->operators.items[t->op]);
    int x = cleave_nest_add_input(&nest, t->input), w = cleave_nest_add_input(&nest, weight);
    cleave_map_axis(&nest.inputs[x], 0, t->axis_n);
    cleave_convolution_map_channels(&nest.inputs[x], t->axis_g, t->axis_c, t->c);
    if (t->axis_g >= 0)
        cleave_map_axis(&nest.inputs[w], dimension++, t->axis_g);
    cleave_map_axis(&nest.inputs[w], dimension++, t->axis_k);
    cleave_map_axis(&nest.inputs[w], dimension++, t->axis_c);
    cleave_map_axis(&nest.output, 0, t->axis_n);
    cleave_convolution_map_channels(&nest.output, t->axis_g, t->axis_k, t->k);
    for (int d = 0; d < t->n; d++) {
        int place =
            cleave_nest_add_axis(&nest, cleave_window_names[t->n - 1][d], along[d].n, true, -1);
        cleave_map_offset(&nest.inputs[x], 2 + d, along[d].offset);
        cleave_map_term(&nest.inputs[x], 2 + d, t->position[d], 1);
        cleave_map_term(&nest.inputs[x], 2 + d, place, along[d].dilation);
        cleave_map_axis(&nest.inputs[w], dimension++, place);
        cleave_map_axis(&nest.output, 2 + d, t->position[d]);
    }
    cleave_nest_emit(&nest, CLEAVE_OP_MUL, x, w, 0, 0);
    return cleave_import_add_nest(im, &nest, suffix, &im->operators.items[t->op].main_nest);
}

/* Without strides there is one phase, and it is the output. */
static cleave_status add_only_phase(cleave_importer *im, const transposed *t, int32_t output) {
    taps along[CLEAVE_MOST_SPATIAL];
    int32_t weight;
    for (int d = 0; d < t->n; d++)
        along[d] = find_taps(t, d, 0);
    CLEAVE_TRY(view_weight(im, t, along, 0, &weight));
    return add_convolution(im, t, along, weight, output, "");
}

/* A phase that no tap reaches: zeros. */
static cleave_status view_zeros(cleave_importer *im, int64_t phase, int rank, const int64_t *shape,
                                int32_t *tensor) {
    static const float zero = 0;
    static const int64_t begin[CLEAVE_MAX_RANK];
    const char *name;
    int64_t one[CLEAVE_MAX_RANK];
    int32_t source;
    for (int d = 0; d < rank; d++)
        one[d] = 1;
    CLEAVE_TRY(name_piece(im, "zero", phase, -1, &name));
    CLEAVE_TRY(cleave_import_constant_tensor(im, (cleave_new_tensor){name, -1, "", rank, one, -1},
                                             &zero, &source));
    CLEAVE_TRY(name_piece(im, "zeros", phase, -1, &name));
    return cleave_import_pad_to(im, name, source, begin, shape, 0, tensor);
}

/* Output of one phase: [n, channels, positions...]. */
static cleave_status add_phase(cleave_importer *im, const transposed *t, int64_t phase,
                               int32_t *tensor) {
    taps along[CLEAVE_MOST_SPATIAL];
    int64_t rest = phase, shape[CLEAVE_MAX_RANK] = {t->batch, t->groups * t->k};
    bool empty = false;
    int32_t weight;
    for (int d = t->n - 1; d >= 0; d--) {
        along[d] = find_taps(t, d, rest % t->stride[d]);
        rest /= t->stride[d];
        shape[2 + d] = t->positions[d];
        empty = empty || along[d].n == 0;
    }
    if (empty)
        return view_zeros(im, phase, 2 + t->n, shape, tensor);
    const char *suffix = cleave_arena_printf(im->arena, ".phase%lld", (long long)phase);
    if (suffix == NULL)
        return cleave_import_no_memory(im);
    CLEAVE_TRY(view_weight(im, t, along, phase, &weight));
    CLEAVE_TRY(cleave_import_new_tensor(
        im, (cleave_new_tensor){NULL, t->op, suffix, 2 + t->n, shape, -1}, tensor));
    cleave_import_channels_last(im, *tensor);
    return add_convolution(im, t, along, weight, *tensor, suffix);
}

/* Joins runs of `stride` tensors along a dimension; [n, channels, q, 1, q, 1 ...] at first. */
static cleave_status join_phases(cleave_importer *im, const transposed *t, int64_t n,
                                 int32_t *phases) {
    const char *name;
    for (int d = t->n - 1; d >= 0; d--) {
        int64_t stride = t->stride[d];
        n /= stride;
        for (int64_t i = 0; i < n && stride > 1; i++) {
            CLEAVE_TRY(name_piece(im, "joined", i, d, &name));
            CLEAVE_TRY(cleave_import_join(im, name, (int)stride, &phases[i * stride], 3 + 2 * d,
                                          &phases[i]));
            /* As the phases lie: channels innermost. */
            cleave_tensor *made = &im->tensors.items[phases[i]].tensor;
            for (int j = 0; j < made->rank; j++)
                made->order[j] = j == 0 ? 0 : j == made->rank - 1 ? 1 : j + 1;
        }
    }
    return CLEAVE_OK;
}

/* y[n, k, s q + p] = phase p [n, k, q] */
static cleave_status add_interleaving(cleave_importer *im, const transposed *t, int32_t joined,
                                      int32_t output) {
    cleave_nest nest = {.kind = CLEAVE_NEST_POINTWISE, .op = t->op};
    nest.output.tensor = output;
    cleave_nest_add_axis(&nest, "n", t->batch, false, t->axis_n);
    int g = t->axis_g < 0 ? -1 : cleave_nest_add_axis(&nest, "g", t->groups, false, t->axis_g);
    int k = cleave_nest_add_axis(&nest, "k", t->k, t->axis_g >= 0, t->axis_k);
    cleave_nest_add_input(&nest, joined);
    cleave_map_axis(&nest.inputs[0], 0, 0);
    cleave_map_axis(&nest.output, 0, 0);
    cleave_convolution_map_channels(&nest.inputs[0], g, k, t->k);
    cleave_convolution_map_channels(&nest.output, g, k, t->k);
    for (int d = 0; d < t->n; d++) {
        int q = cleave_nest_add_axis(&nest, cleave_spatial_names[t->n - 1][d], t->positions[d],
                                     false, t->position[d]);
        int p = cleave_nest_add_axis(&nest, phase_names[t->n - 1][d], t->stride[d], true, -1);
        cleave_map_axis(&nest.inputs[0], 2 + 2 * d, q);
        cleave_map_axis(&nest.inputs[0], 3 + 2 * d, p);
        cleave_map_offset(&nest.output, 2 + d, 0);
        cleave_map_term(&nest.output, 2 + d, q, t->stride[d]);
        cleave_map_term(&nest.output, 2 + d, p, 1);
    }
    cleave_nest_emit(&nest, CLEAVE_OP_COPY, 0, 0, 0, 0);
    return cleave_import_add_nest(im, &nest, "", &im->operators.items[t->op].main_nest);
}

static cleave_status add_phases(cleave_importer *im, const transposed *t, int32_t output) {
    int64_t n = cleave_shape_size(t->n, t->stride), shape[CLEAVE_MAX_RANK] = {t->batch};
    const char *name;
    CLEAVE_TRY(cleave_import_spend(im, n, 1));
    int32_t *phases = CLEAVE_ARENA_ARRAY(&im->scratch, int32_t, n);
    if (phases == NULL)
        return cleave_import_no_memory(im);
    shape[1] = t->groups * t->k;
    for (int d = 0; d < t->n; d++) {
        shape[2 + 2 * d] = t->positions[d];
        shape[3 + 2 * d] = 1;
    }
    for (int64_t i = 0; i < n; i++) {
        CLEAVE_TRY(add_phase(im, t, i, &phases[i]));
        CLEAVE_TRY(name_piece(im, "phase", i, -1, &name));
        CLEAVE_TRY(cleave_import_reshape(im, name, phases[i], 2 + 2 * t->n, shape, &phases[i]));
    }
    CLEAVE_TRY(join_phases(im, t, n, phases));
    return add_interleaving(im, t, phases[0], output);
}

/* ---- the operator ---------------------------------------------------------------------------- */

/* The node's output, where the phases together are longer than it is. */
static cleave_status crop(cleave_importer *im, const transposed *t, int32_t *output) {
    cleave_tensor from = im->tensors.items[*output].tensor;
    cleave_view view = {.kind = CLEAVE_VIEW_SLICE, .n_sources = 1, .sources = output};
    for (int d = 0; d < from.rank; d++) {
        view.step[d] = 1;
        from.shape[d] = d < 2 ? from.shape[d] : t->out[d - 2];
    }
    return cleave_import_new_view(im, im->node->outputs[0], view, from.rank, from.shape, output);
}

cleave_status cleave_import_conv_transpose(cleave_importer *im) {
    transposed t = {0};
    int32_t output;
    bool crops = false, single = true;
    CLEAVE_TRY(read_transposed(im, &t));
    int64_t shape[CLEAVE_MAX_RANK] = {t.batch, t.groups * t.k};
    for (int d = 0; d < t.n; d++) {
        shape[2 + d] = t.positions[d] * t.stride[d];
        crops = crops || shape[2 + d] != t.out[d];
        single = single && t.stride[d] == 1;
    }
    /* As PyTorch draws it. */
    int64_t fan_in = t.k * cleave_shape_size(t.n, t.kernel);
    /* In memory with k innermost, as products like it. */
    CLEAVE_TRY(cleave_convolution_refine_weight(im, (int64_t[]){t.groups, t.c, t.k}, t.n, t.kernel,
                                                false, &t.weight));
    cleave_import_initialise(im, t.weight, fan_in, 0);
    CLEAVE_TRY(cleave_import_new_operator(im, true, &t.op));
    CLEAVE_TRY(add_axes(im, &t));
    CLEAVE_TRY(
        cleave_import_new_tensor(im,
                                 (cleave_new_tensor){crops ? NULL : im->node->outputs[0], t.op,
                                                     crops ? ".whole" : "", 2 + t.n, shape, -1},
                                 &output));
    cleave_import_channels_last(im, output);
    im->operators.items[t.op].output = output;
    im->operators.items[t.op].fan_in = fan_in;
    CLEAVE_TRY(windows_touch(&t) ? add_product(im, &t, output)
               : single          ? add_only_phase(im, &t, output)
                                 : add_phases(im, &t, output));
    CLEAVE_TRY(cleave_convolution_add_bias(im, t.op, t.groups * t.k));
    if (crops)
        CLEAVE_TRY(crop(im, &t, &output));
    cleave_import_set_output(im, 0, output, false);
    return CLEAVE_OK;
}
