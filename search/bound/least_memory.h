/* A proof that nothing fits: memory that every layout has to hold. */
#ifndef CLEAVE_SEARCH_BOUND_LEAST_MEMORY_H
#define CLEAVE_SEARCH_BOUND_LEAST_MEMORY_H

#include "costmodel/machine.h"
#include "graph/model.h"

/* Bytes that the devices hold together, whatever the layout, when a step goes from forward to
   backward: parameters that are read whole, with their optimizer states, and activations that
   backward reads.  Every element of those is on some device then, in a buffer of its own. */
int64_t cleave_least_memory(const cleave_model *model, int optimizer_states);

/* Bytes that the devices have together for a program's arenas; the limit is per device, 0: that of
   the machine. */
int64_t cleave_most_memory(const cleave_machine *machine, int64_t memory_limit_bytes);

#endif
