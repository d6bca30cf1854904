/* The reference kernels: a walk over every point of the part's axes, the tape evaluated in double,
   and the result combined into the output's element.  Nothing here knows an operator.

   Backward walks the same points: the adjoint of the output's element times the derivative of the
   tape is added to the gradient of every input at the element that the point reads. */
#include "exec/kernels/convert.h"
#include "exec/kernels/dropout.h"
#include "exec/kernels/kernel_table.h"

#include <stdlib.h>
#include <string.h>
#include <tgmath.h>

enum { MAX_REGISTERS = CLEAVE_MAX_INPUTS + CLEAVE_MAX_TAPE };

typedef struct walk {
    const cleave_kernel_call *call;
    const cleave_nest *nest;
    int record_axis;
    int64_t axis[CLEAVE_MAX_AXES];
    int64_t ordinal; /* of the point */
    uint64_t dropout_key;
    /* At the point: */
    int64_t input_at[CLEAVE_MAX_INPUTS], output_at;
    double value[MAX_REGISTERS], adjoint[MAX_REGISTERS];
} walk;

static walk walk_start(const cleave_kernel_call *call) {
    walk w = {.call = call, .nest = call->nest, .ordinal = -1};
    w.record_axis = cleave_kernel_record_axis(call->nest);
    w.dropout_key = cleave_dropout_key(call->seed, call->step,
                                       call->model->tensors[call->nest->output.tensor].name);
    return w;
}

/* Local offset of the operand's element, or -1 where the map leaves the tensor. */
static int64_t locate(const walk *w, const cleave_operand *operand, const cleave_array *array,
                      bool record) {
    const cleave_tensor *tensor = &w->call->model->tensors[operand->tensor];
    int64_t at = 0;
    for (int d = record ? 1 : 0; d < tensor->rank; d++) {
        const cleave_dimension_map *map = &operand->map[d];
        int64_t index = map->offset;
        for (int t = 0; t < map->n_terms; t++)
            index += map->terms[t].stride * w->axis[map->terms[t].axis];
        if (index < 0 || index >= tensor->shape[d])
            return -1;
        at += (index - array->box.lo[d]) * array->strides[d];
    }
    return at;
}

/* Goes to the next point at which every operand has an element. */
static bool walk_next(walk *w) {
    const cleave_kernel_call *call = w->call;
    for (;;) {
        if (w->ordinal < 0) {
            for (int a = 0; a < w->nest->n_axes; a++)
                w->axis[a] = call->part.lo[a];
        } else {
            int a = w->nest->n_axes - 1;
            for (; a >= 0; a--) {
                if (a != w->record_axis && ++w->axis[a] < call->part.hi[a])
                    break;
                w->axis[a] = call->part.lo[a];
            }
            if (a < 0)
                return false;
        }
        w->ordinal++;
        bool inside = true;
        for (int i = 0; i < w->nest->n_inputs && inside; i++) {
            w->input_at[i] = locate(w, &w->nest->inputs[i], &call->inputs[i], false);
            inside = w->input_at[i] >= 0;
        }
        const cleave_array *output =
            call->pass == CLEAVE_PASS_FORWARD ? &call->output : &call->output_gradient;
        w->output_at =
            locate(w, &w->nest->output, output, w->nest->combiner == CLEAVE_COMBINE_MOMENTS);
        if (inside && w->output_at >= 0)
            return true;
    }
}

/* The pieces of a walk, by points; those that are skipped count, too. */
static cleave_kernel_pace pace_points(const cleave_kernel_call *call) {
    int64_t points = 1;
    int record_axis = cleave_kernel_record_axis(call->nest);
    for (int a = 0; a < call->nest->n_axes; a++)
        points *= a == record_axis ? 1 : cleave_part_extent(&call->part, a);
    return cleave_kernel_pace_start(call, points);
}

static cleave_status pace_to(cleave_kernel_pace *pace, const walk *w, cleave_error *error) {
    pace->done = w->ordinal;
    return cleave_kernel_pace_step(pace, error);
}

