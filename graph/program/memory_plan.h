/* The memory plan: offsets of all buffers in one arena per device, by lifetimes in program order,
   so that memory does not depend on timing.  The same plan predicts and runs. */
#ifndef CLEAVE_GRAPH_PROGRAM_MEMORY_PLAN_H
#define CLEAVE_GRAPH_PROGRAM_MEMORY_PLAN_H

#include "graph/program/program.h"

enum { CLEAVE_BUFFER_ALIGNMENT = 64 };
static inline int64_t cleave_buffer_aligned(int64_t bytes) {
    return (bytes + CLEAVE_BUFFER_ALIGNMENT - 1) / CLEAVE_BUFFER_ALIGNMENT *
           CLEAVE_BUFFER_ALIGNMENT;
}

/* Memory of a device that is used from one item to another, both included. */
typedef struct cleave_life {
    int64_t bytes;
    int32_t device, first, last;
} cleave_life;

typedef struct cleave_lives {
    int32_t n, n_devices, n_items;
    const cleave_life *items; /* [n] positions are -1 .. n_items - 1; of lives that begin at one
                                 position, those listed first are placed first */
} cleave_lives;

/* Places all lives: their offsets, [n], which are 0 for those without bytes if they were before,
   and the size of each device's arena, [n_devices]. */
cleave_status cleave_memory_plan_lives(const cleave_lives *lives, int64_t *offset,
                                       int64_t *peak_bytes, cleave_error *error);

/* Sets buffers[].offset and peak_bytes from buffers[].{first, last, bytes, storage}. */
cleave_status cleave_memory_plan(cleave_program *program, cleave_arena *arena, cleave_error *error);

#endif
