/* An ONNX file as plain structs: what the importer needs, and nothing of protobuf. */
#ifndef CLEAVE_GRAPH_IMPORT_ONNX_FILE_H
#define CLEAVE_GRAPH_IMPORT_ONNX_FILE_H

#include "base/arena.h"
#include "base/error.h"
#include "graph/model/box.h"

#include <stdbool.h>
#include <stdint.h>

/* Element types of tensors and values, as numbered by ONNX. */
enum {
    CLEAVE_ONNX_FLOAT = 1,
    CLEAVE_ONNX_INT32 = 6,
    CLEAVE_ONNX_INT64 = 7,
    CLEAVE_ONNX_BOOL = 9,
    CLEAVE_ONNX_DOUBLE = 11
};
const char *cleave_onnx_type_name(int32_t type);

/* Where the elements of a tensor lie that are kept outside of the model's file. */
typedef struct cleave_onnx_external {
    const char *location;   /* relative to the folder of the model's file */
    int64_t offset, length; /* bytes; length -1: not said */
} cleave_onnx_external;

/* A tensor with its elements.  FLOAT and DOUBLE are kept as float, INT32, INT64 and BOOL as
   int64_t, in row-major order; the other of the two pointers is null.  Both are while the elements
   of an external tensor have not been read. */
typedef struct cleave_onnx_tensor {
    const char *name; /* "" for the value of an attribute */
    int32_t type;
    int rank;
    int64_t shape[CLEAVE_MAX_RANK]; /* 0 or more each */
    int64_t n;                      /* elements */
    const float *floats;
    const int64_t *integers;
    const cleave_onnx_external *external; /* null: the elements are in the model's file */
} cleave_onnx_tensor;

typedef enum cleave_onnx_attribute_kind {
    CLEAVE_ONNX_ATTRIBUTE_FLOAT,
    CLEAVE_ONNX_ATTRIBUTE_INTEGER,
    CLEAVE_ONNX_ATTRIBUTE_STRING,
    CLEAVE_ONNX_ATTRIBUTE_TENSOR,
    CLEAVE_ONNX_ATTRIBUTE_FLOATS,
    CLEAVE_ONNX_ATTRIBUTE_INTEGERS,
    CLEAVE_ONNX_ATTRIBUTE_STRINGS,
    CLEAVE_ONNX_ATTRIBUTE_GRAPH, /* a branch of an If; other graphs are kept by name only */
    CLEAVE_ONNX_ATTRIBUTE_OTHER  /* sparse tensors ...: kept by name only */
} cleave_onnx_attribute_kind;

typedef struct cleave_onnx_attribute {
    const char *name;
    cleave_onnx_attribute_kind kind;
    float number;
    int64_t integer;
    const char *string;
    int32_t n; /* of the lists */
    const float *numbers;
    const int64_t *integers;
    const char **strings;
    const cleave_onnx_tensor *tensor;
    const struct cleave_onnx_graph *graph;
} cleave_onnx_attribute;

/* Of operators that are none of ONNX's. */
#define CLEAVE_OWN_DOMAIN "cleave"

typedef struct cleave_onnx_node {
    const char *name, *type, *domain; /* "" where the file has none */
    int32_t n_inputs, n_outputs, n_attributes;
    const char **inputs, **outputs; /* "": left out.  Behind its own inputs those that its branches
                                       read from outside */
    cleave_onnx_attribute *attributes;
} cleave_onnx_node;

/* A graph input or output as declared. */
typedef struct cleave_onnx_value {
    const char *name;
    int32_t type; /* 0: not a tensor, or not said */
    bool has_shape;
    int rank;
    int64_t shape[CLEAVE_MAX_RANK];       /* -1: symbolic or not said */
    const char *symbols[CLEAVE_MAX_RANK]; /* of symbolic dimensions, "" where not said; else null */
    bool is_kept; /* from step to step as it is, though a gradient reaches it; no file says so */
} cleave_onnx_value;

typedef struct cleave_onnx_graph {
    int64_t opset; /* of the default domain; 0 of a branch */
    int32_t n_nodes, n_initializers, n_inputs, n_outputs;
    cleave_onnx_node *nodes;
    cleave_onnx_tensor *initializers;
    cleave_onnx_value *inputs, *outputs;
} cleave_onnx_graph;

/* Decodes a file that is in memory; `file` names it in errors.  Everything is copied into `arena`.
   BAD_INPUT when it is no ONNX model, when sizes and data do not agree, or when a tensor has a type
   or a storage that is not supported.  Reads no file: external initializers are left without their
   elements. */
cleave_status cleave_onnx_decode(const void *data, size_t bytes, const char *file,
                                 cleave_arena *arena, cleave_onnx_graph *graph,
                                 cleave_error *error);

/* The same for a file that holds a single tensor, as ONNX's own tests keep their data. */
cleave_status cleave_onnx_decode_tensor(const void *data, size_t bytes, const char *file,
                                        cleave_arena *arena, cleave_onnx_tensor *tensor,
                                        cleave_error *error);

/* Reads the external initializers of a graph whose model is the file `path`; with a null path they
   are an error.  Nothing outside of the model's folder is opened.  BAD_INPUT names model, tensor
   and place; onnx_external.c. */
cleave_status cleave_onnx_read_external(cleave_onnx_graph *graph, const char *path,
                                        cleave_arena *arena, cleave_error *error);

/* Bytes of an element in a file; 0 for types that are not supported. */
size_t cleave_onnx_element_bytes(int32_t type);
/* Gives a tensor its elements, which lie one after the other as those of `type` do: FLOAT or DOUBLE
   where it has one of these, else an integer type.  False: out of memory. */
bool cleave_onnx_tensor_fill(cleave_onnx_tensor *tensor, int32_t type, const void *elements,
                             cleave_arena *arena);

#endif
