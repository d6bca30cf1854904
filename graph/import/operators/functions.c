/* Scalar functions that are both operators and activations of recurrent cells. */
#include "graph/import/operators/functions.h"

#include <math.h>

/* The part that does not apply is 0. */
int cleave_fragment_exponential(cleave_fragment *code, int x, double scale, double p,
                                double width) {
    int below = cleave_fragment_clip(code, x, -INFINITY, 0);
    if (width < 1 || width > 1)
        below = cleave_fragment_scale(code, below, 1 / width, 0);
    int power = cleave_fragment_unary(code, CLEAVE_OP_EXP, below);
    int left = cleave_fragment_scale(code, power, p, -p);
    int right = cleave_fragment_unary(code, CLEAVE_OP_RELU, x);
    if (scale < 1 || scale > 1)
        right = cleave_fragment_scale(code, right, scale, 0);
    return cleave_fragment_binary(code, CLEAVE_OP_ADD, left, right);
}

int cleave_fragment_threshold(cleave_fragment *code, int x, double alpha) {
    int threshold = cleave_fragment_constant(code, alpha);
    int above = cleave_fragment_binary(code, CLEAVE_OP_LESS, threshold, x);
    return cleave_fragment_binary(code, CLEAVE_OP_MASK, x, above);
}

int cleave_fragment_hard_sigmoid(cleave_fragment *code, int x, double alpha, double beta) {
    int line = cleave_fragment_scale(code, x, alpha, beta);
    return cleave_fragment_clip(code, line, 0, 1);
}

/* Above `linear` it is x in f32: the exponential stays finite, and unlike the form with an absolute
   value this one is smooth at 0. */
int cleave_fragment_softplus(cleave_fragment *code, int x) {
    const double linear = 20;
    int low = cleave_fragment_clip(code, x, -INFINITY, linear);
    int power = cleave_fragment_unary(code, CLEAVE_OP_EXP, low);
    int curve = cleave_fragment_unary(code, CLEAVE_OP_LOG1P, power);
    int over = cleave_fragment_scale(code, x, 1, -linear);
    int line = cleave_fragment_unary(code, CLEAVE_OP_RELU, over);
    return cleave_fragment_binary(code, CLEAVE_OP_ADD, curve, line);
}

int cleave_fragment_softsign(cleave_fragment *code, int x) {
    int size = cleave_fragment_unary(code, CLEAVE_OP_ABS, x);
    int divisor = cleave_fragment_scale(code, size, 1, 1);
    return cleave_fragment_binary(code, CLEAVE_OP_DIV, x, divisor);
}

int cleave_fragment_leaky_relu(cleave_fragment *code, int x, double alpha) {
    int value = cleave_fragment_unary(code, CLEAVE_OP_LEAKY_RELU, x);
    code->code[value].p = alpha;
    return value;
}
