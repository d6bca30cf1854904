/* Models of one nest, put together by hand: for tests and benches of kernels.  An input that is an
   activation gets a parameter of its shape and a nest that copies it, so that gradients flow. */
#ifndef CLEAVE_TESTS_SUPPORT_ONE_NEST_H
#define CLEAVE_TESTS_SUPPORT_ONE_NEST_H

#include "exec/kernels/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct one_nest {
    cleave_arena arena;
    cleave_model model;
    cleave_nest nest; /* becomes the model's last */
    int n_made;
} one_nest;

static inline const char *one_nest_name(one_nest *one, const char *stem) {
    return cleave_arena_printf(&one->arena, "%s%d", stem, one->n_made++);
}

static inline void one_nest_start(one_nest *one, cleave_nest_kind kind, cleave_combiner combiner) {
    *one = (one_nest){.nest = {.kind = kind, .combiner = combiner}};
    one->model.arena = &one->arena;
    one->model.loss = one->model.targets = -1;
    one->model.file = "one nest";
    one->model.tensors = CLEAVE_ARENA_ARRAY(&one->arena, cleave_tensor, 32);
    one->model.nests = CLEAVE_ARENA_ARRAY(&one->arena, cleave_nest, 16);
    one->model.operators = CLEAVE_ARENA_ARRAY(&one->arena, cleave_operator, 16);
}

static inline int one_nest_axis(one_nest *one, int64_t extent) {
    one->nest.axes[one->nest.n_axes] =
        (cleave_axis){.name = one_nest_name(one, "a"), .extent = extent};
    return one->nest.n_axes++;
}

/* order: dimensions outermost first, or null for row-major. */
static inline int32_t one_nest_tensor(one_nest *one, cleave_tensor_kind kind, cleave_type type,
                                      int rank, const int64_t *shape, const int *order) {
    cleave_tensor *tensor = &one->model.tensors[one->model.n_tensors];
    *tensor = (cleave_tensor){
        .name = one_nest_name(one, "t"), .kind = kind, .type = type, .rank = rank, .below = 4};
    for (int d = 0; d < rank; d++) {
        tensor->shape[d] = shape[d];
        tensor->order[d] = order != NULL ? order[d] : d;
    }
    return one->model.n_tensors++;
}

/* Closes a nest: it gets an operator of its own whose axes are the nest's, but for `hidden` (-1:
   none), the record of moments. */
static inline void one_nest_close(one_nest *one, const cleave_nest *nest, int hidden) {
    cleave_model *model = &one->model;
    cleave_nest *made = &model->nests[model->n_nests];
    cleave_operator *op = &model->operators[model->n_operators];
    *made = *nest;
    made->name = one_nest_name(one, "nest");
    made->op = model->n_operators++;
    op->name = made->name;
    op->type = "Test";
    for (int a = 0; a < made->n_axes; a++) {
        made->operator_axis[a] = -1;
        made->axes[a].whole = made->axes[a].whole || a == hidden;
        if (a == hidden)
            continue;
        made->operator_axis[a] = op->n_axes;
        op->roles[op->n_axes] = "sample";
        op->axes[op->n_axes++] = made->axes[a];
    }
    op->main_nest = model->n_nests;
    op->n_nests = 1;
    int32_t *nests = CLEAVE_ARENA_ARRAY(&one->arena, int32_t, 1);
    nests[0] = model->n_nests++;
    op->nests = nests;
}

/* An activation of this shape, copied from a parameter. */
static inline int32_t one_nest_activation(one_nest *one, int rank, const int64_t *shape,
                                          const int *order) {
    cleave_nest copy = {.kind = CLEAVE_NEST_POINTWISE, .n_axes = rank, .n_inputs = 1};
    copy.inputs[0].tensor =
        one_nest_tensor(one, CLEAVE_TENSOR_PARAMETER, CLEAVE_F32, rank, shape, order);
    copy.output.tensor =
        one_nest_tensor(one, CLEAVE_TENSOR_ACTIVATION, CLEAVE_F32, rank, shape, order);
    for (int d = 0; d < rank; d++) {
        copy.axes[d] = (cleave_axis){.name = one_nest_name(one, "a"), .extent = shape[d]};
        copy.inputs[0].map[d].n_terms = copy.output.map[d].n_terms = 1;
        copy.inputs[0].map[d].terms[0].axis = copy.output.map[d].terms[0].axis = d;
        copy.inputs[0].map[d].terms[0].stride = copy.output.map[d].terms[0].stride = 1;
    }
    copy.n_instructions = 1;
    copy.tape[0] = (cleave_instruction){.opcode = CLEAVE_OP_COPY};
    one_nest_close(one, &copy, -1);
    return copy.output.tensor;
}

static inline cleave_dimension_map one_nest_fixed(int64_t offset) {
    return (cleave_dimension_map){.offset = offset};
}
static inline cleave_dimension_map one_nest_along(int axis) {
    cleave_dimension_map map = {.n_terms = 1};
    map.terms[0].axis = axis;
    map.terms[0].stride = 1;
    return map;
}
/* offset + stride x axis + other_stride x other; an axis of -1 is left out. */
static inline cleave_dimension_map one_nest_window(int64_t offset, int axis, int64_t stride,
                                                   int other, int64_t other_stride) {
    cleave_dimension_map map = {.offset = offset};
    if (axis >= 0) {
        map.terms[map.n_terms].axis = axis;
        map.terms[map.n_terms++].stride = stride;
    }
    if (other >= 0) {
        map.terms[map.n_terms].axis = other;
        map.terms[map.n_terms++].stride = other_stride;
    }
    return map;
}

