/* The tape kernel: any nest whose operands have an element at every point (no padding), in tiles as
   kernel_tile_plan.c lays them; kernel_tile_rows.c reads and writes a tile.

   What follows from operands alone that stay the same from tile to tile is not computed again.
   Results go to sinks: stored, or summed over the points that share an element (an output with a
   combiner, the gradient of a broadcast operand). */
#include "exec/kernels/convert.h"
#include "exec/kernels/dropout.h"
#include "exec/kernels/kernel_tile_channels.h"

#include <math.h>
#include <string.h>

/* Takes `bytes` of the workspace, or only counts them where there is none. */
static int64_t lay_out(const cleave_kernel_call *call, const cleave_tile_plan *plan, char *base,
                       tile_run *run) {
    const cleave_nest *nest = call->nest;
    int64_t used = 0, row = plan->tile * (int64_t)sizeof(float);
    for (int r = nest->n_inputs; r < plan->tape.n_registers; r++)
        run->value[r] = plan->tape.values >> r & 1 ? cleave_kernel_carve(base, &used, row) : NULL;
    for (int r = 0; r < plan->tape.n_registers; r++)
        run->adjoint[r] =
            plan->tape.adjoints >> r & 1 ? cleave_kernel_carve(base, &used, row) : NULL;
    for (int s = 0; s < plan->n_streams; s++)
        run->cache[s] =
            (tile_loaded){.at = -1, .scratch = cleave_kernel_carve(base, &used, 2 * row)};
    for (int i = 0; i < nest->n_inputs; i++) {
        run->sums[i] = NULL;
        if (plan->gradient[i] >= 0 && plan->summed[i])
            run->sums[i] = cleave_kernel_carve(
                base, &used,
                8 * cleave_kernel_array_size(call, &nest->inputs[i], &call->input_gradients[i]));
    }
    int64_t columns = plan->extent[plan->n_loops - 1];
    for (int r = 0; r < plan->tape.n_registers; r++) {
        bool sum = plan->frontier >> r & 1;
        run->column_sums[r] = sum ? cleave_kernel_carve(base, &used, 8 * columns) : NULL;
        run->column_parts[r] = sum ? cleave_kernel_carve(base, &used, 4 * columns) : NULL;
    }
    used += tile_channels_lay_out(plan, base == NULL ? NULL : base + used, &run->channels);
    if (call->pass != CLEAVE_PASS_FORWARD)
        return used;
    int64_t n = cleave_kernel_array_size(call, &nest->output, &call->output);
    if (plan->combiner == CLEAVE_COMBINE_SUM || plan->combiner == CLEAVE_COMBINE_MOMENTS)
        run->total = cleave_kernel_carve(base, &used, 8 * n);
    if (plan->combiner == CLEAVE_COMBINE_MOMENTS) {
        run->square = cleave_kernel_carve(base, &used, 8 * n);
        run->shift = cleave_kernel_carve(base, &used, 4 * n);
    }
    return used;
}

static void load_values(tile_run *run) {
    const cleave_kernel_call *call = run->call;
    const cleave_tile_plan *plan = run->plan;
    for (int i = 0; i < call->nest->n_inputs; i++) {
        if (plan->input[i] < 0)
            continue;
        bool fresh;
        run->tile.value[i] =
            tile_load(run, plan->input[i], &call->inputs[i],
                      call->model->tensors[call->nest->inputs[i].tensor].type, &fresh);
        if (fresh)
            run->tile.changed |= (uint64_t)1 << i;
    }
    for (int i = 0; i < call->nest->n_instructions; i++) {
        bool fresh;
        if (plan->index[i] < 0)
            continue;
        run->tile.index[i] = tile_load_index(run, plan->index[i], &fresh);
        if (fresh)
            run->tile.changed |= (uint64_t)1 << (call->nest->n_inputs + i);
    }
}

