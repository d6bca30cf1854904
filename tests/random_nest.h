/* Random nests of every kind, random parts of them, and calls with random operands. */
#ifndef CLEAVE_TESTS_RANDOM_NEST_H
#define CLEAVE_TESTS_RANDOM_NEST_H

#include "base/random.h"
#include "graph/gather.h"
#include "one_nest.h"

typedef const cleave_nest *random_nest_maker(one_nest *one, cleave_random *random,
                                             cleave_error *error);

static inline int64_t draw(cleave_random *random, int64_t least, int64_t most) {
    return least + cleave_random_below(random, most - least + 1);
}
static inline bool chance(cleave_random *random, int percent) {
    return cleave_random_below(random, 100) < percent;
}
static inline void shuffle(cleave_random *random, int *values, int n) {
    for (int i = n - 1; i > 0; i--) {
        int j = (int)cleave_random_below(random, i + 1), value = values[i];
        values[i] = values[j];
        values[j] = value;
    }
}

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

/* a a + 1/2: for what must be positive. */
static inline int positive(one_nest *one, int a) {
    return one_nest_do(one, CLEAVE_OP_SCALE, one_nest_do(one, CLEAVE_OP_MUL, a, a, 0, 0), 0, 1,
                       0.5);
}

/* tanh(a) scaled into (-0.9, 0.9): for what has to stay away from 1. */
static inline int bounded(one_nest *one, int a) {
    return one_nest_do(one, CLEAVE_OP_SCALE, one_nest_do(one, CLEAVE_OP_TANH, a, 0, 0, 0), 0, 0.9,
                       0);
}

/* A function of the circle or the hyperbola. */
static inline int random_angle(one_nest *one, cleave_random *random, int a) {
    static const cleave_opcode anywhere[] = {CLEAVE_OP_SIN, CLEAVE_OP_COS, CLEAVE_OP_ATAN,
                                             CLEAVE_OP_ASINH};
    static const cleave_opcode within[] = {CLEAVE_OP_TAN,  CLEAVE_OP_ASIN, CLEAVE_OP_ACOS,
                                           CLEAVE_OP_SINH, CLEAVE_OP_COSH, CLEAVE_OP_ATANH};
    switch (draw(random, 0, 3)) {
    case 0:
        return one_nest_do(one, CLEAVE_OP_LOG1P, positive(one, a), 0, 0, 0);
    case 1: {
        int above = one_nest_do(one, CLEAVE_OP_SCALE, positive(one, a), 0, 1, 1);
        return one_nest_do(one, CLEAVE_OP_ACOSH, above, 0, 0, 0);
    }
    case 2:
        return one_nest_do(one, anywhere[draw(random, 0, 3)], a, 0, 0, 0);
    default:
        return one_nest_do(one, within[draw(random, 0, 5)], bounded(one, a), 0, 0, 0);
    }
}

/* a where an input is below (or not above) a bound that no input comes to: inputs lie on grids of
   1/128 where this matters. */
static inline int random_mask(one_nest *one, cleave_random *random, int a) {
    int bound = one_nest_do(one, CLEAVE_OP_CONSTANT, 0, 0, 0.25 + 1.0 / 256, 0);
    int input = (int)draw(random, 0, one->nest.n_inputs - 1);
    bool first = chance(random, 50);
    int mask = one_nest_do(one, chance(random, 50) ? CLEAVE_OP_LESS : CLEAVE_OP_LESS_EQUAL,
                           first ? input : bound, first ? bound : input, 0, 0);
    return one_nest_do(one, CLEAVE_OP_MASK, a, mask, 0, 0);
}

/* Roundings and remainders of inputs alone, so that no rounding of what came before decides. */
static inline int random_rounding(one_nest *one, cleave_random *random, int a) {
    static const cleave_opcode roundings[] = {CLEAVE_OP_FLOOR, CLEAVE_OP_CEIL, CLEAVE_OP_ROUND,
                                              CLEAVE_OP_TRUNC, CLEAVE_OP_SIGN};
    int input = (int)draw(random, 0, one->nest.n_inputs - 1), rounded;
    if (chance(random, 25)) {
        int by = one_nest_do(one, CLEAVE_OP_CONSTANT, 0, 0, chance(random, 50) ? 0.375 : -0.25, 0);
        rounded = one_nest_do(one, CLEAVE_OP_FMOD, input, by, 0, 0);
    } else {
        int scaled = one_nest_do(one, CLEAVE_OP_SCALE, input, 0, 4, 0);
        rounded = one_nest_do(one, roundings[draw(random, 0, 4)], scaled, 0, 0, 0);
    }
    return one_nest_do(one, CLEAVE_OP_ADD, a, rounded, 0, 0);
}

