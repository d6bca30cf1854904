#include "exec/kernels/kernel_tile_channels.h"

#include "exec/kernels/vector.h"

#include <string.h>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

enum {
    ROWS_IN_FLOAT = 64, /* so many are summed in float; those sums in double */
    /* Rows at a time: so many floats, within these bounds. */
    FLOATS_AT_ONCE = 2048,
    LEAST_AT_ONCE = 4,
    MOST_AT_ONCE = 8
};

int64_t tile_channels_lay_out(const cleave_tile_plan *plan, char *base, tile_channels *channels) {
    if (!plan->channels.fits)
        return 0;
    int64_t used = 0, row = (plan->columns * (int64_t)sizeof(float) + 63) / 64 * 64;
    float **const rows[] = {&channels->factor, &channels->centre, &channels->shift,
                            &channels->part[0], &channels->part[1]};
    double **const sums[] = {&channels->sum[0], &channels->sum[1]};
#define TAKE(array, bytes)                                                                         \
    do {                                                                                           \
        (array) = base == NULL ? NULL : (void *)(base + used);                                     \
        used += (bytes);                                                                           \
    } while (0)
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        TAKE(*rows[i], row);
    for (size_t i = 0; i < sizeof channels->row / sizeof *channels->row; i++)
        TAKE(channels->row[i], MOST_AT_ONCE * row);
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
    tile_channels *channels = &run->channels;
    const float *record[4];
    tile_load_record(run, record);
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

/* Some rows at a time: what varies by column is read, and sums are written, once for all of them.
   An element takes a load and a store and no scratch in between. */
typedef struct row_block {
    int n_rows;
    const float *x, *g, *of;             /* the matrix, the output's gradient, the output */
    float *y;                            /* the result; null: none, as of what is read */
    int64_t x_row, g_row, of_row, y_row; /* from a row to the next */
    bool adds;                           /* to what the result holds */
    enum { UNBOUND, A_RELU, A_CLIP } bound;
    float low, high;
} row_block;

static row_block block_of(const tile_run *run, int n_rows) {
    const cleave_instruction *bound = run->plan->channels.bound;
    row_block block = {.n_rows = n_rows};
    if (bound == NULL)
        return block;
    block.bound = bound->opcode == CLEAVE_OP_RELU ? A_RELU : A_CLIP;
    block.low = (float)bound->p;
    block.high = (float)bound->q;
    return block;
}

typedef int32_t mask __attribute__((vector_size(sizeof(vector))));

static inline vector keep(mask of, vector x) { return (vector)(of & (mask)x); }

static inline vector choose(mask of, vector x, vector y) {
    return (vector)((of & (mask)x) | (~of & (mask)y));
}

/* The first n elements; those behind may be nobody's. */
static inline __attribute__((always_inline)) vector load_some(const float *at, int n) {
    if (n == LANES)
        return load(at);
#ifdef __AVX512F__
    return (vector)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), at);
#else
    vector v = {0};
    memcpy(&v, at, (size_t)n * sizeof(float));
    return v;
#endif
}

static inline __attribute__((always_inline)) void store_some(float *at, vector v, int n) {
    if (n == LANES)
        store(at, v);
    else
#ifdef __AVX512F__
        _mm512_mask_storeu_ps(at, (__mmask16)((1u << n) - 1), (__m512)v);
#else
        memcpy(at, &v, (size_t)n * sizeof(float));
#endif
}

/* What lies so far behind an element is asked for where rows are side by side: processors see at
   some times that these follow each other, at others they don't, and then a pass takes twice as
   long.  In one row they always do. */
enum { FLOATS_AHEAD = 1024 };

static inline __attribute__((always_inline)) void ask_ahead(const row_block *block, const float *at,
                                                            int64_t to_next) {
    for (int r = 0; r < block->n_rows && block->n_rows > 1; r++)
        __builtin_prefetch(at + r * to_next + FLOATS_AHEAD);
}

static inline __attribute__((always_inline)) void write_some(float *y, bool adds, vector v, int n) {
    store_some(y, adds ? load_some(y, n) + v : v, n);
}

/* What is done to a block's columns from c on, LANES of them or, at the end, fewer. */
typedef void columns_body(const tile_run *run, const row_block *block, int c, int n);

/* Inlined, so that the number of columns is known within. */
static inline __attribute__((always_inline)) void
for_columns(const tile_run *run, const row_block *block, columns_body *body) {
    int c = 0;
    for (; c + LANES <= run->columns; c += LANES)
        body(run, block, c, LANES);
    if (c < run->columns)
        body(run, block, c, run->columns - c);
}

static int64_t place_of(const tile_run *run, int stream, int64_t row) {
    return run->plan->reach[stream].base + row * run->plan->stride[stream][0] + run->column;
}

