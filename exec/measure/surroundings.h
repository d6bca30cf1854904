/* What a kernel finds in the caches matters as much as what it does.  Before a kernel is timed each
   of its operands is brought as far from the processor as it will be in a step: what the item
   before wrote into the nearest cache, a weight of a large model into none. */
#ifndef CLEAVE_EXEC_MEASURE_SURROUNDINGS_H
#define CLEAVE_EXEC_MEASURE_SURROUNDINGS_H

#include "base/error.h"
#include "graph/program/reuse.h"

#include <stddef.h>

/* Memory that a kernel uses. */
typedef struct cleave_used_memory {
    void *memory; /* null: none, but so much is touched */
    size_t bytes;
    size_t touched_since; /* bytes of other memory, between its last use and the kernel */
    const void *values;   /* that it has to hold, `bytes` of them; null: what it holds */
} cleave_used_memory;

/* All of it, that which was used longest ago first. */
typedef struct cleave_surroundings {
    int n;
    cleave_used_memory items[CLEAVE_N_REUSES];
} cleave_surroundings;

void cleave_surroundings_add(cleave_surroundings *of, cleave_used_memory with);

/* Other memory, as much as is touched at most; `memory` is for the caller to free. */
typedef struct cleave_other_memory {
    char *memory;
    size_t bytes, at;
    size_t most; /* after so much of it no cache holds anything else */
} cleave_other_memory;

/* FAILED when memory is short. */
cleave_status cleave_other_memory_create(cleave_other_memory *made, const cleave_surroundings *of,
                                         cleave_error *error);

cleave_status cleave_surroundings_set(const cleave_surroundings *of, cleave_other_memory *other,
                                      cleave_error *error);

#endif