/* Of the output element, over the whole tensor. */
static int64_t logical_output_index(const walk *w) {
    const cleave_tensor *tensor = &w->call->model->tensors[w->nest->output.tensor];
    int64_t index = 0;
    for (int d = 0; d < tensor->rank; d++) {
        int64_t at = w->nest->output.map[d].offset;
        for (int t = 0; t < w->nest->output.map[d].n_terms; t++)
            at += w->nest->output.map[d].terms[t].stride *
                  w->axis[w->nest->output.map[d].terms[t].axis];
        index = index * tensor->shape[d] + at;
    }
    return index;
}

static double dropout_factor(const walk *w, const cleave_instruction *at) {
    uint64_t stream = cleave_dropout_stream(w->dropout_key, at->q);
    return cleave_dropout_keeps(stream, logical_output_index(w), cleave_dropout_threshold(at->p))
               ? 1 / (1 - at->p)
               : 0;
}

/* What the element's place gives to an instruction. */
static double place_of(const walk *w, const cleave_instruction *at) {
    if (at->opcode == CLEAVE_OP_INDEX)
        return (double)w->axis[at->a];
    if (at->opcode == CLEAVE_OP_UNIFORM)
        return cleave_uniform_draw(w->dropout_key, at->p, logical_output_index(w));
    return at->opcode == CLEAVE_OP_DROPOUT ? dropout_factor(w, at) : 0;
}

/* Instructions that lack an operand may name any register there. */
static double value_of(const walk *w, int r) {
    return r >= 0 && r < MAX_REGISTERS ? w->value[r] : 0;
}

static double evaluate(const walk *w, const cleave_instruction *at) {
    double a = value_of(w, at->a), b = value_of(w, at->b), p = at->p, q = at->q;
    double place = place_of(w, at);
    switch (at->opcode) {
#define ROW(name, operands, value, ...)                                                            \
    case CLEAVE_OP_##name:                                                                         \
        return value;
        CLEAVE_OPCODES(ROW, double, a, b, v, p, q, place)
#undef ROW
    case CLEAVE_N_OPCODES:
        break;
    }
    return 0;
}

#define NONE 0
#define PLUS 1
#define MINUS (-1)
#define TIMES(d) (d)
#define OVER(d) (1 / (d))
#define RATIO(n, d) ((n) / (d))

/* d(result)/d(a) and d(result)/d(b); `v` is the result. */
static void derivatives(const walk *w, const cleave_instruction *at, double v, double *da,
                        double *db) {
    double a = value_of(w, at->a), b = value_of(w, at->b), p = at->p;
    double place = place_of(w, at);
    switch (at->opcode) {
#define ROW(name, operands, value, by_a, needs_a, by_b, needs_b)                                   \
    case CLEAVE_OP_##name:                                                                         \
        *da = by_a;                                                                                \
        *db = by_b;                                                                                \
        return;
        CLEAVE_OPCODES(ROW, double, a, b, v, p, at->q, place)
#undef ROW
    case CLEAVE_N_OPCODES:
        break;
    }
    *da = *db = 0;
}

static double element(const cleave_kernel_call *call, int i, int64_t at) {
    const cleave_array *array = &call->inputs[i];
    if (array->data == NULL) /* not kept: nothing that is used depends on it */
        return 0;
    bool integer = call->model->tensors[call->nest->inputs[i].tensor].type == CLEAVE_I64;
    return integer ? (double)((const int64_t *)array->data)[at]
                   : (double)cleave_element_get(array->type, array->data, at);
}

/* The tape's value at the point; all registers are left in w->value. */
static double value_at(walk *w) {
    const cleave_nest *nest = w->nest;
    for (int i = 0; i < nest->n_inputs; i++)
        w->value[i] = element(w->call, i, w->input_at[i]);
    for (int i = 0; i < nest->n_instructions; i++)
        w->value[nest->n_inputs + i] = evaluate(w, &nest->tape[i]);
    return w->value[nest->n_inputs + nest->n_instructions - 1];
}

/* From the adjoint of the value to the adjoints of the inputs.  Where backward keeps the output and
   not the inputs, the last instruction's result is read from it. */
