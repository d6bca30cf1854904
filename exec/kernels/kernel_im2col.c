/* Convolutions as matrix products over what their windows read.

   With P [points of y, taps of the window x c] for what is read of x, w [k, taps x c] and y
   [points, k], the samples one behind the other:

       forward  y = P w^T        backward data  P = y w        backward weights  w = y^T P

   P is x itself where windows have one point and step over none.  Else what some samples' windows
   read is brought together first, with zeroes for the padding; so many samples at a time as leave
   it in a cache.  Backward data, with windows of one point alone, it goes back to where it was
   read: where no window reads there is no gradient. */
#include "exec/kernels/copy.h"
#include "exec/kernels/multiply.h"

#include <string.h>

typedef struct im2col {
    cleave_convolution c;
    int64_t points, taps, depth; /* points: of a sample of y; depth: columns of P */
    int64_t x_row, y_row, w_row; /* x_row: of P */
    bool w_by_input;             /* as [c, k] */
    bool steps, pads, gathers;   /* gathers: x itself is no P */
    int64_t samples;             /* at a time */
} im2col;

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

/* Are the weights a matrix, too?  Also [c, k] where windows have one point. */
static bool find_w_rows(const cleave_convolution *c, im2col *f) {
    int64_t dense = c->c;
    bool by_output = c->w_stride[2] == 1;
    for (int d = (int)c->n_spatial - 1; d >= 0; d--) {
        by_output = by_output && (c->window[d] == 1 || c->w_stride[3 + d] == dense);
        dense *= c->window[d];
    }
    by_output = by_output && c->w_stride[1] >= dense;
    f->w_by_input = !by_output;
    f->w_row = c->w_stride[by_output ? 1 : 2];
    return by_output || (f->taps == 1 && c->w_stride[1] == 1 && f->w_row >= c->k);
}

static bool describe(const cleave_kernel_call *call, im2col *f) {
    enum { FLOATS = 1 << 20 };
    static const int64_t one[CLEAVE_MAX_SPATIAL] = {1, 1, 1};
    cleave_convolution *c = &f->c;
    *f = (im2col){.points = 1, .taps = 1};
    if (!cleave_kernel_describe_convolution(call, c) || c->groups != 1 || c->x_stride[1] != 1 ||
        c->half_x || c->half_w || c->half_y)
        return false;
    for (int d = 0; d < c->n_spatial; d++) {
        f->points *= c->out[d];
        f->taps *= c->window[d];
        f->steps = f->steps || c->stride[d] > 1;
        f->pads = f->pads || c->pad_lo[d] != 0 || c->pad_hi[d] != 0;
        if (c->in[d] < 1)
            return false;
    }
    f->depth = f->taps * c->c;
    if (f->depth > INT32_MAX || c->k > INT32_MAX || f->points * c->batch > INT32_MAX ||
        (c->pass == CLEAVE_CONVOLUTION_BACKWARD_DATA && (f->taps > 1 || f->pads)) ||
        !find_rows(c, c->y_stride, one, c->k, &f->y_row) || !find_w_rows(c, f))
        return false;
    f->samples = c->batch;
    f->gathers = f->taps > 1 || f->pads || !find_rows(c, c->x_stride, c->stride, c->c, &f->x_row);
    if (f->gathers) {
        f->x_row = f->depth;
        f->samples = FLOATS / (f->points * f->depth);
        f->samples = f->samples < 1 ? 1 : f->samples > c->batch ? c->batch : f->samples;
    }
    return true;
}

/* Is it quicker than others?  oneDNN's convolutions have formats of their own for weights, and
   bring them there at every call, which forward is worth it where many points meet them; they are
   slow at steps.  So is minimal filtering, which has to bring weights to its form, where points are
   few. Rows of few channels are short. */
static bool is_quicker(const im2col *f) {
    enum { LEAST_CHANNELS = 64, FEW_POINTS = 512, FEWEST_POINTS = 256 };
    bool forward = f->c.pass == CLEAVE_CONVOLUTION_FORWARD;
    int64_t points = f->points * f->c.batch;
    if (f->c.c < LEAST_CHANNELS || f->c.k < LEAST_CHANNELS)
        return false;
    if (f->taps == 1 && !f->pads)
        return !forward || f->steps || points <= FEW_POINTS;
    return f->steps ? !forward || points <= FEW_POINTS : !forward && points <= FEWEST_POINTS;
}

static bool fits(cleave_kernels *kernels, const cleave_kernel_call *call) {
    im2col f;
    return !(call->widened && kernels->multiplies_bf16) && describe(call, &f) && is_quicker(&f);
}

static int64_t workspace(cleave_kernels *kernels, const cleave_kernel_call *call) {
    (void)kernels;
    im2col f;
    if (!describe(call, &f) || !f.gathers)
        return 0;
    return f.samples * f.points * f.depth * (int64_t)sizeof(float);
}

/* What one tap reads of `samples` samples, as a copy from x to its columns of P; false where that
   is nothing but padding. */
