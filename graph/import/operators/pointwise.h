/* Operators over all dimensions of a tensor, and pointwise nests, which most operators end in. */
#ifndef CLEAVE_GRAPH_IMPORT_POINTWISE_H
#define CLEAVE_GRAPH_IMPORT_POINTWISE_H

#include "graph/import/internal.h"

/* Opens an operator over all dimensions of a tensor, with their names. */
cleave_status cleave_import_open_over(cleave_importer *im, int32_t tensor, bool main_is_fixed,
                                      int32_t *op);

/* An operator of one pointwise nest, over all dimensions of its output: a new tensor called `name`
   with axes and memory order as those of `like` (-1: the usual ones).  Inputs and tape come
   between.  A tail may join the nest. */
cleave_status cleave_import_begin_pointwise(cleave_importer *im, const char *name, int rank,
                                            const int64_t *shape, int32_t like, cleave_nest *nest);
cleave_status cleave_import_end_pointwise(cleave_importer *im, const cleave_nest *nest);

/* Such an operator that only copies, for what has to be computed although views alone would do.
   Nothing joins it. */
cleave_status cleave_import_copy(cleave_importer *im, const char *name, int32_t tensor,
                                 int32_t *copy);

/* The last nest of an operator that has its axes and perhaps other nests: pointwise over all the
   axes, from `input`, its register 0, to output 0 of the node, which has the input's shape.  Both
   go by that operand's map. */
cleave_status cleave_import_begin_result(cleave_importer *im, int32_t op,
                                         const cleave_operand *input, cleave_nest *nest);
/* Adds that nest as the operator's main one.  A tail joins it where its axes are the dimensions of
   its output, else it becomes a nest of its own. */
cleave_status cleave_import_end_result(cleave_importer *im, const cleave_nest *nest);

#endif
