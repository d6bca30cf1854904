/* Operators that work element by element. */
#include "generators.h"

#include <string.h>

static void draw_unary(drawn_model *m, const char *type, drawn_domain domain) {
    const char *x = draw_operand(m, draw_shape(m, 1, 4), domain);
    put_output(m, put_node(m, type, "%s", x));
}

static void any_unary(drawn_model *m, const char *type) { draw_unary(m, type, DRAWN_ANY); }
static void positive_unary(drawn_model *m, const char *type) {
    draw_unary(m, type, DRAWN_POSITIVE);
}
static void unit_unary(drawn_model *m, const char *type) { draw_unary(m, type, DRAWN_UNIT); }
static void off_grid_unary(drawn_model *m, const char *type) {
    draw_unary(m, type, DRAWN_OFF_GRID);
}
static void above_one_unary(drawn_model *m, const char *type) {
    draw_unary(m, type, DRAWN_ABOVE_ONE);
}

/* Attributes alpha, beta, gamma of those that have them. */
static void parametric_unary(drawn_model *m, const char *type) {
    const char *x = draw_operand(m, draw_shape(m, 1, 4), DRAWN_ANY);
    if (draw_chance(m, 0.7))
        set_number(m, "alpha", draw_number(m, 0.05, 0.6));
    if (strcmp(type, "HardSigmoid") == 0 && draw_chance(m, 0.5))
        set_number(m, "beta", draw_number(m, 0.3, 0.7));
    if (strcmp(type, "Selu") == 0 && draw_chance(m, 0.5))
        set_number(m, "gamma", draw_number(m, 0.8, 1.3));
    put_output(m, put_node(m, type, "%s", x));
}

static void gelu(drawn_model *m, const char *type) {
    const char *x = draw_operand(m, draw_shape(m, 1, 4), DRAWN_ANY);
    if (draw_chance(m, 0.6))
        set_text(m, "approximate", draw_chance(m, 0.5) ? "tanh" : "none");
    put_output(m, put_node(m, type, "%s", x));
}

static void shrink(drawn_model *m, const char *type) {
    const char *x = draw_operand(m, draw_shape(m, 1, 4), DRAWN_ANY);
    set_number(m, "lambd", draw_number(m, 0.3, 0.6));
    set_number(m, "bias", draw_number(m, 0, 0.3));
    put_output(m, put_node(m, type, "%s", x));
}

static void clip(drawn_model *m, const char *type) {
    const char *x = draw_operand(m, draw_shape(m, 1, 4), DRAWN_ANY), *y;
    double low = draw_number(m, -0.9, -0.3), high = draw_number(m, 0.3, 0.9);
    bool has_low = draw_chance(m, 0.8), has_high = draw_chance(m, 0.8);
    if (m->opset < 11) {
        if (has_low)
            set_number(m, "min", low);
        if (has_high)
            set_number(m, "max", high);
        y = put_node(m, type, "%s", x);
    } else {
        const char *from = has_low ? put_scalar(m, low) : "-";
        const char *to = has_high ? put_scalar(m, high) : "-";
        y = put_node(m, type, "%s %s %s", x, from, to);
    }
    put_output(m, y);
}

static void dropout(drawn_model *m, const char *type) {
    const char *x = draw_operand(m, draw_shape(m, 1, 4), DRAWN_ANY), *y;
    double ratio = draw_number(m, 0.1, 0.7);
    if (m->opset < 12) {
        set_number(m, "ratio", ratio);
        y = put_node(m, type, "%s", x);
    } else {
        unsigned char training = draw_chance(m, 0.8);
        const char *name = cleave_arena_printf(m->arena, "training%d", ++m->n_names);
        bytes attributes;
        attributes.n = 0;
        attribute_tensor(&attributes, "value", 0, NULL, 9, &training, 1);
        node(&m->graph, "Constant", name, "", name, &attributes);
        y = put_node(m, type, "%s %s %s", x, put_scalar(m, ratio), name);
    }
    put_output(m, y);
}

/* Numbers that are drawn, and another operand so that something can be trained. */
static void draw_range_and_seed(drawn_model *m, const char *first, const char *second,
                                double least) {
    if (draw_chance(m, 0.5)) {
        set_number(m, first, draw_number(m, -2, least));
        set_number(m, second, draw_number(m, least, 2));
    }
    if (draw_chance(m, 0.5))
        set_number(m, "seed", draw_number(m, 0, 9));
}

static void random_numbers(drawn_model *m, const char *type) {
    bool normal = strstr(type, "Normal") != NULL, like = strstr(type, "Like") != NULL;
    drawn_shape shape = draw_shape(m, 1, 4);
    const char *x = draw_operand(m, shape, DRAWN_ANY);
    draw_range_and_seed(m, normal ? "mean" : "low", normal ? "scale" : "high", 0.5);
    if (!like)
        set_integers(m, "shape", shape.rank, shape.extent);
    const char *numbers = like ? put_node(m, type, "%s", x) : put_node(m, type, "%s", "");
    put_output(m, put_node(m, "Mul", "%s %s", numbers, x));
}

