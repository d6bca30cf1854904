/* Pools: a window's maximum or weighted sum of one tensor, channels innermost in memory.

   For every position of the output, the points of its window that lie inside the tensor are
   visited in row-major order, each as one vector of channels.  Any number of window axes, strides,
   dilations and paddings; the weight of a point (the reciprocal of a count, say) may be constant,
   or an operand that does not vary along the channels. */
#include "exec/kernels/kernel_table.h"

#include <math.h>
#include <string.h>

enum { MAX_WINDOW = 4096 };

typedef struct pool {
    int channel; /* the axis that is the vector */
    int64_t channels;
    int n_outer, outer[CLEAVE_MAX_AXES];   /* other axes of the output */
    int n_window, window[CLEAVE_MAX_AXES]; /* axes that it lacks */
    int64_t points;                        /* of the window */
    double scale;
    bool weighted; /* input 1 is the weight */
    cleave_reach input, weight, output;
} pool;

/* The tape is x, p x, x w or p x w. */
static bool read_tape(const cleave_nest *nest, pool *p) {
    p->scale = 1;
    int value = 0;
    for (int i = 0; i < nest->n_instructions; i++) {
        const cleave_instruction *at = &nest->tape[i];
        bool pair = (at->a == value && at->b == 1) || (at->a == 1 && at->b == value);
        if (at->opcode == CLEAVE_OP_MUL && nest->n_inputs == 2 && !p->weighted && pair)
            p->weighted = true;
        else if (at->opcode == CLEAVE_OP_SCALE && at->a == value && at->q >= 0 && at->q <= 0)
            p->scale *= at->p;
        else if (at->opcode != CLEAVE_OP_COPY || at->a != value)
            return false;
        value = nest->n_inputs + i;
    }
    bool plain = p->scale >= 1 && p->scale <= 1 && !p->weighted;
    return nest->n_inputs == (p->weighted ? 2 : 1) &&
           (nest->combiner == CLEAVE_COMBINE_SUM ||
            (nest->combiner == CLEAVE_COMBINE_MAX && plain));
}

/* Could this axis be the vector?  Dense in both operands, in no window, and never padded. */
static bool is_channel(const cleave_kernel_call *call, const pool *p, int axis) {
    const cleave_operand *x = &call->nest->inputs[0];
    for (int d = 0; d < call->model->tensors[x->tensor].rank; d++)
        for (int t = 0; t < x->map[d].n_terms; t++)
            if (x->map[d].terms[t].axis == axis && (x->map[d].n_terms > 1 || x->map[d].offset != 0))
                return false;
    return p->input.stride[axis] == 1 && p->output.stride[axis] == 1 &&
           !(p->weighted && cleave_operand_maps_axis(
                                &call->nest->inputs[1],
                                call->model->tensors[call->nest->inputs[1].tensor].rank, axis));
}

static bool describe(const cleave_kernel_call *call, pool *p) {
    const cleave_nest *nest = call->nest;
    const cleave_model *model = call->model;
    *p = (pool){.channel = -1, .channels = 1, .points = 1};
    bool backward = call->pass != CLEAVE_PASS_FORWARD;
    if (!read_tape(nest, p) || (backward && cleave_kernel_gradients(call) != 1) ||
        model->tensors[nest->inputs[0].tensor].type != CLEAVE_F32 ||
        model->tensors[nest->output.tensor].type != CLEAVE_F32)
        return false;
    /* In backward neither the input nor the output need be there; their gradients have their boxes.
     */
    p->input = cleave_kernel_reach(call, &nest->inputs[0],
                                   backward ? &call->input_gradients[0] : &call->inputs[0]);
    p->output =
        cleave_kernel_reach(call, &nest->output, backward ? &call->output_gradient : &call->output);
    if (p->weighted) {
        p->weight = cleave_kernel_reach(call, &nest->inputs[1], &call->inputs[1]);
        if (!p->weight.inside || model->tensors[nest->inputs[1].tensor].type != CLEAVE_F32)
            return false;
    }
    if (!p->output.inside)
        return false;
    for (int a = 0; a < nest->n_axes; a++) {
        if (cleave_part_extent(&call->part, a) == 1)
            continue;
        bool window =
            !cleave_operand_maps_axis(&nest->output, model->tensors[nest->output.tensor].rank, a);
        if (!window && is_channel(call, p, a)) {
            p->channel = a;
            p->channels = cleave_part_extent(&call->part, a);
        } else if (window) {
            p->window[p->n_window++] = a;
            p->points *= cleave_part_extent(&call->part, a);
        } else {
            p->outer[p->n_outer++] = a;
        }
    }
    return p->points <= MAX_WINDOW;
}

