/* Reductions over axes, and what consists of them: softmax, normalisations, losses. */
#include "generators.h"

#include <string.h>

/* Axes as an input from operator set 13 on for ReduceSum, 18 for the others. */
static void draw_reduction(drawn_model *m, const char *type, drawn_domain domain) {
    drawn_shape shape = draw_shape(m, 1, 4);
    const char *x = draw_operand(m, shape, domain);
    bool as_input = m->opset >= (strcmp(type, "ReduceSum") == 0 ? 13 : 18);
    int64_t axes[CLEAVE_MAX_RANK];
    int n = 0;
    for (int d = 0; d < shape.rank; d++)
        if (draw_chance(m, 0.5))
            axes[n++] = m->opset >= 11 ? draw_sign_of_axis(m, d, shape.rank) : d;
    if (draw_chance(m, 0.6))
        set_integer(m, "keepdims", draw_between(m, 0, 1));
    if (as_input && draw_chance(m, 0.3))
        set_integer(m, "noop_with_empty_axes", draw_between(m, 0, 1));
    if (n > 0 && as_input) {
        put_output(m, put_node(m, type, "%s %s", x, put_list(m, n, axes)));
        return;
    }
    if (n > 0)
        set_integers(m, "axes", n, axes);
    put_output(m, put_node(m, type, "%s", x));
}

static void reduction(drawn_model *m, const char *type) { draw_reduction(m, type, DRAWN_ANY); }
static void positive_reduction(drawn_model *m, const char *type) {
    draw_reduction(m, type, DRAWN_POSITIVE);
}
static void distinct_reduction(drawn_model *m, const char *type) {
    draw_reduction(m, type, DRAWN_DISTINCT);
}

static void arg_reduction(drawn_model *m, const char *type) {
    drawn_shape shape = draw_shape(m, 1, 4);
    const char *x = draw_operand(m, shape, DRAWN_DISTINCT);
    int64_t axis = draw_between(m, 0, shape.rank - 1);
    set_integer(m, "axis", m->opset >= 11 ? draw_sign_of_axis(m, axis, shape.rank) : axis);
    if (draw_chance(m, 0.6))
        set_integer(m, "keepdims", draw_between(m, 0, 1));
    if (m->opset >= 12 && draw_chance(m, 0.3))
        set_integer(m, "select_last_index", draw_between(m, 0, 1));
    put_discrete_output(m, put_node(m, type, "%s", x));
}

static void softmax(drawn_model *m, const char *type) {
    drawn_shape shape = draw_shape(m, 2, 4);
    bool hard = type[0] == 'H';
    const char *x = draw_operand(m, shape, hard ? DRAWN_DISTINCT : DRAWN_ANY);
    int64_t axis = draw_between(m, 0, shape.rank - 1);
    if (draw_chance(m, 0.8))
        set_integer(m, "axis", m->opset >= 11 ? draw_sign_of_axis(m, axis, shape.rank) : axis);
    put_output(m, put_node(m, type, "%s", x));
}

static void cum_sum(drawn_model *m, const char *type) {
    drawn_shape shape = draw_shape(m, 1, 4);
    const char *x = draw_operand(m, shape, DRAWN_ANY);
    int64_t axis = draw_sign_of_axis(m, draw_between(m, 0, shape.rank - 1), shape.rank);
    set_integer(m, "exclusive", draw_between(m, 0, 1));
    set_integer(m, "reverse", draw_between(m, 0, 1));
    put_output(m, put_node(m, type, "%s %s", x, put_integer_scalar(m, axis)));
}

/* ---- normalisations -------------------------------------------------------------------------- */

/* n c and 1 to 3 more, with enough elements of a channel that the variance is no accident. */
static drawn_shape draw_image(drawn_model *m, int least_rank) {
    drawn_shape shape = {.rank = (int)draw_between(m, least_rank, 4)};
    for (int d = 0; d < shape.rank; d++)
        shape.extent[d] = d == 1 ? draw_between(m, 1, 4) : draw_between(m, 2, 4);
    return shape;
}

