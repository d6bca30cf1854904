/* What the files that run one of ONNX's own tests share. */
#ifndef CLEAVE_TESTS_ONNX_INTERNAL_H
#define CLEAVE_TESTS_ONNX_INTERNAL_H

#include "exec/world/world.h"
#include "graph/import/onnx/onnx_file.h"
#include "graph/model/model.h"

enum { MOST_TENSORS = 64 };

/* A file in memory, and the tensor in it. */
typedef struct blob {
    char *data;
    size_t bytes;
    cleave_onnx_tensor tensor;
} blob;

typedef struct onnx_case {
    cleave_world *world;
    cleave_arena *arena;
    cleave_error *error;
    blob model;
    const cleave_onnx_graph *graph;
    int n_inputs; /* graph inputs that no initializer gives */
    const cleave_onnx_value *values[MOST_TENSORS];
    blob inputs[MOST_TENSORS], outputs[MOST_TENSORS];
} onnx_case;

/* Reads what the outputs have to be. */
cleave_status onnx_case_read_outputs(onnx_case *test, int32_t n, const char *data_set);
/* Output o, row-major, against what it has to be. */
cleave_status onnx_case_compare(const onnx_case *test, int32_t o, int rank, const int64_t *shape,
                                const double *got);

/* Runs the model as `cleave run --forward --inputs ... --data ... --save` does, with all inputs as
   data of a file, and compares what is saved under the names of the outputs.  BAD_INPUT where an
   input can't be data; FAILED where it is taken, but not right; as_data.c. */
cleave_status onnx_case_run_as_data(onnx_case *test, const char *data_set);

#endif
