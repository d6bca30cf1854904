/* Operators that move elements. */
#include "generators.h"

#include <string.h>

static void identity(drawn_model *m, const char *type) {
    put_output(m, put_node(m, type, "%s", draw_operand(m, draw_shape(m, 1, 4), DRAWN_ANY)));
}

/* Of two values of one shape, by what is known of it: their product or their difference. */
static void branch(drawn_model *m, const char *type) {
    drawn_shape shape = draw_shape(m, 1, 4);
    const char *x = draw_operand(m, shape, DRAWN_ANY), *y = draw_operand(m, shape, DRAWN_ANY);
    const char *size = put_integer_scalar(m, shape_size(shape) + draw_between(m, 0, 1));
    const char *same = put_node(m, "Equal", "%s %s", put_node(m, "Size", "%s", x), size);
    bytes product = {.n = 0}, difference = {.n = 0};
    const char *both = cleave_arena_printf(m->arena, "%s %s", x, y);
    node(&product, "Mul", "inner_product", both, "product", NULL);
    graph_output(&product, "product");
    node(&difference, "Neg", "inner_negative", y, "negative", NULL);
    node(&difference, "Add", "inner_sum", cleave_arena_printf(m->arena, "%s negative", x),
         "difference", NULL);
    graph_output(&difference, "difference");
    attribute_graph(&m->attributes, "then_branch", &product);
    attribute_graph(&m->attributes, "else_branch", &difference);
    put_note(m, "then %s * %s, else %s - %s\n", x, y, x, y);
    put_output(m, put_node(m, type, "%s", same));
}

static void reshape(drawn_model *m, const char *type) {
    drawn_shape from = draw_shape(m, 1, 4), to = {.rank = 0};
    const char *x = draw_operand(m, from, DRAWN_ANY);
    /* Merge and cut at random: a factor at a time. */
    int64_t rest = shape_size(from);
    while (to.rank < 4 && rest > 1) {
        int64_t factor = draw_between(m, 1, rest);
        if (rest % factor == 0)
            to.extent[to.rank++] = factor;
        rest /= rest % factor == 0 ? factor : 1;
    }
    to.extent[to.rank++] = rest;
    if (draw_chance(m, 0.4))
        to.extent[draw_between(m, 0, to.rank - 1)] = -1;
    if (from.rank > 1 && to.extent[0] == from.extent[0] && draw_chance(m, 0.5))
        to.extent[0] = 0;
    put_output(m, put_node(m, type, "%s %s", x, put_list(m, to.rank, to.extent)));
}

static void transpose(drawn_model *m, const char *type) {
    drawn_shape shape = draw_shape(m, 1, 4);
    int64_t permutation[CLEAVE_MAX_RANK];
    const char *x = draw_operand(m, shape, DRAWN_ANY);
    draw_permutation(m, shape.rank, permutation);
    if (draw_chance(m, 0.8))
        set_integers(m, "perm", shape.rank, permutation);
    put_output(m, put_node(m, type, "%s", x));
}

static void flatten(drawn_model *m, const char *type) {
    drawn_shape shape = draw_shape(m, 1, 4);
    const char *x = draw_operand(m, shape, DRAWN_ANY);
    if (draw_chance(m, 0.7))
        set_integer(m, "axis", draw_between(m, m->opset >= 11 ? -shape.rank : 0, shape.rank));
    put_output(m, put_node(m, type, "%s", x));
}

/* Axes as an attribute, or as an input from operator set 13 on. */
static const char *with_axes(drawn_model *m, const char *type, const char *x, int n,
                             const int64_t *axes) {
    if (m->opset >= 13)
        return put_node(m, type, "%s %s", x, put_list(m, n, axes));
    set_integers(m, "axes", n, axes);
    return put_node(m, type, "%s", x);
}

