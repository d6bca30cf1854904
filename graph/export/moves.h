/* What DTensor sends in a step of a plan.

   A program moves what a device lacks from who has it, in one go.  DTensor brings a tensor from how
   it lies to how it is wanted one dimension of the mesh after the other, each by a collective, and
   so sends more where two dimensions change at once.  The order of its steps is its own greedy one:
   from the innermost dimension outwards what has to be whole first, then from the outermost inwards
   the rest.  What some devices alone have, or are to have, python/cleave/torch/lie.py moves, in the
   same order: who is to have it alone gets it in the first round, and who has it alone shares it in
   the second. */
#ifndef CLEAVE_GRAPH_EXPORT_MOVES_H
#define CLEAVE_GRAPH_EXPORT_MOVES_H

#include "graph/export/plan.h"

enum { CLEAVE_LIE_WHOLE = -1, CLEAVE_LIE_PARTIAL = INT32_MIN };
/* How a tensor lies, by dimension of the mesh: the dimension of it that is cut, or one of those, or
   cleave_mesh_alone. */
typedef struct cleave_lie {
    int32_t of[CLEAVE_MAX_MESH];
} cleave_lie;

/* Bytes that all devices send while a tensor of so many bytes, in equal blocks, is brought from one
   to the other.  Nothing becomes partial. */
double cleave_lie_move_bytes(const cleave_mesh *mesh, const cleave_lie *from, const cleave_lie *to,
                             double bytes);

/* Of a step (a model without a loss: of forward) of one micro-batch in one stage: outputs of
   modules, what is read, parameters, and the gradients of all three.  Not what modules and the loss
   send among themselves (statistics of a batch that is split, sums over classes). */
cleave_status cleave_export_move_bytes(const cleave_model *model, const cleave_export_plan *plan,
                                       double *bytes, cleave_error *error);

#endif
