/* Random nests of every kind. */
#ifndef CLEAVE_TESTS_SUPPORT_RANDOM_NEST_H
#define CLEAVE_TESTS_SUPPORT_RANDOM_NEST_H

#include "graph/model/gather.h"
#include "random_tape.h"

typedef const cleave_nest *random_nest_maker(one_nest *one, cleave_random *random,
                                             cleave_error *error);

/* An operand over some axes, in any order of dimensions and any order in memory, perhaps with a
   dimension of which it takes one slice.  kind: activation, parameter or data. */
static inline cleave_operand random_operand(one_nest *one, cleave_random *random,
                                            cleave_tensor_kind kind, cleave_type type,
                                            const bool *has, bool slices) {
    cleave_operand operand = {.tensor = -1};
    int64_t shape[CLEAVE_MAX_RANK];
    int order[CLEAVE_MAX_RANK], axes[CLEAVE_MAX_AXES], rank = 0;
    for (int a = 0; a < one->nest.n_axes; a++)
        if (has[a])
            axes[rank++] = a;
    if (chance(random, 60))
        shuffle(random, axes, rank);
    for (int d = 0; d < rank; d++) {
        shape[d] = one->nest.axes[axes[d]].extent;
        operand.map[d] = one_nest_along(axes[d]);
    }
    if (slices && chance(random, 20) && rank < CLEAVE_MAX_RANK) {
        shape[rank] = 3;
        operand.map[rank++] = one_nest_fixed(draw(random, 0, 2));
    }
    for (int d = 0; d < rank; d++)
        order[d] = d;
    if (chance(random, 40))
        shuffle(random, order, rank);
    operand.tensor = kind == CLEAVE_TENSOR_ACTIVATION
                         ? one_nest_activation(one, rank, shape, order)
                         : one_nest_tensor(one, kind, type, rank, shape, order);
    return operand;
}

/* The output over some axes is of this nest, so it gets no copying nest. */
static inline void random_output(one_nest *one, cleave_random *random, const bool *has) {
    one->nest.output = random_operand(one, random, CLEAVE_TENSOR_CONSTANT, CLEAVE_F32, has, false);
    one->model.tensors[one->nest.output.tensor].kind = CLEAVE_TENSOR_ACTIVATION;
}

static inline const cleave_nest *random_product(one_nest *one, cleave_random *random,
                                                cleave_error *error) {
    one_nest_start(one, CLEAVE_NEST_PRODUCT, CLEAVE_COMBINE_SUM);
    /* operands of each axis: bit 0: a, 1: b, 2: output */
    static const unsigned classes[] = {7, 5, 5, 6, 6, 3, 3, 3};
    bool has[3][CLEAVE_MAX_AXES] = {{false}};
    for (int i = 0; i < 8; i++) {
        bool needed = i == 1 || i == 3 || i == 5;
        if (!needed && !chance(random, 30))
            continue;
        int axis = one_nest_axis(one, chance(random, 10) ? 1 : draw(random, 2, i == 5 ? 40 : 9));
        for (int o = 0; o < 3; o++)
            has[o][axis] = classes[i] >> o & 1;
    }
    for (int i = 0; i < 2; i++) {
        cleave_tensor_kind kind =
            i == 0 || chance(random, 30) ? CLEAVE_TENSOR_ACTIVATION : CLEAVE_TENSOR_PARAMETER;
        cleave_operand made = random_operand(one, random, kind, CLEAVE_F32, has[i], true);
        *one_nest_input(one, made.tensor) = made;
    }
    random_output(one, random, has[2]);
    int value = one_nest_do(one, CLEAVE_OP_MUL, 0, 1, 0, 0);
    if (chance(random, 20))
        one_nest_do(one, CLEAVE_OP_SCALE, value, 0, 0.25, 0);
    return one_nest_finish(one, error);
}

