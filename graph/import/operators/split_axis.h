/* One axis of an operator becomes two, an outer and an inner one: heads, and what is in a head. */
#ifndef CLEAVE_GRAPH_IMPORT_SPLIT_AXIS_H
#define CLEAVE_GRAPH_IMPORT_SPLIT_AXIS_H

#include "graph/import/internal.h"

typedef struct cleave_axis_split {
    int32_t op;
    int axis;      /* of the operator */
    int64_t inner; /* divides its extent */
    const char *outer_name, *inner_name;
} cleave_axis_split;

/* Can it be done?  All operands have to map the axis to one of their dimensions and nothing else.
 */
bool cleave_import_can_split_axis(const cleave_importer *im, const cleave_axis_split *split);
/* Does it.  Tensors inside the operator get one more dimension, so do parameters that nothing else
   reads; what it reads besides is read through views, and its output becomes a view of a new
   tensor, which `output` is set to. */
cleave_status cleave_import_split_axis(cleave_importer *im, const cleave_axis_split *split,
                                       int32_t *output);

#endif
