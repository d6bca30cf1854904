/* Random operands and nodes. */
#include "drawn_model.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void put_note(drawn_model *m, const char *format, ...) {
    size_t used = strlen(m->text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(m->text + used, sizeof m->text - used, format, arguments);
    va_end(arguments);
}

/* ---- choices --------------------------------------------------------------------------------- */

int64_t draw_between(drawn_model *m, int64_t least, int64_t most) {
    return least + cleave_random_below(&m->random, most - least + 1);
}

double draw_number(drawn_model *m, double least, double most) {
    return least + (most - least) * cleave_random_next_uniform(&m->random);
}

bool draw_chance(drawn_model *m, double probability) {
    return cleave_random_next_uniform(&m->random) < probability;
}

drawn_shape shape_of(int rank, const int64_t *extents) {
    drawn_shape shape = {.rank = rank};
    for (int d = 0; d < rank; d++)
        shape.extent[d] = extents[d];
    return shape;
}

int64_t shape_size(drawn_shape shape) {
    int64_t size = 1;
    for (int d = 0; d < shape.rank; d++)
        size *= shape.extent[d];
    return size;
}

drawn_shape draw_shape(drawn_model *m, int least_rank, int most_rank) {
    enum { MOST_ELEMENTS = 60 };
    drawn_shape shape = {.rank = (int)draw_between(m, least_rank, most_rank)};
    int64_t size = 1;
    for (int d = 0; d < shape.rank; d++) {
        int64_t most = MOST_ELEMENTS / size < 5 ? MOST_ELEMENTS / size : 5;
        shape.extent[d] = most < 2 || draw_chance(m, 0.1) ? 1 : draw_between(m, 2, most);
        size *= shape.extent[d];
    }
    return shape;
}

drawn_shape draw_broadcast(drawn_model *m, drawn_shape shape) {
    int skip = shape.rank > 1 && draw_chance(m, 0.4) ? (int)draw_between(m, 1, shape.rank - 1) : 0;
    drawn_shape small = shape_of(shape.rank - skip, shape.extent + skip);
    for (int d = 0; d < small.rank; d++)
        if (draw_chance(m, 0.3))
            small.extent[d] = 1;
    return small;
}

int64_t draw_sign_of_axis(drawn_model *m, int64_t axis, int rank) {
    return draw_chance(m, 0.4) ? axis - rank : axis;
}

/* ---- values ---------------------------------------------------------------------------------- */

static const char *new_name(drawn_model *m, const char *letter) {
    return cleave_arena_printf(m->arena, "%s%d", letter, ++m->n_names);
}

static const char *shape_text(drawn_model *m, drawn_shape shape, const char *between) {
    const char *text = "";
    for (int d = 0; d < shape.rank; d++)
        text = cleave_arena_printf(m->arena, "%s%s%lld", text, d > 0 ? between : "",
                                   (long long)shape.extent[d]);
    return text;
}

static double draw_value(drawn_model *m, drawn_domain domain) {
    double sign = draw_chance(m, 0.5) ? 1 : -1;
    switch (domain) {
    case DRAWN_POSITIVE:
        return draw_number(m, 0.4, 2);
    case DRAWN_UNIT:
        return sign * draw_number(m, 0.1, 0.8);
    case DRAWN_OFF_GRID:
        return 0.5 * (double)draw_between(m, -4, 3) + draw_number(m, 0.1, 0.4);
    case DRAWN_ABOVE_ONE:
        return draw_number(m, 1.2, 3);
    default:
        return sign * draw_number(m, 0.15, 1.4);
    }
}

/* About equally spaced, shuffled. */
static void draw_distinct(drawn_model *m, int64_t n, float *values) {
    for (int64_t i = 0; i < n; i++)
        values[i] = (float)(3 * ((double)i + draw_number(m, 0.3, 0.7)) / (double)n - 1.5);
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t k = draw_between(m, 0, i);
        float swapped = values[i];
        values[i] = values[k];
        values[k] = swapped;
    }
}

static float *draw_values(drawn_model *m, drawn_shape shape, drawn_domain domain) {
    int64_t n = shape_size(shape);
    float *values = CLEAVE_ARENA_ARRAY(m->arena, float, n);
    for (int64_t i = 0; i < n && domain != DRAWN_DISTINCT; i++)
        values[i] = (float)draw_value(m, domain);
    if (domain == DRAWN_DISTINCT)
        draw_distinct(m, n, values);
    return values;
}