static bool find_tap(const im2col *f, int64_t tap, int64_t samples, cleave_copy_piece *piece) {
    const cleave_convolution *c = &f->c;
    int64_t row = f->depth;
    *piece = (cleave_copy_piece){.mode = CLEAVE_COPY_ASSIGN,
                                 .type = CLEAVE_F32,
                                 .source_type = CLEAVE_F32,
                                 .destination_offset = tap * c->c,
                                 .rank = (int)c->n_spatial + 2};
    for (int d = (int)c->n_spatial - 1; d >= 0; d--) {
        /* Of point i it is i x stride + first. */
        int64_t first = tap % c->window[d] * c->dilation[d] - c->pad_lo[d], stride = c->stride[d],
                from = first < 0 ? (stride - 1 - first) / stride : 0,
                to = first < c->in[d] ? (c->in[d] - 1 - first) / stride + 1 : 0;
        to = to < c->out[d] ? to : c->out[d];
        if (from >= to)
            return false;
        piece->extent[d + 1] = to - from;
        piece->source_stride[d + 1] = stride * c->x_stride[d + 2];
        piece->source_offset += (from * stride + first) * c->x_stride[d + 2];
        piece->destination_stride[d + 1] = row;
        piece->destination_offset += from * row;
        row *= c->out[d];
        tap /= c->window[d];
    }
    piece->extent[0] = samples;
    piece->source_stride[0] = c->x_stride[0];
    piece->destination_stride[0] = row;
    piece->extent[piece->rank - 1] = c->c;
    piece->source_stride[piece->rank - 1] = piece->destination_stride[piece->rank - 1] = 1;
    return true;
}

static void gather(const im2col *f, int64_t samples, const float *x, float *p) {
    cleave_copy_piece piece;
    if (f->pads)
        memset(p, 0, (size_t)(samples * f->points * f->depth) * sizeof *p);
    for (int64_t tap = 0; tap < f->taps; tap++)
        if (find_tap(f, tap, samples, &piece))
            cleave_copy_piece_run(&piece, p, x);
}

static void scatter(const im2col *f, int64_t samples, const float *p, float *x) {
    cleave_copy_piece there, back;
    if (!find_tap(f, 0, samples, &there))
        return;
    back = there;
    back.destination_offset = there.source_offset;
    back.source_offset = there.destination_offset;
    memcpy(back.destination_stride, there.source_stride, sizeof back.destination_stride);
    memcpy(back.source_stride, there.destination_stride, sizeof back.source_stride);
    cleave_copy_piece_run(&back, x, p);
}

static cleave_blas_product product_of(const im2col *f, int64_t samples) {
    int64_t points = samples * f->points;
    cleave_blas_product p = {.m = points, .n = f->c.k, .k = f->depth, .alpha = 1};
    if (f->c.pass == CLEAVE_CONVOLUTION_BACKWARD_WEIGHTS) {
        p.m = f->w_by_input ? f->depth : f->c.k;
        p.n = f->w_by_input ? f->c.k : f->depth;
        p.k = points;
        p.a_transposed = true;
        p.a_row = f->w_by_input ? f->x_row : f->y_row;
        p.b_row = f->w_by_input ? f->y_row : f->x_row;
        p.c_row = f->w_row;
        return p;
    }
    bool back = f->c.pass == CLEAVE_CONVOLUTION_BACKWARD_DATA;
    if (back) {
        p.n = f->depth;
        p.k = f->c.k;
    }
    p.a_row = back ? f->y_row : f->x_row;
    p.b_transposed = f->w_by_input == back;
    p.b_row = f->w_row;
    p.c_row = back ? f->x_row : f->y_row;
    return p;
}

static cleave_matrices matrices_of(const im2col *f, float *w, float *y, float *p) {
    cleave_matrices m = {.operand = sizeof(float), .result = sizeof(float)};
    bool back = f->c.pass == CLEAVE_CONVOLUTION_BACKWARD_DATA;
    if (f->c.pass == CLEAVE_CONVOLUTION_BACKWARD_WEIGHTS) {
        m.a_of = f->w_by_input ? p : y;
        m.b_of = f->w_by_input ? y : p;
        m.c_of = w;
    } else {
        m.a_of = back ? y : p;
        m.b_of = w;
        m.c_of = back ? p : y;
    }
    return m;
}

static cleave_status run(cleave_kernels *kernels, const cleave_kernel_call *call,
                         cleave_error *error) {
    im2col f;
    if (!describe(call, &f))
        return cleave_fail(error, CLEAVE_FAILED, "the im2col kernel does not fit nest %s",
                           call->nest->name);
    cleave_convolution_operands a = cleave_kernel_convolution_operands(call);
    bool back = f.c.pass == CLEAVE_CONVOLUTION_BACKWARD_DATA;
    int64_t turns = (f.c.batch + f.samples - 1) / f.samples;
    cleave_kernel_pace pace = cleave_kernel_pace_start(call, turns);
    if (back && f.steps)
        cleave_kernel_zero(call, &call->nest->inputs[0], a.x);
    for (int64_t first = 0; first < f.c.batch; first += f.samples) {
        int64_t n = first + f.samples < f.c.batch ? f.samples : f.c.batch - first;
        float *x = (float *)a.x->data + first * f.c.x_stride[0],
              *y = (float *)a.y->data + first * f.c.y_stride[0],
              *p = f.gathers ? call->workspace : x;
        if (f.gathers && !back)
            gather(&f, n, x, p);
        cleave_blas_product product = product_of(&f, n);
        cleave_matrices m = matrices_of(&f, a.w->data, y, p);
        if (f.c.pass == CLEAVE_CONVOLUTION_BACKWARD_WEIGHTS && first > 0)
            product.beta = 1;
        CLEAVE_TRY(
            cleave_multiply_in_pieces(kernels, call, &product, &m, call->pieces / turns, error));
        if (f.gathers && back)
            scatter(&f, n, p, x);
        CLEAVE_TRY(cleave_kernel_pace_step(&pace, error));
    }
    return CLEAVE_OK;
}

const cleave_kernel_row cleave_im2col_kernel = {
    .name = "im2col",
    .kinds = 1u << CLEAVE_NEST_CONVOLUTION,
    .passes = ~0u,
    .takes_gaps = true,
    .fits = fits,
    .workspace = workspace,
    .run = run,
};
