/* The operands of attention, head by head: matrices whose rows are contiguous, or copies that are.
 */
#include "exec/kernels/kernel_attention.h"

#include <string.h>

/* The head's element of an operand that has a number for each head. */
static float *of_head(const attention *a, const cleave_operand *operand,
                      const cleave_array *array) {
    const cleave_kernel_call *call = a->run.call;
    const cleave_reach reach = cleave_kernel_reach(call, operand, array);
    int64_t at = reach.base;
    for (int axis = 0; axis < call->nest->n_axes; axis++)
        at += reach.stride[axis] * (a->run.at[axis] - call->part.lo[axis]);
    return (float *)array->data + at;
}

static void find_sink(attention *a) {
    const cleave_kernel_call *call = a->run.call;
    int i = a->run.of->sinks;
    a->sink = NULL;
    a->of_sink = NULL;
    if (!cleave_attention_counts_sinks(call->nest, &call->part))
        return;
    a->sink = of_head(a, &call->nest->inputs[i], &call->inputs[i]);
    if (a->run.backward && (cleave_kernel_gradients(call) >> i & 1) != 0)
        a->of_sink = of_head(a, &call->nest->inputs[i], &call->input_gradients[i]);
}

/* Where the head of this turn begins. */
static float *data_of(const attention *a, const attention_operand *of) {
    int64_t at = of->reach.base;
    for (int axis = 0; axis < a->run.call->nest->n_axes; axis++)
        at += of->reach.stride[axis] * (a->run.at[axis] - a->run.call->part.lo[axis]);
    return (float *)of->array->data + at;
}

void attention_find_head(attention *a) {
    find_sink(a);
    for (int m = 0; m < N_MATRICES; m++) {
        attention_operand *of = &a->operands[m];
        if (!of->used)
            continue;
        float *data = data_of(a, of);
        a->head[m] = (attention_matrix){data, of->row};
        if (of->copy == NULL)
            continue;
        a->head[m] = (attention_matrix){of->copy, of->width};
        for (int64_t i = 0; i < of->n; i++)
            for (int64_t k = 0; k < of->width; k++)
                of->copy[i * of->width + k] = data[i * of->row + k * of->column];
    }
}

void attention_leave_head(attention *a) {
    for (int m = 0; m < N_MATRICES; m++) {
        const attention_operand *of = &a->operands[m];
        bool is_written = a->run.backward ? m >= OF_QUERIES && m <= OF_VALUES : m == OUTPUT;
        if (!of->used || of->copy == NULL || !is_written)
            continue;
        float *data = data_of(a, of);
        for (int64_t i = 0; i < of->n; i++)
            for (int64_t k = 0; k < of->width; k++)
                data[i * of->row + k * of->column] = of->copy[i * of->width + k];
    }
}

bool attention_next_head(attention *a) {
    const cleave_part *part = &a->run.call->part;
    const cleave_attention *of = a->run.of;
    for (int axis = a->run.call->nest->n_axes - 1; axis >= 0; axis--) {
        if (axis == of->rows || axis == of->keys || axis == of->width || axis == of->value_width)
            continue;
        if (++a->run.at[axis] < part->hi[axis])
            return true;
        a->run.at[axis] = part->lo[axis];
    }
    return false;
}

static void add_operand(attention *a, attention_matrix_id id, const cleave_operand *of,
                        const cleave_array *array, bool by_rows, bool is_value) {
    const cleave_attention *it = a->run.of;
    attention_operand *made = &a->operands[id];
    *made = (attention_operand){.array = array, .used = true};
    made->reach = cleave_kernel_reach(a->run.call, of, array);
    made->along = by_rows ? it->rows : it->keys;
    made->width_axis = is_value ? it->value_width : it->width;
    made->n = by_rows ? a->n_rows : a->n_keys;
    made->width = is_value ? a->value_width : a->width;
    made->row = made->reach.stride[made->along];
    made->column = made->reach.stride[made->width_axis];
}

int64_t attention_lay_out(attention *a, char *base) {
    int64_t used = attention_lay_out_tiles(&a->run, base);
    int64_t rows = a->run.backward ? a->n_rows : CLEAVE_ATTENTION_ROWS;
    float **vectors[] = {&a->maximum, &a->total, &a->along};
    for (int i = 0; i < 3; i++) {
        *vectors[i] = base == NULL ? NULL : (float *)(void *)(base + used);
        used += (rows * (int64_t)sizeof(float) + 63) / 64 * 64;
    }
    a->sums = base == NULL ? NULL : (float *)(void *)(base + used);
    if (!a->run.backward)
        used += (rows * a->value_width * (int64_t)sizeof(float) + 63) / 64 * 64;
    for (int m = 0; m < N_MATRICES; m++) {
        attention_operand *of = &a->operands[m];
        if (!of->used || of->column == 1 || of->width == 1)
            continue;
        of->copy = base == NULL ? NULL : (float *)(void *)(base + used);
        used += (of->n * of->width * (int64_t)sizeof(float) + 63) / 64 * 64;
    }
    return used;
}

attention attention_begin(cleave_kernels *kernels, const cleave_kernel_call *call) {
    const cleave_nest *nest = call->nest;
    const cleave_attention *of = nest->attention;
    attention a = {.run = {.kernels = kernels, .call = call, .of = of}};
    a.run.backward = call->pass != CLEAVE_PASS_FORWARD;
    memcpy(a.run.at, call->part.lo, sizeof a.run.at);
    a.run.block = (attention_block){.row = call->part.lo[of->rows], .key = call->part.lo[of->keys]};
    a.n_rows = call->part.hi[of->rows] - call->part.lo[of->rows];
    a.n_keys = call->part.hi[of->keys] - call->part.lo[of->keys];
    a.width = nest->axes[of->width].extent;
    a.value_width = nest->axes[of->value_width].extent;
    a.run.block.n_rows = a.n_rows < CLEAVE_ATTENTION_ROWS ? a.n_rows : CLEAVE_ATTENTION_ROWS;
    a.run.block.n_keys = a.n_keys < CLEAVE_ATTENTION_KEYS ? a.n_keys : CLEAVE_ATTENTION_KEYS;
    uint32_t gradients = a.run.backward ? cleave_kernel_gradients(call) : 0;
    for (int i = 0; i < 3; i++)
        add_operand(&a, (attention_matrix_id)(QUERIES + i), &nest->inputs[i], &call->inputs[i],
                    i == QUERY, i == VALUE);
    for (int i = 0; i < 3; i++)
        if (gradients >> i & 1)
            add_operand(&a, (attention_matrix_id)(OF_QUERIES + i), &nest->inputs[i],
                        &call->input_gradients[i], i == QUERY, i == VALUE);
    add_operand(&a, OUTPUT, &nest->output, &call->output, true, true);
    if (a.run.backward)
        add_operand(&a, OF_OUTPUT, &nest->output, &call->output_gradient, true, true);
    return a;
}
