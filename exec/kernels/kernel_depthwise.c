/* The gradient of depthwise weights: of convolutions whose output channels each read one input
   channel, channels innermost in memory.

       dw[c, r, s] = sum over samples and points of
                     x[n, stride h + r - pad, stride w + s - pad, c] dy[n, h, w, c]

   Channels are vectors.  The sums of one or some rows of the window, as wide as it is, stay in
   registers for all points of a band of the output, so that one load of dy serves them all.  What a
   block of channels reads for a band lies densely in the workspace meanwhile, with zeroes for the
   padding: it is fetched from far away once, in its order, and walked over several times.  A band's
   sums are added to those before, so that rounding errors grow little with the points. */
#include "exec/kernels/kernel_table.h"
#include "exec/kernels/vector.h"

#include <string.h>

enum { BLOCK = 16 /* channels: a line of the cache */, BAND_BYTES = 1 << 17 };

/* Rows, then columns. */
typedef struct depthwise {
    int64_t batch, channels;
    int64_t in[2], out[2], window[2], stride[2], pad[2];
    int64_t x_stride[3], y_stride[3]; /* of samples, rows and columns, in floats */
    int64_t w_channel, w_stride[2];
    int64_t samples, rows;     /* of a band of the output: whole samples if they are small */
    int64_t x_rows, x_columns; /* that one sample of a band reads, padding included */
} depthwise;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t x_rows_of(const depthwise *f, int64_t rows) {
    return (rows - 1) * f->stride[0] + f->window[0];
}

static void cut_bands(depthwise *f) {
    f->x_columns = (f->out[1] - 1) * f->stride[1] + f->window[1];
    int64_t row_bytes = (int64_t)sizeof(float) * BLOCK * (f->stride[0] * f->x_columns + f->out[1]),
            rows = BAND_BYTES / row_bytes;
    f->rows = rows < 1 ? 1 : least(rows, f->out[0]);
    f->samples = f->rows < f->out[0] ? 1 : least(rows / f->out[0], f->batch);
    f->x_rows = x_rows_of(f, f->rows);
}

/* Windows are 4, 5 or 7 wide: loops over them are unrolled, and oneDNN is quick where they are 3
   wide. */
static bool is_known(const depthwise *f) {
    return f->window[1] == 4 || f->window[1] == 5 || f->window[1] == 7;
}

static bool describe(const cleave_kernel_call *call, depthwise *f) {
    cleave_convolution c;
    if (!cleave_kernel_describe_convolution(call, &c) ||
        c.pass != CLEAVE_CONVOLUTION_BACKWARD_WEIGHTS || c.n_spatial > 2 || c.c != 1 || c.k != 1 ||
        c.groups < BLOCK || c.x_stride[1] != 1 || c.y_stride[1] != 1)
        return false;
    *f = (depthwise){.batch = c.batch,
                     .channels = c.groups,
                     .in = {1, 1},
                     .out = {1, 1},
                     .window = {1, 1},
                     .stride = {1, 1},
                     .x_stride = {c.x_stride[0]},
                     .y_stride = {c.y_stride[0]},
                     .w_channel = c.w_stride[0]};
    for (int s = 0, d = 2 - (int)c.n_spatial; d < 2; s++, d++) {
        f->in[d] = c.in[s];
        f->out[d] = c.out[s];
        f->window[d] = c.window[s];
        f->stride[d] = c.stride[s];
        f->pad[d] = c.pad_lo[s];
        f->x_stride[1 + d] = c.x_stride[2 + s];
        f->y_stride[1 + d] = c.y_stride[2 + s];
        f->w_stride[d] = c.w_stride[3 + s];
        if (c.in[s] < 1 || c.dilation[s] != 1)
            return false;
    }
    cut_bands(f);
    return is_known(f);
}

static bool fits(cleave_kernels *kernels, const cleave_kernel_call *call) {
    depthwise f;
    return !(call->widened && kernels->multiplies_bf16) && describe(call, &f);
}