static void adjoints_at(walk *w, double seed) {
    const cleave_nest *nest = w->nest;
    int last = nest->n_inputs + nest->n_instructions - 1;
    if (nest->kept_output && nest->combiner == CLEAVE_COMBINE_NONE && w->call->output.data != NULL)
        w->value[last] =
            (double)cleave_element_get(w->call->output.type, w->call->output.data, w->output_at);
    memset(w->adjoint, 0, sizeof w->adjoint);
    w->adjoint[last] = seed;
    for (int i = nest->n_instructions - 1; i >= 0; i--) {
        const cleave_instruction *at = &nest->tape[i];
        int r = nest->n_inputs + i;
        double da, db;
        derivatives(w, at, w->value[r], &da, &db);
        /* Zero wins: what nobody reads passes nothing on, however steep it is there; and nothing
           passes where the result does not depend on the operand. */
        if (w->adjoint[r] == 0.0)
            continue;
        if (da != 0.0)
            w->adjoint[at->a] += w->adjoint[r] * da;
        if (db != 0.0)
            w->adjoint[at->b] += w->adjoint[r] * db;
    }
}

/* Scratch of one double per element of the output, twice, for means and squares, and counts. */
typedef struct combined {
    int64_t n;
    double *value, *square, *count;
} combined;

static cleave_status combined_create(int64_t n, combined *c, cleave_error *error) {
    *c = (combined){.n = n, .value = calloc((size_t)(3 * n + 1), sizeof(double))};
    if (c->value == NULL)
        return cleave_fail_memory(error, "running a reference kernel");
    c->square = c->value + n;
    c->count = c->square + n;
    return CLEAVE_OK;
}

/* Welford's update keeps mean and squared deviations sound for any offset. */
static void combine(cleave_combiner combiner, combined *c, int64_t at, double x) {
    double delta;
    switch (combiner) {
    case CLEAVE_COMBINE_NONE:
    case CLEAVE_COMBINE_SUM:
        c->value[at] += x;
        break;
    case CLEAVE_COMBINE_MAX:
        c->value[at] = x > c->value[at] ? x : c->value[at];
        break;
    case CLEAVE_COMBINE_MOMENTS:
        c->count[at] += 1;
        delta = x - c->value[at];
        c->value[at] += delta / c->count[at];
        c->square[at] += delta * (x - c->value[at]);
        break;
    case CLEAVE_COMBINE_STATISTICS: /* no nest does */
        break;
    }
}

/* The record of one cell, starting at its count. */
static void store_moments(const cleave_kernel_call *call, const combined *c, int64_t at) {
    const cleave_array *to = &call->output;
    int64_t step = to->strides[0];
    cleave_element_put(to->type, to->data, at, (float)c->count[at]);
    cleave_element_put(to->type, to->data, at + step, (float)c->value[at]);
    cleave_element_put(to->type, to->data, at + 2 * step, (float)c->square[at]);
}

static cleave_status run_forward(const cleave_kernel_call *call, cleave_error *error) {
    const cleave_nest *nest = call->nest;
    int64_t n = cleave_kernel_array_size(call, &nest->output, &call->output);
    combined c;
    CLEAVE_TRY(combined_create(n, &c, error));
    for (int64_t i = 0; nest->combiner == CLEAVE_COMBINE_MAX && i < n; i++)
        c.value[i] = -HUGE_VAL;
    cleave_kernel_pace pace = pace_points(call);
    cleave_status status = CLEAVE_OK;
    for (walk w = walk_start(call); status == CLEAVE_OK && walk_next(&w);) {
        combine(nest->combiner, &c, w.output_at, value_at(&w));
        status = pace_to(&pace, &w, error);
    }
    if (nest->combiner == CLEAVE_COMBINE_MOMENTS) {
        cleave_kernel_zero(call, &nest->output, &call->output);
        /* Offsets with record index 0 are those of the cells; the others hold nothing here. */
        for (walk w = walk_start(call); walk_next(&w);)
            store_moments(call, &c, w.output_at);
    } else {
        bool integer = call->model->tensors[nest->output.tensor].type == CLEAVE_I64;
        for (int64_t i = 0; i < n; i++) {
            if (integer)
                ((int64_t *)call->output.data)[i] = (int64_t)c.value[i];
            else
                cleave_element_put(call->output.type, call->output.data, i, (float)c.value[i]);
        }
    }
    free(c.value);
    return status;
}

