/* One of ONNX's own tests: a model, its inputs and the outputs that it has to give. */
#ifndef CLEAVE_TESTS_ONNX_CASE_H
#define CLEAVE_TESTS_ONNX_CASE_H

#include "exec/world/world.h"

#include <stdbool.h>

typedef enum onnx_outcome {
    ONNX_PASSED,        /* every output is as it should be */
    ONNX_FAILED,        /* wrong numbers, or an error that is no refusal */
    ONNX_NOT_SUPPORTED, /* refused as bad input */
    ONNX_N_OUTCOMES
} onnx_outcome;

typedef struct onnx_result {
    onnx_outcome outcome;
    bool as_data; /* passed with its inputs as data of a run */
    int n_fixed;  /* inputs that had to be given as constants of the file, of a test that passed */
    char operator[64]; /* type of the model's one node; "" where it has several, or is not known */
    char reason[512];  /* of what did not pass */
} onnx_result;

/* Runs the test in `folder` (model.onnx and test_data_set_*) on one device with its inputs as data
   of a run, where they may be; then on one device, by the code of `cleave run --forward`, and under
   some random layouts, with its inputs as whatever the importer takes them for.

   ONNX hands everything to a model as a graph input, even what shapes depend on, such as the target
   of a Reshape.  Where such a model is refused, it is tried again with more and more of its inputs
   as constants of the file, as exporters write them. */
onnx_result onnx_case_run(cleave_world *world, const char *folder);

#endif