static void batch_normalization(drawn_model *m, const char *type) {
    drawn_shape shape = draw_image(m, 2), channels = shape_of(1, &shape.extent[1]);
    shape.extent[0] = draw_between(m, 3, 5);
    const char *x = draw_operand(m, shape, DRAWN_ANY);
    m->plain = true; /* running statistics are buffers */
    const char *scale = draw_parameter(m, channels, DRAWN_POSITIVE),
               *bias = draw_parameter(m, channels, DRAWN_ANY),
               *mean = draw_parameter(m, channels, DRAWN_ANY),
               *variance = draw_parameter(m, channels, DRAWN_POSITIVE);
    m->plain = false;
    m->last = NULL; /* a buffer must not be read as a parameter too */
    bool training = draw_chance(m, 0.7);
    if (draw_chance(m, 0.5))
        set_number(m, "epsilon", 1e-3);
    if (draw_chance(m, 0.5))
        set_number(m, "momentum", draw_number(m, 0.5, 0.95));
    if (m->opset >= 14)
        set_integer(m, "training_mode", training);
    const char *outputs[3] = {NULL};
    int n = training ? 3 : 1;
    for (int i = 0; i < n; i++)
        outputs[i] = cleave_arena_printf(m->arena, "y%d", ++m->n_names);
    put_node_outputs(
        m, type, cleave_arena_printf(m->arena, "%s %s %s %s %s", x, scale, bias, mean, variance), n,
        outputs);
    put_output(m, outputs[0]);
}

static void instance_normalization(drawn_model *m, const char *type) {
    drawn_shape shape = draw_image(m, 3), channels = shape_of(1, &shape.extent[1]);
    const char *x = draw_operand(m, shape, DRAWN_ANY),
               *scale = draw_operand(m, channels, DRAWN_POSITIVE),
               *bias = draw_operand(m, channels, DRAWN_ANY);
    set_number(m, "epsilon", 1e-2);
    put_output(m, put_node(m, type, "%s %s %s", x, scale, bias));
}

static void layer_normalization(drawn_model *m, const char *type) {
    drawn_shape shape = draw_shape(m, 2, 4);
    shape.extent[shape.rank - 1] = draw_between(m, 3, 5);
    int axis = (int)draw_between(m, 0, shape.rank - 1);
    drawn_shape row = shape_of(shape.rank - axis, shape.extent + axis);
    const char *x = draw_operand(m, shape, DRAWN_ANY),
               *scale = draw_operand(m, row, DRAWN_POSITIVE), *bias = NULL;
    if (type[0] == 'L' && draw_chance(m, 0.7)) /* that by the mean square has none */
        bias = draw_operand(m, row, DRAWN_ANY);
    set_integer(m, "axis", draw_sign_of_axis(m, axis, shape.rank));
    set_number(m, "epsilon", 1e-2);
    if (bias != NULL)
        put_output(m, put_node(m, type, "%s %s %s", x, scale, bias));
    else
        put_output(m, put_node(m, type, "%s %s", x, scale));
}

/* Scales and biases per group in operator set 18 (deprecated), per channel from 21 on. */
static void group_normalization(drawn_model *m, const char *type) {
    int64_t groups = draw_between(m, 1, 3), c = groups * draw_between(m, 1, 2);
    drawn_shape shape = draw_image(m, 3), scales = shape_of(1, &c);
    shape.extent[1] = c;
    const char *x = draw_operand(m, shape, DRAWN_ANY),
               *scale = draw_operand(m, scales, DRAWN_POSITIVE),
               *bias = draw_operand(m, scales, DRAWN_ANY);
    set_integer(m, "num_groups", groups);
    set_number(m, "epsilon", 1e-2);
    put_output(m, put_node(m, type, "%s %s %s", x, scale, bias));
}

