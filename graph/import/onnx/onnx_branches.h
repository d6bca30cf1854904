#ifndef CLEAVE_GRAPH_IMPORT_ONNX_ONNX_BRANCHES_H
#define CLEAVE_GRAPH_IMPORT_ONNX_ONNX_BRANCHES_H

#include "graph/import/onnx/onnx_file.h"

/* Puts what a node's branches read from outside behind its inputs, each name once. */
cleave_status cleave_onnx_add_captured(cleave_onnx_node *node, cleave_arena *arena,
                                       cleave_error *error);

#endif
