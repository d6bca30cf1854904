/* Reads an ONNX file, or the config.json of a language model, into a model. */
#ifndef CLEAVE_GRAPH_IMPORT_IMPORT_H
#define CLEAVE_GRAPH_IMPORT_IMPORT_H

#include "graph/model/model.h"

typedef struct cleave_import_request {
    const char *file; /* also what messages call it */
    const void *data; /* what is in the file; null: it is read.  Given, no file is opened at all,
                         and external data are refused */
    size_t bytes;
    int64_t batch;    /* global; 0: leave the symbolic dimension out, an error where there is one */
    int64_t sequence; /* length of the texts of a language model by its config.json; 0: not given */
    double capacity_factor; /* rows that each expert of a config.json has, in rows of an even
                               choice, whatever the file says; 0: as it says */
    bool with_loss;
    bool evaluates;     /* as it is used once it was trained: nothing is dropped, and batches are
                           normalised by the running statistics; with the operators of the model that
                           is trained, so that a layout of one is one of the other */
    const char *inputs; /* "x,mask": of the float inputs of fixed shape these are data, and the
                           others are parameters; null: graph/import/inputs.c decides */
    const char *dimensions; /* "height=224,x:3=224": how long symbolic dimensions other than the
                               batch are, by their names in the file, or dimension K of an input as
                               INPUT:K; null: none is given, an error where there are any */
    const char *precision, *reduce_precision; /* as of graph/model/precision.h; null: f32 */
    const char *frozen; /* patterns, as of cleave_model_freeze; null: all are trained */
    bool clips;         /* gradients are clipped by their norm, where it trains */
} cleave_import_request;

/* Imports a model.  Initializers with external data are read from files beside it.  With a loss the
   model may need targets; without, it ends in its outputs.  BAD_INPUT with file, node, type and
   attribute for whatever can't be used.  The model lives in `arena`. */
cleave_status cleave_model_import_as(const cleave_import_request *request, cleave_arena *arena,
                                     cleave_model *model, cleave_error *error);

/* The ONNX operators that can be imported, sorted by type; null behind the last one.  Sets whether
   an operator is supported only where it can be computed while importing. */
const char *cleave_import_operator_type(int i, bool *constant_only);
/* The k-th attribute that this operator may have; null behind the last one. */
const char *cleave_import_operator_attribute(int i, int k);
/* The operator sets that files may use, and from which one on this operator is supported. */
void cleave_import_operator_sets(int i, int *least, int *most);

#endif
