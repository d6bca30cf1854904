/* Which parts of an operator's split do the same, so that a few tell the cost of all.

   A block of an axis is as long as any other, or one longer.  What it matters where it lies
   (padding, masks), or who shares a box (parts that are cut from owners), is not alike in any two
   blocks. */
#ifndef CLEAVE_SEARCH_PROBLEM_NODE_CELLS_H
#define CLEAVE_SEARCH_PROBLEM_NODE_CELLS_H

#include "graph/model/alike.h"
#include "graph/model/part.h"

typedef struct node_model {
    const cleave_model *model;
    const uint32_t *padded_axes; /* [n_nests] cleave_nest_padded_axes */
} node_model;

typedef struct node_cells {
    int32_t n;
    int32_t *numbers, *like; /* [n] of parts, ascending; so many do the same, it among them */
    int32_t n_times;         /* and so often all of that comes again */
    bool has_key;
    cleave_digest key; /* with equal ones cells cost the same, in models that differ in the extents
                          of nests alone */
} node_cells;

/* In the arena; false when memory is short. */
bool node_cells_choose(const node_model *model, int32_t op, const cleave_split *split,
                       cleave_arena *arena, node_cells *chosen);

#endif
