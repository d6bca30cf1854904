/* `cleave show`: one function per sort of file. */
#ifndef CLEAVE_CLI_SHOW_SHOW_H
#define CLEAVE_CLI_SHOW_SHOW_H

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/inputs.h"
#include "cli/trace_reader.h"
#include "graph/model/model.h"

/* The options of `cleave show`. */
typedef struct show_values {
    common_options common;
    const char *file, *onnx;
} show_values;

/* The declared space of a model on a machine: splits are candidates at each of their blocks of
   devices, as search/problem/candidates.h declares them; how parameters are updated is not counted.
 */
typedef struct show_space {
    const char *machine;
    int32_t n_devices;
    double *splits;   /* [n_operators] */
    double *searched; /* [n_operators] those that the search keeps */
    double log10_layouts, log10_searched;
    bool truncated; /* some are not kept */
} show_space;
cleave_status show_space_count(const cleave_model *model, const char *machine_path,
                               int32_t n_devices, cleave_arena *arena, show_space *space,
                               cleave_error *error);

cleave_status show_model(const show_values *values, cleave_arena *arena, cleave_error *error);
/* The ONNX operators that a model may have. */
void show_operators(cleave_arena *arena);
cleave_status show_machine(const char *path, cleave_arena *arena, cleave_error *error);
/* Layouts and traces are shown from their text, without the model that they belong to; a trace from
   its first event on. */
cleave_status show_layout(const cleave_json_cursor *root, cleave_arena *arena, cleave_error *error);
/* The schedule of a layout, and what it makes of unit times, drawn. */
cleave_status show_schedule(const cleave_json_cursor *layout, const cleave_json_cursor *operators,
                            cleave_arena *arena, cleave_error *error);
cleave_status show_trace(trace_reader *reader, cleave_arena *arena, cleave_error *error);

#endif