/* y[n, s h + r, k] = sum over c of x[n, h, c] w[c, r, k]: rows laid between each other. */
static inline const cleave_nest *random_interleaved_product(one_nest *one, cleave_random *random,
                                                            cleave_error *error) {
    one_nest_start(one, CLEAVE_NEST_PRODUCT, CLEAVE_COMBINE_SUM);
    int64_t batch = draw(random, 1, 3), rows = draw(random, 1, 9), s = draw(random, 1, 4),
            columns = draw(random, 1, 9), summed = draw(random, 1, 9);
    int n = one_nest_axis(one, batch), h = one_nest_axis(one, rows), r = one_nest_axis(one, s),
        k = one_nest_axis(one, columns), c = one_nest_axis(one, summed);
    one->nest.axes[r].whole = true;
    cleave_operand *x =
        one_nest_input(one, one_nest_activation(one, 3, (int64_t[]){batch, rows, summed}, NULL));
    cleave_operand *w =
        one_nest_input(one, one_nest_tensor(one, CLEAVE_TENSOR_PARAMETER, CLEAVE_F32, 3,
                                            (int64_t[]){summed, s, columns}, NULL));
    cleave_operand *y = &one->nest.output;
    y->tensor = one_nest_tensor(one, CLEAVE_TENSOR_ACTIVATION, CLEAVE_F32, 3,
                                (int64_t[]){batch, rows * s, columns}, NULL);
    x->map[0] = y->map[0] = one_nest_along(n);
    x->map[1] = one_nest_along(h);
    x->map[2] = w->map[0] = one_nest_along(c);
    w->map[1] = one_nest_along(r);
    w->map[2] = y->map[2] = one_nest_along(k);
    y->map[1] = one_nest_window(0, h, s, r, 1);
    one_nest_do(one, CLEAVE_OP_MUL, 0, 1, 0, 0);
    return one_nest_finish(one, error);
}

static inline const cleave_nest *random_convolution(one_nest *one, cleave_random *random,
                                                    cleave_error *error) {
    one_nest_convolution c = {.spatial = (int)draw(random, 1, 3),
                              .batch = draw(random, 1, 3),
                              .groups = chance(random, 30) ? draw(random, 2, 3) : 1,
                              .c = draw(random, 1, 6),
                              .k = draw(random, 1, 18)};
    if (c.groups > 1 && chance(random, 60))
        c.splits_groups = true;
    if (c.groups > 1 && chance(random, 40)) { /* depthwise */
        c.groups = draw(random, 2, 20);
        c.c = c.k = 1;
    }
    for (int s = 0; s < c.spatial; s++) {
        c.window[s] = draw(random, 1, 3);
        c.stride[s] = draw(random, 1, 3);
        c.dilation[s] = chance(random, 25) ? 2 : 1;
        int64_t reach = (c.window[s] - 1) * c.dilation[s];
        c.pad_lo[s] = draw(random, 0, reach);
        c.pad_hi[s] = draw(random, 0, reach);
        c.in[s] = draw(random, reach + 1, c.spatial == 3 ? 6 : 9);
    }
    return one_nest_make_convolution(one, &c, chance(random, 50), error);
}

/* Windows of one point over so many channels that they are products. */
static inline const cleave_nest *random_single_points(one_nest *one, cleave_random *random,
                                                      cleave_error *error) {
    int64_t stride = draw(random, 1, 2);
    one_nest_convolution shape = {.spatial = 2,
                                  .batch = draw(random, 1, 4),
                                  .groups = 1,
                                  .c = draw(random, 130, 200),
                                  .k = draw(random, 130, 200),
                                  .in = {draw(random, 1, 9), draw(random, 1, 9)},
                                  .window = {1, 1},
                                  .stride = {stride, stride},
                                  .dilation = {1, 1}};
    return one_nest_make_convolution(one, &shape, chance(random, 50), error);
}

