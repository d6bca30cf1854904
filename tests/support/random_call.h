/* Random parts of nests, and calls of kernels for them with random operands. */
#ifndef CLEAVE_TESTS_SUPPORT_RANDOM_CALL_H
#define CLEAVE_TESTS_SUPPORT_RANDOM_CALL_H

#include "graph/model/gather.h"
#include "random_tape.h"

/* A part with operands for every pass. */
typedef struct random_call {
    const cleave_model *model;
    const cleave_nest *nest;
    cleave_part part;
    cleave_kernel_call call; /* all arrays have memory */
} random_call;

static inline bool is_window_axis(const cleave_model *model, const cleave_nest *nest, int axis) {
    if (nest->kind != CLEAVE_NEST_CONVOLUTION && nest->kind != CLEAVE_NEST_POOL)
        return false;
    const cleave_operand *x = &nest->inputs[0];
    for (int d = 2; d < model->tensors[x->tensor].rank; d++)
        if (x->map[d].n_terms == 2 && x->map[d].terms[1].axis == axis)
            return true;
    return false;
}

static inline cleave_part random_part(const cleave_model *model, const cleave_nest *nest,
                                      cleave_random *random) {
    cleave_part part = cleave_part_whole(nest, 0);
    for (int a = 0; a < nest->n_axes; a++) {
        if (nest->axes[a].whole || is_window_axis(model, nest, a) || chance(random, 40))
            continue;
        part.lo[a] = draw(random, 0, nest->axes[a].extent - 1);
        part.hi[a] = draw(random, part.lo[a] + 1, nest->axes[a].extent);
    }
    return part;
}

/* Ids of the whole table, from either end, and some of no row; as floats, some that are no id. */
static inline void fill_ids(const cleave_kernel_call *call, cleave_array *array, int64_t bytes,
                            cleave_random *random) {
    int64_t extent = call->nest->axes[cleave_gather_axis(call->nest)].extent;
    bool integer = call->model->tensors[call->nest->inputs[0].tensor].type == CLEAVE_I64;
    for (int64_t i = 0; i < bytes / (integer ? 8 : 4); i++) {
        int64_t id = draw(random, -extent - 1, extent);
        if (integer)
            ((int64_t *)array->data)[i] = id;
        else
            ((float *)array->data)[i] = (float)id + (chance(random, 5) ? 0.5f : 0.0f);
    }
}

static inline void random_fill(const cleave_kernel_call *call, const cleave_operand *operand,
                               cleave_array *array, cleave_random *random) {
    int64_t bytes = one_nest_bytes(call, operand, array);
    array->data = one_nest_memory(bytes);
    if (call->nest->kind == CLEAVE_NEST_GATHER && operand == &call->nest->inputs[0]) {
        fill_ids(call, array, bytes, random);
        return;
    }
    if (call->model->tensors[operand->tensor].type == CLEAVE_I64) {
        for (int64_t i = 0; i < bytes / 8; i++)
            ((int64_t *)array->data)[i] = draw(random, 0, 3);
        return;
    }
    /* A pool gets few different values, so that its maxima are tied. */
    bool ties = call->nest->kind == CLEAVE_NEST_POOL;
    for (int64_t i = 0; i < bytes / 4; i++)
        ((float *)array->data)[i] = ties ? (float)draw(random, -3, 3) / 4
                                         : (float)(2 * cleave_random_next_uniform(random) - 1);
}

/* Fills in what backward reads of forward: the output, and a combined record in which the part's
   points are some of several times as many. */
static inline void random_call_finish(random_call *made) {
    cleave_error error = {{0}};
    cleave_kernel_call call = made->call;
    call.pass = CLEAVE_PASS_FORWARD;
    cleave_kernel_run_reference(&call, &error);
    int64_t n = one_nest_bytes(&call, &made->nest->output, &call.output) / 4;
    memcpy(made->call.combined.data, call.output.data, (size_t)n * 4);
}

static inline void random_call_make(const cleave_model *model, const cleave_nest *nest,
                                    cleave_random *random, bool whole, random_call *made) {
    *made = (random_call){.model = model, .nest = nest};
    made->part = whole ? cleave_part_whole(nest, 0) : random_part(model, nest, random);
    cleave_kernel_call_describe(model, nest, CLEAVE_PASS_FORWARD, &made->part, &made->call);
    made->call.seed = 7;
    made->call.step = 3;
    for (int i = 0; i < nest->n_inputs; i++) {
        random_fill(&made->call, &nest->inputs[i], &made->call.inputs[i], random);
        random_fill(&made->call, &nest->inputs[i], &made->call.input_gradients[i], random);
    }
    random_fill(&made->call, &nest->output, &made->call.output, random);
    random_fill(&made->call, &nest->output, &made->call.combined, random);
    random_fill(&made->call, &nest->output, &made->call.output_gradient, random);
    random_call_finish(made);
}

/* Inputs on grids without kinks near: see the test that uses it. */
static inline void random_call_on_grid(random_call *made, cleave_random *random) {
    for (int i = 0; i < made->nest->n_inputs; i++) {
        cleave_array *array = &made->call.inputs[i];
        if (made->model->tensors[made->nest->inputs[i].tensor].type == CLEAVE_I64 ||
            (made->nest->kind == CLEAVE_NEST_GATHER && i == 0))
            continue;
        int64_t n = one_nest_bytes(&made->call, &made->nest->inputs[i], array) / 4;
        bool distinct = made->nest->combiner == CLEAVE_COMBINE_MAX;
        int64_t start = distinct ? -n / 2 : -64;
        for (int64_t j = 0; j < n; j++) /* a stride of 7919, a prime above n, visits all */
            ((float *)array->data)[j] =
                (float)(2 * (start + (distinct ? j * 7919 % n : draw(random, 0, 127))) +
                        (i == 0 ? 1 : 0)) /
                128.0f;
    }
}

/* The call of a pass, without the operands that the model says it does not read. */
static inline cleave_kernel_call random_call_of_pass(const random_call *made, cleave_pass pass) {
    cleave_kernel_call call = made->call;
    const cleave_nest *nest = made->nest;
    call.pass = pass;
    if (pass == CLEAVE_PASS_FORWARD)
        return call;
    for (int i = 0; i < nest->n_inputs; i++)
        if (!(nest->kept_inputs >> i & 1))
            call.inputs[i].data = NULL;
    if (!nest->kept_output)
        call.output.data = NULL;
    if (!nest->kept_combined)
        call.combined.data = NULL;
    return call;
}

static inline void random_call_free(random_call *made) {
    for (int i = 0; i < made->nest->n_inputs; i++) {
        free(made->call.inputs[i].data);
        free(made->call.input_gradients[i].data);
    }
    free(made->call.output.data);
    free(made->call.combined.data);
    free(made->call.output_gradient.data);
}

#endif