/* One random step of a tape, from registers a and b. */
static inline int random_step(one_nest *one, cleave_random *random, int a, int b, bool smooth) {
    static const cleave_opcode positives[] = {CLEAVE_OP_LOG, CLEAVE_OP_SQRT, CLEAVE_OP_RSQRT,
                                              CLEAVE_OP_RECIPROCAL};
    static const cleave_opcode kinks[] = {CLEAVE_OP_ABS, CLEAVE_OP_RELU, CLEAVE_OP_LEAKY_RELU,
                                          CLEAVE_OP_CLIP};
    static const cleave_opcode singles[] = {CLEAVE_OP_COPY, CLEAVE_OP_NEG,     CLEAVE_OP_ERF,
                                            CLEAVE_OP_TANH, CLEAVE_OP_SIGMOID, CLEAVE_OP_SCALE};
    static const cleave_opcode pairs[] = {CLEAVE_OP_ADD, CLEAVE_OP_SUB, CLEAVE_OP_MUL};
    switch (draw(random, 0, smooth ? 8 : 12)) {
    case 0:
        return one_nest_do(one, positives[draw(random, 0, 3)], positive(one, a), 0, 0, 0);
    case 1:
        return one_nest_do(one, CLEAVE_OP_DIV, a, positive(one, b), 0, 0);
    case 2: {
        int exponent = one_nest_do(one, CLEAVE_OP_TANH, b, 0, 0, 0);
        return one_nest_do(one, CLEAVE_OP_POW, positive(one, a), exponent, 0, 0);
    }
    case 3:
        return one_nest_do(one, CLEAVE_OP_EXP, one_nest_do(one, CLEAVE_OP_TANH, a, 0, 0, 0), 0, 0,
                           0);
    case 4: {
        int c = one_nest_do(one, CLEAVE_OP_CONSTANT, 0, 0, 0.75, 0);
        return one_nest_do(one, CLEAVE_OP_MUL, a, c, 0, 0);
    }
    case 5:
        return one_nest_do(one, singles[draw(random, 0, 5)], a, 0, 0.7, 0.2);
    case 6:
        return one_nest_do(one, pairs[draw(random, 0, 2)], a, b, 0, 0);
    case 7:
        return random_angle(one, random, a);
    case 8:
        return random_mask(one, random, a);
    case 9:
        return random_rounding(one, random, a);
    case 10:
        return one_nest_do(one, kinks[draw(random, 0, 3)], a, 0, chance(random, 50) ? -0.5 : 0.25,
                           0.5);
    case 11:
        return one_nest_do(one, chance(random, 50) ? CLEAVE_OP_MIN : CLEAVE_OP_MAX, a, b, 0, 0);
    default:
        return one_nest_do(one, CLEAVE_OP_DROPOUT, a, 0, 0.4, 0);
    }
}

static inline void random_tape(one_nest *one, cleave_random *random, int ids, bool smooth) {
    int n_inputs = one->nest.n_inputs, steps = (int)draw(random, 1, 4);
    int value = (int)draw(random, 0, (ids >= 0 ? ids : n_inputs) - 1);
    if (ids >= 0 && one->nest.n_axes > 0) { /* the element that the id names */
        int index =
            one_nest_do(one, CLEAVE_OP_INDEX, (int)draw(random, 0, one->nest.n_axes - 1), 0, 0, 0);
        int hot = one_nest_do(one, CLEAVE_OP_EQUAL, ids, index, 0, 0);
        value = one_nest_do(one, CLEAVE_OP_MUL, value, hot, 0, 0);
    }
    for (int i = 0; i < steps; i++) {
        int known = one->nest.n_inputs + one->nest.n_instructions;
        int other = chance(random, 60) ? (int)draw(random, 0, n_inputs - 1)
                                       : (int)draw(random, 0, known - 1);
        value = random_step(one, random, value, other, smooth);
    }
    if (!smooth && chance(random, 40)) {
        static const cleave_opcode last[] = {CLEAVE_OP_RELU, CLEAVE_OP_LEAKY_RELU,
                                             CLEAVE_OP_SIGMOID, CLEAVE_OP_TANH};
        one_nest_do(one, last[draw(random, 0, 3)], value, 0, 0.1, 0);
    }
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

/* ---- calls ----------------------------------------------------------------------------------- */

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