/* The workspace, in floats: sums [blocks of channels][rows and columns of the window][BLOCK], */
static int64_t blocks_of(const depthwise *f) { return (f->channels + BLOCK - 1) / BLOCK; }

static int64_t sums_of_block(const depthwise *f) { return f->window[0] * f->window[1] * BLOCK; }

/* what is read of x, [samples][rows][columns][BLOCK], and of dy likewise. */
static int64_t x_of_band(const depthwise *f) {
    return f->samples * f->x_rows * f->x_columns * BLOCK;
}

static int64_t workspace(cleave_kernels *kernels, const cleave_kernel_call *call) {
    (void)kernels;
    depthwise f;
    if (!describe(call, &f))
        return 0;
    int64_t y_of_band = f.samples * f.rows * f.out[1] * BLOCK;
    return (int64_t)sizeof(float) * (blocks_of(&f) * sums_of_block(&f) + x_of_band(&f) + y_of_band);
}

/* A band of the output, and the workspace. */
typedef struct band {
    int64_t sample, samples, row, rows;
    float *x, *y;
} band;

/* Columns that are blocks of channels, `apart` floats from each other. */
static void copy_columns(const float *from, int64_t apart, int64_t n, float *to) {
    for (int64_t i = 0; i < n; i++, from += apart, to += BLOCK)
        memcpy(to, from, BLOCK * sizeof *to);
}

static void zero_columns(int64_t n, float *to) { memset(to, 0, (size_t)(n * BLOCK) * sizeof *to); }

static void fetch_x(const depthwise *f, const band *b, const float *x) {
    int64_t columns = f->in[1], row_size = f->x_columns * BLOCK;
    for (int64_t i = 0; i < b->samples; i++)
        for (int64_t r = 0; r < x_rows_of(f, b->rows); r++) {
            int64_t h = b->row * f->stride[0] - f->pad[0] + r;
            float *to = b->x + (i * f->x_rows + r) * row_size;
            if (h < 0 || h >= f->in[0]) {
                zero_columns(f->x_columns, to);
                continue;
            }
            zero_columns(f->pad[1], to);
            copy_columns(x + (b->sample + i) * f->x_stride[0] + h * f->x_stride[1], f->x_stride[2],
                         columns, to + f->pad[1] * BLOCK);
            zero_columns(f->x_columns - f->pad[1] - columns, to + (f->pad[1] + columns) * BLOCK);
        }
}

static void fetch_y(const depthwise *f, const band *b, const float *y) {
    for (int64_t i = 0; i < b->samples; i++)
        for (int64_t r = 0; r < b->rows; r++)
            copy_columns(y + (b->sample + i) * f->y_stride[0] + (b->row + r) * f->y_stride[1],
                         f->y_stride[2], f->out[1], b->y + (i * f->rows + r) * f->out[1] * BLOCK);
}

/* Adds a band's points to the sums of rows [row, row + rows) of a window of so many columns, of a
   vector of channels. */
__attribute__((always_inline)) static inline void
sum_points(const depthwise *f, const band *b, int64_t row, int rows, int columns, float *sums) {
    vector sum[3][7] = {{{0}}};
    const int64_t x_row = f->x_columns * BLOCK, x_step = f->stride[1] * BLOCK;
    /* Rows of the output for which all of these of the window lie in the padding. */
    int64_t top = b->row * f->stride[0] - f->pad[0] + row, from = 0, to = b->rows;
    while (from < to && top + from * f->stride[0] + rows <= 0)
        from++;
    while (from < to && top + (to - 1) * f->stride[0] >= f->in[0])
        to--;
    for (int64_t i = 0; i < b->samples; i++)
        for (int64_t h = from; h < to; h++) {
            const float *x = b->x + (i * f->x_rows + h * f->stride[0] + row) * x_row,
                        *y = b->y + (i * f->rows + h) * f->out[1] * BLOCK;
            for (int64_t w = 0; w < f->out[1]; w++, x += x_step, y += BLOCK) {
                vector of_y = load(y);
                for (int r = 0; r < rows; r++)
                    for (int s = 0; s < columns; s++)
                        sum[r][s] += load(x + r * x_row + s * BLOCK) * of_y;
            }
        }
    for (int r = 0; r < rows; r++)
        for (int s = 0; s < columns; s++) {
            float *at = sums + ((row + r) * columns + s) * BLOCK;
            store(at, load(at) + sum[r][s]);
        }
}

