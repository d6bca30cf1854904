/* Reads an ONNX file into a model. */
#ifndef CLEAVE_GRAPH_IMPORT_IMPORT_H
#define CLEAVE_GRAPH_IMPORT_IMPORT_H

#include "graph/model/model.h"

/* Imports `path` for a global batch (0: leave the symbolic dimension out, an error where there is
   one). Initializers with external data are read from files beside it. With `with_loss` the model
   gets its loss and needs targets; without, it ends in its outputs. BAD_INPUT with file, node, type
   and attribute for whatever can't be used.  The model lives in `arena`. */
cleave_status cleave_model_import(const char *path, int64_t batch, bool with_loss,
                                  cleave_arena *arena, cleave_model *model, cleave_error *error);
/* The same from memory; `name` stands for the file.  No file is read: external data are refused. */
cleave_status cleave_model_import_memory(const void *data, size_t bytes, const char *name,
                                         int64_t batch, bool with_loss, cleave_arena *arena,
                                         cleave_model *model, cleave_error *error);

/* The ONNX operators that can be imported, sorted by type; null behind the last one.  Sets whether
   an operator is supported only where it can be computed while importing. */
const char *cleave_import_operator_type(int i, bool *constant_only);
/* The k-th attribute that this operator may have; null behind the last one. */
const char *cleave_import_operator_attribute(int i, int k);
/* The operator sets that files may use, and from which one on this operator is supported. */
void cleave_import_operator_sets(int i, int *least, int *most);

#endif
