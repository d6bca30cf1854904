/* Convolutions of windows of 3 x 3 and 5 x 5 without strides or holes, by minimal filtering
   (winograd.h), where that takes fewer operations than the plain sum.

   The result is cut into tiles, and the tiles, of all samples, into blocks.  For every block the
   inputs under its tiles become V, there is one matrix product for each point of the transform, and
   what comes out becomes results:

       forward, backward data:  M[p] = V[p] U[p], with U from the weights once
       backward weights:        dU[p] += V[p]^T dM[p], and the weights' gradient from dU at the end

   Backward data is a convolution, too: of the output's gradient, with the window turned around. */
#include "exec/kernels/kernel_table.h"
#include "exec/kernels/winograd.h"
#include "graph/model/box.h"

enum { LANES = CLEAVE_WINOGRAD_LANES, LINE = 16 /* floats */ };

/* Images, channels last. */
typedef struct images {
    float *data;
    int64_t channels, height, width;
    int64_t sample, row, column; /* strides */
} images;

typedef struct filtering {
    const cleave_winograd_scheme *scheme;
    bool sums;  /* backward weights */
    bool saves; /* against the plain sum */
    images in, out;
    int64_t pad_above, pad_left;
    float *w; /* its first tap; [in, out, row, column] */
    int64_t w_in, w_out, w_row, w_column;
    int64_t down, across, tiles, blocks, most_tiles; /* most_tiles: of a block */
    /* Floats between rows of V, M and U, and between their points: full vectors, and no power of
       two, which caches have few places for. */
    int64_t v_row, m_row, v_point, m_point, u_point;
} filtering;

/* ---- Whether and how ----------------------------------------------------------------------------
 */

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* Operations of a scheme, beside those of the plain sum: a float that is moved to or from a
   transform costs as much as some operations of a product, and products run a little faster than
   convolutions. */
static double cost_of(const cleave_convolution *c, const cleave_winograd_scheme *s,
                      const int64_t *out) {
    const double operations_of_a_float = 60;
    double points = s->points * s->points, weights = (double)(c->c * c->k),
           tiles = (double)(c->batch * ((out[0] + s->out - 1) / s->out) *
                            ((out[1] + s->out - 1) / s->out));
    return points * (2 * tiles * weights +
                     operations_of_a_float * (tiles * (double)(c->c + c->k) + weights));
}

static double plain_cost(const cleave_convolution *c) {
    return 1.2 * 2 * (double)(c->batch * c->c * c->k) * (double)(c->out[0] * c->out[1]) *
           (double)(c->window[0] * c->window[1]);
}

/* Is it a convolution of the kind that schemes know? */
static bool is_plain(const cleave_convolution *c) {
    enum { MOST_CHANNELS = 1 << 16 };
    if (c->n_spatial != 2 || c->groups != 1 || c->x_stride[1] != 1 || c->y_stride[1] != 1 ||
        c->c > MOST_CHANNELS || c->k > MOST_CHANNELS || c->window[0] != c->window[1])
        return false;
    for (int s = 0; s < 2; s++)
        if (c->stride[s] != 1 || c->dilation[s] != 1 || c->in[s] < 1 || c->out[s] < 1 ||
            c->pad_lo[s] < 0 || c->pad_hi[s] < 0 || c->pad_lo[s] >= c->window[s] ||
            c->pad_hi[s] >= c->window[s])
            return false;
    return true;
}

/* The scheme that takes least; null where there is none. */
static const cleave_winograd_scheme *choose_scheme(const cleave_convolution *c, double *least) {
    const cleave_winograd_scheme *best = NULL;
    for (int i = 0; is_plain(c) && i < CLEAVE_N_WINOGRAD_SCHEMES; i++) {
        const cleave_winograd_scheme *s = &cleave_winograd_schemes[i];
        double cost = cost_of(c, s, c->pass == CLEAVE_CONVOLUTION_BACKWARD_DATA ? c->in : c->out);
        if (s->window == c->window[0] && (best == NULL || cost < *least)) {
            *least = cost;
            best = s;
        }
    }
    return best;
}

static images describe_images(const cleave_array *array, const int64_t *extents,
                              const int64_t *strides, int64_t channels) {
    return (images){array->data, channels,   extents[0], extents[1],
                    strides[0],  strides[2], strides[3]};
}

