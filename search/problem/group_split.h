/* How the devices of a group share an operator in the degrees that people start frameworks with.

   The group is a grid, [data][expert][context][tensor], neighbours sharing a product.  Each of its
   dimensions cuts one axis of the operator, or its devices compute the same; an axis that several
   cut is cut by the outer one first, so that their blocks lie within each other. */
#ifndef CLEAVE_SEARCH_PROBLEM_GROUP_SPLIT_H
#define CLEAVE_SEARCH_PROBLEM_GROUP_SPLIT_H

#include "graph/model/layout.h"

/* In the order of the grid. */
typedef enum cleave_group_dimension {
    CLEAVE_GROUP_DATA,    /* samples */
    CLEAVE_GROUP_EXPERT,  /* of what has experts these, of all else samples */
    CLEAVE_GROUP_CONTEXT, /* tokens, and heads where tokens meet */
    CLEAVE_GROUP_TENSOR,  /* columns, rows and heads */
    CLEAVE_N_GROUP_DIMENSIONS
} cleave_group_dimension;

typedef struct cleave_group_grid {
    int32_t degree[CLEAVE_N_GROUP_DIMENSIONS]; /* their product is the devices of the group */
} cleave_group_grid;

typedef struct cleave_group_cut {
    int axis[CLEAVE_N_GROUP_DIMENSIONS]; /* of the operator; -1: all compute the same */
    int inner;         /* cut within parts of tensor's axis where this is too short; -1: none is */
    bool tensor_first; /* an axis that tensor and context cut is cut by tensor first: heads are,
                          tokens not */
} cleave_group_cut;

/* Sets the split of an operator; `devices` are those of the group.  An axis that is too short is
   cut into as many parts as it has points, and the other devices have none. */
cleave_status cleave_group_split(const cleave_model *model, int32_t op,
                                 const cleave_group_grid *group, const cleave_group_cut *cut,
                                 const int32_t *devices, cleave_arena *arena, cleave_layout *layout,
                                 cleave_error *error);

/* Device `i` of group `group` where `neighbours` of each group follow each other, with as many of
   each other group behind them.  Of all devices of a group one block comes after the other. */
static inline int32_t cleave_group_device(int32_t i, int32_t group, int32_t n_groups,
                                          int32_t neighbours) {
    return (i / neighbours * n_groups + group) * neighbours + i % neighbours;
}

#endif
