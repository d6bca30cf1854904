#ifndef CLEAVE_GRAPH_IMPORT_ONNX_ONNX_CONSTANTS_H
#define CLEAVE_GRAPH_IMPORT_ONNX_ONNX_CONSTANTS_H

#include "graph/import/onnx/onnx_file.h"

/* Makes initializers of the constants that hold a file's weights, where it has them so. */
cleave_status cleave_onnx_take_weights(cleave_onnx_graph *graph, cleave_arena *arena,
                                       cleave_error *error);

#endif
