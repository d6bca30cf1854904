/* The memory plan: offsets of all buffers in one arena per device, by lifetimes in program order,
   so that memory does not depend on timing.  The same plan predicts and runs. */
#ifndef CLEAVE_GRAPH_MEMORY_PLAN_H
#define CLEAVE_GRAPH_MEMORY_PLAN_H

#include "graph/program.h"

enum { CLEAVE_BUFFER_ALIGNMENT = 64 };
static inline int64_t cleave_buffer_aligned(int64_t bytes) {
    return (bytes + CLEAVE_BUFFER_ALIGNMENT - 1) / CLEAVE_BUFFER_ALIGNMENT *
           CLEAVE_BUFFER_ALIGNMENT;
}

/* Sets buffers[].offset and peak_bytes from buffers[].{first, last, bytes, storage}. */
cleave_status cleave_memory_plan(cleave_program *program, cleave_arena *arena, cleave_error *error);

#endif