static void bernoulli(drawn_model *m, const char *type) {
    drawn_shape shape = draw_shape(m, 1, 4);
    const char *x = draw_operand(m, shape, DRAWN_ANY), *probability;
    probability =
        draw_chance(m, 0.5) ? draw_constant(m, shape, DRAWN_UNIT) : put_node(m, "Sigmoid", "%s", x);
    if (draw_chance(m, 0.5))
        set_number(m, "seed", draw_number(m, 0, 9));
    put_output(m, put_node(m, "Mul", "%s %s", put_node(m, type, "%s", probability), x));
}

/* ---- two operands and more ------------------------------------------------------------------ */

typedef struct pair {
    const char *a, *b;
} pair;

/* Operands that broadcast into each other. */
static pair draw_pair(drawn_model *m, drawn_domain first, drawn_domain second) {
    drawn_shape shape = draw_shape(m, 1, 4);
    bool swap = draw_chance(m, 0.3);
    drawn_shape small = draw_chance(m, 0.5) ? draw_broadcast(m, shape) : shape;
    pair p;
    p.a = draw_operand(m, swap ? small : shape, first);
    p.b = draw_chance(m, 0.15) ? put_scalar(m, draw_number(m, 0.5, 1.5))
                               : draw_operand(m, swap ? shape : small, second);
    return p;
}

static void any_binary(drawn_model *m, const char *type) {
    pair p = draw_pair(m, DRAWN_ANY, DRAWN_ANY);
    put_output(m, put_node(m, type, "%s %s", p.a, p.b));
}

static void divide(drawn_model *m, const char *type) {
    pair p = draw_pair(m, DRAWN_ANY, DRAWN_POSITIVE);
    put_output(m, put_node(m, type, "%s %s", p.a, p.b));
}

static void power(drawn_model *m, const char *type) {
    pair p = draw_pair(m, DRAWN_POSITIVE, DRAWN_ANY);
    double exponents[] = {0.5, 2, 3, -1, 0, 1};
    if (draw_chance(m, 0.4))
        p.b = put_scalar(m, exponents[draw_between(m, 0, 5)]);
    put_output(m, put_node(m, type, "%s %s", p.a, p.b));
}

static void variadic(drawn_model *m, const char *type) {
    drawn_shape shape = draw_shape(m, 1, 4);
    const char *words = draw_operand(m, shape, DRAWN_ANY);
    for (int64_t n = draw_between(m, 0, 3); n > 0; n--) {
        drawn_shape other = draw_chance(m, 0.4) ? draw_broadcast(m, shape) : shape;
        words = cleave_arena_printf(m->arena, "%s %s", words, draw_operand(m, other, DRAWN_ANY));
    }
    put_output(m, put_node(m, type, "%s", words));
}

static void modulo(drawn_model *m, const char *type) {
    pair p = draw_pair(m, DRAWN_ABOVE_ONE, DRAWN_POSITIVE);
    set_integer(m, "fmod", 1);
    put_output(m, put_node(m, type, "%s %s", p.a, p.b));
}

static void prelu(drawn_model *m, const char *type) {
    drawn_shape shape = draw_shape(m, 1, 4);
    const char *x = draw_operand(m, shape, DRAWN_ANY);
    const char *slope = draw_operand(m, draw_broadcast(m, shape), DRAWN_POSITIVE);
    put_output(m, put_node(m, type, "%s %s", x, slope));
}

static void xielu(drawn_model *m, const char *type) {
    drawn_shape shape = draw_shape(m, 1, 4);
    const char *x = draw_operand(m, shape, DRAWN_ANY);
    const char *alpha = draw_operand(m, draw_broadcast(m, shape), DRAWN_POSITIVE);
    const char *beta = draw_operand(m, draw_broadcast(m, shape), DRAWN_POSITIVE);
    put_output(m, put_node(m, type, "%s %s %s", x, alpha, beta));
}

static void comparison(drawn_model *m, const char *type) {
    pair p = draw_pair(m, DRAWN_ANY, DRAWN_ANY);
    put_discrete_output(m, put_node(m, type, "%s %s", p.a, p.b));
}

static void logical(drawn_model *m, const char *type) {
    drawn_shape shape = draw_shape(m, 1, 4);
    const char *a = draw_booleans(m, shape), *b = draw_booleans(m, draw_broadcast(m, shape));
    put_discrete_output(m, put_node(m, type, "%s %s", a, b));
}

static void negation(drawn_model *m, const char *type) {
    put_discrete_output(m, put_node(m, type, "%s", draw_booleans(m, draw_shape(m, 1, 4))));
}

static void test_of_number(drawn_model *m, const char *type) {
    const char *x = draw_operand(m, draw_shape(m, 1, 4), DRAWN_ANY);
    put_discrete_output(m, put_node(m, type, "%s", x));
}