static const char *put_constant(drawn_model *m, drawn_shape shape, int type, const void *values,
                                size_t n_bytes) {
    bytes attributes;
    const char *name = new_name(m, "c");
    attributes.n = 0;
    attribute_tensor(&attributes, "value", shape.rank, shape.extent, type, values, n_bytes);
    node(&m->graph, "Constant", name, "", name, &attributes);
    return name;
}

const char *draw_constant(drawn_model *m, drawn_shape shape, drawn_domain domain) {
    const char *name = put_constant(m, shape, 1, draw_values(m, shape, domain),
                                    (size_t)shape_size(shape) * sizeof(float));
    put_note(m, "%s: constant [%s]\n", name, shape_text(m, shape, " "));
    return name;
}

const char *draw_parameter(drawn_model *m, drawn_shape shape, drawn_domain domain) {
    const char *name = new_name(m, "p");
    initializer(&m->graph, name, shape.rank, shape.extent, 1, draw_values(m, shape, domain),
                (size_t)shape_size(shape) * sizeof(float));
    put_note(m, "%s: parameter [%s]\n", name, shape_text(m, shape, " "));
    m->last = name;
    m->last_shape = shape;
    m->last_domain = domain;
    return name;
}

static const char *put_datum(drawn_model *m, drawn_shape shape, int type, const void *values) {
    const char *name = new_name(m, "x");
    if (m->n_data == DRAWN_MOST_DATA)
        abort();
    m->data[m->n_data].name = name;
    m->data[m->n_data++].values = values;
    value_info(&m->graph, 11, name, type, shape_text(m, shape, " "));
    put_note(m, "%s: data [%s]\n", name, shape_text(m, shape, " "));
    return name;
}

static int64_t *draw_integer_values(drawn_model *m, int64_t n, int64_t least, int64_t most) {
    int64_t *values = CLEAVE_ARENA_ARRAY(m->arena, int64_t, n);
    for (int64_t i = 0; i < n; i++)
        values[i] = draw_between(m, least, most);
    return values;
}

const char *draw_ids(drawn_model *m, drawn_shape shape, int64_t least, int64_t most) {
    int64_t n = shape_size(shape), *values = draw_integer_values(m, n, least, most);
    if (draw_chance(m, 0.6))
        return put_datum(m, shape, 7, values);
    const char *name = put_constant(m, shape, 7, values, (size_t)n * sizeof *values);
    put_note(m, "%s: constant integers [%s]\n", name, shape_text(m, shape, " "));
    return name;
}

const char *draw_booleans(drawn_model *m, drawn_shape shape) {
    if (draw_chance(m, 0.5))
        return put_datum(m, shape, 9, draw_integer_values(m, shape_size(shape), 0, 1));
    const char *value = draw_operand(m, shape, DRAWN_ANY), *zero = put_scalar(m, 0);
    return put_node(m, "Less", "%s %s", value, zero);
}

const char *put_list(drawn_model *m, int n, const int64_t *values) {
    const char *text = "";
    drawn_shape shape = shape_of(1, &(int64_t){n});
    const char *name = put_constant(m, shape, 7, values, (size_t)n * sizeof *values);
    for (int i = 0; i < n; i++)
        text = cleave_arena_printf(m->arena, "%s %lld", text, (long long)values[i]);
    put_note(m, "%s: integers%s\n", name, text);
    return name;
}

const char *put_scalar(drawn_model *m, double value) {
    float number = (float)value;
    const char *name = put_constant(m, (drawn_shape){0}, 1, &number, sizeof number);
    put_note(m, "%s: %g\n", name, value);
    return name;
}

const char *put_floats(drawn_model *m, int n, const float *values) {
    const char *name =
        put_constant(m, shape_of(1, &(int64_t){n}), 1, values, (size_t)n * sizeof *values);
    put_note(m, "%s: constant numbers", name);
    for (int i = 0; i < n; i++)
        put_note(m, " %g", (double)values[i]);
    put_note(m, "\n");
    return name;
}