/* Rows as floats, which are brought into `scratch` where they are not. */
static const float *read_rows(const tile_run *run, int stream, const cleave_array *array,
                              int64_t row, int n_rows, float *scratch, int64_t *to_next) {
    *to_next = run->plan->stride[stream][0];
    if (array->type != CLEAVE_BF16)
        return (const float *)array->data + place_of(run, stream, row);
    *to_next = run->plan->columns;
    for (int r = 0; r < n_rows; r++)
        tile_widen_row(run->columns, (const uint16_t *)array->data + place_of(run, stream, row + r),
                       scratch + r * *to_next);
    return scratch;
}

static void read_matrix(const tile_run *run, int64_t row, row_block *block) {
    int matrix = run->plan->channels.matrix;
    block->x = read_rows(run, run->plan->input[matrix], &run->call->inputs[matrix], row,
                         block->n_rows, run->channels.row[0], &block->x_row);
}

/* Where results go, with what they are added to. */
static void begin_result(const tile_run *run, int stream, const cleave_array *array, int64_t row,
                         row_block *block) {
    bool half = array->type == CLEAVE_BF16;
    block->y = half ? run->channels.row[2] : (float *)array->data + place_of(run, stream, row);
    block->y_row = half ? run->plan->columns : run->plan->stride[stream][0];
    if (half && block->adds)
        read_rows(run, stream, array, row, block->n_rows, block->y, &block->y_row);
}

