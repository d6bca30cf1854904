#include "graph/import/config/compose.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void *allocate(cleave_composer *c, int64_t count, size_t size) {
    void *memory = c->failed ? NULL : cleave_arena_alloc(c->arena, (size_t)count, size);
    c->failed = c->failed || memory == NULL;
    return memory;
}

static void *copy(cleave_composer *c, const void *from, int64_t count, size_t size) {
    void *memory = allocate(c, count, size);
    if (memory != NULL && count > 0)
        memcpy(memory, from, (size_t)count * size);
    return memory;
}

const char *cleave_compose_name(cleave_composer *c, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof text)
        c->failed = true;
    return copy(c, text, c->failed ? 0 : length + 1, 1);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

const char *cleave_compose_node(cleave_composer *c, const char *type, const char *name,
                                int32_t n_inputs, const char *const *inputs) {
    if (c->again != NULL && name != NULL)
        name = cleave_compose_name(c, "%s%s", name, c->again);
    const char **names = copy(c, inputs, n_inputs, sizeof *names);
    const char **output = copy(c, &name, 1, sizeof *output);
    if (c->failed || name == NULL)
        return NULL;
    for (int32_t i = 0; i < n_inputs; i++)
        names[i] = names[i] != NULL ? names[i] : "";
    const cleave_onnx_node node = {.name = name,
                                   .type = type,
                                   .domain = "",
                                   .n_inputs = n_inputs,
                                   .n_outputs = 1,
                                   .inputs = names,
                                   .outputs = output};
    if (!CLEAVE_LIST_PUSH(&c->nodes, node))
        c->failed = true;
    return c->failed ? NULL : name;
}

const char *cleave_compose_output(cleave_composer *c, const char *name) {
    if (c->failed || c->nodes.n == 0)
        return NULL;
    cleave_onnx_node *node = &c->nodes.items[c->nodes.n - 1];
    const char **longer = allocate(c, node->n_outputs + 1, sizeof *longer);
    if (longer == NULL || name == NULL)
        return NULL;
    for (int32_t i = 0; i < node->n_outputs; i++)
        longer[i] = node->outputs[i];
    longer[node->n_outputs++] = name;
    node->outputs = longer;
    return name;
}

void cleave_compose_as_own(cleave_composer *c) {
    if (!c->failed && c->nodes.n > 0)
        c->nodes.items[c->nodes.n - 1].domain = CLEAVE_OWN_DOMAIN;
}

static void add_attribute(cleave_composer *c, cleave_onnx_attribute attribute) {
    if (c->failed || c->nodes.n == 0)
        return;
    cleave_onnx_node *node = &c->nodes.items[c->nodes.n - 1];
    cleave_onnx_attribute *longer = allocate(c, node->n_attributes + 1, sizeof *longer);
    if (longer == NULL)
        return;
    for (int32_t i = 0; i < node->n_attributes; i++)
        longer[i] = node->attributes[i];
    longer[node->n_attributes++] = attribute;
    node->attributes = longer;
}

void cleave_compose_integer(cleave_composer *c, const char *attribute, int64_t value) {
    add_attribute(c, (cleave_onnx_attribute){.name = attribute,
                                             .kind = CLEAVE_ONNX_ATTRIBUTE_INTEGER,
                                             .integer = value,
                                             .string = ""});
}

void cleave_compose_number(cleave_composer *c, const char *attribute, double value) {
    add_attribute(c, (cleave_onnx_attribute){.name = attribute,
                                             .kind = CLEAVE_ONNX_ATTRIBUTE_FLOAT,
                                             .number = (float)value,
                                             .string = ""});
}

void cleave_compose_text(cleave_composer *c, const char *attribute, const char *value) {
    add_attribute(c, (cleave_onnx_attribute){
                         .name = attribute, .kind = CLEAVE_ONNX_ATTRIBUTE_STRING, .string = value});
}

void cleave_compose_integers(cleave_composer *c, const char *attribute, int32_t n,
                             const int64_t *values) {
    add_attribute(c, (cleave_onnx_attribute){.name = attribute,
                                             .kind = CLEAVE_ONNX_ATTRIBUTE_INTEGERS,
                                             .string = "",
                                             .n = n,
                                             .integers = copy(c, values, n, sizeof *values)});
}

/* ---- inputs and constants -------------------------------------------------------------------- */

static const char *add_input(cleave_composer *c, const cleave_onnx_value *value) {
    if (!c->failed && !CLEAVE_LIST_PUSH(&c->inputs, *value))
        c->failed = true;
    return c->failed ? NULL : value->name;
}

static cleave_onnx_value of_fixed_shape(const char *name, int rank, const int64_t *shape) {
    cleave_onnx_value value = {
        .name = name, .type = CLEAVE_ONNX_FLOAT, .has_shape = true, .rank = rank};
    memcpy(value.shape, shape, (size_t)rank * sizeof *shape);
    return value;
}

const char *cleave_compose_parameter(cleave_composer *c, const char *name, int rank,
                                     const int64_t *shape) {
    const cleave_onnx_value value = of_fixed_shape(name, rank, shape);
    for (int32_t i = 0; c->again != NULL && name != NULL && i < c->inputs.n; i++)
        if (strcmp(c->inputs.items[i].name, name) == 0)
            return c->inputs.items[i].name;
    return add_input(c, &value);
}

