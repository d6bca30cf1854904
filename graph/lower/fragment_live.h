/* In which slots the buffers of a fragment are in use. */
#ifndef CLEAVE_GRAPH_LOWER_FRAGMENT_LIVE_H
#define CLEAVE_GRAPH_LOWER_FRAGMENT_LIVE_H

#include "graph/lower/operand.h"

/* Sets first and last of the buffers of the family that was just lowered to slots. */
void lower_find_live_slots(lowering *state);

#endif