/* As many rows at a time as registers hold sums of. */
__attribute__((always_inline)) static inline void
sum_window(const depthwise *f, const band *b, int at_once, int columns, float *sums) {
    int64_t row = 0;
    for (; row + at_once <= f->window[0]; row += at_once)
        sum_points(f, b, row, at_once, columns, sums);
    for (; row < f->window[0]; row++)
        sum_points(f, b, row, 1, columns, sums);
}

static void sum_vector(const depthwise *f, const band *b, float *sums) {
    if (f->window[1] == 4)
        sum_window(f, b, 3, 4, sums);
    else if (f->window[1] == 5)
        sum_window(f, b, 2, 5, sums);
    else
        sum_window(f, b, 2, 7, sums);
}

/* The first channel of a block: the last one ends with the channels, and what it shares with the
   one before is summed alike in both. */
static int64_t first_channel(const depthwise *f, int64_t block) {
    return least(block * BLOCK, f->channels - BLOCK);
}

static void sum_band(const depthwise *f, const band *b, const cleave_convolution_operands *a,
                     float *sums) {
    for (int64_t block = 0; block < blocks_of(f); block++, sums += sums_of_block(f)) {
        int64_t channel = first_channel(f, block);
        fetch_x(f, b, (const float *)a->x->data + channel);
        fetch_y(f, b, (const float *)a->y->data + channel);
        for (int lane = 0; lane < BLOCK; lane += LANES) {
            band of = *b;
            of.x += lane;
            of.y += lane;
            sum_vector(f, &of, sums + lane);
        }
    }
}

static void write_weights(const depthwise *f, const float *sums, float *w) {
    for (int64_t block = 0; block < blocks_of(f); block++)
        for (int64_t r = 0; r < f->window[0]; r++)
            for (int64_t s = 0; s < f->window[1]; s++, sums += BLOCK)
                for (int64_t i = 0; i < BLOCK; i++)
                    w[(first_channel(f, block) + i) * f->w_channel + r * f->w_stride[0] +
                      s * f->w_stride[1]] = sums[i];
}

static cleave_status run(cleave_kernels *kernels, const cleave_kernel_call *call,
                         cleave_error *error) {
    (void)kernels;
    depthwise f;
    if (!describe(call, &f))
        return cleave_fail(error, CLEAVE_FAILED, "the depthwise kernel does not fit nest %s",
                           call->nest->name);
    cleave_convolution_operands a = cleave_kernel_convolution_operands(call);
    float *sums = call->workspace;
    band b = {.x = sums + blocks_of(&f) * sums_of_block(&f)};
    b.y = b.x + x_of_band(&f);
    memset(sums, 0, (size_t)(blocks_of(&f) * sums_of_block(&f)) * sizeof *sums);
    cleave_kernel_pace pace = cleave_kernel_pace_start(
        call, (f.batch + f.samples - 1) / f.samples * ((f.out[0] + f.rows - 1) / f.rows));
    for (; b.sample < f.batch; b.sample += b.samples) {
        b.samples = least(f.samples, f.batch - b.sample);
        for (b.row = 0; b.row < f.out[0]; b.row += b.rows) {
            b.rows = least(f.rows, f.out[0] - b.row);
            sum_band(&f, &b, &a, sums);
            CLEAVE_TRY(cleave_kernel_pace_step(&pace, error));
        }
    }
    write_weights(&f, sums, a.w->data);
    return CLEAVE_OK;
}

const cleave_kernel_row cleave_depthwise_kernel = {
    .name = "depthwise",
    .kinds = 1u << CLEAVE_NEST_CONVOLUTION,
    .passes = 1u << CLEAVE_PASS_WEIGHT_GRADIENT,
    .takes_gaps = true,
    .fits = fits,
    .workspace = workspace,
    .run = run,
};
