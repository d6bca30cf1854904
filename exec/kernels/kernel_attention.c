/* Attention without stored scores (graph/model/attention.h): a head after the other, blocks of
   queries x keys, whose scores stay in a cache.

   Forward goes over the keys with a running maximum, sum and weighted sum of values per row
   (Milakov and Gimelshein 2018; Dao et al. 2022); backward makes each block again from the rows'
   statistics, and adds its share to the gradients of queries, keys and values.  Blocks that a
   constant mask hides are left out; a row that has nothing else is gone over once more with all of
   them.

   Blocks lie at multiples of their size, one goes after the other, and sums are in that order, so
   results depend on the part alone.  A turn of keys that go round (graph/model/ring.h) goes on from
   the statistics and the output that it finds. */
#include "exec/kernels/kernel_attention.h"

#include "exec/kernels/blas.h"
#include "exec/kernels/vector_math.h"

#include <math.h>
#include <string.h>

enum { LANES = 16 };

/* ---- products -------------------------------------------------------------------------------- */

static cleave_status multiply(const attention *a, const cleave_blas_product *product,
                              cleave_error *error) {
    if (!a->run.kernels->large_products_by_blas)
        return cleave_onednn_multiply(product, error);
    cleave_blas_multiply(product);
    return CLEAVE_OK;
}

static float *row_of(const attention_matrix *matrix, int64_t row) {
    return matrix->data + row * matrix->row;
}

/* tile = scale x rows of a times rows of b. */
static cleave_status multiply_rows(const attention *a, double scale, const attention_matrix *x,
                                   const attention_matrix *y, int64_t width, float *tile,
                                   cleave_error *error) {
    const attention_block *block = &a->run.block;
    const cleave_part *part = &a->run.call->part;
    const cleave_blas_product product = {
        .m = block->n_rows,
        .n = block->n_keys,
        .k = width,
        .b_transposed = true,
        .a = row_of(x, block->row - part->lo[a->run.of->rows]),
        .b = row_of(y, block->key - part->lo[a->run.of->keys]),
        .c = tile,
        .a_row = x->row,
        .b_row = y->row,
        .c_row = block->n_keys,
        .alpha = (float)scale,
    };
    return multiply(a, &product, error);
}

