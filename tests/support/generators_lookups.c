/* Look-ups by ids. */
#include "generators.h"

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

/* Sides of as many pixels that all centres, and the clipped ends, are multiples of a half. */
static void grid_sample(drawn_model *m, const char *type) {
    const bool aligns = draw_chance(m, 0.5);
    const int64_t least = aligns ? 2 : 1, samples = draw_between(m, 1, 2);
    const int64_t image[] = {samples, draw_between(m, 1, 2), draw_between(m, least, least + 1),
                             draw_between(m, least, least + 1)};
    const int64_t grid[] = {samples, draw_between(m, 1, 3), draw_between(m, 1, 3), 2};
    const char *x = draw_operand(m, shape_of(4, image), DRAWN_ANY);
    const char *places = draw_operand(m, shape_of(4, grid), DRAWN_OFF_GRID);
    if (aligns)
        set_integer(m, "align_corners", 1);
    if (draw_chance(m, 0.3))
        set_text(m, "padding_mode", "border");
    put_output(m, put_node(m, type, "%s %s", x, places));
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

/* Different constant places for all updates. */
static void scatter_elements(drawn_model *m, const char *type) {
    drawn_shape shape = draw_shape(m, 1, 1);
    int64_t extent = shape.extent[0], n = draw_between(m, 1, extent), ids[CLEAVE_MAX_RANK],
            first = draw_between(m, 0, extent - 1);
    for (int64_t i = 0; i < n; i++)
        ids[i] = (first + i) % extent;
    const char *table = draw_operand(m, shape, DRAWN_ANY);
    const char *updates = draw_operand(m, shape_of(1, &n), DRAWN_ANY);
    const char *index = put_list(m, (int)n, ids);
    if (draw_chance(m, 0.5))
        set_integer(m, "axis", 0);
    put_output(m, put_node(m, type, "%s %s %s", table, index, updates));
}

static void compress(drawn_model *m, const char *type) {
    drawn_shape shape = draw_shape(m, 1, 3);
    int axis = (int)draw_between(m, 0, shape.rank - 1);
    int64_t extent = shape.extent[axis];
    bool kept[8] = {false};
    kept[draw_between(m, 0, extent - 1)] = true;
    for (int64_t i = 0; i < extent; i++)
        kept[i] = kept[i] || draw_chance(m, 0.5);
    const char *x = draw_operand(m, shape, DRAWN_ANY);
    bytes attributes;
    attributes.n = 0;
    attribute_tensor(&attributes, "value", 1, &extent, 9, kept, (size_t)extent);
    const char *name = cleave_arena_printf(m->arena, "kept%d", ++m->n_names);
    node(&m->graph, "Constant", name, "", name, &attributes);
    set_integer(m, "axis", axis);
    put_output(m, put_node(m, type, "%s %s", x, name));
}

static void reverse_sequence(drawn_model *m, const char *type) {
    drawn_shape shape = draw_shape(m, 2, 3);
    int64_t lengths[8];
    bool batch_first = draw_chance(m, 0.5);
    for (int64_t i = 0; i < shape.extent[batch_first ? 0 : 1]; i++)
        lengths[i] = draw_between(m, 1, shape.extent[batch_first ? 1 : 0]);
    const char *x = draw_operand(m, shape, DRAWN_ANY);
    const char *list = put_list(m, (int)shape.extent[batch_first ? 0 : 1], lengths);
    set_integer(m, "batch_axis", batch_first ? 0 : 1);
    set_integer(m, "time_axis", batch_first ? 1 : 0);
    put_output(m, put_node(m, type, "%s %s", x, list));
}

static void scatter_nd(drawn_model *m, const char *type) {
    drawn_shape shape = draw_shape(m, 1, 3), rows = shape;
    int64_t extent = shape.extent[0], n = draw_between(m, 1, extent), ids[8],
            first = draw_between(m, 0, extent - 1);
    for (int64_t i = 0; i < n; i++)
        ids[i] = (first + i) % extent;
    rows.extent[0] = n;
    const char *table = draw_operand(m, shape, DRAWN_ANY);
    const char *updates = draw_operand(m, rows, DRAWN_ANY);
    const char *index = put_reshape(m, put_list(m, (int)n, ids), shape_of(2, (int64_t[]){n, 1}));
    put_output(m, put_node(m, type, "%s %s %s", table, index, updates));
}

static void top_k(drawn_model *m, const char *type) {
    drawn_shape shape = draw_shape(m, 1, 3);
    int axis = (int)draw_between(m, 0, shape.rank - 1);
    const char *outputs[] = {cleave_arena_printf(m->arena, "y%d", ++m->n_names),
                             cleave_arena_printf(m->arena, "y%d", ++m->n_names)};
    const char *x = draw_operand(m, shape, DRAWN_ANY);
    int64_t k = draw_between(m, 1, shape.extent[axis]);
    const char *count = put_list(m, 1, &k);
    set_integer(m, "axis", draw_sign_of_axis(m, axis, shape.rank));
    set_integer(m, "largest", draw_chance(m, 0.5));
    put_node_outputs(m, type, cleave_arena_printf(m->arena, "%s %s", x, count), 2, outputs);
    put_output(m, outputs[0]);
    put_discrete_output(m, outputs[1]);
}

static void route(drawn_model *m, const char *type) {
    int64_t experts = draw_between(m, 1, 4), shape[3] = {2, draw_between(m, 1, 5), 0};
    shape[2] = draw_between(m, 1, experts);
    const char *outputs[] = {cleave_arena_printf(m->arena, "y%d", ++m->n_names),
                             cleave_arena_printf(m->arena, "y%d", ++m->n_names)};
    const char *choices = draw_ids(m, shape_of(3, shape), 0, experts - 1);
    set_integer(m, "experts", experts);
    set_integer(m, "capacity", draw_between(m, 1, shape[1]));
    put_node_outputs(m, type, choices, 2, outputs);
    put_discrete_output(m, outputs[0]);
    put_discrete_output(m, outputs[1]);
}

const generator lookup_generators[] = {{"Compress", 9, compress, true},
                                       {"Gather", 7, gather, true},
                                       {"GatherElements", 11, gather_elements, true},
                                       {"GatherND", 12, gather_nd, true},
                                       {"GridSample", 16, grid_sample, false},
                                       {"OneHot", 11, one_hot, false},
                                       {"ReverseSequence", 10, reverse_sequence, true},
                                       {"Route", 11, route, false},
                                       {"Scatter", 9, scatter_elements, true},
                                       {"ScatterElements", 11, scatter_elements, true},
                                       {"ScatterND", 11, scatter_nd, true},
                                       {"TopK", 10, top_k, false},
                                       {0}};