static void describe_weights(const cleave_convolution *c, const cleave_array *w, bool back,
                             filtering *f) {
    f->w = w->data;
    f->w_out = c->w_stride[back ? 2 : 1];
    f->w_in = c->w_stride[back ? 1 : 2];
    f->w_row = c->w_stride[3];
    f->w_column = c->w_stride[4];
    if (!back)
        return;
    if (f->w != NULL)
        f->w += (c->window[0] - 1) * f->w_row + (c->window[1] - 1) * f->w_column;
    f->w_row = -f->w_row;
    f->w_column = -f->w_column;
}

/* Blocks are large enough for products to be quick, and small enough to stay in the last cache. */
static void cut_blocks(filtering *f) {
    enum { FEWEST = 64, FLOATS = 1 << 20 };
    const cleave_winograd_scheme *s = f->scheme;
    f->down = (f->out.height + s->out - 1) / s->out;
    f->across = (f->out.width + s->out - 1) / s->out;
    int64_t of_a_tile = (int64_t)(s->points * s->points) * (f->in.channels + f->out.channels);
    int64_t most = FLOATS / of_a_tile;
    most = most < FEWEST ? FEWEST : most;
    f->blocks = (f->tiles + most - 1) / most;
    f->most_tiles = (f->tiles + f->blocks - 1) / f->blocks;
    f->v_row = round_up(f->in.channels, LANES);
    f->m_row = round_up(f->out.channels, LANES);
    f->v_point = round_up(f->most_tiles * f->v_row, LINE) + LINE;
    f->m_point = round_up(f->most_tiles * f->m_row, LINE) + LINE;
    f->u_point = round_up(f->in.channels * f->m_row, LINE) + LINE;
}

static bool describe(const cleave_kernel_call *call, filtering *f) {
    cleave_convolution c;
    if (!cleave_kernel_describe_convolution(call, &c))
        return false;
    double cost = 0;
    *f = (filtering){.scheme = choose_scheme(&c, &cost)};
    if (f->scheme == NULL)
        return false;
    f->saves = cost < plain_cost(&c);
    cleave_convolution_operands a = cleave_kernel_convolution_operands(call);
    images x = describe_images(a.x, c.in, c.x_stride, c.c),
           y = describe_images(a.y, c.out, c.y_stride, c.k);
    bool back = c.pass == CLEAVE_CONVOLUTION_BACKWARD_DATA;
    f->sums = c.pass == CLEAVE_CONVOLUTION_BACKWARD_WEIGHTS;
    f->in = back ? y : x;
    f->out = back ? x : y;
    f->pad_above = back ? c.window[0] - 1 - c.pad_lo[0] : c.pad_lo[0];
    f->pad_left = back ? c.window[1] - 1 - c.pad_lo[1] : c.pad_lo[1];
    describe_weights(&c, a.w, back, f);
    int64_t out = f->scheme->out;
    f->tiles = c.batch * ((f->out.height + out - 1) / out) * ((f->out.width + out - 1) / out);
    cut_blocks(f);
    return true;
}

static int64_t points_of(const filtering *f) {
    return (int64_t)f->scheme->points * f->scheme->points;
}

static bool fits(cleave_kernels *kernels, const cleave_kernel_call *call) {
    filtering f;
    /* Direct convolutions of bf16 are quicker than this in f32. */
    return !(call->widened && kernels->multiplies_bf16) && describe(call, &f) && f.saves;
}

static int64_t workspace(cleave_kernels *kernels, const cleave_kernel_call *call) {
    (void)kernels;
    filtering f;
    if (!describe(call, &f))
        return 0;
    return points_of(&f) * (f.v_point + f.m_point + f.u_point) * (int64_t)sizeof(float);
}

/* ---- Tiles and weights --------------------------------------------------------------------------
 */

/* size x size positions of a tile, from (-above, -left) of its results on. */
static void find_patch(const filtering *f, const images *of, int64_t tile, bool under,
                       cleave_winograd_patch *found) {
    int64_t sample = tile / (f->down * f->across), row = tile / f->across % f->down,
            column = tile % f->across;
    int64_t top = row * f->scheme->out - (under ? f->pad_above : 0),
            left = column * f->scheme->out - (under ? f->pad_left : 0);
    int size = under ? f->scheme->points : f->scheme->out;
    for (int i = 0; i < size; i++)
        for (int j = 0; j < size; j++) {
            int64_t h = top + i, w = left + j;
            bool inside = h >= 0 && h < of->height && w >= 0 && w < of->width;
            found->at[i][j] =
                inside ? of->data + sample * of->sample + h * of->row + w * of->column : NULL;
        }
}

/* Of tiles [from, to): into V [points][tiles][channels], */
static void read_inputs(const filtering *f, int64_t from, int64_t to, float *v) {
    cleave_winograd_patch patch;
    for (int64_t tile = from; tile < to; tile++, v += f->v_row) {
        find_patch(f, &f->in, tile, true, &patch);
        cleave_winograd_read_inputs(f->scheme, &patch, f->in.channels, v, f->v_point);
    }
}