/* Ordinal of the first maximal point of every output element, into `first`. */
static void find_maxima(const cleave_kernel_call *call, double *best, double *first, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        best[i] = -HUGE_VAL;
        first[i] = -1;
    }
    for (walk w = walk_start(call); walk_next(&w);) {
        double x = value_at(&w);
        if (x > best[w.output_at] || first[w.output_at] < 0) {
            best[w.output_at] = x;
            first[w.output_at] = (double)w.ordinal;
        }
    }
}

/* Adjoint of the value at this point. */
static double seed_at(const walk *w, double value, const combined *c) {
    const cleave_array *gradient = &w->call->output_gradient, *record = &w->call->combined;
    int64_t at = w->output_at;
    if (w->nest->combiner != CLEAVE_COMBINE_MOMENTS) {
        bool passes =
            w->nest->combiner != CLEAVE_COMBINE_MAX || (double)w->ordinal == c->square[at];
        return passes ? (double)cleave_element_get(gradient->type, gradient->data, at) : 0;
    }
    double count = (double)cleave_element_get(record->type, record->data, at),
           mean = (double)cleave_element_get(record->type, record->data, at + record->strides[0]),
           by_mean = (double)cleave_element_get(gradient->type, gradient->data,
                                                at + gradient->strides[0]),
           by_square = (double)cleave_element_get(gradient->type, gradient->data,
                                                  at + 2 * gradient->strides[0]);
    return by_mean / count + 2 * (value - mean) * by_square;
}

static void store_gradient(const cleave_kernel_call *call, int i, const double *sums, int64_t n) {
    const cleave_array *to = &call->input_gradients[i];
    bool adds = (call->accumulated >> i & 1) != 0;
    for (int64_t j = 0; sums != NULL && j < n; j++) {
        double before = adds ? (double)cleave_element_get(to->type, to->data, j) : 0;
        cleave_element_put(to->type, to->data, j, (float)(before + sums[j]));
    }
}

static cleave_status run_backward(const cleave_kernel_call *call, cleave_error *error) {
    const cleave_nest *nest = call->nest;
    uint32_t gradients = cleave_kernel_gradients(call);
    int64_t n = cleave_kernel_array_size(call, &nest->output, &call->output_gradient);
    combined c;
    CLEAVE_TRY(combined_create(n, &c, error));
    if (nest->combiner == CLEAVE_COMBINE_MAX)
        find_maxima(call, c.value, c.square, n);
    double *sums[CLEAVE_MAX_INPUTS] = {NULL};
    int64_t sizes[CLEAVE_MAX_INPUTS] = {0};
    cleave_status status = CLEAVE_OK;
    for (int i = 0; i < nest->n_inputs; i++) {
        if (!(gradients & (1u << i)))
            continue;
        sizes[i] = cleave_kernel_array_size(call, &nest->inputs[i], &call->input_gradients[i]);
        sums[i] = calloc((size_t)sizes[i] + 1, sizeof(double));
        if (sums[i] == NULL)
            status = cleave_fail_memory(error, "running a reference kernel");
    }
    if (status == CLEAVE_OK) {
        cleave_kernel_pace pace = pace_points(call);
        for (walk w = walk_start(call); status == CLEAVE_OK && walk_next(&w);) {
            double value = value_at(&w);
            adjoints_at(&w, seed_at(&w, value, &c));
            for (int i = 0; i < nest->n_inputs; i++)
                if (sums[i] != NULL)
                    sums[i][w.input_at[i]] += w.adjoint[i];
            status = pace_to(&pace, &w, error);
        }
        for (int i = 0; i < nest->n_inputs; i++)
            store_gradient(call, i, sums[i], sizes[i]);
    }
    for (int i = 0; i < nest->n_inputs; i++)
        free(sums[i]);
    free(c.value);
    return status;
}

cleave_status cleave_kernel_run_reference(const cleave_kernel_call *call, cleave_error *error) {
    if (call->nest->attention != NULL)
        return cleave_kernel_run_attention_reference(call, error);
    if (call->nest->n_instructions < 1)
        return cleave_fail(error, CLEAVE_FAILED, "nest %s has no instruction", call->nest->name);
    return call->pass == CLEAVE_PASS_FORWARD ? run_forward(call, error) : run_backward(call, error);
}
