/* Convolutions by oneDNN, on the local boxes of a part.

   The nest says what it computes by its maps: x[n, C g + c, stride h + dilation r - pad, ...] times
   w[K g + k, c, r, ...] or w[g, k, c, r, ...], summed into y[n, K g + k, h, ...].  What the map
   reaches beyond the tensor is the local padding, at each end by itself. */
#include "exec/kernels/kernel_table.h"

#include <string.h>

/* The axis of a dimension that is one axis alone; -1: it is fixed; -2: anything else. */
static int single_axis(const cleave_dimension_map *map) {
    if (map->n_terms == 0)
        return -1;
    return map->n_terms == 1 && map->terms[0].stride == 1 && map->offset == 0 ? map->terms[0].axis
                                                                              : -2;
}

static int64_t extent_of(const cleave_kernel_call *call, int axis) {
    return axis < 0 ? 1 : cleave_part_extent(&call->part, axis);
}

/* A dimension of channels: `per_group` x group + channel, where groups are wanted. */
typedef struct channels {
    int group, channel; /* axes, -1: none */
    int64_t per_group;
} channels;

static bool read_channels(const cleave_dimension_map *map, int group, channels *result) {
    *result = (channels){-1, -1, 1};
    if (map->offset != 0)
        return false;
    for (int t = 0; t < map->n_terms; t++) {
        int axis = map->terms[t].axis;
        int64_t stride = map->terms[t].stride;
        if (axis == group && result->group < 0) {
            result->group = axis;
            result->per_group = stride;
        } else if (stride == 1 && result->channel < 0) {
            result->channel = axis;
        } else {
            return false;
        }
    }
    return true;
}

/* The axis that both channels of the input and of the output have: the group. */
static int find_group(const cleave_nest *nest) {
    const cleave_dimension_map *x = &nest->inputs[0].map[1], *y = &nest->output.map[1];
    for (int i = 0; i < x->n_terms; i++)
        for (int j = 0; j < y->n_terms; j++)
            if (x->terms[i].axis == y->terms[j].axis)
                return x->terms[i].axis;
    return -1;
}

typedef cleave_convolution_operands arrays;

arrays cleave_kernel_convolution_operands(const cleave_kernel_call *call) {
    bool forward = call->pass == CLEAVE_PASS_FORWARD;
    uint32_t gradients = forward ? 0 : cleave_kernel_gradients(call);
    return (arrays){.x = gradients & 1 ? &call->input_gradients[0] : &call->inputs[0],
                    .w = gradients & 2 ? &call->input_gradients[1] : &call->inputs[1],
                    .y = forward ? &call->output : &call->output_gradient};
}

/* Do the weights have a dimension of groups? */
static bool has_group_dimension(const cleave_kernel_call *call) {
    const cleave_tensor *tensors = call->model->tensors;
    return tensors[call->nest->inputs[1].tensor].rank > tensors[call->nest->output.tensor].rank;
}

/* Groups and output channels of the weights, and where they lie. */
static bool read_weight_channels(const cleave_kernel_call *call, const arrays *a, int group,
                                 const channels *y, cleave_convolution *c) {
    const cleave_dimension_map *map = call->nest->inputs[1].map;
    if (has_group_dimension(call)) {
        c->w_stride[0] = a->w->strides[0];
        c->w_stride[1] = a->w->strides[1];
        return group >= 0 && single_axis(&map[0]) == group && single_axis(&map[1]) == y->channel;
    }
    channels w;
    c->w_stride[0] = a->w->strides[0] * y->per_group;
    c->w_stride[1] = a->w->strides[0];
    return read_channels(&map[0], group, &w) && w.channel == y->channel && w.group == y->group &&
           w.per_group == y->per_group;
}

