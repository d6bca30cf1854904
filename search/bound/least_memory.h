/* A proof that nothing fits: memory that every layout has to hold. */
#ifndef CLEAVE_SEARCH_BOUND_LEAST_MEMORY_H
#define CLEAVE_SEARCH_BOUND_LEAST_MEMORY_H

#include "costmodel/machine.h"
#include "graph/model/model.h"

/* Bytes that the arenas of all devices have together at least, whatever the layout: the most that
   has to be somewhere in one and the same slot.  FAILED when memory is short.  Cost: slots and
   operands, and for tensors that are read in slices the square of their number. */
cleave_status cleave_least_memory(const cleave_model *model, int optimizer_states, int64_t *bytes,
                                  cleave_error *error);

/* Bytes that the devices have together for a program's arenas; the limit is per device, 0: that of
   the machine. */
int64_t cleave_most_memory(const cleave_machine *machine, int64_t memory_limit_bytes);

#endif
