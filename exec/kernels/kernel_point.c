/* Convolutions of windows of one point, as matrix products.

   With P [points, c] for what is read of x, w [k, c] or [c, k] and y [points, k]:

       forward  y = P w^T        backward data  P = y w        backward weights  w = y^T P

   P is x itself where every point is read. Windows that step over some, as between two stages of a
   residual network, have their points brought together first, which takes one pass over a part of
   x; where no window reads there is no gradient. */
#include "exec/kernels/copy.h"
#include "exec/kernels/multiply.h"

typedef struct point_windows {
    cleave_convolution c;
    int64_t points, x_row, y_row, w_row; /* x_row: of P */
    bool w_by_input;                     /* as [c, k] */
    bool steps, gathers;                 /* gathers: x itself is no P */
    cleave_copy_piece gather;            /* of P from x */
} point_windows;

/* Do samples and points lie one after the other, so that they are rows of a matrix?  `step` is from
   a point to the next in each dimension of space. */
static bool find_rows(const cleave_convolution *c, const int64_t *stride, const int64_t *step,
                      int64_t channels, int64_t *row) {
    int64_t points = 1;
    *row = channels;
    for (int i = (int)c->n_spatial; i >= 0; i--) {
        int64_t extent = i == 0 ? c->batch : c->out[i - 1],
                apart = i == 0 ? stride[0] : stride[i + 1] * step[i - 1];
        if (extent == 1)
            continue;
        if (points == 1)
            *row = apart;
        else if (apart != points * *row)
            return false;
        points *= extent;
    }
    return stride[1] == 1 && *row >= channels;
}

static bool find_w_rows(const cleave_convolution *c, point_windows *s) {
    s->w_by_input = c->w_stride[2] != 1 || c->w_stride[1] < c->c;
    s->w_row = c->w_stride[s->w_by_input ? 2 : 1];
    return !s->w_by_input || (c->w_stride[1] == 1 && s->w_row >= c->k);
}

static void describe_gather(point_windows *s) {
    const cleave_convolution *c = &s->c;
    cleave_copy_piece *piece = &s->gather;
    *piece = (cleave_copy_piece){.mode = CLEAVE_COPY_ASSIGN,
                                 .type = CLEAVE_F32,
                                 .source_type = CLEAVE_F32,
                                 .rank = (int)c->n_spatial + 2};
    int64_t dense = s->x_row = c->c;
    for (int d = (int)c->n_spatial; d >= 0; d--) {
        piece->extent[d] = d == 0 ? c->batch : c->out[d - 1];
        piece->source_stride[d] = d == 0 ? c->x_stride[0] : c->x_stride[d + 1] * c->stride[d - 1];
        piece->destination_stride[d] = dense;
        dense *= piece->extent[d];
    }
    piece->extent[piece->rank - 1] = c->c;
    piece->source_stride[piece->rank - 1] = piece->destination_stride[piece->rank - 1] = 1;
}

static bool describe(const cleave_kernel_call *call, point_windows *s) {
    cleave_convolution *c = &s->c;
    static const int64_t one[CLEAVE_MAX_SPATIAL] = {1, 1, 1};
    *s = (point_windows){.points = 1};
    if (!cleave_kernel_describe_convolution(call, c) || c->groups != 1 || c->x_stride[1] != 1 ||
        c->half_x || c->half_w || c->half_y || c->c > INT32_MAX || c->k > INT32_MAX)
        return false;
    for (int d = 0; d < c->n_spatial; d++) {
        s->steps = s->steps || c->stride[d] > 1;
        s->points *= c->out[d];
        if (c->window[d] != 1 || c->pad_lo[d] != 0 || c->pad_hi[d] != 0)
            return false;
    }
    s->points *= c->batch;
    if (s->points > INT32_MAX || !find_rows(c, c->y_stride, one, c->k, &s->y_row) ||
        !find_w_rows(c, s))
        return false;
    s->gathers = !find_rows(c, c->x_stride, c->stride, c->c, &s->x_row);
    if (s->gathers)
        describe_gather(s);
    return true;
}

/* Is it quicker than oneDNN's convolution?  That has formats of its own for weights, and brings
   them there at every call, which forward is worth it where many points meet them.  It is slow at
   steps. Rows of few channels are short. */
static bool is_quicker(const point_windows *s) {
    enum { LEAST_CHANNELS = 64, FEW_POINTS = 512 };
    return s->c.c >= LEAST_CHANNELS && s->c.k >= LEAST_CHANNELS &&
           (s->c.pass != CLEAVE_CONVOLUTION_FORWARD || s->steps || s->points <= FEW_POINTS);
}

