/* Writes small ONNX files byte by byte, so that tests of the importer need no library: a message is
   fields of (number << 3 | kind), kind 0 a varint, kind 2 a length and that many bytes, kind 5 four
   bytes.  Field numbers are those of onnx.proto. */
#ifndef CLEAVE_TESTS_SUPPORT_ONNX_WRITER_H
#define CLEAVE_TESTS_SUPPORT_ONNX_WRITER_H

#include <stddef.h>
#include <stdint.h>

/* A message under construction, copied freely.  What does not fit aborts the test. */
typedef struct bytes {
    size_t n;
    uint8_t data[65536 - sizeof(size_t)];
} bytes;

void put_raw(bytes *b, const void *data, size_t n);
void put_varint(bytes *b, uint64_t value);
void put_integer(bytes *b, unsigned field, int64_t value);
void put_data(bytes *b, unsigned field, const void *data, size_t n);
void put_text(bytes *b, unsigned field, const char *text);
void put_message(bytes *b, unsigned field, const bytes *message);
/* A text for every word of a space-separated list; "-" stands for an empty one. */
void put_words(bytes *b, unsigned field, const char *words);

/* Attributes of a node, one after the other. */
void attribute_integer(bytes *attributes, const char *name, int64_t value);
void attribute_float(bytes *attributes, const char *name, float value);
void attribute_text(bytes *attributes, const char *name, const char *value);
void attribute_integers(bytes *attributes, const char *name, int n, const int64_t *values);
void attribute_floats(bytes *attributes, const char *name, int n, const float *values);
/* Space-separated. */
void attribute_texts(bytes *attributes, const char *name, const char *words);
/* A tensor in row-major order; type as numbered by ONNX. */
void attribute_graph(bytes *attributes, const char *name, const bytes *graph);
void attribute_tensor(bytes *attributes, const char *name, int rank, const int64_t *shape, int type,
                      const void *values, size_t n_bytes);

/* A node; inputs and outputs are words, "-" one that is left out; attributes may be null. */
void node(bytes *graph, const char *type, const char *name, const char *inputs, const char *outputs,
          const bytes *attributes);

/* A declared value in field 11 (graph input) or 12 (graph output).  Dimensions are words; one that
   is no number is symbolic. */
void value_info(bytes *graph, unsigned field, const char *name, int type, const char *shape);
void graph_input(bytes *graph, const char *name, const char *shape); /* of floats */
void graph_output(bytes *graph, const char *name);

void initializer(bytes *graph, const char *name, int rank, const int64_t *shape, int type,
                 const void *values, size_t n_bytes);
void integers(bytes *graph, const char *name, int n, const int64_t *values); /* an initializer */

bytes model_file(const bytes *graph, int opset);

#endif