static void forward_tile(tile_run *run) {
    const cleave_tile_plan *plan = run->plan;
    const cleave_kernel_call *call = run->call;
    int last = plan->tape.n_registers - 1;
    float *output = call->output.data;
    load_values(run);
    bool in_place = plan->combiner == CLEAVE_COMBINE_NONE && call->output.type == CLEAVE_F32 &&
                    tile_lies_contiguously(run, plan->output);
    run->tile.value[last] = in_place ? output + run->at[plan->output] : run->value[last];
    run->tile.changed |= (uint64_t)1 << last;
    cleave_tape_forward(&plan->tape, &run->tile);
    const float *x = run->tile.value[last];
    switch (plan->combiner) {
    case CLEAVE_COMBINE_NONE:
        if (!in_place)
            tile_scatter(run, plan->output, x, &call->output);
        break;
    case CLEAVE_COMBINE_SUM:
        tile_add(run, plan->output, x, run->total);
        break;
    case CLEAVE_COMBINE_MAX:
        tile_max(run, plan->output, x, output + run->at[plan->output]);
        break;
    case CLEAVE_COMBINE_MOMENTS:
        tile_moments(run, plan->output, x);
        break;
    case CLEAVE_COMBINE_STATISTICS: /* no nest does */
        break;
    }
}

static void seed_row(int n, const float *x, float mean_gradient, float mean, float factor,
                     float *seed) {
    _Pragma("GCC ivdep") for (int i = 0; i < n; i++) seed[i] =
        mean_gradient + (x[i] - mean) * factor;
}

/* Adjoint of a value under MOMENTS: d mean / count + 2 (x - mean) d M2, of the combined record. */
static void seed_moments(tile_run *run, int last) {
    const float *record[4];
    tile_load_record(run, record);
    const float *x = run->tile.value[last];
    float *seed = run->adjoint[last];
    if (tile_column_stride(run, run->plan->record[0]) == 0)
        for (int r = 0, n = run->columns; r < run->rows; r++) {
            int at = r * n;
            seed_row(n, x + at, record[2][at] / record[0][at], record[1][at], 2.0f * record[3][at],
                     seed + at);
        }
    else
        for (int i = 0; i < run->tile.n; i++)
            seed[i] = record[2][i] / record[0][i] + 2.0f * (x[i] - record[1][i]) * record[3][i];
    run->tile.adjoint[last] = seed;
}

static bool adds(const tile_run *run, int input) {
    return (run->call->accumulated >> input & 1) != 0;
}

/* Where the gradients of these inputs are made: in place, or in scratch. */
static void place_gradients(tile_run *run, uint64_t inputs) {
    const cleave_tile_plan *plan = run->plan;
    for (int i = 0; i < run->call->nest->n_inputs; i++) {
        int stream = plan->gradient[i];
        bool direct = stream >= 0 && (inputs >> i & 1) && !plan->summed[i] &&
                      run->call->input_gradients[i].type == CLEAVE_F32 &&
                      tile_lies_contiguously(run, stream);
        run->tile.adjoint[i] = direct
                                   ? (float *)run->call->input_gradients[i].data + run->at[stream]
                                   : run->adjoint[i];
        if (direct && adds(run, i))
            run->tile.given |= cleave_register_bit(i);
    }
}

static void sink_gradients(tile_run *run, uint64_t inputs) {
    const cleave_tile_plan *plan = run->plan;
    for (int i = 0; i < run->call->nest->n_inputs; i++) {
        int stream = plan->gradient[i];
        if (stream < 0 || !(inputs >> i & 1))
            continue;
        if (plan->summed[i])
            tile_add(run, stream, run->tile.adjoint[i], run->sums[i]);
        else if (run->tile.adjoint[i] == run->adjoint[i])
            (adds(run, i) ? tile_add_to : tile_scatter)(run, stream, run->adjoint[i],
                                                        &run->call->input_gradients[i]);
    }
}