/* What a tile gives to its rows (of `to`, from keys' `from`), or, transposed, to its keys. */
static cleave_status add_product(const attention *a, double scale, const float *tile,
                                 bool transposed, const attention_matrix *from,
                                 const attention_matrix *to, int64_t width, cleave_error *error) {
    const attention_block *block = &a->run.block;
    int64_t row = block->row - a->run.call->part.lo[a->run.of->rows];
    int64_t key = block->key - a->run.call->part.lo[a->run.of->keys];
    const cleave_blas_product product = {
        .m = transposed ? block->n_keys : block->n_rows,
        .n = width,
        .k = transposed ? block->n_rows : block->n_keys,
        .a_transposed = transposed,
        .a = tile,
        .b = row_of(from, transposed ? row : key),
        .c = row_of(to, transposed ? key : row),
        .a_row = block->n_keys,
        .b_row = from->row,
        .c_row = to->row,
        .alpha = (float)scale,
        .beta = 1,
    };
    return multiply(a, &product, error);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static float largest(int64_t n, const float *x, float least) {
    float lane[LANES];
    int64_t i = 0;
    for (int l = 0; l < LANES; l++)
        lane[l] = least;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    for (; i < n; i++)
        lane[0] = x[i] > lane[0] ? x[i] : lane[0];
    for (int l = 1; l < LANES; l++)
        lane[0] = lane[l] > lane[0] ? lane[l] : lane[0];
    return lane[0];
}

static float sum_of(int64_t n, const float *x) {
    float lane[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += x[i + l];
    for (; i < n; i++)
        lane[i % LANES] += x[i];
    for (int l = 0; l < LANES; l++)
        sum += lane[l];
    return sum;
}

static float dot(int64_t n, const float *x, const float *y) {
    float lane[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += x[i + l] * y[i + l];
    for (; i < n; i++)
        lane[i % LANES] += x[i] * y[i];
    for (int l = 0; l < LANES; l++)
        sum += lane[l];
    return sum;
}

/* y = exp(x - shift) x factor; y may be x. */
static void exponentials(int64_t n, const float *x, float shift, float factor, float *y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] - shift;
    cleave_vector_exp((int)n, y, y);
    if (factor < 1 || factor > 1)
        for (int64_t i = 0; i < n; i++)
            y[i] *= factor;
}

/* A row all of whose scores are minus infinity has no maximum. */

static float shift_of(float maximum) { return maximum > -HUGE_VALF ? maximum : 0; }

/* ---- blocks ---------------------------------------------------------------------------------- */

static int64_t end_of_block(int64_t begin, int64_t size, int64_t end) {
    int64_t next = (begin / size + 1) * size;
    return next < end ? next : end;
}

static void set_rows(attention *a, int64_t row) {
    attention_block *block = &a->run.block;
    block->row = row;
    block->n_rows =
        end_of_block(row, CLEAVE_ATTENTION_ROWS, a->run.call->part.hi[a->run.of->rows]) - row;
}

/* From `key` on, without what is hidden at either end; `all`: nothing is.  False: all of it is. */
static bool set_keys(attention *a, int64_t key, int64_t *end, bool all) {
    attention_block *block = &a->run.block;
    const cleave_attention *of = a->run.of;
    int64_t row = block->row, row_end = row + block->n_rows, grain = CLEAVE_SEEN_GRAIN;
    *end = end_of_block(key, CLEAVE_ATTENTION_KEYS, a->run.call->part.hi[of->keys]);
    int64_t first = key, last = *end;
    while (!all && first < last &&
           cleave_attention_seen(of, row, row_end, first, end_of_block(first, grain, last)) ==
               CLEAVE_SEEN_HIDDEN)
        first = end_of_block(first, grain, last);
    while (!all && first < last) {
        int64_t before = (last - 1) / grain * grain;
        before = before > first ? before : first;
        if (cleave_attention_seen(of, row, row_end, before, last) != CLEAVE_SEEN_HIDDEN)
            break;
        last = before;
    }
    if (first >= last)
        return false;
    block->key = first;
    block->n_keys = last - first;
    block->seen = all ? CLEAVE_SEEN_MIXED : cleave_attention_seen(of, row, row_end, first, last);
    return true;
}

/* What products of queries and keys are multiplied with: in a plain block nothing else is done. */
static double scale_of(const attention *a) {
    return a->run.block.seen == CLEAVE_SEEN_PLAIN ? a->run.of->plain_scale : a->run.of->scale;
}

static cleave_status make_scores(attention *a, cleave_error *error) {
    bool plain = a->run.block.seen == CLEAVE_SEEN_PLAIN;
    int n = a->run.of->n_pointwise;
    CLEAVE_TRY(multiply_rows(a, scale_of(a), &a->head[QUERIES], &a->head[KEYS], a->width,
                             a->run.scores[plain ? n : 0], error));
    return plain ? CLEAVE_OK : attention_make_scores(&a->run, error);
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Brings what is known of the block's rows to their new maxima, and takes exponentials. */
static void take_maxima(attention *a) {
    const attention_block *block = &a->run.block;
    for (int64_t r = 0; r < block->n_rows; r++) {
        const float *x = a->run.scores[a->run.of->n_pointwise] + r * block->n_keys;
        float *y = a->run.exponentials + r * block->n_keys;
        float maximum = largest(block->n_keys, x, a->maximum[r]), shift = shift_of(maximum);
        float correction = 1;
        if (maximum > a->maximum[r])
            cleave_vector_exp(1, (float[]){shift_of(a->maximum[r]) - shift}, &correction);
        if (!(a->maximum[r] > -HUGE_VALF))
            correction = 0; /* nothing has been added yet, or zeros */
        exponentials(block->n_keys, x, shift, 1, y);
        a->total[r] = a->total[r] * correction + sum_of(block->n_keys, y);
        if (correction < 1 || correction > 1)
            for (int64_t i = 0; i < a->value_width; i++)
                a->sums[r * a->value_width + i] *= correction;
        a->maximum[r] = maximum;
    }
}

static cleave_status add_values(attention *a, cleave_error *error) {
    const attention_block *block = &a->run.block;
    const attention_matrix *values = &a->head[VALUES];
    CLEAVE_TRY(attention_make_weights(&a->run, error));
    const cleave_blas_product product = {
        .m = block->n_rows,
        .n = a->value_width,
        .k = block->n_keys,
        .a = a->run.weights,
        .b = row_of(values, block->key - a->run.call->part.lo[a->run.of->keys]),
        .c = a->sums,
        .a_row = block->n_keys,
        .b_row = values->row,
        .c_row = a->value_width,
        .alpha = 1,
        .beta = 1,
    };
    return multiply(a, &product, error);
}

static cleave_row_statistics *statistics_of(const attention *a, int64_t row) {
    return (cleave_row_statistics *)a->run.call->combined.data + a->statistics.base +
           row * a->statistics.stride[a->run.of->rows];
}

/* Rows as they are before any key but their sink, whose value is zero, or after those of the turns
   before. */
static void begin_rows(attention *a) {
    const attention_block *block = &a->run.block;
    int64_t first = block->row - a->run.call->part.lo[a->run.of->rows];
    bool goes_on = a->run.call->nest->turn > 0;
    for (int64_t r = 0; r < block->n_rows; r++) {
        cleave_row_statistics before = {-HUGE_VALF, 0};
        if (a->sink != NULL)
            before = (cleave_row_statistics){*a->sink, 1};
        if (goes_on)
            before = *statistics_of(a, first + r);
        a->maximum[r] = before.maximum;
        a->total[r] = before.sum;
        for (int64_t i = 0; i < a->value_width; i++)
            a->sums[r * a->value_width + i] =
                goes_on ? row_of(&a->head[OUTPUT], first + r)[i] * before.sum : 0;
    }
}

/* Maxima, sums and values of a block of rows over the part's keys. */
static cleave_status go_over_keys(attention *a, bool all, bool *left_out, cleave_error *error) {
    const cleave_part *part = &a->run.call->part;
    int keys = a->run.of->keys;
    begin_rows(a);
    *left_out = false;
    for (int64_t key = part->lo[keys], end; key < part->hi[keys]; key = end) {
        if (!set_keys(a, key, &end, all)) {
            *left_out = true;
            continue;
        }
        *left_out = *left_out || a->run.block.n_keys < end - key;
        CLEAVE_TRY(make_scores(a, error));
        take_maxima(a);
        CLEAVE_TRY(add_values(a, error));
    }
    return CLEAVE_OK;
}

/* Is a maximum so low that what is hidden might count beside it? */
static bool is_low(float maximum) { return maximum < (float)CLEAVE_MOST_HIDDEN_SCORE + 200; }

static void finish_rows(attention *a) {
    const attention_block *block = &a->run.block;
    const cleave_part *part = &a->run.call->part;
    int rows = a->run.of->rows;
    int64_t first = block->row - part->lo[rows];
    for (int64_t r = 0; r < block->n_rows; r++) {
        float *y = row_of(&a->head[OUTPUT], first + r);
        float factor = a->total[r] > 0 ? 1 / a->total[r] : 0;
        for (int64_t i = 0; i < a->value_width; i++)
            y[i] = a->sums[r * a->value_width + i] * factor;
        *statistics_of(a, first + r) = (cleave_row_statistics){a->maximum[r], a->total[r]};
    }
}

/* May what constants hide count all the same?  Not where other parts have what they show. */
static bool may_show_hidden(const attention *a) {
    return !a->run.of->shows_all ||
           !cleave_attention_splits_keys(a->run.call->nest, &a->run.call->part);
}

static cleave_status forward_head(attention *a, cleave_error *error) {
    const cleave_part *part = &a->run.call->part;
    int rows = a->run.of->rows;
    for (int64_t row = part->lo[rows]; row < part->hi[rows]; row += a->run.block.n_rows) {
        bool left_out, low = false;
        set_rows(a, row);
        CLEAVE_TRY(go_over_keys(a, false, &left_out, error));
        for (int64_t r = 0; r < a->run.block.n_rows; r++)
            low = low || is_low(a->maximum[r]);
        if (left_out && low && may_show_hidden(a))
            CLEAVE_TRY(go_over_keys(a, true, &left_out, error));
        finish_rows(a);
        CLEAVE_TRY(cleave_kernel_pace_step(&a->pace, error));
    }
    return CLEAVE_OK;
}

/* ---- backward -------------------------------------------------------------------------------- */

/* What every row's weights are made with: exp(s - maximum) x total.  The sum goes into the maximum,
   but where that is so large that it would be lost there. */
static void recall_rows(attention *a) {
    for (int64_t r = 0; r < a->n_rows; r++) {
        const cleave_row_statistics *of = statistics_of(a, r);
        bool low = is_low(of->maximum);
        float logarithm = 0;
        if (!low)
            cleave_vector_log(1, &of->sum, &logarithm);
        a->maximum[r] = of->maximum + logarithm;
        a->total[r] = !low ? 1 : of->sum > 0 ? 1 / of->sum : 0;
        a->along[r] =
            dot(a->value_width, row_of(&a->head[OUTPUT], r), row_of(&a->head[OF_OUTPUT], r));
    }
}

static bool any_is_low(const attention *a) {
    int64_t first = a->run.block.row - a->run.call->part.lo[a->run.of->rows];
    for (int64_t r = first; r < first + a->run.block.n_rows; r++)
        if (is_low(a->maximum[r]))
            return true;
    return false;
}

/* The sink's weight in all rows, times what its value, zero, gives less than the mean. */
static void give_sink(const attention *a) {
    double sum = 0;
    for (int64_t r = 0; r < a->n_rows; r++) {
        float weight = *a->sink - shift_of(a->maximum[r]);
        cleave_vector_exp(1, &weight, &weight);
        sum -= (double)(weight * a->total[r] * a->along[r]);
    }
    *a->of_sink += (float)sum;
}

/* Gradients of scores from those of weights: w (dw - sum of y dy). */
static void give_scores(attention *a) {
    const attention_block *block = &a->run.block;
    int64_t first = block->row - a->run.call->part.lo[a->run.of->rows];
    for (int64_t r = 0; r < block->n_rows; r++) {
        const float *w = a->run.exponentials + r * block->n_keys;
        float *gradient = a->run.gradient + r * block->n_keys, along = a->along[first + r];
        for (int64_t i = 0; i < block->n_keys; i++)
            gradient[i] = w[i] * (gradient[i] - along);
    }
}

/* exp(s - m) / l, again. */
static cleave_status recall_weights(attention *a, cleave_error *error) {
    int n = a->run.of->n_pointwise;
    const attention_block *block = &a->run.block;
    CLEAVE_TRY(make_scores(a, error));
    int64_t first = block->row - a->run.call->part.lo[a->run.of->rows];
    for (int64_t r = 0; r < block->n_rows; r++)
        exponentials(block->n_keys, a->run.scores[n] + r * block->n_keys,
                     shift_of(a->maximum[first + r]), a->total[first + r],
                     a->run.exponentials + r * block->n_keys);
    return CLEAVE_OK;
}

static cleave_status backward_block(attention *a, cleave_error *error) {
    double scale = scale_of(a);
    CLEAVE_TRY(recall_weights(a, error));
    CLEAVE_TRY(attention_make_weights(&a->run, error));
    if (a->operands[OF_VALUES].used)
        CLEAVE_TRY(add_product(a, 1, a->run.weights, true, &a->head[OF_OUTPUT], &a->head[OF_VALUES],
                               a->value_width, error));
    CLEAVE_TRY(multiply_rows(a, 1, &a->head[OF_OUTPUT], &a->head[VALUES], a->value_width,
                             a->run.gradient, error));
    CLEAVE_TRY(attention_unmake_weights(&a->run, error));
    give_scores(a);
    if (a->run.block.seen != CLEAVE_SEEN_PLAIN)
        CLEAVE_TRY(attention_unmake_scores(&a->run, error));
    if (a->operands[OF_KEYS].used)
        CLEAVE_TRY(add_product(a, scale, a->run.gradient, true, &a->head[QUERIES],
                               &a->head[OF_KEYS], a->width, error));
    return a->operands[OF_QUERIES].used
               ? add_product(a, scale, a->run.gradient, false, &a->head[KEYS], &a->head[OF_QUERIES],
                             a->width, error)
               : CLEAVE_OK;
}

static cleave_status backward_head(attention *a, cleave_error *error) {
    const cleave_part *part = &a->run.call->part;
    int rows = a->run.of->rows, keys = a->run.of->keys;
    recall_rows(a);
    if (a->of_sink != NULL)
        give_sink(a);
    for (int64_t row = part->lo[rows]; row < part->hi[rows]; row += a->run.block.n_rows) {
        set_rows(a, row);
        bool all = any_is_low(a);
        for (int64_t key = part->lo[keys], end; key < part->hi[keys]; key = end)
            if (set_keys(a, key, &end, all))
                CLEAVE_TRY(backward_block(a, error));
        CLEAVE_TRY(cleave_kernel_pace_step(&a->pace, error));
    }
    return CLEAVE_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static bool fits(cleave_kernels *kernels, const cleave_kernel_call *call) {
    (void)kernels;
    (void)call;
    return true;
}

static int64_t workspace(cleave_kernels *kernels, const cleave_kernel_call *call) {
    attention a = attention_begin(kernels, call);
    return attention_lay_out(&a, NULL);
}

static cleave_status run(cleave_kernels *kernels, const cleave_kernel_call *call,
                         cleave_error *error) {
    attention a = attention_begin(kernels, call);
    attention_lay_out(&a, call->workspace);
    uint32_t gradients = a.run.backward ? cleave_kernel_gradients(call) : 0;
    for (int i = 0; i < call->nest->n_inputs; i++)
        if ((gradients & ~call->accumulated) >> i & 1)
            cleave_kernel_zero(call, &call->nest->inputs[i], &call->input_gradients[i]);
    int64_t heads = 1, row = CLEAVE_ATTENTION_ROWS;
    const cleave_attention *of = a.run.of;
    for (int axis = 0; axis < call->nest->n_axes; axis++)
        if (axis != of->rows && axis != of->keys && axis != of->width && axis != of->value_width)
            heads *= cleave_part_extent(&call->part, axis);
    int64_t blocks = (call->part.hi[of->rows] + row - 1) / row - call->part.lo[of->rows] / row;
    a.pace = cleave_kernel_pace_start(call, heads * blocks);
    do {
        attention_find_head(&a);
        a.statistics = cleave_kernel_reach(call, &call->nest->statistics, &call->combined);
        for (int axis = 0; axis < call->nest->n_axes; axis++)
            a.statistics.base += a.statistics.stride[axis] * (a.run.at[axis] - call->part.lo[axis]);
        a.run.at[of->rows] = call->part.lo[of->rows];
        CLEAVE_TRY(a.run.backward ? backward_head(&a, error) : forward_head(&a, error));
        attention_leave_head(&a);
    } while (attention_next_head(&a));
    return CLEAVE_OK;
}

const cleave_kernel_row cleave_attention_kernel = {
    .name = "attention",
    .kinds = 1u << CLEAVE_NEST_ATTENTION,
    .passes = 1u << CLEAVE_PASS_FORWARD | 1u << CLEAVE_PASS_INPUT_GRADIENT,
    .accumulates = true,
    .takes_gaps = true,
    .fits = fits,
    .workspace = workspace,
    .run = run,
};
