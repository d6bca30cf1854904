/* Which parts of an operator's split do the same, so that a few tell the cost of all.

   A block of an axis is as long as any other, or one longer, and so is what an owner has of a box
   that it shares with others.  Where it matters where a block lies (padding, masks), no two are
   alike.  So the parts of a split are some sets, one for each choice of the longer or the shorter
   blocks of axes that are cut unevenly, and of boxes that are shared; and each is as the parts of
   any split into blocks as long. */
#ifndef CLEAVE_SEARCH_PROBLEM_NODE_CELLS_H
#define CLEAVE_SEARCH_PROBLEM_NODE_CELLS_H

#include "graph/model/alike.h"
#include "graph/model/part.h"

typedef struct node_model {
    const cleave_model *model;
    const uint32_t *padded_axes; /* [n_nests] cleave_nest_padded_axes */
} node_model;

typedef struct node_cells {
    int32_t n, *numbers; /* [n] of parts, ascending */
    int32_t n_times;     /* so often they come */
    bool has_key;
    bool alone;        /* of owners of a box not all are there */
    cleave_digest key; /* with equal ones cells cost the same, in models that differ in the extents
                          of nests alone */
} node_cells;

typedef struct node_cell_sets {
    int32_t n;
    node_cells *items;
} node_cell_sets;

/* In the arena; false when memory is short. */
bool node_cells_choose(const node_model *model, int32_t op, const cleave_split *split,
                       cleave_arena *arena, node_cell_sets *chosen);

#endif