/* One window dimension: x is stride x (axis of y) + dilation x (axis of w), less the padding. */
static bool describe_spatial(const cleave_kernel_call *call, const arrays *a, int d,
                             cleave_convolution *c) {
    const cleave_nest *nest = call->nest;
    const cleave_dimension_map *x = &nest->inputs[0].map[d];
    int s = d - 2, of_w = d + (has_group_dimension(call) ? 1 : 0),
        out = single_axis(&nest->output.map[d]), window = single_axis(&nest->inputs[1].map[of_w]);
    if (out == -2 || window == -2 || (out >= 0 && out == window))
        return false;
    c->out[s] = extent_of(call, out);
    c->window[s] = extent_of(call, window);
    c->stride[s] = c->dilation[s] = 1;
    for (int t = 0; t < x->n_terms; t++) {
        if (x->terms[t].axis == out)
            c->stride[s] = x->terms[t].stride;
        else if (x->terms[t].axis == window)
            c->dilation[s] = x->terms[t].stride;
        else
            return false;
    }
    cleave_box raw;
    cleave_part_raw_box(&call->part, &nest->inputs[0],
                        call->model->tensors[nest->inputs[0].tensor].rank, &raw);
    c->in[s] = a->x->box.hi[d] - a->x->box.lo[d];
    c->pad_lo[s] = a->x->box.lo[d] - raw.lo[d];
    c->pad_hi[s] = raw.hi[d] - a->x->box.hi[d];
    c->x_stride[d] = a->x->strides[d];
    c->y_stride[d] = a->y->strides[d];
    c->w_stride[d + 1] = a->w->strides[of_w];
    /* A window axis that x does not have would be counted several times; one of y likewise. */
    return (c->out[s] == 1 || x->n_terms > 0) &&
           raw.hi[d] - raw.lo[d] ==
               (c->out[s] - 1) * c->stride[s] + (c->window[s] - 1) * c->dilation[s] + 1;
}

static bool describe_channels(const cleave_kernel_call *call, const arrays *a,
                              cleave_convolution *c) {
    const cleave_nest *nest = call->nest;
    int group = find_group(nest);
    int input_channels = has_group_dimension(call) ? 2 : 1;
    channels x, y;
    if (!read_channels(&nest->inputs[0].map[1], group, &x) ||
        !read_channels(&nest->output.map[1], group, &y) ||
        !read_weight_channels(call, a, group, &y, c) ||
        single_axis(&nest->inputs[1].map[input_channels]) != x.channel)
        return false;
    c->groups = extent_of(call, group);
    c->c = extent_of(call, x.channel);
    c->k = extent_of(call, y.channel);
    /* Several groups, with a part of each one's channels: boxes have holes. */
    if (c->groups > 1 && (c->c != x.per_group || c->k != y.per_group))
        return false;
    c->x_stride[1] = a->x->strides[1];
    c->y_stride[1] = a->y->strides[1];
    c->w_stride[2] = a->w->strides[input_channels];
    return true;
}