static inline cleave_operand *one_nest_input(one_nest *one, int32_t tensor) {
    one->nest.inputs[one->nest.n_inputs].tensor = tensor;
    return &one->nest.inputs[one->nest.n_inputs++];
}

/* Appends an instruction; its register.  All inputs must be there. */
static inline int one_nest_do(one_nest *one, cleave_opcode opcode, int a, int b, double p,
                              double q) {
    one->nest.tape[one->nest.n_instructions] =
        (cleave_instruction){.opcode = opcode, .a = a, .b = b, .p = p, .q = q};
    return one->nest.n_inputs + one->nest.n_instructions++;
}

/* Finishes the model; the nest under test is the last one. */
static inline const cleave_nest *one_nest_finish(one_nest *one, cleave_error *error) {
    int record =
        one->nest.combiner == CLEAVE_COMBINE_MOMENTS ? one->nest.output.map[0].terms[0].axis : -1;
    one_nest_close(one, &one->nest, record);
    if (cleave_model_finish(&one->model, error) != CLEAVE_OK)
        return NULL;
    return &one->model.nests[one->model.n_nests - 1];
}

/* Memory order with dimension 1 last: channels last. */
static inline const int *one_nest_channels_last(int rank) {
    static const int orders[][5] = {{0}, {0}, {0, 1}, {0, 2, 1}, {0, 2, 3, 1}, {0, 2, 3, 4, 1}};
    return orders[rank];
}

/* A convolution of `spatial` dimensions; sizes per group.  Weights are [groups k, c, window...]
   with the window outside the channels in memory, as the kernels like them; or row-major; or, with
   `splits_groups`, [groups, k, c, window...] in that order. */
typedef struct one_nest_convolution {
    int spatial;
    bool splits_groups;
    int64_t batch, groups, c, k, in[3], window[3], stride[3], dilation[3], pad_lo[3], pad_hi[3];
} one_nest_convolution;

static inline const cleave_nest *one_nest_make_convolution(one_nest *one,
                                                           const one_nest_convolution *c,
                                                           bool row_major_weights,
                                                           cleave_error *error) {
    one_nest_start(one, CLEAVE_NEST_CONVOLUTION, CLEAVE_COMBINE_SUM);
    int rank = 2 + c->spatial, out[3], window[3];
    int64_t x_shape[5] = {c->batch, c->groups * c->c}, y_shape[5] = {c->batch, c->groups * c->k},
            w_shape[6] = {c->groups * c->k, c->c};
    if (c->splits_groups) {
        w_shape[0] = c->groups;
        w_shape[1] = c->k;
        w_shape[2] = c->c;
    }
    int inner = c->splits_groups ? 3 : 2; /* where the window's dimensions begin */
    for (int s = 0; s < c->spatial; s++) {
        x_shape[2 + s] = c->in[s];
        w_shape[inner + s] = c->window[s];
        y_shape[2 + s] =
            (c->in[s] + c->pad_lo[s] + c->pad_hi[s] - (c->window[s] - 1) * c->dilation[s] - 1) /
                c->stride[s] +
            1;
    }
    int n = one_nest_axis(one, c->batch), g = c->groups > 1 ? one_nest_axis(one, c->groups) : -1,
        k = one_nest_axis(one, c->k);
    for (int s = 0; s < c->spatial; s++)
        out[s] = one_nest_axis(one, y_shape[2 + s]);
    int ch = one_nest_axis(one, c->c);
    for (int s = 0; s < c->spatial; s++)
        window[s] = one_nest_axis(one, c->window[s]);
    const int *last = one_nest_channels_last(rank);
    cleave_operand *x = one_nest_input(one, one_nest_activation(one, rank, x_shape, last));
    cleave_operand *w = one_nest_input(
        one, one_nest_tensor(one, CLEAVE_TENSOR_PARAMETER, CLEAVE_F32, rank + inner - 2, w_shape,
                             row_major_weights || c->splits_groups ? NULL : last));
    cleave_operand *y = &one->nest.output;
    y->tensor = one_nest_tensor(one, CLEAVE_TENSOR_ACTIVATION, CLEAVE_F32, rank, y_shape, last);
    x->map[0] = y->map[0] = one_nest_along(n);
    x->map[1] = one_nest_window(0, g, c->c, ch, 1);
    y->map[1] = w->map[0] = one_nest_window(0, g, c->k, k, 1);
    if (c->splits_groups) {
        w->map[0] = g >= 0 ? one_nest_along(g) : one_nest_fixed(0);
        w->map[1] = one_nest_along(k);
    }
    w->map[inner - 1] = one_nest_along(ch);
    for (int s = 0; s < c->spatial; s++) {
        x->map[2 + s] =
            one_nest_window(-c->pad_lo[s], out[s], c->stride[s], window[s], c->dilation[s]);
        w->map[inner + s] = one_nest_along(window[s]);
        y->map[2 + s] = one_nest_along(out[s]);
    }
    one_nest_do(one, CLEAVE_OP_MUL, 0, 1, 0, 0);
    return one_nest_finish(one, error);
}

/* A call with memory for every operand that the pass may use; inputs filled with `fill`. */
typedef float one_nest_filler(void *context, int64_t index);

static inline void *one_nest_memory(int64_t bytes) {
    size_t size = ((size_t)bytes + 127) / 64 * 64;
    void *memory = aligned_alloc(64, size);
    if (memory != NULL)
        memset(memory, 0, size);
    return memory;
}

static inline int64_t one_nest_bytes(const cleave_kernel_call *call, const cleave_operand *operand,
                                     const cleave_array *array) {
    const cleave_tensor *tensor = &call->model->tensors[operand->tensor];
    return cleave_box_size(tensor->rank, &array->box) * cleave_type_bytes(array->type);
}

#endif
