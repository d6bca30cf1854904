/* The nests that an ATTENTION is (graph/model/attention.h), one after the other by the reference
   kernel, with memory for all that is between: what the fast kernel is compared with.  A row that
   is masked whole, whose scores all are minus infinity, has weights of zero. */
#include "exec/kernels/convert.h"
#include "exec/kernels/kernel_table.h"
#include "graph/model/attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct evaluation {
    const cleave_kernel_call *call;
    const cleave_attention *of;
    bool splits_keys, counts_sinks;
    float *no_sinks; /* [elements of the sinks] minus infinity: what others count, or have */
    cleave_part part[CLEAVE_ATTENTION_MEMBERS];
    int64_t size[CLEAVE_ATTENTION_MEMBERS];
    float *value[CLEAVE_ATTENTION_MEMBERS];    /* [size] what each writes; of the last one null */
    float *gradient[CLEAVE_ATTENTION_MEMBERS]; /* [size] of that, in backward */
} evaluation;

/* The member whose output an input of another is. */
static int writer_of(const evaluation *e, int member, int input) {
    int32_t tensor = e->of->members[member].inputs[input].tensor;
    int writer = 0;
    while (e->of->members[writer].output.tensor != tensor)
        writer++;
    return writer;
}

/* Sinks that count nothing. */
static bool make_no_sinks(evaluation *e) {
    int i = e->of->sinks;
    if (i < 0)
        return true;
    int64_t n = cleave_kernel_array_size(e->call, &e->call->nest->inputs[i], &e->call->inputs[i]);
    e->no_sinks = calloc((size_t)n + 1, sizeof(float));
    for (int64_t k = 0; e->no_sinks != NULL && k < n; k++)
        e->no_sinks[k] = -HUGE_VALF;
    return e->no_sinks != NULL;
}

static bool begin(evaluation *e) {
    e->counts_sinks = cleave_attention_counts_sinks(e->call->nest, &e->call->part);
    if (!make_no_sinks(e))
        return false;
    for (int i = 0; i < e->of->n_members; i++) {
        const cleave_nest *nest = &e->of->members[i];
        cleave_part *part = &e->part[i];
        for (int a = 0; a < nest->n_axes; a++) {
            part->lo[a] = e->call->part.lo[e->of->axis[i][a]];
            part->hi[a] = e->call->part.hi[e->of->axis[i][a]];
        }
        e->size[i] = cleave_part_size(e->call->model, part, &nest->output);
        if (i == e->of->n_members - 1)
            continue;
        e->value[i] = calloc((size_t)e->size[i] + 1, sizeof(float));
        e->gradient[i] = calloc((size_t)e->size[i] + 1, sizeof(float));
        if (e->value[i] == NULL || e->gradient[i] == NULL)
            return false;
    }
    return true;
}

static cleave_kernel_call call_of(const evaluation *e, int i, cleave_pass pass) {
    cleave_kernel_call call;
    const cleave_nest *nest = &e->of->members[i];
    cleave_kernel_call_describe(e->call->model, nest, pass, &e->part[i], &call);
    call.seed = e->call->seed;
    call.step = e->call->step;
    call.poll = e->call->poll;
    call.poll_context = e->call->poll_context;
    for (int k = 0; k < nest->n_inputs; k++) {
        int of = e->of->input[i][k];
        call.inputs[k].data =
            of < 0 ? (void *)e->value[writer_of(e, i, k)] : e->call->inputs[of].data;
        /* Statistics of all keys, which backward has where they are split, have the sink. */
        bool counted = e->counts_sinks && (e->call->pass == CLEAVE_PASS_FORWARD || !e->splits_keys);
        if (of >= 0 && of == e->of->sinks && !counted) {
            call.inputs[k].data = e->no_sinks;
            call.inputs[k].type = CLEAVE_F32;
        }
    }
    call.output.data = i == e->of->n_members - 1 ? e->call->output.data : e->value[i];
    return call;
}

