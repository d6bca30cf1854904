/* A message of the format is a row of fields: a tag, which is the field's number in onnx.proto and
   a kind, and what it holds.  Kind 0 is a varint, 5 four bytes, 2 a length and as many bytes:
   texts, lists and messages.  A message is put together in a buffer of its own and then copied into
   the one around it, so that its length is known; the deepest ones, tensors, are copied five times.
 */
#include "graph/import/onnx/onnx_encode.h"

#include "base/list.h"

#include <stdlib.h>
#include <string.h>

enum { VARINT = 0, DELIMITED = 2, FOUR_BYTES = 5 };

typedef struct buffer {
    char *data;
    size_t n, capacity;
    bool failed;
} buffer;

/* ---- fields ---------------------------------------------------------------------------------- */

static void put_raw(buffer *b, const void *data, size_t n) {
    b->failed = b->failed || !cleave_bytes_reserve(&b->data, &b->capacity, b->n + n);
    if (b->failed || n == 0)
        return;
    memcpy(b->data + b->n, data, n);
    b->n += n;
}

static void put_varint(buffer *b, uint64_t value) {
    unsigned char bytes[10];
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        bytes[n++] = (unsigned char)(value | 0x80);
    bytes[n++] = (unsigned char)value;
    put_raw(b, bytes, n);
}

static void put_tag(buffer *b, unsigned field, unsigned kind) { put_varint(b, field << 3 | kind); }

static void put_integer(buffer *b, unsigned field, int64_t value) {
    put_tag(b, field, VARINT);
    put_varint(b, (uint64_t)value);
}

static void put_float(buffer *b, unsigned field, float value) {
    put_tag(b, field, FOUR_BYTES);
    put_raw(b, &value, sizeof value);
}

static void put_bytes(buffer *b, unsigned field, const void *data, size_t n) {
    put_tag(b, field, DELIMITED);
    put_varint(b, n);
    put_raw(b, data, n);
}

static void put_text(buffer *b, unsigned field, const char *text) {
    put_bytes(b, field, text, strlen(text));
}

/* Puts a finished message into the one around it and gives its memory back. */
static void put_message(buffer *b, unsigned field, buffer *message) {
    put_bytes(b, field, message->data, message->n);
    b->failed = b->failed || message->failed;
    free(message->data);
}

/* ---- messages -------------------------------------------------------------------------------- */

static void put_elements(buffer *b, const cleave_onnx_tensor *tensor) {
    enum { FLOAT_DATA = 4, INT32_DATA = 5, INT64_DATA = 7, RAW_DATA = 9, DOUBLE_DATA = 10 };
    buffer list = {0};
    if (tensor->type == CLEAVE_ONNX_FLOAT) {
        put_bytes(b, RAW_DATA, tensor->floats, (size_t)tensor->n * sizeof *tensor->floats);
        return;
    }
    if (tensor->type == CLEAVE_ONNX_DOUBLE) {
        for (int64_t i = 0; i < tensor->n; i++)
            put_raw(&list, &(double){(double)tensor->floats[i]}, sizeof(double));
        put_message(b, DOUBLE_DATA, &list);
        return;
    }
    for (int64_t i = 0; i < tensor->n; i++)
        put_varint(&list, (uint64_t)tensor->integers[i]);
    put_message(b, tensor->type == CLEAVE_ONNX_INT64 ? INT64_DATA : INT32_DATA, &list);
}

static void put_tensor(buffer *b, unsigned field, const cleave_onnx_tensor *tensor) {
    enum { DIMS = 1, DATA_TYPE = 2, NAME = 8 };
    buffer message = {0};
    for (int d = 0; d < tensor->rank; d++)
        put_integer(&message, DIMS, tensor->shape[d]);
    put_integer(&message, DATA_TYPE, tensor->type);
    if (tensor->name[0] != '\0')
        put_text(&message, NAME, tensor->name);
    put_elements(&message, tensor);
    put_message(b, field, &message);
}

