#include "exec/kernels/kernel_tile_channels.h"

#include <string.h>

enum { ROWS_IN_FLOAT = 64 /* so many are summed in float; those sums in double */ };

int64_t tile_channels_lay_out(const cleave_tile_plan *plan, char *base, tile_channels *channels) {
    if (!plan->channels.fits)
        return 0;
    int64_t used = 0, row = (plan->columns * (int64_t)sizeof(float) + 63) / 64 * 64;
    float **const rows[] = {&channels->factor,  &channels->centre,  &channels->shift,
                            &channels->part[0], &channels->part[1], &channels->row[0],
                            &channels->row[1],  &channels->row[2]};
    double **const sums[] = {&channels->sum[0], &channels->sum[1]};
#define TAKE(array, bytes)                                                                         \
    do {                                                                                           \
        (array) = base == NULL ? NULL : (void *)(base + used);                                     \
        used += (bytes);                                                                           \
    } while (0)
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        TAKE(*rows[i], row);
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        TAKE(*sums[i], 2 * row);
    for (int k = 0; k < plan->channels.n_links; k++) {
        TAKE(channels->factor_before[k], row);
        TAKE(channels->shift_before[k], row);
    }
#undef TAKE
    return used;
}

int64_t tile_channels_steps(const cleave_tile_plan *plan) {
    int64_t rows = plan->extent[0], columns = plan->extent[1];
    return (rows + ROWS_IN_FLOAT - 1) / ROWS_IN_FLOAT *
           ((columns + plan->columns - 1) / plan->columns);
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* One link behind a line; s is the other operand, and `first` says that the line is operand a. */
static void extend_line(const cleave_instruction *at, float s, bool first, float *factor,
                        float *shift) {
    switch (at->opcode) {
    case CLEAVE_OP_NEG:
        *factor = -*factor;
        *shift = -*shift;
        break;
    case CLEAVE_OP_SCALE:
        *factor *= (float)at->p;
        *shift = (float)at->p * *shift + (float)at->q;
        break;
    case CLEAVE_OP_ADD:
        *shift += s;
        break;
    case CLEAVE_OP_SUB:
        *factor = first ? *factor : -*factor;
        *shift = first ? *shift - s : s - *shift;
        break;
    case CLEAVE_OP_MUL:
        *factor *= s;
        *shift *= s;
        break;
    default:
        break;
    }
}

/* d mean / count + 2 (x - mean) d M2 */
static void find_moments_lines(tile_run *run) {
    const cleave_kernel_call *call = run->call;
    tile_channels *channels = &run->channels;
    const float *record[4];
    bool fresh;
    for (int r = 0; r < 4; r++)
        record[r] = tile_load(run, run->plan->record[r],
                              r < 2 ? &call->combined : &call->output_gradient, CLEAVE_F32, &fresh);
    for (int c = 0; c < run->columns; c++) {
        channels->factor[c] = 2.0f * record[3][c];
        channels->centre[c] = record[1][c];
        channels->shift[c] = record[2][c] / record[0][c];
    }
}

/* Of a register that varies by column; 0 where no derivative reads it. */
static float value_of(const tile_run *run, int r, int c) {
    return r >= 0 && (run->plan->tape.values & cleave_register_bit(r)) ? run->tile.value[r][c] : 0;
}

void tile_channels_find_lines(tile_run *run) {
    const cleave_tile_channels_plan *plan = &run->plan->channels;
    tile_channels *channels = &run->channels;
    size_t bytes = (size_t)run->columns * sizeof(float);
    if (run->plan->record[0] >= 0) {
        find_moments_lines(run);
        return;
    }
    for (int c = 0; c < run->columns; c++) {
        channels->factor[c] = 1;
        channels->centre[c] = value_of(run, plan->centre, c);
        channels->shift[c] = 0;
    }
    for (int k = 0; k < plan->n_links; k++) {
        const cleave_instruction *at = &run->call->nest->tape[plan->link[k].instruction];
        int other = plan->link[k].other;
        memcpy(channels->factor_before[k], channels->factor, bytes);
        memcpy(channels->shift_before[k], channels->shift, bytes);
        for (int c = 0; c < run->columns; c++)
            extend_line(at, value_of(run, other, c), at->a != other, &channels->factor[c],
                        &channels->shift[c]);
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

static int64_t place_of(const tile_run *run, int stream, int64_t row) {
    return run->plan->reach[stream].base + row * run->plan->stride[stream][0] + run->column;
}

static const float *read_row(const tile_run *run, int stream, const cleave_array *array,
                             int64_t row, float *scratch) {
    int64_t at = place_of(run, stream, row);
    if (array->type != CLEAVE_BF16)
        return (const float *)array->data + at;
    tile_widen_row(run->columns, (const uint16_t *)array->data + at, scratch);
    return scratch;
}

/* x to y along the lines; y may be x. */
static void follow_lines(const tile_channels *channels, int n, const float *x, float *y) {
    const float *factor = channels->factor, *centre = channels->centre, *shift = channels->shift;
    _Pragma("GCC ivdep") for (int c = 0; c < n; c++) y[c] =
        factor[c] * (x[c] - centre[c]) + shift[c];
}

/* y to within the bounds. */
static void keep_within(const cleave_instruction *bound, int n, float *y) {
    float low = (float)bound->p, high = (float)bound->q;
    if (bound->opcode == CLEAVE_OP_RELU)
        _Pragma("GCC ivdep") for (int c = 0; c < n; c++) y[c] = y[c] > 0 ? y[c] : 0;
    else
        _Pragma("GCC ivdep") for (int c = 0; c < n; c++) {
            float x = y[c], above = x < low ? low : x;
            y[c] = x > high ? high : above;
        }
}

/* y = x where `of` is within the bounds, else 0. */
static void pass_within(const cleave_instruction *bound, int n, const float *of, const float *x,
                        float *y) {
    float low = (float)bound->p, high = (float)bound->q;
    if (bound->opcode == CLEAVE_OP_RELU)
        _Pragma("GCC ivdep") for (int c = 0; c < n; c++) y[c] = of[c] > 0 ? x[c] : 0;
    else
        _Pragma("GCC ivdep") for (int c = 0; c < n; c++) y[c] =
            (int)(of[c] >= low) & (int)(of[c] <= high) ? x[c] : 0;
}

/* The line through an element to a row of the output. */
static void write_line(const tile_run *run, const float *x, int64_t row) {
    const tile_channels *channels = &run->channels;
    const cleave_array *array = &run->call->output;
    int64_t at = place_of(run, run->plan->output, row);
    bool half = array->type == CLEAVE_BF16;
    float *y = half ? channels->row[2] : (float *)array->data + at;
    follow_lines(channels, run->columns, x, y);
    if (run->plan->channels.bound != NULL)
        keep_within(run->plan->channels.bound, run->columns, y);
    if (half)
        tile_round_row(run->columns, y, (uint16_t *)array->data + at);
}

/* part[0] += g, part[1] += g (x - centre).  Where g is zero nothing passes, whatever x is. */
static void add_gradients(const tile_channels *channels, int n, const float *g, const float *x) {
    float *sum = channels->part[0], *weighted = channels->part[1];
    const float *centre = channels->centre;
    _Pragma("GCC ivdep") for (int c = 0; c < n; c++) {
        float product = g[c] * (x[c] - centre[c]);
        sum[c] += g[c];
        weighted[c] += g[c] == 0.0f ? 0.0f : product;
    }
}

static void add_alone(const tile_channels *channels, int n, const float *g) {
    float *sum = channels->part[0];
    _Pragma("GCC ivdep") for (int c = 0; c < n; c++) sum[c] += g[c];
}

/* part[0] += x - centre, part[1] += its square */
static void add_moments(const tile_channels *channels, int n, const float *x) {
    float *sum = channels->part[0], *square = channels->part[1];
    const float *centre = channels->centre;
    _Pragma("GCC ivdep") for (int c = 0; c < n; c++) {
        float d = x[c] - centre[c];
        sum[c] += d;
        square[c] += d * d;
    }
}

static void begin_sums(const tile_run *run) {
    for (int i = 0; i < 2; i++) {
        memset(run->channels.part[i], 0, (size_t)run->columns * sizeof(float));
        memset(run->channels.sum[i], 0, (size_t)run->columns * sizeof(double));
    }
}

static void end_part(const tile_run *run) {
    for (int i = 0; i < 2; i++) {
        float *part = run->channels.part[i];
        double *sum = run->channels.sum[i];
        for (int c = 0; c < run->columns; c++) {
            sum[c] += (double)part[c];
            part[c] = 0;
        }
    }
}

/* Does a row; what a pass is made of. */
typedef void row_body(const tile_run *run, int64_t row);

static cleave_status walk_rows(tile_run *run, row_body *body, cleave_error *error) {
    int64_t rows = run->plan->extent[0];
    begin_sums(run);
    for (int64_t row = 0; row < rows; row += ROWS_IN_FLOAT) {
        for (int64_t r = row; r < rows && r < row + ROWS_IN_FLOAT; r++)
            body(run, r);
        end_part(run);
        CLEAVE_TRY(cleave_kernel_pace_step(&run->pace, error));
    }
    return CLEAVE_OK;
}

static const float *read_matrix(const tile_run *run, int64_t row) {
    int matrix = run->plan->channels.matrix;
    return read_row(run, run->plan->input[matrix], &run->call->inputs[matrix], row,
                    run->channels.row[0]);
}

static void forward_row(const tile_run *run, int64_t row) {
    write_line(run, read_matrix(run, row), row);
}

static void moments_row_forward(const tile_run *run, int64_t row) {
    add_moments(&run->channels, run->columns, read_matrix(run, row));
}

cleave_status tile_channels_forward(tile_run *run, cleave_error *error) {
    if (run->plan->combiner != CLEAVE_COMBINE_MOMENTS)
        return walk_rows(run, forward_row, error);
    tile_channels *channels = &run->channels;
    size_t n = (size_t)run->columns;
    int64_t at = run->plan->reach[run->plan->output].base + run->column;
    memcpy(channels->centre, read_matrix(run, 0), n * sizeof(float));
    CLEAVE_TRY(walk_rows(run, moments_row_forward, error));
    memcpy(run->shift + at, channels->centre, n * sizeof(float));
    memcpy(run->total + at, channels->sum[0], n * sizeof(double));
    memcpy(run->square + at, channels->sum[1], n * sizeof(double));
    return CLEAVE_OK;
}

/* The line along an element, `slope`, or through it to a row of the matrix' gradient, or added to
   it. */
static void write_gradient(const tile_run *run, const float *x, bool slope, int64_t row) {
    const tile_channels *channels = &run->channels;
    int matrix = run->plan->channels.matrix, stream = run->plan->gradient[matrix];
    const cleave_array *array = &run->call->input_gradients[matrix];
    if (stream < 0)
        return;
    bool half = array->type == CLEAVE_BF16, adds = (run->call->accumulated >> matrix & 1) != 0;
    int n = run->columns;
    int64_t at = place_of(run, stream, row);
    float *y = half ? channels->row[2] : (float *)array->data + at;
    const float *factor = channels->factor, *centre = channels->centre, *shift = channels->shift;
    if (half && adds)
        tile_widen_row(n, (const uint16_t *)array->data + at, y);
    if (slope && adds)
        _Pragma("GCC ivdep") for (int c = 0; c < n; c++) y[c] += factor[c] * x[c];
    else if (slope)
        _Pragma("GCC ivdep") for (int c = 0; c < n; c++) y[c] = factor[c] * x[c];
    else if (adds)
        _Pragma("GCC ivdep") for (int c = 0; c < n; c++) y[c] +=
            factor[c] * (x[c] - centre[c]) + shift[c];
    else
        follow_lines(channels, n, x, y);
    if (half)
        tile_round_row(n, y, (uint16_t *)array->data + at);
}

/* The gradient behind a bound: where the output, or the line that it is made of, is within it. */
static const float *read_gradient(const tile_run *run, int64_t row) {
    const tile_channels *channels = &run->channels;
    const cleave_array *gradient = &run->call->output_gradient;
    const float *of = channels->row[2],
                *g = read_row(run, run->plan->seed, gradient, row, channels->row[1]);
    if (run->plan->channels.bound == NULL)
        return g;
    if (run->plan->tape.from_output)
        of = read_row(run, run->plan->output, &run->call->output, row, channels->row[2]);
    else
        follow_lines(channels, run->columns, read_matrix(run, row), channels->row[2]);
    pass_within(run->plan->channels.bound, run->columns, of, g, channels->row[1]);
    return channels->row[1];
}

static void backward_row(const tile_run *run, int64_t row) {
    const cleave_tile_plan *plan = run->plan;
    const float *g = read_gradient(run, row);
    write_gradient(run, g, true, row);
    if (plan->frontier == 0)
        return;
    if (plan->input[plan->channels.matrix] >= 0)
        add_gradients(&run->channels, run->columns, g, read_matrix(run, row));
    else
        add_alone(&run->channels, run->columns, g);
}

static void moments_row_backward(const tile_run *run, int64_t row) {
    write_gradient(run, read_matrix(run, row), false, row);
}

/* The adjoints of what varies by column, summed over the rows, link by link from the output on:
   `slope` is the output's derivative by the value behind the link. */
static void spread_sums(const tile_run *run) {
    const cleave_tile_channels_plan *plan = &run->plan->channels;
    const tile_channels *channels = &run->channels;
    const cleave_nest *nest = run->call->nest;
    for (int c = 0; c < run->columns; c++) {
        double slope = 1, sum = channels->sum[0][c], weighted = channels->sum[1][c];
        int64_t to = run->column + c;
        for (int k = plan->n_links - 1; k >= 0; k--) {
            const cleave_instruction *at = &nest->tape[plan->link[k].instruction];
            int other = plan->link[k].other;
            bool first = at->a != other;
            double *sums = other < 0 ? NULL : run->column_sums[other];
            double value = (double)channels->factor_before[k][c] * weighted +
                           (double)channels->shift_before[k][c] * sum;
            if (sums != NULL && at->opcode == CLEAVE_OP_MUL)
                sums[to] += slope * value;
            else if (sums != NULL)
                sums[to] += at->opcode == CLEAVE_OP_SUB && first ? -slope * sum : slope * sum;
            if (at->opcode == CLEAVE_OP_MUL)
                slope *= (double)value_of(run, other, c);
            else if (at->opcode == CLEAVE_OP_SCALE)
                slope *= (double)(float)at->p;
            else if (at->opcode == CLEAVE_OP_NEG || (at->opcode == CLEAVE_OP_SUB && !first))
                slope = -slope;
        }
        if (plan->centre >= 0 && run->column_sums[plan->centre] != NULL)
            run->column_sums[plan->centre][to] -= slope * sum;
    }
}

cleave_status tile_channels_backward(tile_run *run, cleave_error *error) {
    if (run->plan->combiner == CLEAVE_COMBINE_MOMENTS)
        return walk_rows(run, moments_row_backward, error);
    CLEAVE_TRY(walk_rows(run, backward_row, error));
    if (run->plan->frontier != 0)
        spread_sums(run);
    return CLEAVE_OK;
}