const char *put_integer_scalar(drawn_model *m, int64_t value) {
    const char *name = put_constant(m, (drawn_shape){0}, 7, &value, sizeof value);
    put_note(m, "%s: %lld\n", name, (long long)value);
    return name;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static void note_attribute(drawn_model *m, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void note_attribute(drawn_model *m, const char *format, ...) {
    size_t used = strlen(m->attribute_text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(m->attribute_text + used, sizeof m->attribute_text - used, format, arguments);
    va_end(arguments);
}

void set_integer(drawn_model *m, const char *name, int64_t value) {
    attribute_integer(&m->attributes, name, value);
    note_attribute(m, " %s=%lld", name, (long long)value);
}

void set_number(drawn_model *m, const char *name, double value) {
    attribute_float(&m->attributes, name, (float)value);
    note_attribute(m, " %s=%g", name, value);
}

void set_text(drawn_model *m, const char *name, const char *value) {
    attribute_text(&m->attributes, name, value);
    note_attribute(m, " %s=%s", name, value);
}

void set_texts(drawn_model *m, const char *name, const char *words) {
    attribute_texts(&m->attributes, name, words);
    note_attribute(m, " %s=[%s]", name, words);
}

void set_integers(drawn_model *m, const char *name, int n, const int64_t *values) {
    attribute_integers(&m->attributes, name, n, values);
    note_attribute(m, " %s=[", name);
    for (int i = 0; i < n; i++)
        note_attribute(m, "%s%lld", i > 0 ? " " : "", (long long)values[i]);
    note_attribute(m, "]");
}

void put_node_outputs(drawn_model *m, const char *type, const char *inputs, int n,
                      const char **outputs) {
    const char *words = "";
    for (int i = 0; i < n; i++)
        words = cleave_arena_printf(m->arena, "%s%s%s", words, i > 0 ? " " : "",
                                    outputs[i] != NULL ? outputs[i] : "-");
    node(&m->graph, type, outputs[0] != NULL ? outputs[0] : new_name(m, "node"), inputs, words,
         &m->attributes);
    put_note(m, "%s = %s(%s)%s\n", words, type, inputs, m->attribute_text);
    m->attributes.n = 0;
    m->attribute_text[0] = '\0';
}

const char *put_node(drawn_model *m, const char *type, const char *inputs, ...) {
    char words[1024];
    va_list arguments;
    va_start(arguments, inputs);
    vsnprintf(words, sizeof words, inputs, arguments);
    va_end(arguments);
    const char *name = new_name(m, "y");
    put_node_outputs(m, type, words, 1, &name);
    return name;
}

const char *put_reshape(drawn_model *m, const char *value, drawn_shape shape) {
    const char *list = put_list(m, shape.rank, shape.extent);
    return put_node(m, "Reshape", "%s %s", value, list);
}

const char *put_slice(drawn_model *m, const char *value, int rank, const int64_t *starts,
                      const int64_t *ends, const int64_t *steps) {
    if (m->opset < 10) {
        set_integers(m, "starts", rank, starts);
        set_integers(m, "ends", rank, ends);
        return put_node(m, "Slice", "%s", value);
    }
    const char *from = put_list(m, rank, starts), *to = put_list(m, rank, ends);
    if (steps == NULL)
        return put_node(m, "Slice", "%s %s %s", value, from, to);
    const char *by = put_list(m, rank, steps);
    return put_node(m, "Slice", "%s %s %s - %s", value, from, to, by);
}

static void add_output(drawn_model *m, const char *name, bool is_float) {
    if (m->n_outputs == DRAWN_MOST_OUTPUTS)
        abort();
    m->outputs[m->n_outputs].name = name;
    m->outputs[m->n_outputs++].is_float = is_float;
}

void put_output(drawn_model *m, const char *name) { add_output(m, name, true); }
void put_discrete_output(drawn_model *m, const char *name) { add_output(m, name, false); }

/* ---- operands -------------------------------------------------------------------------------- */

void draw_permutation(drawn_model *m, int rank, int64_t *permutation) {
    for (int d = 0; d < rank; d++)
        permutation[d] = d;
    for (int d = rank - 1; d > 0; d--) {
        int64_t k = draw_between(m, 0, d), swapped = permutation[d];
        permutation[d] = permutation[k];
        permutation[k] = swapped;
    }
}

static const char *transposed(drawn_model *m, drawn_shape shape, drawn_domain domain) {
    int64_t permutation[CLEAVE_MAX_RANK];
    drawn_shape from = {.rank = shape.rank};
    draw_permutation(m, shape.rank, permutation);
    for (int d = 0; d < shape.rank; d++)
        from.extent[permutation[d]] = shape.extent[d];
    const char *value = draw_parameter(m, from, domain);
    set_integers(m, "perm", shape.rank, permutation);
    return put_node(m, "Transpose", "%s", value);
}

static const char *sliced(drawn_model *m, drawn_shape shape, drawn_domain domain) {
    drawn_shape from = shape;
    int64_t starts[CLEAVE_MAX_RANK], ends[CLEAVE_MAX_RANK];
    for (int d = 0; d < shape.rank; d++) {
        starts[d] = draw_between(m, 0, 1);
        ends[d] = starts[d] + shape.extent[d];
        from.extent[d] = ends[d] + draw_between(m, 0, 1);
    }
    return put_slice(m, draw_parameter(m, from, domain), shape.rank, starts, ends, NULL);
}

static const char *concatenated(drawn_model *m, drawn_shape shape, drawn_domain domain) {
    drawn_shape first = shape, second = shape;
    int axis = (int)draw_between(m, 0, shape.rank - 1);
    if (shape.extent[axis] < 2)
        return draw_parameter(m, shape, domain);
    first.extent[axis] = draw_between(m, 1, shape.extent[axis] - 1);
    second.extent[axis] -= first.extent[axis];
    const char *a = draw_parameter(m, first, domain), *b = draw_parameter(m, second, domain);
    set_integer(m, "axis", axis);
    return put_node(m, "Concat", "%s %s", a, b);
}

/* Element-wise, into the domain. */
static const char *calculated(drawn_model *m, drawn_shape shape, drawn_domain domain) {
    const char *a = draw_parameter(m, shape, domain == DRAWN_DISTINCT ? domain : DRAWN_UNIT);
    switch (domain) {
    case DRAWN_ANY: {
        const char *b = draw_parameter(m, draw_broadcast(m, shape), DRAWN_POSITIVE);
        return put_node(m, "Mul", "%s %s", a, b);
    }
    case DRAWN_POSITIVE:
        return put_node(m, "Exp", "%s", a);
    case DRAWN_UNIT:
        return put_node(m, "Tanh", "%s", a);
    case DRAWN_DISTINCT:
        return put_node(m, "Mul", "%s %s", a, put_scalar(m, 1.5));
    default:
        return draw_parameter(m, shape, domain);
    }
}

static const char *multiplied(drawn_model *m, drawn_shape shape) {
    int64_t rows = shape.extent[0], columns = shape_size(shape) / rows,
            summed = draw_between(m, 1, 4);
    const char *a = draw_parameter(m, shape_of(2, (int64_t[]){rows, summed}), DRAWN_ANY);
    const char *b = draw_parameter(m, shape_of(2, (int64_t[]){summed, columns}), DRAWN_ANY);
    const char *product = put_node(m, "MatMul", "%s %s", a, b);
    return shape.rank == 2 ? product : put_reshape(m, product, shape);
}

static const char *computed(drawn_model *m, drawn_shape shape, drawn_domain domain) {
    switch (draw_between(m, 0, domain == DRAWN_ANY ? 6 : 5)) {
    case 0:
        return transposed(m, shape, domain);
    case 1:
        return sliced(m, shape, domain);
    case 2:
        return concatenated(m, shape, domain);
    case 3: {
        drawn_shape flat = shape_of(1, (int64_t[]){shape_size(shape)});
        return put_reshape(m, draw_parameter(m, flat, domain), shape);
    }
    case 6:
        return multiplied(m, shape);
    default:
        return calculated(m, shape, domain);
    }
}

/* The source, repeated and cut to as many elements as are needed. */
static const char *from_source(drawn_model *m, drawn_shape shape) {
    int64_t size = shape_size(shape), there = m->source_size, flat[] = {-1};
    const char *value = put_reshape(m, m->source, shape_of(1, flat)), *words = value;
    m->source = NULL;
    for (; there < size; there += m->source_size)
        words = cleave_arena_printf(m->arena, "%s %s", words, value);
    if (words != value) {
        set_integer(m, "axis", 0);
        value = put_node(m, "Concat", "%s", words);
    }
    if (there > size)
        value = put_slice(m, value, 1, (int64_t[]){there - size}, &there, NULL);
    return put_reshape(m, value, shape);
}

static bool same_shape(drawn_shape a, drawn_shape b) {
    bool same = a.rank == b.rank;
    for (int d = 0; same && d < a.rank; d++)
        same = a.extent[d] == b.extent[d];
    return same;
}

const char *draw_operand(drawn_model *m, drawn_shape shape, drawn_domain domain) {
    enum { MOST_COPIES = 12 };
    if (m->source != NULL && domain == DRAWN_ANY && shape.rank > 0 &&
        shape_size(shape) <= MOST_COPIES * m->source_size)
        return from_source(m, shape);
    double choice = draw_number(m, 0, 1);
    if (choice < 0.1 || shape.rank == 0)
        return draw_constant(m, shape, domain);
    if (choice < 0.2)
        return put_datum(m, shape, 1, draw_values(m, shape, domain));
    if (choice < 0.5 && !m->plain)
        return computed(m, shape, domain);
    if (choice < 0.6 && m->last != NULL && m->last_domain == domain &&
        same_shape(m->last_shape, shape))
        return m->last;
    return draw_parameter(m, shape, domain);
}