/* Listed sizes, equal ones but for the last, or single elements; one or two of them are taken. */
static void split_to_sequence(drawn_model *m, const char *type) {
    (void)type;
    drawn_shape shape = draw_shape(m, 1, 4);
    int axis = (int)draw_between(m, 0, shape.rank - 1);
    int64_t sizes[3], kind = draw_between(m, 0, 2), size = draw_between(m, 1, 2), n = 3;
    for (int i = 0, total = 0; i < 3; i++)
        shape.extent[axis] = total += (int)(sizes[i] = draw_between(m, 1, 2));
    if (kind > 0)
        n = kind == 2 ? shape.extent[axis] : (shape.extent[axis] + size - 1) / size;
    const char *x = draw_operand(m, shape, DRAWN_ANY), *split = "";
    split = kind == 0 ? put_list(m, 3, sizes) : kind == 1 ? put_integer_scalar(m, size) : "";
    set_integer(m, "axis", draw_sign_of_axis(m, axis, shape.rank));
    if (kind == 2 && draw_chance(m, 0.5))
        set_integer(m, "keepdims", 0);
    const char *parts = put_node(m, "SplitToSequence", "%s %s", x, split);
    for (int64_t taken = draw_between(m, 1, 2); taken > 0; taken--) {
        const char *at = put_integer_scalar(m, draw_between(m, -n, n - 1));
        put_output(m, put_node(m, "SequenceAt", "%s %s", parts, at));
    }
}

static void squeeze(drawn_model *m, const char *type) {
    drawn_shape shape = draw_shape(m, 2, 4);
    int64_t axes[CLEAVE_MAX_RANK];
    int n = 0;
    for (int d = 0; d < shape.rank; d++)
        if (draw_chance(m, 0.5)) {
            shape.extent[d] = 1;
            axes[n++] = m->opset >= 11 ? draw_sign_of_axis(m, d, shape.rank) : d;
        }
    const char *x = draw_operand(m, shape, DRAWN_ANY);
    put_output(m, n > 0 ? with_axes(m, type, x, n, axes) : put_node(m, type, "%s", x));
}

static void unsqueeze(drawn_model *m, const char *type) {
    drawn_shape shape = draw_shape(m, 1, 3);
    const char *x = draw_operand(m, shape, DRAWN_ANY);
    int rank = shape.rank + (int)draw_between(m, 1, 2), n = 0;
    int64_t axes[CLEAVE_MAX_RANK];
    for (int d = 0; d < rank && n < rank - shape.rank; d++)
        if (draw_chance(m, 0.5) || rank - d <= rank - shape.rank - n)
            axes[n++] = m->opset >= 11 ? draw_sign_of_axis(m, d, rank) : d;
    put_output(m, with_axes(m, type, x, n, axes));
}

static void concat(drawn_model *m, const char *type) {
    drawn_shape shape = draw_shape(m, 1, 4);
    int axis = (int)draw_between(m, 0, shape.rank - 1);
    const char *words = draw_operand(m, shape, DRAWN_ANY);
    for (int64_t n = draw_between(m, 0, 3); n > 0; n--) {
        shape.extent[axis] = draw_between(m, 1, 3);
        words = cleave_arena_printf(m->arena, "%s %s", words, draw_operand(m, shape, DRAWN_ANY));
    }
    set_integer(m, "axis", m->opset >= 11 ? draw_sign_of_axis(m, axis, shape.rank) : axis);
    put_output(m, put_node(m, type, "%s", words));
}

static void slice(drawn_model *m, const char *type) {
    drawn_shape shape = draw_shape(m, 1, 4);
    const char *x = draw_operand(m, shape, DRAWN_ANY);
    int64_t axes[CLEAVE_MAX_RANK], starts[CLEAVE_MAX_RANK], ends[CLEAVE_MAX_RANK],
        steps[CLEAVE_MAX_RANK];
    int n = 0;
    for (int d = shape.rank - 1; d >= 0; d--) {
        if (draw_chance(m, 0.3))
            continue;
        int64_t extent = shape.extent[d], from = draw_between(m, 0, extent - 1);
        axes[n] = m->opset >= 10 ? draw_sign_of_axis(m, d, shape.rank) : d;
        starts[n] = draw_chance(m, 0.4) ? from - extent : from;
        ends[n] = draw_chance(m, 0.3) ? INT64_MAX : draw_between(m, from + 1, extent);
        steps[n++] = draw_between(m, 1, 2);
    }
    if (m->opset < 10) {
        set_integers(m, "axes", n, axes);
        set_integers(m, "starts", n, starts);
        set_integers(m, "ends", n, ends);
        put_output(m, put_node(m, type, "%s", x));
        return;
    }
    /* Backwards, too: from the last one to the first. */
    for (int i = 0; i < n; i++)
        if (draw_chance(m, 0.2)) {
            starts[i] = -1;
            ends[i] = INT64_MIN;
            steps[i] = -draw_between(m, 1, 2);
        }
    const char *from = put_list(m, n, starts), *to = put_list(m, n, ends);
    const char *along = put_list(m, n, axes), *by = put_list(m, n, steps);
    put_output(m, put_node(m, type, "%s %s %s %s %s", x, from, to, along, by));
}