/* The points of one window that lie inside, in row-major order. */
typedef struct window_points {
    int n;
    int64_t input[MAX_WINDOW], weight[MAX_WINDOW];
} window_points;

/* A dimension of the input that a window can leave. */
typedef struct guard {
    const cleave_dimension_map *map;
    int64_t shape;
} guard;

typedef struct pool_walk {
    const cleave_kernel_call *call;
    const pool *p;
    int n_guards;
    guard guards[CLEAVE_MAX_RANK];
    int64_t axis[CLEAVE_MAX_AXES];
    int64_t output; /* offset */
    window_points points;
} pool_walk;

static void start_walk(const cleave_kernel_call *call, const pool *p, pool_walk *w) {
    w->call = call;
    w->p = p;
    w->n_guards = 0;
    const cleave_operand *x = &call->nest->inputs[0];
    const cleave_tensor *tensor = &call->model->tensors[x->tensor];
    cleave_box raw;
    cleave_part_raw_box(&call->part, x, tensor->rank, &raw);
    for (int d = 0; d < tensor->rank; d++)
        if (raw.lo[d] < 0 || raw.hi[d] > tensor->shape[d])
            w->guards[w->n_guards++] = (guard){&x->map[d], tensor->shape[d]};
    memcpy(w->axis, call->part.lo, sizeof w->axis);
}

static bool is_inside(const pool_walk *w) {
    for (int g = 0; g < w->n_guards; g++) {
        const cleave_dimension_map *map = w->guards[g].map;
        int64_t index = map->offset;
        for (int t = 0; t < map->n_terms; t++)
            index += map->terms[t].stride * w->axis[map->terms[t].axis];
        if (index < 0 || index >= w->guards[g].shape)
            return false;
    }
    return true;
}

/* The next index of some axes, the last of them fastest; false at the end, back at the start. */
static bool step(pool_walk *w, const int *axes, int n) {
    for (int i = n - 1; i >= 0; i--) {
        if (++w->axis[axes[i]] < w->call->part.hi[axes[i]])
            return true;
        w->axis[axes[i]] = w->call->part.lo[axes[i]];
    }
    return false;
}

static int64_t offset_of(const pool_walk *w, const cleave_reach *reach, const int *axes, int n) {
    int64_t at = 0;
    for (int i = 0; i < n; i++)
        at += reach->stride[axes[i]] * (w->axis[axes[i]] - w->call->part.lo[axes[i]]);
    return at;
}

static void find_points(pool_walk *w) {
    const pool *p = w->p;
    int64_t input = p->input.base + offset_of(w, &p->input, p->outer, p->n_outer);
    int64_t weight = p->weight.base + offset_of(w, &p->weight, p->outer, p->n_outer);
    w->output = p->output.base + offset_of(w, &p->output, p->outer, p->n_outer);
    w->points.n = 0;
    do {
        if (!is_inside(w))
            continue;
        w->points.input[w->points.n] = input + offset_of(w, &p->input, p->window, p->n_window);
        w->points.weight[w->points.n++] = weight + offset_of(w, &p->weight, p->window, p->n_window);
    } while (step(w, p->window, p->n_window));
}

static float weight_of(const pool_walk *w, int point) {
    double weight = w->p->scale;
    if (w->p->weighted)
        weight *= (double)((const float *)w->call->inputs[1].data)[w->points.weight[point]];
    return (float)weight;
}

static void forward_max(const pool_walk *w) {
    int64_t n = w->p->channels;
    const float *x = w->call->inputs[0].data;
    float *y = (float *)w->call->output.data + w->output;
    for (int64_t c = 0; c < n; c++)
        y[c] = -HUGE_VALF;
    for (int q = 0; q < w->points.n; q++) {
        const float *restrict from = x + w->points.input[q];
        float *restrict to = y;
        for (int64_t c = 0; c < n; c++)
            to[c] = from[c] > to[c] ? from[c] : to[c];
    }
}

