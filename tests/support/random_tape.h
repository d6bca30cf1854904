/* Random tapes: opcodes on operands where they are defined and their derivatives are not too steep
   to be compared. */
#ifndef CLEAVE_TESTS_SUPPORT_RANDOM_TAPE_H
#define CLEAVE_TESTS_SUPPORT_RANDOM_TAPE_H

#include "base/random.h"
#include "one_nest.h"

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

#endif