static bool fits(cleave_kernels *kernels, const cleave_kernel_call *call) {
    point_windows s;
    return !(call->widened && kernels->multiplies_bf16) && describe(call, &s) && is_quicker(&s);
}

static int64_t workspace(cleave_kernels *kernels, const cleave_kernel_call *call) {
    (void)kernels;
    point_windows s;
    return describe(call, &s) && s.gathers ? s.points * s.c.c * (int64_t)sizeof(float) : 0;
}

static cleave_blas_product product_of(const point_windows *s) {
    cleave_blas_product p = {.m = s->points, .n = s->c.k, .k = s->c.c, .alpha = 1};
    if (s->c.pass == CLEAVE_CONVOLUTION_BACKWARD_WEIGHTS) {
        p.m = s->w_by_input ? s->c.c : s->c.k;
        p.n = s->w_by_input ? s->c.k : s->c.c;
        p.k = s->points;
        p.a_transposed = true;
        p.a_row = s->w_by_input ? s->x_row : s->y_row;
        p.b_row = s->w_by_input ? s->y_row : s->x_row;
        p.c_row = s->w_row;
        return p;
    }
    bool back = s->c.pass == CLEAVE_CONVOLUTION_BACKWARD_DATA;
    if (back) {
        p.n = s->c.c;
        p.k = s->c.k;
    }
    p.a_row = back ? s->y_row : s->x_row;
    p.b_transposed = s->w_by_input == back;
    p.b_row = s->w_row;
    p.c_row = back ? s->x_row : s->y_row;
    return p;
}

static cleave_matrices matrices_of(const point_windows *s, const cleave_convolution_operands *a,
                                   void *points) {
    cleave_matrices m = {.operand = sizeof(float), .result = sizeof(float)};
    if (s->c.pass == CLEAVE_CONVOLUTION_FORWARD) {
        m.a_of = points;
        m.b_of = a->w->data;
        m.c_of = a->y->data;
    } else if (s->c.pass == CLEAVE_CONVOLUTION_BACKWARD_DATA) {
        m.a_of = a->y->data;
        m.b_of = a->w->data;
        m.c_of = points;
    } else {
        m.a_of = s->w_by_input ? points : a->y->data;
        m.b_of = s->w_by_input ? a->y->data : points;
        m.c_of = a->w->data;
    }
    return m;
}

/* The gradient of x: what was brought together goes back. */
static void scatter(const cleave_kernel_call *call, const point_windows *s, const cleave_array *x) {
    cleave_copy_piece back = s->gather;
    for (int d = 0; d < back.rank; d++) {
        back.destination_stride[d] = s->gather.source_stride[d];
        back.source_stride[d] = s->gather.destination_stride[d];
    }
    cleave_copy_piece_run(&back, x->data, call->workspace);
}

static cleave_status run(cleave_kernels *kernels, const cleave_kernel_call *call,
                         cleave_error *error) {
    point_windows s;
    if (!describe(call, &s))
        return cleave_fail(error, CLEAVE_FAILED, "the point kernel does not fit nest %s",
                           call->nest->name);
    cleave_convolution_operands a = cleave_kernel_convolution_operands(call);
    cleave_blas_product product = product_of(&s);
    cleave_matrices m = matrices_of(&s, &a, s.gathers ? call->workspace : a.x->data);
    if (s.steps && s.c.pass == CLEAVE_CONVOLUTION_BACKWARD_DATA)
        cleave_kernel_zero(call, &call->nest->inputs[0], a.x);
    else if (s.gathers)
        cleave_copy_piece_run(&s.gather, call->workspace, a.x->data);
    CLEAVE_TRY(cleave_multiply_in_pieces(kernels, call, &product, &m, call->pieces, error));
    if (s.gathers && s.c.pass == CLEAVE_CONVOLUTION_BACKWARD_DATA)
        scatter(call, &s, a.x);
    return CLEAVE_OK;
}

const cleave_kernel_row cleave_point_kernel = {
    .name = "point",
    .kinds = 1u << CLEAVE_NEST_CONVOLUTION,
    .passes = 1u << CLEAVE_PASS_FORWARD | 1u << CLEAVE_PASS_INPUT_GRADIENT |
              1u << CLEAVE_PASS_WEIGHT_GRADIENT,
    .takes_gaps = true,
    .fits = fits,
    .workspace = workspace,
    .run = run,
};
