/* Visits: when the weights that are sharded have to be there, and where their gradients arise.

   A device keeps its share of such a weight and no more.  So what reads the weight has it gathered:
   for one run of slots after the other, each of one block, and let go behind it.  It is a run as
   long as no operator with such weights lies in between that does not read this one: the steps of a
   recurrence are one, and a weight that is read at both ends of a model has two.  Gathering begins
   with the operator before of those that have such weights; so no more than those of two operators
   are ever there.

   Likewise a gradient that is sharded is reduced behind each run of operators that give it, beside
   the operator that follows, behind which each device adds what came to its share. */
#ifndef CLEAVE_GRAPH_LOWER_VISIT_H
#define CLEAVE_GRAPH_LOWER_VISIT_H

#include "graph/lower/slots.h"

/* Is there a weight under a tensor of whose state so much is sharded? */
bool lower_sees_sharded(const cleave_model *model, const cleave_layout *layout, int32_t tensor,
                        cleave_sharded least);

/* How many base tensors a tensor shows; and which of them, in order, one is, or -1. */
int32_t lower_count_bases(const cleave_model *model, int32_t tensor);
int32_t lower_find_base(const cleave_model *model, int32_t tensor, int32_t base);

#endif