static void split(drawn_model *m, const char *type) {
    drawn_shape shape = draw_shape(m, 1, 4);
    int axis = (int)draw_between(m, 0, shape.rank - 1), n = (int)draw_between(m, 2, 3);
    int64_t parts[3], total = 0;
    bool equal = draw_chance(m, 0.4);
    for (int i = 0; i < n; i++)
        total += parts[i] = equal && i > 0 ? parts[0] : draw_between(m, 1, 3);
    shape.extent[axis] = total;
    const char *x = draw_operand(m, shape, DRAWN_ANY), *outputs[3] = {NULL};
    for (int i = 0; i < n; i++)
        outputs[i] = cleave_arena_printf(m->arena, "y%d", ++m->n_names);
    set_integer(m, "axis", m->opset >= 11 ? draw_sign_of_axis(m, axis, shape.rank) : axis);
    if (equal && m->opset < 18) {
        put_node_outputs(m, type, x, n, outputs);
    } else if (equal) {
        set_integer(m, "num_outputs", n);
        put_node_outputs(m, type, x, n, outputs);
    } else if (m->opset < 13) {
        set_integers(m, "split", n, parts);
        put_node_outputs(m, type, x, n, outputs);
    } else {
        const char *list = put_list(m, n, parts);
        put_node_outputs(m, type, cleave_arena_printf(m->arena, "%s %s", x, list), n, outputs);
    }
    int first = (int)draw_between(m, 0, n - 1); /* that one in any case */
    for (int i = 0; i < n; i++)
        if (i == first || draw_chance(m, 0.7))
            put_output(m, outputs[i]);
}

static void pad(drawn_model *m, const char *type) {
    static const char *const modes[] = {"constant", "reflect", "edge"};
    drawn_shape shape = draw_shape(m, 1, 4);
    const char *x = draw_operand(m, shape, DRAWN_ANY);
    const char *mode = modes[draw_chance(m, 0.6) ? 0 : draw_between(m, 1, 2)];
    int64_t pads[2 * CLEAVE_MAX_RANK];
    for (int i = 0; i < 2 * shape.rank; i++) {
        int64_t most = strcmp(mode, "reflect") == 0 ? shape.extent[i % shape.rank] - 1 : 2;
        pads[i] = draw_between(m, 0, most < 2 ? most : 2);
    }
    if (strcmp(mode, "constant") != 0 || draw_chance(m, 0.5))
        set_text(m, "mode", mode);
    double fill = draw_number(m, -1, 1);
    if (m->opset < 11) {
        set_integers(m, "pads", 2 * shape.rank, pads);
        if (strcmp(mode, "constant") == 0 && draw_chance(m, 0.5))
            set_number(m, "value", fill);
        put_output(m, put_node(m, type, "%s", x));
        return;
    }
    const char *list = put_list(m, 2 * shape.rank, pads);
    if (strcmp(mode, "constant") == 0 && draw_chance(m, 0.6))
        put_output(m, put_node(m, type, "%s %s %s", x, list, put_scalar(m, fill)));
    else
        put_output(m, put_node(m, type, "%s %s", x, list));
}

static void expand(drawn_model *m, const char *type) {
    drawn_shape shape = draw_shape(m, 1, 4), small = draw_broadcast(m, shape);
    const char *x = draw_operand(m, small, DRAWN_ANY);
    /* A target may be smaller where the operand is not. */
    for (int d = 0; d < small.rank; d++)
        if (small.extent[d] > 1 && draw_chance(m, 0.2))
            shape.extent[shape.rank - small.rank + d] = 1;
    put_output(m, put_node(m, type, "%s %s", x, put_list(m, shape.rank, shape.extent)));
}

static void tile(drawn_model *m, const char *type) {
    drawn_shape shape = draw_shape(m, 1, 3);
    const char *x = draw_operand(m, shape, DRAWN_ANY);
    int64_t repeats[CLEAVE_MAX_RANK];
    for (int d = 0; d < shape.rank; d++)
        repeats[d] = draw_chance(m, 0.5) ? 1 : draw_between(m, 2, 3);
    put_output(m, put_node(m, type, "%s %s", x, put_list(m, shape.rank, repeats)));
}