static void put_attribute(buffer *b, unsigned field, const cleave_onnx_attribute *attribute) {
    enum { NAME = 1, F = 2, I = 3, S = 4, T = 5, FLOATS = 7, INTS = 8, STRINGS = 9, TYPE = 20 };
    static const int64_t types[] = {
        [CLEAVE_ONNX_ATTRIBUTE_FLOAT] = 1,   [CLEAVE_ONNX_ATTRIBUTE_INTEGER] = 2,
        [CLEAVE_ONNX_ATTRIBUTE_STRING] = 3,  [CLEAVE_ONNX_ATTRIBUTE_TENSOR] = 4,
        [CLEAVE_ONNX_ATTRIBUTE_FLOATS] = 6,  [CLEAVE_ONNX_ATTRIBUTE_INTEGERS] = 7,
        [CLEAVE_ONNX_ATTRIBUTE_STRINGS] = 8, [CLEAVE_ONNX_ATTRIBUTE_OTHER] = 0};
    buffer message = {0};
    put_text(&message, NAME, attribute->name);
    put_integer(&message, TYPE, types[attribute->kind]);
    if (attribute->kind == CLEAVE_ONNX_ATTRIBUTE_FLOAT)
        put_float(&message, F, attribute->number);
    if (attribute->kind == CLEAVE_ONNX_ATTRIBUTE_INTEGER)
        put_integer(&message, I, attribute->integer);
    if (attribute->kind == CLEAVE_ONNX_ATTRIBUTE_STRING)
        put_text(&message, S, attribute->string);
    if (attribute->kind == CLEAVE_ONNX_ATTRIBUTE_TENSOR)
        put_tensor(&message, T, attribute->tensor);
    for (int32_t i = 0; i < attribute->n; i++) {
        if (attribute->kind == CLEAVE_ONNX_ATTRIBUTE_FLOATS)
            put_float(&message, FLOATS, attribute->numbers[i]);
        if (attribute->kind == CLEAVE_ONNX_ATTRIBUTE_INTEGERS)
            put_integer(&message, INTS, attribute->integers[i]);
        if (attribute->kind == CLEAVE_ONNX_ATTRIBUTE_STRINGS)
            put_text(&message, STRINGS, attribute->strings[i]);
    }
    put_message(b, field, &message);
}

static void put_node(buffer *b, unsigned field, const cleave_onnx_node *node) {
    enum { INPUT = 1, OUTPUT = 2, NAME = 3, OP_TYPE = 4, ATTRIBUTE = 5, DOMAIN = 7 };
    buffer message = {0};
    for (int32_t i = 0; i < node->n_inputs; i++)
        put_text(&message, INPUT, node->inputs[i]);
    for (int32_t i = 0; i < node->n_outputs; i++)
        put_text(&message, OUTPUT, node->outputs[i]);
    put_text(&message, NAME, node->name);
    put_text(&message, OP_TYPE, node->type);
    for (int32_t i = 0; i < node->n_attributes; i++)
        put_attribute(&message, ATTRIBUTE, &node->attributes[i]);
    if (node->domain[0] != '\0')
        put_text(&message, DOMAIN, node->domain);
    put_message(b, field, &message);
}

/* A value is a name and a type; the type a tensor's; that an element type and a shape. */
static void put_value(buffer *b, unsigned field, const cleave_onnx_value *value) {
    enum { NAME = 1, TYPE = 2, TENSOR_TYPE = 1, ELEMENT = 1, SHAPE = 2, DIMENSION = 1 };
    enum { DIM_VALUE = 1, DIM_PARAM = 2 };
    buffer message = {0}, type = {0}, tensor = {0}, shape = {0};
    for (int d = 0; value->has_shape && d < value->rank; d++) {
        buffer dimension = {0};
        if (value->symbols[d] != NULL)
            put_text(&dimension, DIM_PARAM, value->symbols[d]);
        else
            put_integer(&dimension, DIM_VALUE, value->shape[d]);
        put_message(&shape, DIMENSION, &dimension);
    }
    put_integer(&tensor, ELEMENT, value->type);
    if (value->has_shape)
        put_message(&tensor, SHAPE, &shape);
    put_message(&type, TENSOR_TYPE, &tensor);
    put_text(&message, NAME, value->name);
    put_message(&message, TYPE, &type);
    put_message(b, field, &message);
}

cleave_status cleave_onnx_encode(const cleave_onnx_graph *graph, cleave_arena *arena,
                                 const char **data, size_t *bytes, cleave_error *error) {
    enum { NODE = 1, NAME = 2, INITIALIZER = 5, INPUT = 11, OUTPUT = 12 };
    enum { IR_VERSION = 1, PRODUCER = 2, GRAPH = 7, OPSET = 8, VERSION = 2, LATEST_IR = 9 };
    buffer body = {0}, set = {0}, model = {0};
    for (int32_t i = 0; i < graph->n_nodes; i++)
        put_node(&body, NODE, &graph->nodes[i]);
    put_text(&body, NAME, "graph");
    for (int32_t i = 0; i < graph->n_initializers; i++)
        put_tensor(&body, INITIALIZER, &graph->initializers[i]);
    for (int32_t i = 0; i < graph->n_inputs; i++)
        put_value(&body, INPUT, &graph->inputs[i]);
    for (int32_t i = 0; i < graph->n_outputs; i++)
        put_value(&body, OUTPUT, &graph->outputs[i]);
    put_integer(&set, VERSION, graph->opset);
    put_integer(&model, IR_VERSION, LATEST_IR);
    put_text(&model, PRODUCER, "cleave");
    put_message(&model, GRAPH, &body);
    put_message(&model, OPSET, &set);
    if (model.failed || !cleave_arena_adopt(arena, model.data, model.n)) {
        free(model.data);
        return cleave_fail_memory(error, "writing an ONNX model");
    }
    *data = model.data;
    *bytes = model.n;
    return CLEAVE_OK;
}
