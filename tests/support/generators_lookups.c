/* Look-ups by ids. */
#include "tests/support/generators.h"

static void gather(drawn_model *m, const char *type) {
    drawn_shape shape = draw_shape(m, 1, 3), ids = draw_shape(m, 1, 2);
    int axis = (int)draw_between(m, 0, shape.rank - 1);
    shape.extent[axis] = draw_between(m, 2, 6);
    for (int d = 0; d < ids.rank; d++)
        ids.extent[d] = draw_between(m, 1, 3);
    const char *table = draw_operand(m, shape, DRAWN_ANY);
    int64_t least = m->opset >= 11 ? -shape.extent[axis] : 0;
    const char *index = draw_chance(m, 0.15)
                            ? put_integer_scalar(m, draw_between(m, least, shape.extent[axis] - 1))
                            : draw_ids(m, ids, least, shape.extent[axis] - 1);
    if (axis > 0 || draw_chance(m, 0.5))
        set_integer(m, "axis", draw_sign_of_axis(m, axis, shape.rank));
    put_output(m, put_node(m, type, "%s %s", table, index));
}

static void gather_elements(drawn_model *m, const char *type) {
    drawn_shape shape = draw_shape(m, 1, 3), ids = shape;
    int axis = (int)draw_between(m, 0, shape.rank - 1);
    for (int d = 0; d < ids.rank; d++)
        ids.extent[d] = d == axis ? draw_between(m, 1, 4) : draw_between(m, 1, shape.extent[d]);
    const char *table = draw_operand(m, shape, DRAWN_ANY);
    const char *index = draw_ids(m, ids, -shape.extent[axis], shape.extent[axis] - 1);
    set_integer(m, "axis", draw_sign_of_axis(m, axis, shape.rank));
    put_output(m, put_node(m, type, "%s %s", table, index));
}

static void gather_nd(drawn_model *m, const char *type) {
    drawn_shape shape = draw_shape(m, 2, 3);
    int64_t n = draw_between(m, 1, 3), least = shape.extent[0];
    /* One id, or two that fit every dimension they name. */
    int64_t depth = draw_between(m, 1, 2);
    if (depth == 2 && shape.extent[1] < least)
        least = shape.extent[1];
    const char *table = draw_operand(m, shape, DRAWN_ANY);
    const char *index = draw_ids(m, shape_of(2, (int64_t[]){n, depth}), 0, least - 1);
    put_output(m, put_node(m, type, "%s %s", table, index));
}

static void one_hot(drawn_model *m, const char *type) {
    drawn_shape shape = draw_shape(m, 1, 2);
    int64_t depth = draw_between(m, 2, 5);
    const char *ids = draw_ids(m, shape, 0, depth - 1);
    const char *size = put_integer_scalar(m, depth);
    const char *values = put_floats(m, 2, (float[]){-0.5f, 1.5f});
    set_integer(m, "axis", draw_sign_of_axis(m, draw_between(m, 0, shape.rank), shape.rank + 1));
    put_output(m, put_node(m, type, "%s %s %s", ids, size, values));
}

static void scatter_elements(drawn_model *m, const char *type) {
    drawn_shape shape = draw_shape(m, 1, 3), ids = shape;
    int axis = (int)draw_between(m, 0, shape.rank - 1);
    for (int d = 0; d < ids.rank; d++)
        ids.extent[d] = d == axis ? 1 : draw_between(m, 1, shape.extent[d]);
    const char *table = draw_operand(m, shape, DRAWN_ANY);
    const char *index = draw_ids(m, ids, 0, shape.extent[axis] - 1);
    const char *updates = draw_operand(m, ids, DRAWN_ANY);
    set_integer(m, "axis", axis);
    put_output(m, put_node(m, type, "%s %s %s", table, index, updates));
}

const generator lookup_generators[] = {{"Gather", 7, gather, true},
                                       {"GatherElements", 11, gather_elements, true},
                                       {"GatherND", 12, gather_nd, true},
                                       {"OneHot", 11, one_hot, false},
                                       {"ScatterElements", 11, scatter_elements, true},
                                       {0}};