static void depth_to_space(drawn_model *m, const char *type) {
    int64_t block = 2, n = draw_between(m, 1, 2), c = draw_between(m, 1, 2),
            h = draw_between(m, 1, 3), w = draw_between(m, 1, 3);
    bool to_space = type[0] == 'D';
    drawn_shape shape = shape_of(4, to_space ? (int64_t[]){n, c * block * block, h, w}
                                             : (int64_t[]){n, c, h * block, w * block});
    const char *x = draw_operand(m, shape, DRAWN_ANY);
    set_integer(m, "blocksize", block);
    if (to_space && m->opset >= 11 && draw_chance(m, 0.6))
        set_text(m, "mode", draw_chance(m, 0.5) ? "CRD" : "DCR");
    put_output(m, put_node(m, type, "%s", x));
}

static void trilu(drawn_model *m, const char *type) {
    drawn_shape shape = draw_shape(m, 2, 4);
    const char *x = draw_operand(m, shape, DRAWN_ANY);
    if (draw_chance(m, 0.7))
        set_integer(m, "upper", draw_between(m, 0, 1));
    if (draw_chance(m, 0.6))
        put_output(m, put_node(m, type, "%s %s", x, put_integer_scalar(m, draw_between(m, -2, 2))));
    else
        put_output(m, put_node(m, type, "%s", x));
}

/* What is hidden has a gradient as what is not, since a number was added: so all are of some size.
 */
static void causal_mask(drawn_model *m, const char *type) {
    drawn_shape shape = draw_shape(m, 2, 4);
    const char *x = draw_operand(m, shape, DRAWN_ANY);
    /* Of a query that sees no key differences are lost: f32 rounds all of them to the least. */
    int64_t least = shape.extent[shape.rank - 2] - shape.extent[shape.rank - 1] + 1;
    if (draw_chance(m, 0.5))
        set_integer(m, "window", (least > 1 ? least - 1 : 0) + draw_between(m, 1, 3));
    if (draw_chance(m, 0.3))
        set_integer(m, "ahead", draw_between(m, 1, 3));
    x = put_node(m, type, "%s", x);
    set_integer(m, "axis", -1);
    put_output(m, put_node(m, "Softmax", "%s", x));
}

/* A number for each head, which takes a share of every row of its head. */
static void sink_softmax(drawn_model *m, const char *type) {
    drawn_shape shape = draw_shape(m, 3, 4);
    const char *x = draw_operand(m, shape, DRAWN_ANY);
    const int64_t heads = shape.extent[shape.rank - 3];
    put_output(m, put_node(m, type, "%s %s", x, draw_operand(m, shape_of(1, &heads), DRAWN_ANY)));
}

/* Its values are integers: they meet the model through a cast. */
static void shape_node(drawn_model *m, const char *type) {
    const char *x = draw_operand(m, draw_shape(m, 1, 4), DRAWN_ANY);
    put_discrete_output(m, put_node(m, type, "%s", x));
}

static void eye_like(drawn_model *m, const char *type) {
    const char *x = draw_operand(m, draw_shape(m, 2, 2), DRAWN_ANY);
    set_integer(m, "dtype", 1);
    set_integer(m, "k", draw_between(m, -1, 1));
    put_output(m, put_node(m, type, "%s", x));
}

const generator view_generators[] = {{"CausalMask", 13, causal_mask, true},
                                     {"Concat", 7, concat, true},
                                     {"DepthToSpace", 7, depth_to_space, true},
                                     {"Expand", 8, expand, true},
                                     {"EyeLike", 9, eye_like, false},
                                     {"Flatten", 7, flatten, true},
                                     {"Identity", 7, identity, true},
                                     {"If", 7, branch, true},
                                     {"Pad", 7, pad, true},
                                     {"Reshape", 7, reshape, true},
                                     {"SequenceAt", 11, split_to_sequence, true},
                                     {"Shape", 7, shape_node, false},
                                     {"SinkSoftmax", 13, sink_softmax, true},
                                     {"Size", 7, shape_node, false},
                                     {"Slice", 7, slice, true},
                                     {"SpaceToDepth", 7, depth_to_space, true},
                                     {"Split", 7, split, true},
                                     {"SplitToSequence", 11, split_to_sequence, true},
                                     {"Squeeze", 7, squeeze, true},
                                     {"Tile", 7, tile, true},
                                     {"Transpose", 7, transpose, true},
                                     {"Trilu", 14, trilu, true},
                                     {"Unsqueeze", 7, unsqueeze, true},
                                     {0}};
