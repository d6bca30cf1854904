/* Writes a graph as an ONNX file, for other programs to look at or to run.  Of its constants the
   elements are written; what is no initializer, such as the parameters of a composed graph, stays
   an input. */
#ifndef CLEAVE_GRAPH_IMPORT_ONNX_ENCODE_H
#define CLEAVE_GRAPH_IMPORT_ONNX_ENCODE_H

#include "graph/import/onnx/onnx_file.h"

/* The bytes of the file are in `arena`.  FAILED where memory is short.  The graph may have what
   cleave_onnx_decode gives but attributes of kind OTHER, and tensors whose elements are elsewhere.
 */
cleave_status cleave_onnx_encode(const cleave_onnx_graph *graph, cleave_arena *arena,
                                 const char **data, size_t *bytes, cleave_error *error);

#endif