/* Maxima and sums of rows without any score are such that their weights are zero. */
static void mend_rows(const evaluation *e, int i) {
    for (int64_t r = 0; r < e->size[i]; r++) {
        if (i == e->of->maximum && isinf(e->value[i][r]))
            e->value[i][r] = 0;
        if (i == e->of->sum && !(e->value[i][r] > 0))
            e->value[i][r] = HUGE_VALF;
    }
}

/* Of a part that has some of the keys, in backward: those of all. */
static void recall_rows(const evaluation *e, int i) {
    const cleave_row_statistics *statistics = e->call->combined.data;
    for (int64_t r = 0; r < e->size[i]; r++)
        if (i == e->of->maximum)
            e->value[i][r] = statistics[r].maximum;
        else if (i == e->of->sum)
            e->value[i][r] = statistics[r].sum;
}

static cleave_status run_members(const evaluation *e, int n, cleave_error *error) {
    for (int i = 0; i < n; i++) {
        cleave_kernel_call call = call_of(e, i, CLEAVE_PASS_FORWARD);
        CLEAVE_TRY(cleave_kernel_run_reference(&call, error));
        if (e->call->pass != CLEAVE_PASS_FORWARD && e->splits_keys)
            recall_rows(e, i);
        mend_rows(e, i);
    }
    return CLEAVE_OK;
}

/* Where a row of what is read at a member's place lies in an operand that has the row's axes. */
static int64_t row_at(const evaluation *e, const cleave_operand *operand, const cleave_array *array,
                      const int64_t *at) {
    cleave_reach reach = cleave_kernel_reach(e->call, operand, array);
    int64_t to = reach.base;
    for (int a = 0; a < e->call->nest->n_axes; a++)
        to += reach.stride[a] * (at[a] - e->call->part.lo[a]);
    return to;
}

static double element_at(const evaluation *e, const cleave_array *array, const int64_t *at) {
    return (double)cleave_element_get(array->type, array->data,
                                      row_at(e, &e->call->nest->output, array, at));
}

/* The next row of the part, from its first on; false: that was the last. */
static bool next_row(const evaluation *e, int64_t *at) {
    const cleave_part *part = &e->call->part;
    for (int a = e->call->nest->n_axes - 1; a >= 0; at[a] = part->lo[a], a--)
        if (a != e->of->keys && a != e->of->width && a != e->of->value_width &&
            ++at[a] < part->hi[a])
            return true;
    return false;
}

/* The sink of a row. */
static double sink_at(const evaluation *e, const int64_t *at) {
    const cleave_array *sinks = &e->call->inputs[e->of->sinks];
    return (double)cleave_element_get(sinks->type, sinks->data,
                                      row_at(e, &e->call->nest->inputs[e->of->sinks], sinks, at));
}

/* Adds them to the statistics of the rows. */
static void count_sinks(const evaluation *e) {
    const cleave_kernel_call *call = e->call;
    int64_t at[CLEAVE_MAX_AXES];
    memcpy(at, call->part.lo, sizeof at);
    do {
        int64_t row = row_at(e, &call->nest->statistics, &call->combined, at);
        cleave_row_statistics *of = (cleave_row_statistics *)call->combined.data + row;
        of->maximum = e->value[e->of->maximum][row];
        of->sum += (float)exp(sink_at(e, at) - (double)of->maximum);
    } while (next_row(e, at));
}

/* ---- turns of keys that go round ---- */

/* What the turns before left, copied. */
typedef struct before {
    cleave_array output;
    cleave_row_statistics *rows;
} before;

static before take_before(const evaluation *e) {
    const cleave_kernel_call *call = e->call;
    size_t n = (size_t)cleave_kernel_array_size(call, &call->nest->output, &call->output),
           rows = (size_t)e->size[e->of->sum], width = (size_t)cleave_type_bytes(call->output.type);
    before b = {.output = call->output, .rows = calloc(rows + 1, sizeof *b.rows)};
    b.output.data = calloc(n + 1, width);
    if (b.rows != NULL && b.output.data != NULL) {
        memcpy(b.rows, call->combined.data, rows * sizeof *b.rows);
        memcpy(b.output.data, call->output.data, n * width);
    }
    return b;
}