bool cleave_kernel_describe_convolution(const cleave_kernel_call *call, cleave_convolution *c) {
    const cleave_nest *nest = call->nest;
    const cleave_model *model = call->model;
    memset(c, 0, sizeof *c);
    if (nest->n_inputs != 2 || nest->combiner > CLEAVE_COMBINE_SUM || nest->n_instructions != 1 ||
        nest->tape[0].opcode != CLEAVE_OP_MUL || nest->tape[0].a + nest->tape[0].b != 1 ||
        nest->tape[0].a == nest->tape[0].b)
        return false;
    int rank = model->tensors[nest->output.tensor].rank;
    int of_w = model->tensors[nest->inputs[1].tensor].rank;
    if (rank < 3 || rank > 2 + CLEAVE_MAX_SPATIAL ||
        model->tensors[nest->inputs[0].tensor].rank != rank || (of_w != rank && of_w != rank + 1))
        return false;
    uint32_t gradients = call->pass == CLEAVE_PASS_FORWARD ? 0 : cleave_kernel_gradients(call);
    if (gradients == 3)
        return false;
    c->pass = gradients == 0   ? CLEAVE_CONVOLUTION_FORWARD
              : gradients == 1 ? CLEAVE_CONVOLUTION_BACKWARD_DATA
                               : CLEAVE_CONVOLUTION_BACKWARD_WEIGHTS;
    c->n_spatial = rank - 2;
    arrays a = cleave_kernel_convolution_operands(call);
    int n = single_axis(&nest->inputs[0].map[0]);
    if (n < 0 || n != single_axis(&nest->output.map[0]) || !describe_channels(call, &a, c))
        return false;
    c->half_x = a.x->type == CLEAVE_BF16;
    c->half_w = a.w->type == CLEAVE_BF16;
    c->half_y = a.y->type == CLEAVE_BF16;
    c->batch = extent_of(call, n);
    c->x_stride[0] = a.x->strides[0];
    c->y_stride[0] = a.y->strides[0];
    for (int d = 2; d < rank; d++)
        if (!describe_spatial(call, &a, d, c))
            return false;
    int64_t points = c->batch * c->groups * c->c * c->k, all = 1;
    for (int s = 0; s < c->n_spatial; s++)
        points *= c->out[s] * c->window[s];
    for (int axis = 0; axis < nest->n_axes; axis++)
        all *= extent_of(call, axis);
    return points == all; /* else there is an axis that nothing above has read */
}

/* A window that lies wholly in the padding reads nothing. */
static bool reads_nothing(const cleave_convolution *c) {
    for (int s = 0; s < c->n_spatial; s++)
        if (c->in[s] <= 0)
            return true;
    return false;
}

/* A convolution in pieces along its batch: the first `n_long` have one sample more. */
typedef struct cut_convolution {
    int64_t n, n_long;
    cleave_convolution longer, shorter;
} cut_convolution;

static int64_t least_samples(const cleave_convolution *c) {
    /* Every piece of the weights' gradient is added to that of the others: points of the output
       that make this cheap beside the piece. */
    enum { LEAST_POINTS = 1024 };
    int64_t points = 1;
    for (int s = 0; s < c->n_spatial; s++)
        points *= c->out[s];
    bool adds = c->pass == CLEAVE_CONVOLUTION_BACKWARD_WEIGHTS;
    return adds && points < LEAST_POINTS ? (LEAST_POINTS + points - 1) / points : 1;
}

static cut_convolution cut(cleave_kernels *kernels, const cleave_kernel_call *call,
                           const cleave_convolution *whole) {
    int64_t most = whole->batch / least_samples(whole),
            n = call->pieces < most ? call->pieces : most;
    if (n > 1) {
        cut_convolution pieces = {n, whole->batch % n, *whole, *whole};
        pieces.shorter.batch = whole->batch / n;
        pieces.longer.batch = pieces.shorter.batch + (pieces.n_long > 0 ? 1 : 0);
        if (cleave_onednn_same_weights(kernels->onednn, &pieces.longer, &pieces.shorter))
            return pieces;
    }
    return (cut_convolution){1, 0, *whole, *whole};
}

static int64_t workspace_of(cleave_kernels *kernels, const cut_convolution *pieces) {
    bool is_cut = pieces->n > 1;
    int64_t shorter =
        cleave_onednn_convolution_workspace(kernels->onednn, &pieces->shorter, is_cut);
    int64_t longer = cleave_onednn_convolution_workspace(kernels->onednn, &pieces->longer, is_cut);
    return longer > shorter ? longer : shorter;
}

/* Is it all f32, or does it multiply bf16? */
static bool has_types(const cleave_kernels *kernels, const cleave_convolution *c) {
    if (!c->half_x && !c->half_w && !c->half_y)
        return true;
    return kernels->multiplies_bf16 &&
           (c->pass == CLEAVE_CONVOLUTION_FORWARD         ? c->half_x && c->half_w
            : c->pass == CLEAVE_CONVOLUTION_BACKWARD_DATA ? c->half_w && c->half_y
                                                          : c->half_x && !c->half_w && c->half_y);
}