const char *cleave_compose_kept(cleave_composer *c, const char *name, int rank,
                                const int64_t *shape) {
    cleave_onnx_value value = of_fixed_shape(name, rank, shape);
    value.is_kept = true;
    return add_input(c, &value);
}

static cleave_onnx_value with_batch(const char *name, int32_t type, int rank,
                                    const int64_t *shape) {
    cleave_onnx_value value = {.name = name,
                               .type = type,
                               .has_shape = true,
                               .rank = rank + 1,
                               .shape = {-1},
                               .symbols = {"batch"}};
    memcpy(value.shape + 1, shape, (size_t)rank * sizeof *shape);
    return value;
}

const char *cleave_compose_data(cleave_composer *c, const char *name, int32_t type, int rank,
                                const int64_t *shape) {
    const cleave_onnx_value value = with_batch(name, type, rank, shape);
    return add_input(c, &value);
}

static const char *add_constant(cleave_composer *c, const char *name, cleave_onnx_tensor tensor,
                                int rank, const int64_t *shape) {
    tensor.name = "";
    tensor.rank = rank;
    tensor.n = 1;
    for (int d = 0; d < rank; d++)
        tensor.n *= tensor.shape[d] = shape[d];
    cleave_onnx_attribute value = {
        .name = "value", .kind = CLEAVE_ONNX_ATTRIBUTE_TENSOR, .string = ""};
    const char *made = cleave_compose_node(c, "Constant", name, 0, NULL);
    value.tensor = copy(c, &tensor, 1, sizeof tensor);
    add_attribute(c, value);
    return made;
}

const char *cleave_compose_floats(cleave_composer *c, const char *name, int rank,
                                  const int64_t *shape, const float *values) {
    const cleave_onnx_tensor tensor = {.type = CLEAVE_ONNX_FLOAT, .floats = values};
    return add_constant(c, name, tensor, rank, shape);
}

const char *cleave_compose_ids(cleave_composer *c, const char *name, int rank, const int64_t *shape,
                               const int64_t *values) {
    const cleave_onnx_tensor tensor = {.type = CLEAVE_ONNX_INT64, .integers = values};
    return add_constant(c, name, tensor, rank, shape);
}

const char *cleave_compose_scalar(cleave_composer *c, const char *name, double value) {
    const float number = (float)value;
    return cleave_compose_floats(c, name, 0, NULL, copy(c, &number, 1, sizeof number));
}

/* A list of integers as the constant NAME.WHAT. */
static const char *list_of(cleave_composer *c, const char *name, const char *what, int64_t n,
                           const int64_t *values) {
    const char *constant = name != NULL ? cleave_compose_name(c, "%s.%s", name, what) : NULL;
    return cleave_compose_ids(c, constant, 1, &n, copy(c, values, n, sizeof *values));
}

/* ---- views ----------------------------------------------------------------------------------- */

const char *cleave_compose_reshape(cleave_composer *c, const char *name, const char *x, int rank,
                                   const int64_t *shape) {
    return CLEAVE_COMPOSE(c, "Reshape", name, x, list_of(c, name, "shape", rank, shape));
}

const char *cleave_compose_transpose(cleave_composer *c, const char *name, const char *x, int rank,
                                     const int64_t *permutation) {
    const char *made = CLEAVE_COMPOSE(c, "Transpose", name, x);
    cleave_compose_integers(c, "perm", rank, permutation);
    return made;
}

const char *cleave_compose_slice(cleave_composer *c, const char *name, const char *x, int64_t axis,
                                 int64_t begin, int64_t end) {
    const char *starts = list_of(c, name, "starts", 1, &begin);
    const char *ends = list_of(c, name, "ends", 1, &end);
    return CLEAVE_COMPOSE(c, "Slice", name, x, starts, ends, list_of(c, name, "axes", 1, &axis));
}

const char *cleave_compose_concat(cleave_composer *c, const char *name, int64_t axis, const char *a,
                                  const char *b) {
    const char *made = CLEAVE_COMPOSE(c, "Concat", name, a, b);
    cleave_compose_integer(c, "axis", axis);
    return made;
}

/* ---- the graph ------------------------------------------------------------------------------- */

cleave_status cleave_compose_finish(cleave_composer *c, const char *output, int rank,
                                    const int64_t *shape, cleave_onnx_graph *graph) {
    const cleave_onnx_value value = with_batch(output, CLEAVE_ONNX_FLOAT, rank, shape);
    const cleave_onnx_graph made = {
        .opset = CLEAVE_COMPOSED_OPERATOR_SET,
        .n_nodes = c->nodes.n,
        .n_inputs = c->inputs.n,
        .n_outputs = 1,
        .nodes = copy(c, c->nodes.items, c->nodes.n, sizeof *made.nodes),
        .initializers = allocate(c, 0, 1),
        .inputs = copy(c, c->inputs.items, c->inputs.n, sizeof *made.inputs),
        .outputs = copy(c, &value, 1, sizeof value)};
    CLEAVE_LIST_FREE(&c->nodes);
    CLEAVE_LIST_FREE(&c->inputs);
    if (c->failed || output == NULL)
        return cleave_fail_memory(c->error, "putting a model together");
    *graph = made;
    return CLEAVE_OK;
}