/* into dM, */
static void read_gradients(const filtering *f, int64_t from, int64_t to, float *m) {
    cleave_winograd_patch patch;
    for (int64_t tile = from; tile < to; tile++, m += f->m_row) {
        find_patch(f, &f->out, tile, false, &patch);
        cleave_winograd_read_gradients(f->scheme, &patch, f->out.channels, m, f->m_point);
    }
}

/* and from M. */
static void write_results(const filtering *f, int64_t from, int64_t to, const float *m) {
    cleave_winograd_patch patch;
    for (int64_t tile = from; tile < to; tile++, m += f->m_row) {
        find_patch(f, &f->out, tile, false, &patch);
        cleave_winograd_write_results(f->scheme, m, f->m_point, f->out.channels, &patch);
    }
}

/* Between the weights and U [points][in][out], some channels of the output at a time: their weights
   lie far apart, and every line of the cache has several inputs'. */
static void move_weights(const filtering *f, bool back, float *u) {
    enum { AT_ONCE = 16 };
    for (int64_t k = 0; k < f->out.channels; k += AT_ONCE)
        for (int64_t c = 0; c < f->in.channels; c++) {
            int64_t left = f->out.channels - k;
            cleave_winograd_weights w = {f->w + c * f->w_in + k * f->w_out,
                                         left < AT_ONCE ? left : AT_ONCE, f->w_out, f->w_row,
                                         f->w_column};
            float *at = u + c * f->m_row + k;
            if (back)
                cleave_winograd_write_weights(f->scheme, at, f->u_point, &w);
            else
                cleave_winograd_read_weights(f->scheme, &w, at, f->u_point);
        }
}

/* ---- All of it ----------------------------------------------------------------------------------
 */

/* The products of a block, of so many tiles: by oneDNN, which is quicker than OpenBLAS on some
   hundred rows. */
static cleave_status multiply_points(const filtering *f, int64_t tiles, bool first, float *v,
                                     float *m, float *u, cleave_kernel_pace *pace,
                                     cleave_error *error) {
    cleave_blas_product product = {.m = f->sums ? f->in.channels : tiles,
                                   .n = f->out.channels,
                                   .k = f->sums ? tiles : f->in.channels,
                                   .a_transposed = f->sums,
                                   .a_row = f->v_row,
                                   .b_row = f->m_row,
                                   .c_row = f->m_row,
                                   .alpha = 1,
                                   .beta = f->sums && !first ? 1 : 0};
    for (int64_t p = 0; p < points_of(f); p++) {
        product.a = v + p * f->v_point;
        product.b = f->sums ? m + p * f->m_point : u + p * f->u_point;
        product.c = f->sums ? u + p * f->u_point : m + p * f->m_point;
        CLEAVE_TRY(cleave_onednn_multiply(&product, error));
        CLEAVE_TRY(cleave_kernel_pace_step(pace, error));
    }
    return CLEAVE_OK;
}

static cleave_status run(cleave_kernels *kernels, const cleave_kernel_call *call,
                         cleave_error *error) {
    (void)kernels;
    filtering f;
    if (!describe(call, &f))
        return cleave_fail(error, CLEAVE_FAILED, "minimal filtering does not fit nest %s",
                           call->nest->name);
    float *v = call->workspace, *m = v + points_of(&f) * f.v_point,
          *u = m + points_of(&f) * f.m_point;
    cleave_kernel_pace pace = cleave_kernel_pace_start(call, f.blocks * points_of(&f));
    if (!f.sums)
        move_weights(&f, false, u);
    for (int64_t b = 0; b < f.blocks; b++) {
        int64_t from = cleave_block_start(f.tiles, f.blocks, b),
                to = cleave_block_start(f.tiles, f.blocks, b + 1);
        read_inputs(&f, from, to, v);
        if (f.sums)
            read_gradients(&f, from, to, m);
        CLEAVE_TRY(multiply_points(&f, to - from, b == 0, v, m, u, &pace, error));
        if (!f.sums)
            write_results(&f, from, to, m);
    }
    if (f.sums)
        move_weights(&f, true, u);
    return CLEAVE_OK;
}

const cleave_kernel_row cleave_winograd_kernel = {
    .name = "winograd",
    .kinds = 1u << CLEAVE_NEST_CONVOLUTION,
    .passes = ~0u,
    .takes_gaps = true,
    .fits = fits,
    .workspace = workspace,
    .run = run,
};