static inline const cleave_nest *random_pool(one_nest *one, cleave_random *random,
                                             cleave_error *error) {
    bool max = chance(random, 50), weighted = !max && chance(random, 40);
    one_nest_start(one, CLEAVE_NEST_POOL, max ? CLEAVE_COMBINE_MAX : CLEAVE_COMBINE_SUM);
    int spatial = (int)draw(random, 1, 2), out[2], window[2];
    int64_t x_shape[4], y_shape[4], stride[2], dilation[2], pad[2];
    x_shape[0] = y_shape[0] = draw(random, 1, 3);
    x_shape[1] = y_shape[1] = chance(random, 20) ? 1 : draw(random, 2, 20);
    int n = one_nest_axis(one, x_shape[0]), c = one_nest_axis(one, x_shape[1]);
    int64_t windows[2];
    for (int s = 0; s < spatial; s++) {
        windows[s] = draw(random, 1, 4);
        stride[s] = draw(random, 1, 3);
        dilation[s] = chance(random, 20) ? 2 : 1;
        int64_t reach = (windows[s] - 1) * dilation[s];
        pad[s] = draw(random, 0, reach / 2);
        int64_t pad_hi = draw(random, 0, reach / 2);
        x_shape[2 + s] = draw(random, reach + 1, reach + 8);
        y_shape[2 + s] = (x_shape[2 + s] + pad[s] + pad_hi - reach - 1) / stride[s] + 1;
        out[s] = one_nest_axis(one, y_shape[2 + s]);
    }
    for (int s = 0; s < spatial; s++)
        window[s] = one_nest_axis(one, windows[s]);
    const int *last = one_nest_channels_last(2 + spatial);
    cleave_operand x = {.tensor = one_nest_activation(one, 2 + spatial, x_shape, last)},
                   w = {.tensor = -1}, *y = &one->nest.output;
    y->tensor =
        one_nest_tensor(one, CLEAVE_TENSOR_ACTIVATION, CLEAVE_F32, 2 + spatial, y_shape, last);
    x.map[0] = y->map[0] = one_nest_along(n);
    x.map[1] = y->map[1] = one_nest_along(c);
    for (int s = 0; s < spatial; s++) {
        x.map[2 + s] = one_nest_window(-pad[s], out[s], stride[s], window[s], dilation[s]);
        y->map[2 + s] = w.map[s] = one_nest_along(out[s]);
    }
    *one_nest_input(one, x.tensor) = x;
    if (weighted) { /* a weight for every position */
        w.tensor = one_nest_tensor(one, CLEAVE_TENSOR_DATA, CLEAVE_F32, spatial, y_shape + 2, NULL);
        *one_nest_input(one, w.tensor) = w;
        one_nest_do(one, CLEAVE_OP_MUL, 0, 1, 0, 0);
    } else if (!max && chance(random, 50)) {
        one_nest_do(one, CLEAVE_OP_SCALE, 0, 0, 0.125, 0);
    } else {
        one_nest_do(one, CLEAVE_OP_COPY, 0, 0, 0, 0);
    }
    return one_nest_finish(one, error);
}

static inline void random_inputs(one_nest *one, cleave_random *random, bool smooth) {
    int n = (int)draw(random, 1, 4), ids = -1;
    for (int i = 0; i < n; i++) {
        bool has[CLEAVE_MAX_AXES];
        for (int a = 0; a < one->nest.n_axes; a++)
            has[a] = i == 0 || chance(random, 60);
        bool integer = i > 0 && i == n - 1 && chance(random, 25);
        cleave_tensor_kind kind = integer              ? CLEAVE_TENSOR_DATA
                                  : chance(random, 15) ? CLEAVE_TENSOR_DATA
                                  : chance(random, 60) ? CLEAVE_TENSOR_ACTIVATION
                                                       : CLEAVE_TENSOR_PARAMETER;
        cleave_operand made =
            random_operand(one, random, kind, integer ? CLEAVE_I64 : CLEAVE_F32, has, true);
        *one_nest_input(one, made.tensor) = made;
        if (integer)
            ids = i;
    }
    random_tape(one, random, ids, smooth);
}