/* Merges it with what this turn gave of a row. */
static void merge_row(const evaluation *e, const before *b, int64_t *at) {
    const cleave_kernel_call *call = e->call;
    int64_t row = row_at(e, &call->nest->statistics, &call->combined, at);
    cleave_row_statistics *own = (cleave_row_statistics *)call->combined.data + row;
    cleave_row_statistics old = b->rows[row];
    int width = e->of->value_width;
    double most = (double)(old.maximum > own->maximum ? old.maximum : own->maximum);
    double of_old = old.sum > 0 ? (double)old.sum * exp((double)old.maximum - most) : 0;
    double of_own = own->sum > 0 ? (double)own->sum * exp((double)own->maximum - most) : 0;
    double sum = of_old + of_own;
    for (at[width] = 0; at[width] < call->nest->axes[width].extent; at[width]++)
        cleave_element_put(call->output.type, call->output.data,
                           row_at(e, &call->nest->output, &call->output, at),
                           sum > 0 ? (float)((of_old * element_at(e, &b->output, at) +
                                              of_own * element_at(e, &call->output, at)) /
                                             sum)
                                   : 0);
    at[width] = 0;
    *own = (cleave_row_statistics){(float)most, (float)sum};
}

static cleave_status forward_of_keys(const evaluation *e, cleave_error *error) {
    CLEAVE_TRY(run_members(e, e->of->n_members, error));
    cleave_row_statistics *statistics = e->call->combined.data;
    for (int64_t r = 0; r < e->size[e->of->sum]; r++)
        statistics[r] =
            isinf(e->value[e->of->sum][r])
                ? (cleave_row_statistics){-HUGE_VALF, 0}
                : (cleave_row_statistics){e->value[e->of->maximum][r], e->value[e->of->sum][r]};
    if (e->counts_sinks)
        count_sinks(e);
    return CLEAVE_OK;
}

static cleave_status forward(const evaluation *e, cleave_error *error) {
    if (e->call->nest->turn == 0)
        return forward_of_keys(e, error);
    before b = take_before(e);
    cleave_status status = b.rows != NULL && b.output.data != NULL
                               ? forward_of_keys(e, error)
                               : cleave_fail_memory(error, "running a reference kernel");
    if (status == CLEAVE_OK) {
        int64_t at[CLEAVE_MAX_AXES];
        memcpy(at, e->call->part.lo, sizeof at);
        do
            merge_row(e, &b, at);
        while (next_row(e, at));
    }
    free(b.rows);
    free(b.output.data);
    return status;
}

static void add(int64_t n, const cleave_array *from, cleave_type type, void *to) {
    for (int64_t i = 0; i < n; i++)
        cleave_element_put(type, to, i,
                           cleave_element_get(type, to, i) +
                               cleave_element_get(from->type, from->data, i));
}

/* Adds what a member gives to the gradients of what it reads. */
static cleave_status run_back(const evaluation *e, int i, cleave_pass pass, cleave_error *error) {
    const cleave_nest *nest = &e->of->members[i];
    uint32_t gradients = cleave_nest_pass_inputs(e->call->model, nest, pass);
    cleave_kernel_call call = call_of(e, i, pass);
    call.output_gradient.data =
        i == e->of->n_members - 1 ? e->call->output_gradient.data : e->gradient[i];
    cleave_status status = CLEAVE_OK;
    for (int k = 0; k < nest->n_inputs; k++) {
        int64_t n = cleave_kernel_array_size(&call, &nest->inputs[k], &call.inputs[k]);
        if (gradients >> k & 1)
            call.input_gradients[k].data = calloc((size_t)n + 1, sizeof(float));
        if ((gradients >> k & 1) && call.input_gradients[k].data == NULL)
            status = cleave_fail_memory(error, "running a reference kernel");
    }
    if (status == CLEAVE_OK && gradients != 0)
        status = cleave_kernel_run_reference(&call, error);
    for (int k = 0; k < nest->n_inputs; k++) {
        int of = e->of->input[i][k];
        int64_t n = cleave_kernel_array_size(&call, &nest->inputs[k], &call.inputs[k]);
        if (status == CLEAVE_OK && (gradients >> k & 1) && of < 0)
            add(n, &call.input_gradients[k], CLEAVE_F32, e->gradient[writer_of(e, i, k)]);
        else if (status == CLEAVE_OK && (gradients >> k & 1))
            add(n, &call.input_gradients[k], e->call->input_gradients[of].type,
                e->call->input_gradients[of].data);
        if (gradients >> k & 1)
            free(call.input_gradients[k].data);
    }
    return status;
}