static void end_result(const tile_run *run, int stream, const cleave_array *array, int64_t row,
                       const row_block *block) {
    for (int r = 0; r < block->n_rows && array->type == CLEAVE_BF16; r++)
        tile_round_row(run->columns, block->y + r * block->y_row,
                       (uint16_t *)array->data + place_of(run, stream, row + r));
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

/* Does some rows; what a pass is made of. */
typedef void rows_body(const tile_run *run, int64_t row, int n_rows);

static cleave_status walk_rows(tile_run *run, rows_body *body, cleave_error *error) {
    int64_t rows = run->plan->extent[0];
    int fit = FLOATS_AT_ONCE / run->columns;
    int at_least = fit > LEAST_AT_ONCE ? fit : LEAST_AT_ONCE;
    int at_once = at_least < MOST_AT_ONCE ? at_least : MOST_AT_ONCE;
    begin_sums(run);
    for (int64_t row = 0; row < rows; row += ROWS_IN_FLOAT) {
        int64_t end = rows < row + ROWS_IN_FLOAT ? rows : row + ROWS_IN_FLOAT;
        for (int64_t r = row; r < end; r += at_once)
            body(run, r, r + at_once < end ? at_once : (int)(end - r));
        end_part(run);
        CLEAVE_TRY(cleave_kernel_pace_step(&run->pace, error));
    }
    return CLEAVE_OK;
}

/* The line through an element, within the bounds. */
static inline __attribute__((always_inline)) void
write_columns(const tile_run *run, const row_block *block, int c, int n) {
    const tile_channels *channels = &run->channels;
    vector factor = load(channels->factor + c), centre = load(channels->centre + c),
           shift = load(channels->shift + c), low = block->low + (vector){0},
           high = block->high + (vector){0};
    for (int r = 0; r < block->n_rows; r++) {
        vector line = factor * (load_some(block->x + r * block->x_row + c, n) - centre) + shift;
        float *y = block->y + r * block->y_row + c;
        if (block->bound == A_RELU)
            line = keep(line > 0, line);
        else if (block->bound == A_CLIP)
            line = choose(line > high, high, choose(line < low, low, line));
        write_some(y, block->adds, line, n);
    }
}

/* Row by row, so that what is written is written in its order: there are no sums to share. */
static void write_lines(const tile_run *run, int64_t row, row_block *block, int stream,
                        const cleave_array *to) {
    read_matrix(run, row, block);
    begin_result(run, stream, to, row, block);
    int n_rows = block->n_rows;
    row_block one = *block;
    one.n_rows = 1;
    for (int r = 0; r < n_rows; r++, one.x += one.x_row, one.y += one.y_row)
        for_columns(run, &one, write_columns);
    end_result(run, stream, to, row, block);
}

static void forward_rows(const tile_run *run, int64_t row, int n_rows) {
    row_block block = block_of(run, n_rows);
    write_lines(run, row, &block, run->plan->output, &run->call->output);
}

/* part[0] += x - centre, part[1] += its square */
static inline __attribute__((always_inline)) void
add_moments(const tile_run *run, const row_block *block, int c, int n) {
    float *sums = run->channels.part[0] + c, *squares = run->channels.part[1] + c;
    vector centre = load(run->channels.centre + c), sum = load(sums), square = load(squares);
    ask_ahead(block, block->x + c, block->x_row);
    for (int r = 0; r < block->n_rows; r++) {
        vector d = load_some(block->x + r * block->x_row + c, n) - centre;
        sum += d;
        square += d * d;
    }
    store(sums, sum);
    store(squares, square);
}

static void moments_rows_forward(const tile_run *run, int64_t row, int n_rows) {
    row_block block = block_of(run, n_rows);
    read_matrix(run, row, &block);
    for_columns(run, &block, add_moments);
}

cleave_status tile_channels_forward(tile_run *run, cleave_error *error) {
    if (run->plan->combiner != CLEAVE_COMBINE_MOMENTS)
        return walk_rows(run, forward_rows, error);
    tile_channels *channels = &run->channels;
    size_t n = (size_t)run->columns;
    int64_t at = run->plan->reach[run->plan->output].base + run->column;
    row_block first = {.n_rows = 1};
    read_matrix(run, 0, &first);
    memcpy(channels->centre, first.x, n * sizeof(float));
    CLEAVE_TRY(walk_rows(run, moments_rows_forward, error));
    memcpy(run->shift + at, channels->centre, n * sizeof(float));
    memcpy(run->total + at, channels->sum[0], n * sizeof(double));
    memcpy(run->square + at, channels->sum[1], n * sizeof(double));
    return CLEAVE_OK;
}

/* g, the output's gradient, where the output, or the line that it is made of, is within the bounds,
   else 0. */
static inline __attribute__((always_inline)) vector pass_within(const row_block *block, vector of,
                                                                vector g) {
    if (block->bound == A_RELU)
        return keep(of > 0, g);
    return keep((of >= block->low) & (of <= block->high), g);
}

/* Along the line's slope to the matrix' gradient, and part[0] += g, part[1] += g (x - centre).
   Where g is zero nothing passes, whatever x is. */
static inline __attribute__((always_inline)) void
pass_columns(const tile_run *run, const row_block *block, int c, int n) {
    const tile_channels *channels = &run->channels;
    float *sums = channels->part[0] + c, *weights = channels->part[1] + c;
    vector factor = load(channels->factor + c), centre = load(channels->centre + c),
           shift = load(channels->shift + c), sum = load(sums), weighted = load(weights);
    ask_ahead(block, block->g + c, block->g_row);
    if (block->x != NULL)
        ask_ahead(block, block->x + c, block->x_row);
    if (block->y != NULL)
        ask_ahead(block, block->y + c, block->y_row);
    for (int r = 0; r < block->n_rows; r++) {
        vector g = load_some(block->g + r * block->g_row + c, n), x = {0};
        if (block->x != NULL)
            x = load_some(block->x + r * block->x_row + c, n) - centre;
        if (block->bound != UNBOUND)
            g = pass_within(block,
                            block->of != NULL ? load_some(block->of + r * block->of_row + c, n)
                                              : factor * x + shift,
                            g);
        if (block->y != NULL) {
            float *y = block->y + r * block->y_row + c;
            write_some(y, block->adds, factor * g, n);
        }
        sum += g;
        weighted += keep(g != 0, g * x);
    }
    store(sums, sum);
    store(weights, weighted);
}

static row_block gradient_block(const tile_run *run, int n_rows) {
    row_block block = block_of(run, n_rows);
    block.adds = (run->call->accumulated >> run->plan->channels.matrix & 1) != 0;
    return block;
}

static void backward_rows(const tile_run *run, int64_t row, int n_rows) {
    const cleave_tile_plan *plan = run->plan;
    const cleave_kernel_call *call = run->call;
    int matrix = plan->channels.matrix, to = plan->gradient[matrix];
    row_block block = gradient_block(run, n_rows);
    block.g = read_rows(run, plan->seed, &call->output_gradient, row, n_rows, run->channels.row[1],
                        &block.g_row);
    bool by_output = plan->tape.from_output, bounded = block.bound != UNBOUND;
    if (plan->input[matrix] >= 0 && (plan->frontier != 0 || (bounded && !by_output)))
        read_matrix(run, row, &block);
    if (bounded && by_output)
        block.of = read_rows(run, plan->output, &call->output, row, n_rows, run->channels.row[3],
                             &block.of_row);
    if (to >= 0)
        begin_result(run, to, &call->input_gradients[matrix], row, &block);
    for_columns(run, &block, pass_columns);
    if (to >= 0)
        end_result(run, to, &call->input_gradients[matrix], row, &block);
}

static void moments_rows_backward(const tile_run *run, int64_t row, int n_rows) {
    int matrix = run->plan->channels.matrix, to = run->plan->gradient[matrix];
    row_block block = gradient_block(run, n_rows);
    if (to >= 0)
        write_lines(run, row, &block, to, &run->call->input_gradients[matrix]);
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
        return walk_rows(run, moments_rows_backward, error);
    CLEAVE_TRY(walk_rows(run, backward_rows, error));
    if (run->plan->frontier != 0)
        spread_sums(run);
    return CLEAVE_OK;
}