static inline void random_axes(one_nest *one, cleave_random *random) {
    int n = (int)draw(random, 1, 4);
    for (int a = 0; a < n; a++) {
        bool wide = a == n - 1 && chance(random, 30); /* wider than a tile */
        one_nest_axis(one, wide ? draw(random, 200, 1100) : draw(random, 1, n == 4 ? 6 : 9));
    }
}

static inline const cleave_nest *random_elementwise(one_nest *one, cleave_random *random,
                                                    bool reduce, bool smooth, cleave_error *error) {
    bool max = reduce && !smooth && chance(random, 25);
    one_nest_start(one, reduce ? CLEAVE_NEST_REDUCE : CLEAVE_NEST_POINTWISE,
                   max      ? CLEAVE_COMBINE_MAX
                   : reduce ? CLEAVE_COMBINE_SUM
                            : CLEAVE_COMBINE_NONE);
    random_axes(one, random);
    random_inputs(one, random, smooth);
    bool has[CLEAVE_MAX_AXES];
    for (int a = 0; a < one->nest.n_axes; a++)
        has[a] = !reduce || chance(random, 50);
    random_output(one, random, has);
    return one_nest_finish(one, error);
}

static inline const cleave_nest *random_pointwise(one_nest *one, cleave_random *random,
                                                  cleave_error *error) {
    return random_elementwise(one, random, false, false, error);
}
static inline const cleave_nest *random_reduce(one_nest *one, cleave_random *random,
                                               cleave_error *error) {
    return random_elementwise(one, random, true, false, error);
}
static inline const cleave_nest *random_smooth_pointwise(one_nest *one, cleave_random *random,
                                                         cleave_error *error) {
    return random_elementwise(one, random, false, true, error);
}
static inline const cleave_nest *random_smooth_reduce(one_nest *one, cleave_random *random,
                                                      cleave_error *error) {
    return random_elementwise(one, random, true, true, error);
}

/* y[n, s h + p, k] = tanh(x w[k]) of x[n, h, k], x[n, h, p, k] or x[n, s h + p, k]. */
static inline const cleave_nest *random_interleaving(one_nest *one, cleave_random *random,
                                                     cleave_error *error) {
    one_nest_start(one, CLEAVE_NEST_POINTWISE, CLEAVE_COMBINE_NONE);
    int64_t batch = draw(random, 1, 3), rows = draw(random, 1, 9), s = draw(random, 1, 4),
            columns = draw(random, 1, 20), way = draw(random, 0, 2);
    int n = one_nest_axis(one, batch), h = one_nest_axis(one, rows), p = one_nest_axis(one, s),
        k = one_nest_axis(one, columns);
    one->nest.axes[p].whole = true;
    int64_t x_shape[] = {batch, way == 2 ? rows * s : rows, way == 1 ? s : columns, columns};
    int x_rank = way == 1 ? 4 : 3;
    cleave_operand *x = one_nest_input(one, one_nest_activation(one, x_rank, x_shape, NULL));
    cleave_operand *w = one_nest_input(
        one, one_nest_tensor(one, CLEAVE_TENSOR_PARAMETER, CLEAVE_F32, 1, &columns, NULL));
    cleave_operand *y = &one->nest.output;
    y->tensor = one_nest_tensor(one, CLEAVE_TENSOR_ACTIVATION, CLEAVE_F32, 3,
                                (int64_t[]){batch, rows * s, columns}, NULL);
    x->map[0] = y->map[0] = one_nest_along(n);
    y->map[1] = one_nest_window(0, h, s, p, 1);
    x->map[1] = way == 2 ? y->map[1] : one_nest_along(h);
    if (way == 1)
        x->map[2] = one_nest_along(p);
    x->map[x_rank - 1] = w->map[0] = y->map[2] = one_nest_along(k);
    int scaled = one_nest_do(one, CLEAVE_OP_MUL, 0, 1, 0, 0);
    one_nest_do(one, CLEAVE_OP_TANH, scaled, 0, 0, 0);
    return one_nest_finish(one, error);
}