/* Adds the gradient of a row's sink, whose exponential is in the sum. */
static void give_sink(const evaluation *e, const int64_t *at, int64_t row) {
    int i = e->of->sinks;
    const cleave_array *to = &e->call->input_gradients[i];
    int64_t sink = row_at(e, &e->call->nest->inputs[i], to, at);
    double power = exp(sink_at(e, at) - (double)e->value[e->of->maximum][row]);
    cleave_element_put(to->type, to->data, sink,
                       cleave_element_get(to->type, to->data, sink) +
                           (float)(power * (double)e->gradient[e->of->sum][row]));
}

/* The gradient of a row's sum, of all keys: - sum of y dy / l. */
static void give_sums(const evaluation *e) {
    const cleave_kernel_call *call = e->call;
    const cleave_nest *nest = call->nest;
    int64_t at[CLEAVE_MAX_AXES];
    int width = e->of->value_width;
    bool gives_sinks = e->counts_sinks && (cleave_kernel_gradients(call) >> e->of->sinks & 1) != 0;
    memcpy(at, call->part.lo, sizeof at);
    do {
        int64_t row = row_at(e, &nest->statistics, &call->combined, at);
        double along = 0;
        for (at[width] = 0; at[width] < nest->axes[width].extent; at[width]++)
            along += element_at(e, &call->output, at) * element_at(e, &call->output_gradient, at);
        at[width] = 0;
        e->gradient[e->of->sum][row] = (float)(-along / (double)e->value[e->of->sum][row]);
        if (gives_sinks)
            give_sink(e, at, row);
    } while (next_row(e, at));
}

static cleave_status backward(const evaluation *e, cleave_error *error) {
    const cleave_nest *nest = e->call->nest;
    for (int i = 0; i < nest->n_inputs; i++)
        if ((cleave_kernel_gradients(e->call) & ~e->call->accumulated) >> i & 1)
            cleave_kernel_zero(e->call, &nest->inputs[i], &e->call->input_gradients[i]);
    CLEAVE_TRY(run_members(e, e->of->n_members - 1, error));
    for (int i = e->of->n_members - 1; i >= 0; i--) {
        if (i == e->of->sum && e->splits_keys)
            give_sums(e);
        for (cleave_pass pass = CLEAVE_PASS_INPUT_GRADIENT; pass <= CLEAVE_PASS_WEIGHT_GRADIENT;
             pass++)
            CLEAVE_TRY(run_back(e, i, pass, error));
    }
    return CLEAVE_OK;
}

cleave_status cleave_kernel_run_attention_reference(const cleave_kernel_call *call,
                                                    cleave_error *error) {
    evaluation e = {.call = call, .of = call->nest->attention};
    e.splits_keys = cleave_attention_splits_keys(call->nest, &call->part);
    cleave_status status = CLEAVE_OK;
    if (!begin(&e))
        status = cleave_fail_memory(error, "running a reference kernel");
    else
        status = call->pass == CLEAVE_PASS_FORWARD ? forward(&e, error) : backward(&e, error);
    for (int i = 0; i < e.of->n_members; i++) {
        free(e.value[i]);
        free(e.gradient[i]);
    }
    free(e.no_sinks);
    return status;
}
