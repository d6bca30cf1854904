/* Look-up by data, as a nest.

   Inputs are 0, the ids, and 1, the table.  One axis of the nest, the table's own, is missing from
   the output and is summed; the other axes are those of ids and table in any arrangement:

       output[...] = sum over v of (ids[...] == v or ids[...] + extent == v ? table[..., v, ...] :
   0)

   An embedding has ids [n, t], a table [v, k] and an output [n, t, k].  So boxes, a table split by
   rows (each part looks up what it has, the parts' results are summed) and the gradient (added in
   the order of the ids) follow from the nest as they do for a product.  A kernel reads only the
   rows that the ids name.  An id outside -extent .. extent - 1 names nothing: zeros. */
#ifndef CLEAVE_GRAPH_MODEL_GATHER_H
#define CLEAVE_GRAPH_MODEL_GATHER_H

#include "graph/model/model.h"

/* Appends the tape above to a nest that has its two inputs and no instruction; v: axis of the
   nest. */
void cleave_gather_emit(cleave_nest *nest, int v);

/* The table's axis of a nest with exactly this tape; -1: it has another one. */
int cleave_gather_axis(const cleave_nest *nest);

#endif
