/* What a degree of a split divides, in the field's words: SOAP (Jia, Zaharia, Aiken, MLSys 2019),
   and reductions. */
#ifndef CLEAVE_GRAPH_MODEL_AXIS_SORT_H
#define CLEAVE_GRAPH_MODEL_AXIS_SORT_H

#include "graph/model/model.h"

typedef enum cleave_axis_sort {
    CLEAVE_SORT_SAMPLE,    /* the batch, or what has it outermost */
    CLEAVE_SORT_OPERATOR,  /* not an axis: devices are left to other operators */
    CLEAVE_SORT_ATTRIBUTE, /* another axis of the output, which no parameter has: height, time,
                              heads */
    CLEAVE_SORT_PARAMETER, /* another axis of the output, which a parameter has */
    CLEAVE_SORT_REDUCTION, /* another axis, which the output lacks */
    CLEAVE_N_SORTS
} cleave_axis_sort;
extern const char *const cleave_axis_sort_names[CLEAVE_N_SORTS]; /* "sample", "operator", ... */

/* The sorts of the axes of all operators, from nests, operands and views alone: dimension 0 of data
   of the model's batch (of a model whose batch is fixed, of its targets or else its first data) is
   followed to every tensor and axis.  "The output" is that of an operator's main nest. */
typedef struct cleave_axis_sorts {
    uint8_t (*of)[CLEAVE_MAX_AXES]; /* [n_operators], of cleave_axis_sort; beyond an operator's axes
                                       nothing is said */
    int64_t batch;                  /* samples; 0: no data has any */
} cleave_axis_sorts;

/* In the arena.  Linear in the model.  FAILED when memory is short. */
cleave_status cleave_axis_sorts_find(const cleave_model *model, cleave_arena *arena,
                                     cleave_axis_sorts *sorts, cleave_error *error);

#endif
