/* The space of layouts that fold to a window (search/improve/window.h): for each group of operators
   that change together, the splits over all devices in order that are equal in all windows. */
#ifndef CLEAVE_SEARCH_PROBLEM_SPACE_H
#define CLEAVE_SEARCH_PROBLEM_SPACE_H

#include "graph/model/layout.h"
#include "search/problem/blocks.h"
#include "search/problem/constraints.h"

/* Which space. */
typedef struct cleave_window_frame {
    const cleave_model *model;
    const int32_t *class_of; /* [n_operators] see cleave_operator_classes */
    cleave_blocks blocks;    /* that change together; n 0: none, as where some operator is fixed */
    int32_t n_devices, window_devices;
    const cleave_constraints *constraints; /* null: none */
} cleave_window_frame;

typedef struct cleave_window_list {
    int32_t n;
    cleave_split *items; /* [n] */
} cleave_window_list;

typedef struct cleave_window_space {
    int32_t n_devices, window_devices;
    const int32_t *devices; /* [n_devices] 0, 1, ...: those of every split */
    int32_t n_groups, n_classes;
    int32_t *group_of; /* [n_operators]: those in one place of the repeated blocks, or one */
    int32_t *first_op; /* [n_groups] */
    int32_t *class_of; /* [n_groups] groups that are alike; under constraints each by itself */
    cleave_window_list *lists; /* [n_classes] */
} cleave_window_space;

/* A split gives the operator's first sample axis, or replicas where it has none, a multiple of
   W = n_devices / window_devices, outermost, in equal ranges; the rest of the devices to that and
   to axes that come after it, such that each factor makes the largest block smaller.  Ascending by
   what is given to axes that come later, so the first has most samples.  NO_LAYOUT where an
   operator has none that the constraints allow. */
cleave_status cleave_window_space_create(const cleave_window_frame *frame, cleave_arena *arena,
                                         cleave_window_space *space, cleave_error *error);

/* The sample axis that is outermost in an operator's splits; -1: replicas are. */
int cleave_window_outer_axis(const cleave_operator *op);

#endif
