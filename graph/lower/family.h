/* Lowering one family of tensors: what a program is put together from. */
#ifndef CLEAVE_GRAPH_LOWER_FAMILY_H
#define CLEAVE_GRAPH_LOWER_FAMILY_H

#include "graph/lower/operand.h"

/* Makes `state`, which is zeroed but for the builder's model, layout, options, arena and parts,
   ready for any family. */
void lowering_begin(lowering *state, const lower_schedule *schedule);

/* Lowers a family: the state's lists are its fragment, until the next one. */
void lower_family(lowering *state, int32_t family);

/* Lowers the i-th member of a family alone, at the events that concern it. */
void lower_member(lowering *state, int32_t family, int32_t i, int32_t n_events,
                  const int32_t *events);

void lowering_free(lowering *state);

#endif
