/* What the user wants to be left as it is: operators that are fixed, kinds of axes that alone may
   be split. */
#ifndef CLEAVE_SEARCH_CONSTRAINTS_H
#define CLEAVE_SEARCH_CONSTRAINTS_H

#include "graph/layout.h"
#include "graph/model.h"

/* What a degree of a split divides: the field's SOAP, and reductions. */
typedef enum cleave_axis_sort {
    CLEAVE_SORT_SAMPLE,    /* the batch */
    CLEAVE_SORT_OPERATOR,  /* not an axis: devices are left to other operators */
    CLEAVE_SORT_ATTRIBUTE, /* another axis of the output that no parameter has: height, time, heads
                            */
    CLEAVE_SORT_PARAMETER, /* an axis of the output and of a parameter */
    CLEAVE_SORT_REDUCTION, /* an axis that the output lacks */
    CLEAVE_N_SORTS
} cleave_axis_sort;
extern const char *const cleave_axis_sort_names[]; /* [CLEAVE_N_SORTS] */

/* Of the axis of an operator, by its nests and operands. */
cleave_axis_sort cleave_axis_sort_of(const cleave_model *model, int32_t op, int axis);

typedef struct cleave_constraints {
    const cleave_layout *fixed; /* null: none; splits of the operators in is_fixed */
    const char *fixed_from;     /* the file, for messages */
    const bool *is_fixed;       /* [n_operators] */
    uint32_t sorts;             /* bits of cleave_axis_sort that may be split; 0: all */
} cleave_constraints;

/* Does a split keep to them?  Operators that are fixed keep theirs, whatever its axes. */
bool cleave_constraints_allow(const cleave_constraints *constraints, const cleave_model *model,
                              int32_t op, const cleave_split *split, int32_t n_devices);

/* A layout file of some of the model's operators: those are fixed.  BAD_INPUT as
 * cleave_layout_read. */
cleave_status cleave_constraints_read(const char *path, const cleave_model *model,
                                      int32_t n_devices, cleave_arena *arena,
                                      cleave_constraints *constraints, cleave_error *error);

#endif
