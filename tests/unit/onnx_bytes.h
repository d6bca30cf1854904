/* Writes small ONNX files byte by byte, so that tests of the importer need no library: a message is
   fields of (number << 3 | kind), kind 0 a varint, kind 2 a length and that many bytes, kind 5 four
   bytes.  Field numbers are those of onnx.proto. */
#ifndef CLEAVE_TESTS_ONNX_BYTES_H
#define CLEAVE_TESTS_ONNX_BYTES_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct bytes {
    uint8_t data[8192];
    size_t n;
} bytes;

static inline void put_varint(bytes *b, uint64_t value) {
    for (; value >= 0x80; value >>= 7)
        b->data[b->n++] = (uint8_t)(value | 0x80);
    b->data[b->n++] = (uint8_t)value;
}

static inline void put_integer(bytes *b, unsigned field, int64_t value) {
    put_varint(b, field << 3);
    put_varint(b, (uint64_t)value);
}

static inline void put_data(bytes *b, unsigned field, const void *data, size_t n) {
    put_varint(b, field << 3 | 2);
    put_varint(b, n);
    if (n > 0)
        memcpy(b->data + b->n, data, n);
    b->n += n;
}

static inline void put_text(bytes *b, unsigned field, const char *text) {
    put_data(b, field, text, strlen(text));
}

static inline void put_message(bytes *b, unsigned field, const bytes *message) {
    put_data(b, field, message->data, message->n);
}

/* Attributes: AttributeProto is name 1, f 2, i 3, s 4, t 5, ints 8, type 20. */
static inline void attribute_integer(bytes *attributes, const char *name, int64_t value) {
    bytes a = {.n = 0};
    put_text(&a, 1, name);
    put_integer(&a, 3, value);
    put_integer(&a, 20, 2);
    put_message(attributes, 5, &a);
}

static inline void attribute_float(bytes *attributes, const char *name, float value) {
    bytes a = {.n = 0};
    put_text(&a, 1, name);
    put_varint(&a, 2 << 3 | 5);
    memcpy(a.data + a.n, &value, sizeof value);
    a.n += sizeof value;
    put_integer(&a, 20, 1);
    put_message(attributes, 5, &a);
}

static inline void attribute_text(bytes *attributes, const char *name, const char *value) {
    bytes a = {.n = 0};
    put_text(&a, 1, name);
    put_text(&a, 4, value);
    put_integer(&a, 20, 3);
    put_message(attributes, 5, &a);
}

static inline void attribute_integers(bytes *attributes, const char *name, int n,
                                      const int64_t *values) {
    bytes a = {.n = 0};
    put_text(&a, 1, name);
    for (int i = 0; i < n; i++)
        put_integer(&a, 8, values[i]);
    put_integer(&a, 20, 7);
    put_message(attributes, 5, &a);
}

/* Calls `put` for every word of a space-separated list; "-" stands for an empty name. */
static inline void put_words(bytes *b, unsigned field, const char *words) {
    while (*words != '\0') {
        size_t n = strcspn(words, " ");
        put_data(b, field, words, n == 1 && *words == '-' ? 0 : n);
        words += n + (words[n] == ' ');
    }
}

/* NodeProto: input 1, output 2, name 3, op_type 4, attribute 5.  attributes may be null. */
static inline void node(bytes *graph, const char *type, const char *name, const char *inputs,
                        const char *outputs, const bytes *attributes) {
    bytes b = {.n = 0};
    put_words(&b, 1, inputs);
    put_words(&b, 2, outputs);
    put_text(&b, 3, name);
    put_text(&b, 4, type);
    if (attributes != NULL) {
        memcpy(b.data + b.n, attributes->data, attributes->n);
        b.n += attributes->n;
    }
    put_message(graph, 1, &b);
}

/* ValueInfoProto: name 1, type 2 { tensor_type 1 { elem_type 1, shape 2 { dim 1 { dim_value 1,
   dim_param 2 } } } }.  Dimensions are words; one that is no number is symbolic. */
static inline void value_info(bytes *graph, unsigned field, const char *name, int type,
                              const char *shape) {
    bytes dims = {.n = 0}, tensor = {.n = 0}, value = {.n = 0}, info = {.n = 0};
    while (*shape != '\0') {
        char word[64] = {0};
        bytes dim = {.n = 0};
        size_t n = strcspn(shape, " ");
        memcpy(word, shape, n);
        if (word[0] >= '0' && word[0] <= '9')
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

static inline void graph_input(bytes *graph, const char *name, const char *shape) {
    value_info(graph, 11, name, 1, shape);
}

static inline void graph_output(bytes *graph, const char *name) {
    value_info(graph, 12, name, 1, "");
}

/* TensorProto: dims 1, data_type 2, name 8, raw_data 9; an initializer is field 5 of the graph. */
static inline void initializer(bytes *graph, const char *name, int rank, const int64_t *shape,
                               int type, const void *values, size_t n_bytes) {
    bytes b = {.n = 0};
    for (int d = 0; d < rank; d++)
        put_integer(&b, 1, shape[d]);
    put_integer(&b, 2, type);
    put_text(&b, 8, name);
    put_data(&b, 9, values, n_bytes);
    put_message(graph, 5, &b);
}

static inline void integers(bytes *graph, const char *name, int n, const int64_t *values) {
    initializer(graph, name, 1, (int64_t[1]){n}, 7, values, (size_t)n * sizeof *values);
}

/* ModelProto: ir_version 1, graph 7, opset_import 8 { version 2 }. */
static inline bytes model_file(const bytes *graph, int opset) {
    bytes file = {.n = 0}, set = {.n = 0};
    put_integer(&file, 1, 8);
    put_message(&file, 7, graph);
    put_integer(&set, 2, opset);
    put_message(&file, 8, &set);
    return file;
}

#endif