/* What is done to a[n, h, c] is a line whose numbers vary along c alone, as in batch normalisation:
   a chain of links, each with an operand of c of its own or with one of those before. */
static inline const cleave_nest *random_channels(one_nest *one, cleave_random *random, bool bounded,
                                                 cleave_error *error) {
    one_nest_start(one, CLEAVE_NEST_POINTWISE, CLEAVE_COMBINE_NONE);
    const int64_t shape[] = {draw(random, 1, 3), draw(random, 2, 90), draw(random, 16, 70)};
    for (int d = 0; d < 3; d++)
        one_nest_axis(one, shape[d]);
    int n_columns = (int)draw(random, 2, 4);
    for (int i = 0; i <= n_columns; i++) {
        bool whole = i == 0, trained = chance(random, 50);
        int rank = whole ? 3 : 1;
        cleave_operand *x = one_nest_input(
            one, whole || !trained ? one_nest_activation(one, rank, shape + 3 - rank, NULL)
                                   : one_nest_tensor(one, CLEAVE_TENSOR_PARAMETER, CLEAVE_F32, 1,
                                                     shape + 2, NULL));
        for (int d = 0; d < rank; d++)
            x->map[d] = one_nest_along(3 - rank + d);
    }
    int32_t y = one_nest_tensor(one, CLEAVE_TENSOR_ACTIVATION, CLEAVE_F32, 3, shape, NULL);
    one->nest.output = (cleave_operand){
        .tensor = y, .map = {one_nest_along(0), one_nest_along(1), one_nest_along(2)}};
    int inverse = one_nest_do(one, CLEAVE_OP_RSQRT, positive(one, 1), 0, 0, 0), chain = 0;
    if (chance(random, 60))
        chain = one_nest_do(one, CLEAVE_OP_SUB, chain, 2, 0, 0);
    for (int64_t links = draw(random, 1, 5); links > 0; links--) {
        int other = chance(random, 30) ? inverse : 1 + (int)draw(random, 0, n_columns - 1);
        static const cleave_opcode opcodes[] = {CLEAVE_OP_ADD, CLEAVE_OP_SUB,   CLEAVE_OP_MUL,
                                                CLEAVE_OP_NEG, CLEAVE_OP_SCALE, CLEAVE_OP_MUL};
        cleave_opcode opcode = opcodes[draw(random, 0, 5)];
        bool first = cleave_opcode_operands(opcode) == 1 || chance(random, 50);
        chain = one_nest_do(one, opcode, first ? chain : other, first ? other : chain, 0.5, 0.25);
    }
    if (bounded && chance(random, 60))
        one_nest_do(one, chance(random, 50) ? CLEAVE_OP_RELU : CLEAVE_OP_CLIP, chain, 0, -0.5, 1);
    return one_nest_finish(one, error);
}

static inline const cleave_nest *random_lines(one_nest *one, cleave_random *random,
                                              cleave_error *error) {
    return random_channels(one, random, true, error);
}
static inline const cleave_nest *random_smooth_lines(one_nest *one, cleave_random *random,
                                                     cleave_error *error) {
    return random_channels(one, random, false, error);
}

static inline const cleave_nest *random_moments(one_nest *one, cleave_random *random,
                                                cleave_error *error) {
    one_nest_start(one, CLEAVE_NEST_MOMENTS, CLEAVE_COMBINE_MOMENTS);
    random_axes(one, random);
    bool has[CLEAVE_MAX_AXES];
    for (int a = 0; a < one->nest.n_axes; a++)
        has[a] = true;
    cleave_operand x =
        random_operand(one, random, CLEAVE_TENSOR_ACTIVATION, CLEAVE_F32, has, false);
    *one_nest_input(one, x.tensor) = x;
    one_nest_do(one, CLEAVE_OP_COPY, 0, 0, 0, 0);
    for (int a = 0; a < one->nest.n_axes; a++)
        has[a] = chance(random, 50);
    int n_axes = one->nest.n_axes, record = one_nest_axis(one, 3);
    /* The record is dimension 0; the rest in any order. */
    int64_t shape[CLEAVE_MAX_RANK] = {3};
    int order[CLEAVE_MAX_RANK] = {0}, rank = 1;
    one->nest.output.map[0] = one_nest_along(record);
    for (int a = 0; a < n_axes; a++)
        if (has[a]) {
            shape[rank] = one->nest.axes[a].extent;
            order[rank] = rank;
            one->nest.output.map[rank++] = one_nest_along(a);
        }
    if (chance(random, 30))
        shuffle(random, order, rank);
    one->nest.output.tensor =
        one_nest_tensor(one, CLEAVE_TENSOR_ACTIVATION, CLEAVE_F32, rank, shape, order);
    return one_nest_finish(one, error);
}