static void backward_tile(tile_run *run) {
    const cleave_tile_plan *plan = run->plan;
    const cleave_kernel_call *call = run->call;
    int last = plan->tape.n_registers - 1;
    bool fresh;
    load_values(run);
    run->tile.skipped = 0;
    cleave_tape_forward(&plan->tape, &run->tile);
    if (plan->combiner == CLEAVE_COMBINE_MOMENTS)
        seed_moments(run, last);
    else
        run->tile.adjoint[last] =
            tile_load(run, plan->seed, &call->output_gradient, CLEAVE_F32, &fresh);
    if (plan->tape.from_output)
        run->tile.output = tile_load(run, plan->output, &call->output, CLEAVE_F32, &fresh);
    run->tile.given = cleave_register_bit(last);
    run->tile.skipped = plan->by_column;
    place_gradients(run, ~plan->by_column);
    cleave_tape_backward(&plan->tape, &run->tile);
    sink_gradients(run, ~plan->by_column);
    for (int r = 0; r < plan->tape.n_registers; r++)
        if (run->column_sums[r] != NULL)
            tile_add_rows(run, run->tile.adjoint[r], run->column_parts[r], run->column_sums[r]);
}

/* What varies along the columns alone, for the columns from this one on: one row. */
static void load_columns(tile_run *run, int64_t column) {
    const cleave_tile_plan *plan = run->plan;
    int64_t left = plan->extent[plan->n_loops - 1] - column;
    run->rows = 1;
    run->row = 0;
    run->column = column;
    run->columns = (int)(left < plan->columns ? left : plan->columns);
    run->tile.n = run->columns;
    run->tile.changed = ~(uint64_t)0;
    for (int s = 0; s < plan->n_streams; s++) {
        run->cache[s].at = -1;
        run->at[s] = plan->reach[s].base + column * tile_column_stride(run, s);
    }
    load_values(run);
    run->tile.skipped = ~plan->by_column;
    cleave_tape_forward(&plan->tape, &run->tile);
}

/* The rest of backward, from the summed adjoints of the frontier. */
static void backward_columns(tile_run *run) {
    const cleave_tile_plan *plan = run->plan;
    int64_t columns = plan->extent[plan->n_loops - 1];
    for (int64_t column = 0; column < columns; column += plan->columns) {
        load_columns(run, column);
        run->tile.given = plan->frontier;
        place_gradients(run, plan->by_column);
        for (int r = 0; r < plan->tape.n_registers; r++) {
            float *to = run->tile.adjoint[r];
            bool adds_there =
                r < run->call->nest->n_inputs && adds(run, r) && to != run->adjoint[r];
            for (int c = 0; run->column_sums[r] != NULL && c < run->columns; c++)
                to[c] = (adds_there ? to[c] : 0) + (float)run->column_sums[r][run->column + c];
        }
        cleave_tape_backward(&plan->tape, &run->tile);
        sink_gradients(run, plan->by_column);
    }
}

/* The whole matrix, some columns after the other. */
static cleave_status walk_channels(tile_run *run, cleave_error *error) {
    const cleave_tile_plan *plan = run->plan;
    int64_t columns = plan->extent[1];
    bool forward = run->call->pass == CLEAVE_PASS_FORWARD;
    run->pace = cleave_kernel_pace_start(run->call, tile_channels_steps(plan));
    for (int64_t column = 0; column < columns; column += plan->columns) {
        load_columns(run, column);
        tile_channels_find_lines(run);
        CLEAVE_TRY(forward ? tile_channels_forward(run, error)
                           : tile_channels_backward(run, error));
    }
    return CLEAVE_OK;
}

