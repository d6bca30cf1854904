/* A language model by its config.json, as Hugging Face's libraries write it.

   The file has fields of a family, its `model_type`.  A table says which fields a family has, what
   they are when they are left out (graph/import/config/config_families.c), and a function puts the
   family's graph together, in the structures that an ONNX file is read into; so fusing, shapes and
   nests are the importer's, and there is one way to a model.  Parameters are names and shapes.

   Every field is known, or known to be harmless, or refused by name: a field that is skipped in
   silence would give another model.  Nothing is fetched and nothing executed. */
#ifndef CLEAVE_GRAPH_IMPORT_CONFIG_H
#define CLEAVE_GRAPH_IMPORT_CONFIG_H

#include "base/json.h"
#include "graph/import/onnx/onnx_file.h"

typedef struct cleave_config_request {
    const char *file; /* names it in errors */
    const void *data; /* the text */
    size_t bytes;
    int64_t batch;          /* 0: left open */
    int64_t sequence;       /* length of the texts that it is trained on; 0: not given */
    double capacity_factor; /* of experts, in place of what the file says; 0: not given */
    bool trains;            /* else nothing is dropped out */
} cleave_config_request;

/* Puts the graph of a configuration together; everything lives in `arena`.  BAD_INPUT with the
   field for what is not known, missing, or does not fit. */
cleave_status cleave_config_decode(const cleave_config_request *from, cleave_arena *arena,
                                   cleave_onnx_graph *graph, cleave_error *error);

#endif