static void forward_sum(const pool_walk *w) {
    int64_t n = w->p->channels;
    const float *x = w->call->inputs[0].data;
    float *y = (float *)w->call->output.data + w->output;
    memset(y, 0, (size_t)n * sizeof *y);
    for (int q = 0; q < w->points.n; q++) {
        const float *restrict from = x + w->points.input[q];
        float *restrict to = y, weight = weight_of(w, q);
        for (int64_t c = 0; c < n; c++)
            to[c] += weight * from[c];
    }
}

/* Channels are done in blocks whose maxima and places stay in registers and the first cache. */
enum { BLOCK = 256 };

static void backward_max(const pool_walk *w) {
    const float *x = w->call->inputs[0].data;
    float *dx = w->call->input_gradients[0].data;
    const float *dy = (const float *)w->call->output_gradient.data + w->output;
    for (int64_t start = 0; start < w->p->channels; start += BLOCK) {
        int64_t left = w->p->channels - start;
        int n = (int)(left < BLOCK ? left : BLOCK);
        float best[BLOCK];
        int32_t place[BLOCK];
        for (int c = 0; c < n; c++) {
            best[c] = -HUGE_VALF;
            place[c] = 0;
        }
        for (int32_t q = 0; q < w->points.n; q++) {
            const float *from = x + w->points.input[q] + start;
            for (int c = 0; c < n; c++) {
                bool more = from[c] > best[c];
                best[c] = more ? from[c] : best[c];
                place[c] = more ? q : place[c];
            }
        }
        for (int32_t q = 0; q < w->points.n; q++) {
            float *restrict to = dx + w->points.input[q] + start;
            for (int c = 0; c < n; c++)
                to[c] += place[c] == q ? dy[start + c] : 0.0f;
        }
    }
}

static void backward_sum(const pool_walk *w) {
    float *dx = w->call->input_gradients[0].data;
    const float *dy = (const float *)w->call->output_gradient.data + w->output;
    for (int q = 0; q < w->points.n; q++) {
        float *restrict to = dx + w->points.input[q], weight = weight_of(w, q);
        for (int64_t c = 0; c < w->p->channels; c++)
            to[c] += weight * dy[c];
    }
}

static bool fits(cleave_kernels *kernels, const cleave_kernel_call *call) {
    (void)kernels;
    pool p;
    return describe(call, &p);
}

/* Offsets of the points of one window. */
static int64_t workspace(cleave_kernels *kernels, const cleave_kernel_call *call) {
    (void)kernels;
    (void)call;
    return (int64_t)sizeof(pool_walk);
}

static cleave_status run(cleave_kernels *kernels, const cleave_kernel_call *call,
                         cleave_error *error) {
    (void)kernels;
    pool p;
    if (!describe(call, &p))
        return cleave_fail(error, CLEAVE_FAILED, "the pool kernel does not fit nest %s",
                           call->nest->name);
    bool forward = call->pass == CLEAVE_PASS_FORWARD,
         max = call->nest->combiner == CLEAVE_COMBINE_MAX;
    void (*body)(const pool_walk *) =
        forward ? (max ? forward_max : forward_sum) : (max ? backward_max : backward_sum);
    if (!forward)
        cleave_kernel_zero(call, &call->nest->inputs[0], &call->input_gradients[0]);
    pool_walk *w = call->workspace;
    start_walk(call, &p, w);
    int64_t windows = 1;
    for (int i = 0; i < p.n_outer; i++)
        windows *= cleave_part_extent(&call->part, p.outer[i]);
    cleave_kernel_pace pace = cleave_kernel_pace_start(call, windows);
    do {
        find_points(w);
        body(w);
        CLEAVE_TRY(cleave_kernel_pace_step(&pace, error));
    } while (step(w, p.outer, p.n_outer));
    return CLEAVE_OK;
}

const cleave_kernel_row cleave_pool_kernel = {
    .name = "pool",
    .kinds = 1u << CLEAVE_NEST_POOL,
    .passes = 1u << CLEAVE_PASS_FORWARD | 1u << CLEAVE_PASS_INPUT_GRADIENT,
    .takes_gaps = true,
    .fits = fits,
    .workspace = workspace,
    .run = run,
};
