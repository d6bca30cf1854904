/* ONNX files byte by byte. */
#include "onnx_writer.h"

#include <stdlib.h>
#include <string.h>

void put_raw(bytes *b, const void *data, size_t n) {
    if (n > sizeof b->data - b->n)
        abort();
    if (n > 0)
        memcpy(b->data + b->n, data, n);
    b->n += n;
}

static void put_byte(bytes *b, uint64_t value) {
    uint8_t byte = (uint8_t)value;
    put_raw(b, &byte, 1);
}

void put_varint(bytes *b, uint64_t value) {
    for (; value >= 0x80; value >>= 7)
        put_byte(b, value | 0x80);
    put_byte(b, value);
}

void put_integer(bytes *b, unsigned field, int64_t value) {
    put_varint(b, field << 3);
    put_varint(b, (uint64_t)value);
}

void put_data(bytes *b, unsigned field, const void *data, size_t n) {
    put_varint(b, field << 3 | 2);
    put_varint(b, n);
    put_raw(b, data, n);
}

void put_text(bytes *b, unsigned field, const char *text) {
    put_data(b, field, text, strlen(text));
}

void put_message(bytes *b, unsigned field, const bytes *message) {
    put_data(b, field, message->data, message->n);
}

void put_words(bytes *b, unsigned field, const char *words) {
    while (*words != '\0') {
        size_t n = strcspn(words, " ");
        put_data(b, field, words, n == 1 && *words == '-' ? 0 : n);
        words += n + (words[n] == ' ');
    }
}

static void put_float(bytes *b, unsigned field, float value) {
    put_varint(b, field << 3 | 5);
    put_raw(b, &value, sizeof value);
}

/* ---- attributes: AttributeProto is name 1, f 2, i 3, s 4, t 5, floats 7, ints 8, strings 9,
   type 20 ---- */

enum {
    FLOAT_KIND = 1,
    INTEGER_KIND,
    TEXT_KIND,
    TENSOR_KIND,
    GRAPH_KIND,
    FLOATS_KIND = 6,
    INTEGERS_KIND,
    TEXTS_KIND
};

static bytes begin_attribute(const char *name) {
    bytes a;
    a.n = 0;
    put_text(&a, 1, name);
    return a;
}

static void end_attribute(bytes *attributes, bytes *attribute, int kind) {
    put_integer(attribute, 20, kind);
    put_message(attributes, 5, attribute);
}

void attribute_integer(bytes *attributes, const char *name, int64_t value) {
    bytes a = begin_attribute(name);
    put_integer(&a, 3, value);
    end_attribute(attributes, &a, INTEGER_KIND);
}

void attribute_float(bytes *attributes, const char *name, float value) {
    bytes a = begin_attribute(name);
    put_float(&a, 2, value);
    end_attribute(attributes, &a, FLOAT_KIND);
}

void attribute_text(bytes *attributes, const char *name, const char *value) {
    bytes a = begin_attribute(name);
    put_text(&a, 4, value);
    end_attribute(attributes, &a, TEXT_KIND);
}

void attribute_integers(bytes *attributes, const char *name, int n, const int64_t *values) {
    bytes a = begin_attribute(name);
    for (int i = 0; i < n; i++)
        put_integer(&a, 8, values[i]);
    end_attribute(attributes, &a, INTEGERS_KIND);
}

void attribute_floats(bytes *attributes, const char *name, int n, const float *values) {
    bytes a = begin_attribute(name);
    for (int i = 0; i < n; i++)
        put_float(&a, 7, values[i]);
    end_attribute(attributes, &a, FLOATS_KIND);
}

void attribute_texts(bytes *attributes, const char *name, const char *words) {
    bytes a = begin_attribute(name);
    put_words(&a, 9, words);
    end_attribute(attributes, &a, TEXTS_KIND);
}

void attribute_graph(bytes *attributes, const char *name, const bytes *graph) {
    bytes a = begin_attribute(name);
    put_message(&a, 6, graph);
    end_attribute(attributes, &a, GRAPH_KIND);
}

/* TensorProto: dims 1, data_type 2, name 8, raw_data 9. */
static bytes tensor_message(const char *name, int rank, const int64_t *shape, int type,
                            const void *values, size_t n_bytes) {
    bytes b;
    b.n = 0;
    for (int d = 0; d < rank; d++)
        put_integer(&b, 1, shape[d]);
    put_integer(&b, 2, type);
    put_text(&b, 8, name);
    put_data(&b, 9, values, n_bytes);
    return b;
}

void attribute_tensor(bytes *attributes, const char *name, int rank, const int64_t *shape, int type,
                      const void *values, size_t n_bytes) {
    bytes a = begin_attribute(name),
          tensor = tensor_message("", rank, shape, type, values, n_bytes);
    put_message(&a, 5, &tensor);
    end_attribute(attributes, &a, TENSOR_KIND);
}

/* ---- the graph ------------------------------------------------------------------------------- */

/* NodeProto: input 1, output 2, name 3, op_type 4, attribute 5. */
void node(bytes *graph, const char *type, const char *name, const char *inputs, const char *outputs,
          const bytes *attributes) {
    bytes b;
    b.n = 0;
    put_words(&b, 1, inputs);
    put_words(&b, 2, outputs);
    put_text(&b, 3, name);
    put_text(&b, 4, type);
    if (attributes != NULL)
        put_raw(&b, attributes->data, attributes->n);
    put_message(graph, 1, &b);
}

/* ValueInfoProto: name 1, type 2 { tensor_type 1 { elem_type 1, shape 2 { dim 1 { dim_value 1,
   dim_param 2 } } } }. */
void value_info(bytes *graph, unsigned field, const char *name, int type, const char *shape) {
    bytes dims, dim, tensor, value, info;
    dims.n = tensor.n = value.n = info.n = 0;
    while (*shape != '\0') {
        char word[64] = {0};
        size_t n = strcspn(shape, " ");
        dim.n = 0;
        memcpy(word, shape, n);
        if (word[strspn(word, "-0123456789")] == '\0')
            put_integer(&dim, 1, strtoll(word, NULL, 10));
        else
            put_text(&dim, 2, word);
        put_message(&dims, 1, &dim);
        shape += n + (shape[n] == ' ');
    }
    put_integer(&tensor, 1, type);
    put_message(&tensor, 2, &dims);
    put_message(&value, 1, &tensor);
    put_text(&info, 1, name);
    put_message(&info, 2, &value);
    put_message(graph, field, &info);
}

void graph_input(bytes *graph, const char *name, const char *shape) {
    value_info(graph, 11, name, 1, shape);
}

void graph_output(bytes *graph, const char *name) { value_info(graph, 12, name, 1, ""); }

void initializer(bytes *graph, const char *name, int rank, const int64_t *shape, int type,
                 const void *values, size_t n_bytes) {
    bytes b = tensor_message(name, rank, shape, type, values, n_bytes);
    put_message(graph, 5, &b);
}

void integers(bytes *graph, const char *name, int n, const int64_t *values) {
    initializer(graph, name, 1, (int64_t[1]){n}, 7, values, (size_t)n * sizeof *values);
}

/* ModelProto: ir_version 1, graph 7, opset_import 8 { version 2 }. */
bytes model_file(const bytes *graph, int opset) {
    bytes file, set;
    file.n = set.n = 0;
    put_integer(&file, 1, 8);
    put_message(&file, 7, graph);
    put_integer(&set, 2, opset);
    put_message(&file, 8, &set);
    return file;
}