static bool fits(cleave_kernels *kernels, const cleave_kernel_call *call) {
    cleave_convolution c;
    return cleave_kernel_describe_convolution(call, &c) && has_types(kernels, &c) &&
           (reads_nothing(&c) ||
            cleave_onednn_convolution_workspace(kernels->onednn, &c, false) >= 0);
}

static int64_t workspace(cleave_kernels *kernels, const cleave_kernel_call *call) {
    cleave_convolution c;
    if (!cleave_kernel_describe_convolution(call, &c) || reads_nothing(&c))
        return 0;
    cut_convolution pieces = cut(kernels, call, &c);
    int64_t bytes = workspace_of(kernels, &pieces);
    return bytes > 0 ? bytes : 0;
}

static cleave_status run_pieces(cleave_kernels *kernels, const cleave_kernel_call *call,
                                const cut_convolution *pieces, const arrays *a,
                                cleave_error *error) {
    const cleave_convolution *first = pieces->n_long > 0 ? &pieces->longer : &pieces->shorter;
    bool back = first->pass == CLEAVE_CONVOLUTION_BACKWARD_WEIGHTS;
    cleave_convolution_arrays at = {a->x->data, a->w->data, a->y->data, call->workspace};
    if (!back)
        CLEAVE_TRY(
            cleave_onednn_convolution_reorder(kernels->onednn, first, at.w, at.workspace, error));
    for (int64_t i = 0; i < pieces->n; i++) {
        const cleave_convolution *piece = i < pieces->n_long ? &pieces->longer : &pieces->shorter;
        if (i > 0)
            CLEAVE_TRY(cleave_kernel_poll_now(call, error));
        CLEAVE_TRY(cleave_onednn_convolution_run(kernels->onednn, piece, at,
                                                 pieces->n == 1 ? CLEAVE_CONVOLUTION_WHOLE
                                                 : i == 0       ? CLEAVE_CONVOLUTION_FIRST_PIECE
                                                                : CLEAVE_CONVOLUTION_LATER_PIECE,
                                                 error));
        at.x += piece->batch * piece->x_stride[0] * cleave_type_bytes(a->x->type);
        at.y += piece->batch * piece->y_stride[0] * cleave_type_bytes(a->y->type);
    }
    return back ? cleave_onednn_convolution_reorder(kernels->onednn, first, at.w, at.workspace,
                                                    error)
                : CLEAVE_OK;
}

static cleave_status run(cleave_kernels *kernels, const cleave_kernel_call *call,
                         cleave_error *error) {
    cleave_convolution c;
    if (!cleave_kernel_describe_convolution(call, &c))
        return cleave_fail(error, CLEAVE_FAILED, "the convolution kernel does not fit nest %s",
                           call->nest->name);
    arrays a = cleave_kernel_convolution_operands(call);
    if (reads_nothing(&c)) {
        const cleave_nest *nest = call->nest;
        if (c.pass == CLEAVE_CONVOLUTION_FORWARD)
            cleave_kernel_zero(call, &nest->output, a.y);
        else if (c.pass == CLEAVE_CONVOLUTION_BACKWARD_WEIGHTS)
            cleave_kernel_zero(call, &nest->inputs[1], a.w);
        return CLEAVE_OK;
    }
    cut_convolution pieces = cut(kernels, call, &c);
    return run_pieces(kernels, call, &pieces, &a, error);
}

const cleave_kernel_row cleave_convolution_kernel = {
    .name = "convolution",
    .kinds = 1u << CLEAVE_NEST_CONVOLUTION,
    .passes = ~0u,
    .takes_bf16 = true,
    .fits = fits,
    .workspace = workspace,
    .run = run,
};
