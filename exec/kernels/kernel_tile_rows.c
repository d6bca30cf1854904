#include "exec/kernels/kernel_tile_run.h"

#include "exec/kernels/convert.h"

#include <string.h>

static void spread(float value, int n, float *to) {
    for (int i = 0; i < n; i++)
        to[i] = value;
}

static void gather_floats(const tile_run *run, int stream, const float *from, float *to) {
    int64_t row = tile_row_stride(run, stream), column = tile_column_stride(run, stream);
    for (int r = 0; r < run->rows; r++, to += run->columns) {
        const float *at = from + r * row;
        if (column == 1)
            memcpy(to, at, (size_t)run->columns * sizeof *to);
        else if (column == 0)
            spread(*at, run->columns, to);
        else
            for (int c = 0; c < run->columns; c++)
                to[c] = at[c * column];
    }
}

void tile_widen_row(int n, const uint16_t *restrict from, float *restrict to) {
    for (int i = 0; i < n; i++)
        to[i] = cleave_bf16_widen(from[i]);
}

void tile_round_row(int n, const float *restrict from, uint16_t *restrict to) {
    for (int i = 0; i < n; i++)
        to[i] = cleave_bf16_round(from[i]);
}

static void gather_halves(const tile_run *run, int stream, const uint16_t *from, float *to) {
    int64_t row = tile_row_stride(run, stream), column = tile_column_stride(run, stream);
    if (tile_lies_contiguously(run, stream)) {
        tile_widen_row(run->tile.n, from, to);
        return;
    }
    for (int r = 0; r < run->rows; r++, to += run->columns) {
        const uint16_t *at = from + r * row;
        if (column == 1)
            tile_widen_row(run->columns, at, to);
        else if (column == 0)
            spread(cleave_bf16_widen(*at), run->columns, to);
        else
            for (int c = 0; c < run->columns; c++)
                to[c] = cleave_bf16_widen(at[c * column]);
    }
}

static void gather_integers(const tile_run *run, int stream, const int64_t *from, float *to) {
    int64_t row = tile_row_stride(run, stream), column = tile_column_stride(run, stream);
    for (int r = 0; r < run->rows; r++)
        for (int c = 0; c < run->columns; c++)
            *to++ = (float)from[r * row + c * column];
}

/* The tile after this one most often lies behind it; by the time it is wanted it is near. */
static void fetch_ahead(const tile_run *run, const float *at) {
    for (int i = 0; i < run->tile.n; i += 16)
        __builtin_prefetch(at + run->tile.n + i);
}

float *tile_load(tile_run *run, int stream, const cleave_array *array, cleave_type type,
                 bool *fresh) {
    tile_loaded *cache = &run->cache[stream];
    bool half = array->type == CLEAVE_BF16,
         direct = type == CLEAVE_F32 && !half && tile_lies_contiguously(run, stream);
    *fresh = cache->at != run->at[stream];
    cache->at = run->at[stream];
    if (direct) {
        float *at = (float *)array->data + cache->at;
        if (*fresh && run->plan->tile <= 1024)
            fetch_ahead(run, at);
        return at;
    }
    if (!*fresh)
        return cache->scratch;
    if (type == CLEAVE_I64)
        gather_integers(run, stream, (const int64_t *)array->data + cache->at, cache->scratch);
    else if (half)
        gather_halves(run, stream, (const uint16_t *)array->data + cache->at, cache->scratch);
    else
        gather_floats(run, stream, (const float *)array->data + cache->at, cache->scratch);
    return cache->scratch;
}

void tile_load_record(tile_run *run, const float *record[4]) {
    const cleave_kernel_call *call = run->call;
    bool fresh;
    for (int r = 0; r < 4; r++)
        record[r] = tile_load(run, run->plan->record[r],
                              r < 2 ? &call->combined : &call->output_gradient, CLEAVE_F32, &fresh);
}

const int64_t *tile_load_index(tile_run *run, int stream, bool *fresh) {
    tile_loaded *cache = &run->cache[stream];
    *fresh = cache->at != run->at[stream];
    if (!*fresh)
        return cache->scratch;
    cache->at = run->at[stream];
    int64_t row = tile_row_stride(run, stream), column = tile_column_stride(run, stream);
    int64_t *to = cache->scratch;
    for (int r = 0; r < run->rows; r++)
        for (int c = 0; c < run->columns; c++)
            *to++ = cache->at + r * row + c * column;
    return cache->scratch;
}

static void scatter_halves(const tile_run *run, int stream, const float *from, uint16_t *to) {
    int64_t row = tile_row_stride(run, stream), column = tile_column_stride(run, stream);
    if (tile_lies_contiguously(run, stream)) {
        tile_round_row(run->tile.n, from, to);
        return;
    }
    for (int r = 0; r < run->rows; r++, from += run->columns) {
        if (column == 1)
            tile_round_row(run->columns, from, to + r * row);
        else
            for (int c = 0; c < run->columns; c++)
                to[r * row + c * column] = cleave_bf16_round(from[c]);
    }
}

void tile_scatter(const tile_run *run, int stream, const float *from, const cleave_array *array) {
    int64_t row = tile_row_stride(run, stream), column = tile_column_stride(run, stream);
    if (array->type == CLEAVE_BF16) {
        scatter_halves(run, stream, from, (uint16_t *)array->data + run->at[stream]);
        return;
    }
    float *to = (float *)array->data + run->at[stream];
    for (int r = 0; r < run->rows; r++)
        for (int c = 0; c < run->columns; c++)
            to[r * row + c * column] = *from++;
}