/* The tiles of one setting of the outer loops. */
static cleave_status walk_tiles(tile_run *run, const int64_t *outer, bool first,
                                void (*body)(tile_run *run), cleave_error *error) {
    const cleave_tile_plan *plan = run->plan;
    int64_t rows = plan->extent[plan->n_loops - 2], columns = plan->extent[plan->n_loops - 1];
    run->first = first;
    for (run->row = 0; run->row < rows; run->row += plan->rows) {
        for (run->column = 0; run->column < columns; run->column += plan->columns) {
            int64_t left_rows = rows - run->row, left_columns = columns - run->column;
            int n_rows = (int)(left_rows < plan->rows ? left_rows : plan->rows);
            int n_columns = (int)(left_columns < plan->columns ? left_columns : plan->columns);
            run->tile.changed = 0;
            if (n_rows != run->rows || n_columns != run->columns) {
                for (int s = 0; s < plan->n_streams; s++)
                    run->cache[s].at = -1;
                run->tile.changed = ~(uint64_t)0;
            }
            run->rows = n_rows;
            run->columns = n_columns;
            run->tile.n = n_rows * n_columns;
            for (int s = 0; s < plan->n_streams; s++)
                run->at[s] = outer[s] + run->row * tile_row_stride(run, s) +
                             run->column * tile_column_stride(run, s);
            body(run);
            CLEAVE_TRY(cleave_kernel_pace_step(&run->pace, error));
        }
    }
    return CLEAVE_OK;
}

static int64_t count_tiles(const cleave_tile_plan *plan) {
    int64_t rows = plan->extent[plan->n_loops - 2], columns = plan->extent[plan->n_loops - 1];
    int64_t n =
        (rows + plan->rows - 1) / plan->rows * ((columns + plan->columns - 1) / plan->columns);
    for (int l = 0; l < plan->n_loops - 2; l++)
        n *= plan->extent[l];
    return n;
}

static cleave_status walk_all(tile_run *run, void (*body)(tile_run *run), cleave_error *error) {
    const cleave_tile_plan *plan = run->plan;
    if (plan->channels.fits)
        return walk_channels(run, error);
    run->pace = cleave_kernel_pace_start(run->call, count_tiles(plan));
    int64_t outer[CLEAVE_MAX_TILE_STREAMS], index[CLEAVE_MAX_AXES + 2] = {0};
    for (int s = 0; s < plan->n_streams; s++)
        outer[s] = plan->reach[s].base;
    for (;;) {
        bool first = true;
        for (int l = 0; plan->output >= 0 && l < plan->n_loops - 2; l++)
            first = first && (plan->stride[plan->output][l] != 0 || index[l] == 0);
        CLEAVE_TRY(walk_tiles(run, outer, first, body, error));
        int l = plan->n_loops - 3;
        for (; l >= 0; l--) {
            for (int s = 0; s < plan->n_streams; s++)
                outer[s] += plan->stride[s][l];
            if (++index[l] < plan->extent[l])
                break;
            for (int s = 0; s < plan->n_streams; s++)
                outer[s] -= plan->stride[s][l] * plan->extent[l];
            index[l] = 0;
        }
        if (l < 0)
            return CLEAVE_OK;
    }
}

static void finish_moments(const tile_run *run, int64_t n) {
    const cleave_kernel_call *call = run->call;
    const cleave_tile_plan *plan = run->plan;
    double count = 1;
    for (int l = 0; l < plan->n_loops; l++)
        if (plan->stride[plan->output][l] == 0)
            count *= (double)plan->extent[l];
    float *output = call->output.data;
    int64_t record = call->output.strides[0];
    /* Parts one behind the other may have gaps between them. */
    int64_t end = call->model->tensors[call->nest->output.tensor].order[0] == 0 ? n / 3 : n;
    for (int64_t at = 0; at < end; at++) {
        if (at / record % 3 != 0) /* the index in dimension 0 */
            continue;
        double mean = run->total[at] / count, square = run->square[at] - mean * run->total[at];
        output[at] = (float)count;
        output[at + record] = (float)((double)run->shift[at] + mean);
        output[at + 2 * record] = (float)(square > 0 ? square : 0);
    }
}

