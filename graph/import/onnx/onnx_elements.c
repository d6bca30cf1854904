/* Element types of ONNX: their names, their sizes, and elements as they lie in files. */
#include "graph/import/onnx/onnx_file.h"

#include <string.h>

const char *cleave_onnx_type_name(int32_t type) {
    static const char *const names[] = {"UNDEFINED",  "FLOAT",   "UINT8",  "INT8",   "UINT16",
                                        "INT16",      "INT32",   "INT64",  "STRING", "BOOL",
                                        "FLOAT16",    "DOUBLE",  "UINT32", "UINT64", "COMPLEX64",
                                        "COMPLEX128", "BFLOAT16"};
    return type >= 0 && (size_t)type < sizeof names / sizeof *names ? names[type] : "UNKNOWN";
}

size_t cleave_onnx_element_bytes(int32_t type) {
    switch (type) {
    case CLEAVE_ONNX_FLOAT:
    case CLEAVE_ONNX_INT32:
        return 4;
    case CLEAVE_ONNX_INT64:
    case CLEAVE_ONNX_DOUBLE:
        return 8;
    case CLEAVE_ONNX_BOOL:
        return 1;
    default:
        return 0;
    }
}

static int64_t integer_at(int32_t type, const uint8_t *at) {
    int64_t wide;
    int32_t narrow;
    if (type == CLEAVE_ONNX_BOOL)
        return *at != 0;
    if (type == CLEAVE_ONNX_INT32) {
        memcpy(&narrow, at, sizeof narrow);
        return narrow;
    }
    memcpy(&wide, at, sizeof wide);
    return wide;
}

static float float_at(int32_t type, const uint8_t *at) {
    double wide;
    float narrow;
    if (type == CLEAVE_ONNX_DOUBLE) {
        memcpy(&wide, at, sizeof wide);
        return (float)wide;
    }
    memcpy(&narrow, at, sizeof narrow);
    return narrow;
}

bool cleave_onnx_tensor_fill(cleave_onnx_tensor *tensor, int32_t type, const void *elements,
                             cleave_arena *arena) {
    size_t n = (size_t)tensor->n, bytes = cleave_onnx_element_bytes(type);
    bool is_float = type == CLEAVE_ONNX_FLOAT || type == CLEAVE_ONNX_DOUBLE;
    float *floats = is_float ? CLEAVE_ARENA_ARRAY(arena, float, n) : NULL;
    int64_t *integers = is_float ? NULL : CLEAVE_ARENA_ARRAY(arena, int64_t, n);
    if (floats == NULL && integers == NULL)
        return false;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *at = (const uint8_t *)elements + i * bytes;
        if (is_float)
            floats[i] = float_at(type, at);
        else
            integers[i] = integer_at(type, at);
    }
    tensor->floats = floats;
    tensor->integers = integers;
    return true;
}