void tile_add_to(const tile_run *run, int stream, const float *from, const cleave_array *array) {
    int64_t row = tile_row_stride(run, stream), column = tile_column_stride(run, stream);
    for (int r = 0; r < run->rows; r++)
        for (int c = 0; c < run->columns; c++) {
            int64_t at = run->at[stream] + r * row + c * column;
            float before = cleave_element_get(array->type, array->data, at);
            cleave_element_put(array->type, array->data, at, before + *from++);
        }
}

/* Sixteen running sums, so that it vectorises, in an order that depends on n alone. */
static double sum_row(const float *x, int n) {
    float lane[16] = {0};
    int i = 0;
    for (; i + 16 <= n; i += 16)
        for (int l = 0; l < 16; l++)
            lane[l] += x[i + l];
    double sum = 0;
    for (int l = 0; l < 16; l++)
        sum += (double)lane[l];
    for (; i < n; i++)
        sum += (double)x[i];
    return sum;
}

void tile_add(const tile_run *run, int stream, const float *x, double *sums) {
    int64_t row = tile_row_stride(run, stream), column = tile_column_stride(run, stream);
    int columns = run->columns;
    for (int r = 0; r < run->rows; r++, x += columns) {
        double *to = sums + run->at[stream] + r * row;
        if (column == 0)
            to[0] += sum_row(x, columns);
        else if (column == 1)
            _Pragma("GCC ivdep") for (int c = 0; c < columns; c++) to[c] += (double)x[c];
        else
            for (int c = 0; c < columns; c++)
                to[c * column] += (double)x[c];
    }
}

/* Sixteen running maxima, so that it vectorises. */
static float max_row(const float *x, int n, float best) {
    float lane[16];
    int i = 0;
    for (int l = 0; l < 16; l++)
        lane[l] = best;
    for (; i + 16 <= n; i += 16)
        for (int l = 0; l < 16; l++)
            lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    for (int l = 0; l < 16; l++)
        best = lane[l] > best ? lane[l] : best;
    for (; i < n; i++)
        best = x[i] > best ? x[i] : best;
    return best;
}

void tile_max(const tile_run *run, int stream, const float *x, float *best) {
    int64_t row = tile_row_stride(run, stream), column = tile_column_stride(run, stream);
    int columns = run->columns;
    for (int r = 0; r < run->rows; r++, x += columns) {
        float *to = best + r * row;
        if (column == 0)
            to[0] = max_row(x, columns, to[0]);
        else
            for (int c = 0; c < columns; c++)
                to[c * column] = x[c] > to[c * column] ? x[c] : to[c * column];
    }
}

/* The sums of x - shift and of its square along a row, in sixteen lanes, so that it vectorises. */
static void moments_row(const float *x, int n, double shift, double *total, double *square) {
    enum { LANES = 16 };
    double sums[LANES] = {0}, squares[LANES] = {0};
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) {
            double d = (double)x[i + l] - shift;
            sums[l] += d;
            squares[l] += d * d;
        }
    for (; i < n; i++) {
        double d = (double)x[i] - shift;
        sums[0] += d;
        squares[0] += d * d;
    }
    for (int l = 0; l < LANES; l++) {
        *total += sums[l];
        *square += squares[l];
    }
}

void tile_moments(const tile_run *run, int stream, const float *x) {
    int64_t row = tile_row_stride(run, stream), column = tile_column_stride(run, stream);
    int columns = run->columns;
    for (int r = 0; r < run->rows; r++, x += columns) {
        int64_t at = run->at[stream] + r * row;
        double *total = run->total + at, *square = run->square + at;
        float *shift = run->shift + at;
        bool first = run->first && (row != 0 || run->row + r == 0);
        if (column == 1) {
            if (first)
                memcpy(shift, x, (size_t)columns * sizeof *x);
            _Pragma("GCC ivdep") for (int c = 0; c < columns; c++) {
                double d = (double)x[c] - (double)shift[c];
                total[c] += d;
                square[c] += d * d;
            }
            continue;
        }
        if (column == 0) {
            if (first && run->column == 0)
                shift[0] = x[0];
            moments_row(x, columns, (double)shift[0], total, square);
            continue;
        }
        for (int c = 0; c < columns; c++) {
            int64_t to = c * column;
            if (first)
                shift[to] = x[c];
            double d = (double)x[c] - (double)shift[to];
            total[to] += d;
            square[to] += d * d;
        }
    }
}

void tile_add_rows(const tile_run *run, const float *x, float *part, double *sums) {
    enum { WIDTH = 32, ROWS_IN_FLOAT = 64 };
    int columns = run->columns, c = 0;
    part += run->column;
    sums += run->column;
    for (; c + WIDTH <= columns; c += WIDTH) {
        float sum[WIDTH];
        for (int i = 0; i < WIDTH; i++)
            sum[i] = part[c + i];
        for (int r = 0; r < run->rows; r++)
            for (int i = 0; i < WIDTH; i++)
                sum[i] += x[(int64_t)r * columns + c + i];
        for (int i = 0; i < WIDTH; i++)
            part[c + i] = sum[i];
    }
    for (; c < columns; c++)
        for (int r = 0; r < run->rows; r++)
            part[c] += x[(int64_t)r * columns + c];
    /* The same tiles of every column end a part: the last, and those after every so many rows. */
    const cleave_tile_plan *plan = run->plan;
    int64_t tiles = ROWS_IN_FLOAT / plan->rows > 1 ? ROWS_IN_FLOAT / plan->rows : 1;
    if ((run->row / plan->rows + 1) % tiles != 0 &&
        run->row + run->rows < plan->extent[plan->n_loops - 2])
        return;
    for (int i = 0; i < columns; i++) {
        sums[i] += (double)part[i];
        part[i] = 0;
    }
}