/* Ids and table share some axes, and have some of their own. */
static inline const cleave_nest *random_gather(one_nest *one, cleave_random *random,
                                               cleave_error *error) {
    one_nest_start(one, CLEAVE_NEST_GATHER, CLEAVE_COMBINE_SUM);
    int n = (int)draw(random, 1, 5), v = (int)draw(random, 0, n - 1);
    bool has[3][CLEAVE_MAX_AXES] = {{false}};
    for (int a = 0; a < n; a++) {
        int64_t owners = draw(random, 1, 3); /* bit 0: ids, bit 1: table */
        one_nest_axis(one, chance(random, 10) ? 1 : draw(random, 2, 12));
        has[0][a] = a != v && (owners & 1) != 0;
        has[1][a] = a == v || (owners & 2) != 0;
        has[2][a] = a != v;
    }
    bool integer = chance(random, 60), integer_table = chance(random, 10);
    cleave_operand ids = random_operand(
        one, random, integer || chance(random, 50) ? CLEAVE_TENSOR_DATA : CLEAVE_TENSOR_ACTIVATION,
        integer ? CLEAVE_I64 : CLEAVE_F32, has[0], true);
    *one_nest_input(one, ids.tensor) = ids;
    cleave_operand table = random_operand(one, random,
                                          integer_table        ? CLEAVE_TENSOR_DATA
                                          : chance(random, 50) ? CLEAVE_TENSOR_PARAMETER
                                                               : CLEAVE_TENSOR_ACTIVATION,
                                          integer_table ? CLEAVE_I64 : CLEAVE_F32, has[1], true);
    *one_nest_input(one, table.tensor) = table;
    random_output(one, random, has[2]);
    cleave_gather_emit(&one->nest, v);
    return one_nest_finish(one, error);
}

/* Elements at labels, some of which are none of a row's. */
static inline const cleave_nest *random_selection(one_nest *one, cleave_random *random,
                                                  cleave_error *error) {
    one_nest_start(one, CLEAVE_NEST_REDUCE, CLEAVE_COMBINE_SUM);
    int n = (int)draw(random, 2, 4), v = (int)draw(random, 0, n - 1);
    bool has[2][CLEAVE_MAX_AXES] = {{false}};
    for (int a = 0; a < n; a++) {
        one_nest_axis(one, draw(random, 2, 9));
        has[0][a] = true;
        has[1][a] = a != v;
    }
    cleave_operand table =
        random_operand(one, random, CLEAVE_TENSOR_ACTIVATION, CLEAVE_F32, has[0], true);
    *one_nest_input(one, table.tensor) = table;
    cleave_operand ids = random_operand(one, random, CLEAVE_TENSOR_DATA, CLEAVE_I64, has[1], true);
    *one_nest_input(one, ids.tensor) = ids;
    random_output(one, random, has[1]);
    int index = one_nest_do(one, CLEAVE_OP_INDEX, v, 0, 0, 0);
    int equal = one_nest_do(one, CLEAVE_OP_EQUAL, index, 1, 0, 0);
    one_nest_do(one, chance(random, 50) ? CLEAVE_OP_MASK : CLEAVE_OP_MUL, 0, equal, 0, 0);
    return one_nest_finish(one, error);
}

#endif