static void mean_variance_normalization(drawn_model *m, const char *type) {
    drawn_shape shape = draw_image(m, 4);
    const char *x = draw_operand(m, shape, DRAWN_ANY);
    if (draw_chance(m, 0.5))
        set_integers(m, "axes", 2, (int64_t[]){2, 3});
    put_output(m, put_node(m, type, "%s", x));
}

static void lp_normalization(drawn_model *m, const char *type) {
    drawn_shape shape = draw_shape(m, 1, 4);
    const char *x = draw_operand(m, shape, DRAWN_ANY);
    set_integer(m, "axis", draw_between(m, 0, shape.rank - 1));
    set_integer(m, "p", draw_between(m, 1, 2));
    put_output(m, put_node(m, type, "%s", x));
}

static void local_response(drawn_model *m, const char *type) {
    drawn_shape shape = draw_image(m, 4);
    shape.extent[1] = draw_between(m, 3, 6);
    const char *x = draw_operand(m, shape, DRAWN_ANY);
    set_integer(m, "size", draw_chance(m, 0.5) ? 3 : 5);
    set_number(m, "alpha", draw_number(m, 0.05, 0.5));
    if (draw_chance(m, 0.5))
        set_number(m, "beta", draw_number(m, 0.4, 0.9));
    put_output(m, put_node(m, type, "%s", x));
}

/* ---- losses ---------------------------------------------------------------------------------- */

static void loss(drawn_model *m, const char *type) {
    static const char *const kinds[] = {"mean", "sum", "none"};
    drawn_shape shape = draw_shape(m, 2, 4), rows = shape;
    shape.extent[1] = draw_between(m, 2, 5);
    rows.rank--;
    for (int d = 1; d < rows.rank; d++)
        rows.extent[d] = shape.extent[d + 1];
    const char *x = draw_operand(m, shape, DRAWN_ANY),
               *targets = draw_ids(m, rows, 0, shape.extent[1] - 1), *weights = NULL;
    if (draw_chance(m, 0.4))
        weights = draw_constant(m, shape_of(1, &shape.extent[1]), DRAWN_POSITIVE);
    if (draw_chance(m, 0.8))
        set_text(m, "reduction", kinds[draw_between(m, 0, 2)]);
    if (draw_chance(m, 0.3))
        set_integer(m, "ignore_index", draw_between(m, 0, shape.extent[1] - 1));
    const char *y = weights != NULL ? put_node(m, type, "%s %s %s", x, targets, weights)
                                    : put_node(m, type, "%s %s", x, targets);
    put_output(m, y);
}

const generator reduction_generators[] = {
    {"ArgMax", 7, arg_reduction, false},
    {"ArgMin", 7, arg_reduction, false},
    {"BatchNormalization", 9, batch_normalization, true},
    {"CumSum", 11, cum_sum, true},
    {"GroupNormalization", 21, group_normalization, true},
    {"Hardmax", 7, softmax, false},
    {"InstanceNormalization", 7, instance_normalization, true},
    {"LRN", 7, local_response, true},
    {"LayerNormalization", 17, layer_normalization, true},
    {"LogSoftmax", 7, softmax, true},
    {"LpNormalization", 7, lp_normalization, true},
    {"MeanVarianceNormalization", 9, mean_variance_normalization, true},
    {"NegativeLogLikelihoodLoss", 12, loss, true},
    {"RMSNormalization", 23, layer_normalization, true},
    {"ReduceL1", 7, reduction, true},
    {"ReduceL2", 7, reduction, true},
    {"ReduceLogSum", 7, positive_reduction, false},
    {"ReduceLogSumExp", 7, reduction, true},
    {"ReduceMax", 7, distinct_reduction, false},
    {"ReduceMean", 7, reduction, true},
    {"ReduceMin", 7, distinct_reduction, false},
    {"ReduceProd", 7, reduction, true},
    {"ReduceSum", 7, reduction, true},
    {"ReduceSumSquare", 7, reduction, true},
    {"Softmax", 7, softmax, true},
    {"SoftmaxCrossEntropyLoss", 12, loss, true},
    {0}};