static void where(drawn_model *m, const char *type) {
    drawn_shape shape = draw_shape(m, 1, 4);
    drawn_shape small[3];
    for (int i = 0; i < 3; i++)
        small[i] = draw_chance(m, 0.4) ? draw_broadcast(m, shape) : shape;
    const char *x = draw_operand(m, small[1], DRAWN_ANY), *y = draw_operand(m, small[2], DRAWN_ANY);
    const char *condition = draw_booleans(m, small[0]);
    put_output(m, put_node(m, type, "%s %s %s", condition, x, y));
}

static void cast(drawn_model *m, const char *type) {
    static const int64_t types[] = {6, 7, 9};
    if (draw_chance(m, 0.4)) {
        const char *x = draw_operand(m, draw_shape(m, 1, 4), DRAWN_ANY);
        set_integer(m, "to", 1);
        put_output(m, put_node(m, type, "%s", x));
        return;
    }
    const char *x = draw_operand(m, draw_shape(m, 1, 4), DRAWN_OFF_GRID);
    set_integer(m, "to", types[draw_between(m, 0, 2)]);
    put_discrete_output(m, put_node(m, type, "%s", x));
}

static void cast_like(drawn_model *m, const char *type) {
    const char *x = draw_operand(m, draw_shape(m, 1, 4), DRAWN_ANY),
               *like = draw_operand(m, draw_shape(m, 1, 2), DRAWN_ANY);
    put_output(m, put_node(m, type, "%s %s", x, like));
}

const generator elementwise_generators[] = {{"Abs", 7, any_unary, true},
                                            {"Acos", 7, unit_unary, false},
                                            {"Acosh", 9, above_one_unary, false},
                                            {"Add", 7, any_binary, true},
                                            {"And", 7, logical, false},
                                            {"Asin", 7, unit_unary, false},
                                            {"Asinh", 9, any_unary, true},
                                            {"Atan", 7, any_unary, true},
                                            {"Atanh", 9, unit_unary, false},
                                            {"Bernoulli", 15, bernoulli, true},
                                            {"Cast", 9, cast, false},
                                            {"CastLike", 15, cast_like, true},
                                            {"Ceil", 7, off_grid_unary, false},
                                            {"Celu", 12, parametric_unary, true},
                                            {"Clip", 7, clip, true},
                                            {"Cos", 7, any_unary, true},
                                            {"Cosh", 9, any_unary, true},
                                            {"Div", 7, divide, true},
                                            {"Dropout", 7, dropout, true},
                                            {"Elu", 7, parametric_unary, true},
                                            {"Equal", 11, comparison, false},
                                            {"Erf", 9, any_unary, true},
                                            {"Exp", 7, any_unary, true},
                                            {"Floor", 7, off_grid_unary, false},
                                            {"Gelu", 20, gelu, true},
                                            {"Greater", 9, comparison, false},
                                            {"GreaterOrEqual", 12, comparison, false},
                                            {"HardSigmoid", 7, parametric_unary, true},
                                            {"HardSwish", 14, any_unary, true},
                                            {"IsInf", 10, test_of_number, false},
                                            {"IsNaN", 9, test_of_number, false},
                                            {"LeakyRelu", 7, parametric_unary, true},
                                            {"Less", 9, comparison, false},
                                            {"LessOrEqual", 12, comparison, false},
                                            {"Log", 7, positive_unary, false},
                                            {"Max", 8, variadic, true},
                                            {"Mean", 8, variadic, true},
                                            {"Min", 8, variadic, true},
                                            {"Mish", 18, any_unary, true},
                                            {"Mod", 10, modulo, false},
                                            {"Mul", 7, any_binary, true},
                                            {"Neg", 7, any_unary, true},
                                            {"Not", 7, negation, false},
                                            {"Or", 7, logical, false},
                                            {"PRelu", 9, prelu, true},
                                            {"Pow", 7, power, false},
                                            {"RandomNormal", 7, random_numbers, true},
                                            {"RandomNormalLike", 7, random_numbers, true},
                                            {"RandomUniform", 7, random_numbers, true},
                                            {"RandomUniformLike", 7, random_numbers, true},
                                            {"Reciprocal", 7, positive_unary, false},
                                            {"Relu", 7, any_unary, true},
                                            {"Round", 11, off_grid_unary, false},
                                            {"Selu", 7, parametric_unary, true},
                                            {"Shrink", 9, shrink, true},
                                            {"Sigmoid", 7, any_unary, true},
                                            {"Sign", 9, off_grid_unary, false},
                                            {"Sin", 7, any_unary, true},
                                            {"Sinh", 9, any_unary, true},
                                            {"Softplus", 7, any_unary, true},
                                            {"Softsign", 7, any_unary, true},
                                            {"Sqrt", 7, positive_unary, false},
                                            {"Sub", 7, any_binary, true},
                                            {"Sum", 8, variadic, true},
                                            {"Swish", 21, parametric_unary, true},
                                            {"Tan", 7, unit_unary, false},
                                            {"Tanh", 7, any_unary, true},
                                            {"ThresholdedRelu", 10, parametric_unary, true},
                                            {"Where", 9, where, true},
                                            {"Xielu", 13, xielu, true},
                                            {"Xor", 7, logical, false},
                                            {0}};