static cleave_status run_forward(tile_run *run, cleave_error *error) {
    const cleave_kernel_call *call = run->call;
    int64_t n = cleave_kernel_array_size(call, &call->nest->output, &call->output);
    void *output = call->output.data;
    if (run->total != NULL)
        memset(run->total, 0, (size_t)n * sizeof *run->total);
    if (run->square != NULL)
        memset(run->square, 0, (size_t)n * sizeof *run->square);
    for (int64_t i = 0; run->plan->combiner == CLEAVE_COMBINE_MAX && i < n; i++)
        ((float *)output)[i] = -HUGE_VALF;
    CLEAVE_TRY(walk_all(run, forward_tile, error));
    if (run->plan->combiner == CLEAVE_COMBINE_MOMENTS)
        finish_moments(run, n);
    else if (run->total != NULL)
        for (int64_t i = 0; i < n; i++)
            cleave_element_put(call->output.type, output, i, (float)run->total[i]);
    return CLEAVE_OK;
}

static cleave_status run_backward(tile_run *run, cleave_error *error) {
    const cleave_kernel_call *call = run->call;
    const cleave_tile_plan *plan = run->plan;
    int64_t size[CLEAVE_MAX_INPUTS] = {0};
    for (int i = 0; i < call->nest->n_inputs; i++) {
        if (!(plan->gradients >> i & 1))
            continue;
        size[i] = cleave_kernel_array_size(call, &call->nest->inputs[i], &call->input_gradients[i]);
        if (plan->gradient[i] < 0 && !adds(run, i))
            cleave_kernel_zero(call, &call->nest->inputs[i], &call->input_gradients[i]);
        else if (plan->gradient[i] >= 0 && plan->summed[i])
            memset(run->sums[i], 0, (size_t)size[i] * sizeof(double));
    }
    size_t columns = (size_t)plan->extent[plan->n_loops - 1];
    for (int r = 0; r < plan->tape.n_registers; r++) {
        if (run->column_sums[r] == NULL)
            continue;
        memset(run->column_sums[r], 0, columns * sizeof(double));
        memset(run->column_parts[r], 0, columns * sizeof(float));
    }
    CLEAVE_TRY(walk_all(run, backward_tile, error));
    if (plan->frontier != 0)
        backward_columns(run);
    for (int i = 0; i < call->nest->n_inputs; i++)
        for (int64_t j = 0; run->sums[i] != NULL && j < size[i]; j++) {
            const cleave_array *to = &call->input_gradients[i];
            double before = adds(run, i) ? (double)cleave_element_get(to->type, to->data, j) : 0;
            cleave_element_put(to->type, to->data, j, (float)(before + run->sums[i][j]));
        }
    return CLEAVE_OK;
}

static bool fits(cleave_kernels *kernels, const cleave_kernel_call *call) {
    (void)kernels;
    cleave_tile_plan plan;
    return cleave_tile_plan_make(call, &plan);
}

static int64_t workspace(cleave_kernels *kernels, const cleave_kernel_call *call) {
    (void)kernels;
    cleave_tile_plan plan;
    tile_run run = {0};
    return cleave_tile_plan_make(call, &plan) ? lay_out(call, &plan, NULL, &run) : 0;
}

static cleave_status run_kernel(cleave_kernels *kernels, const cleave_kernel_call *call,
                                cleave_error *error) {
    (void)kernels;
    cleave_tile_plan plan;
    if (!cleave_tile_plan_make(call, &plan))
        return cleave_fail(error, CLEAVE_FAILED, "the tape kernel does not fit nest %s",
                           call->nest->name);
    tile_run run = {.call = call, .plan = &plan};
    lay_out(call, &plan, call->workspace, &run);
    memcpy(run.tile.value, run.value, sizeof run.value);
    memcpy(run.tile.adjoint, run.adjoint, sizeof run.adjoint);
    run.tile.dropout_key = cleave_dropout_key(call->seed, call->step,
                                              call->model->tensors[call->nest->output.tensor].name);
    return call->pass == CLEAVE_PASS_FORWARD ? run_forward(&run, error) : run_backward(&run, error);
}

const cleave_kernel_row cleave_tile_kernel = {
    .name = "tape",
    .kinds = ~0u,
    .passes = ~0u,
    .accumulates = true,
    .takes_bf16 = true,
    .takes_gaps = true,
    .fits = fits,
    .workspace = workspace,
    .run = run_kernel,
};
