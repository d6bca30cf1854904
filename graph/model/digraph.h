/* Directed graphs: order, cycles and components.  Vertices are 0..n_vertices-1; edge i goes from
   from[i] to to[i]. */
#ifndef CLEAVE_GRAPH_MODEL_DIGRAPH_H
#define CLEAVE_GRAPH_MODEL_DIGRAPH_H

#include "base/error.h"

#include <stdint.h>

/* Fills `order` ([n_vertices]) so that every edge goes forward: 0, 1, 2 ... where that will do,
   else some fixed order.  When there is a cycle, `*on_cycle` is the smallest vertex on one, and
   `order` is not written; else it is -1.  FAILED when memory is short or a vertex is out of range.
   O(vertices + edges). */
cleave_status cleave_digraph_order(int32_t n_vertices, int32_t n_edges, const int32_t *from,
                                   const int32_t *to, int32_t *order, int32_t *on_cycle,
                                   cleave_error *error);

/* Weakly connected components, numbered by their smallest vertex; `component` is [n_vertices]. */
cleave_status cleave_digraph_components(int32_t n_vertices, int32_t n_edges, const int32_t *from,
                                        const int32_t *to, int32_t *component,
                                        int32_t *n_components, cleave_error *error);

#endif
