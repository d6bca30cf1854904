/* `cleave show`: one function per sort of file. */
#ifndef CLEAVE_CLI_SHOW_H
#define CLEAVE_CLI_SHOW_H

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/trace_reader.h"

cleave_status show_model(const char *path, int64_t batch, cleave_arena *arena, cleave_error *error);
/* The ONNX operators that a model may have. */
void show_operators(cleave_arena *arena);
cleave_status show_machine(const char *path, cleave_arena *arena, cleave_error *error);
/* Layouts and traces are shown from their text, without the model that they belong to; a trace from
   its first event on. */
cleave_status show_layout(const cleave_json_cursor *root, cleave_arena *arena, cleave_error *error);
cleave_status show_trace(trace_reader *reader, cleave_arena *arena, cleave_error *error);

#endif
