/* What the files that put a program together share: buffers that events are bound to, the computes
   of nests (assemble_computes.c), and the global order (assemble_order.c). */
#ifndef CLEAVE_GRAPH_LOWER_ASSEMBLE_INTERNAL_H
#define CLEAVE_GRAPH_LOWER_ASSEMBLE_INTERNAL_H

#include "graph/lower/instances.h"

/* The buffer that part p reads or writes at an event. */
static inline int32_t lower_bound(const lower_assembly *assembly, int32_t event, int32_t p) {
    return event < 0 ? -1 : assembly->bindings.items[assembly->first_row[event] + p];
}

/* The same, in a micro-batch. */
static inline int32_t lower_bound_in(const lower_assembly *assembly, int32_t event, int32_t p,
                                     int32_t window) {
    return lower_instance_of(assembly, lower_bound(assembly, event, p), window);
}

/* How many read each tensor.  What nobody but one nest ever reads may be written over by it. */
int32_t *lower_count_readers(lower_builder *builder);

/* What part p of a nest computes in a micro-batch, by ids of the program; `again`: in its second
   forward. */
cleave_compute lower_forward_compute(lower_assembly *assembly, int32_t n, int32_t p, int32_t window,
                                     bool again, const int32_t *readers);
cleave_compute lower_backward_compute(lower_assembly *assembly, int32_t n, int32_t p,
                                      int32_t window, cleave_pass pass);

/* Puts items, computes and messages of all micro-batches into the order in which they are done. */
void lower_assembly_place(lower_assembly *assembly);

#endif
