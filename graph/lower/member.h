/* Members of a family that are lowered one by one.

   Views join tensors to a family since what a part reads of several lies in one buffer, and arrives
   in one slot.  But each base tensor moves by itself: what comes of one of them depends on nothing
   but the operators that read or write it, and how it is mixed with what comes of others follows
   from the numbers of events, parts and pieces alone.  So of a hundred steps of a recurrence that a
   concatenation joins, the two are lowered that a change of one concerns. */
#ifndef CLEAVE_GRAPH_LOWER_MEMBER_H
#define CLEAVE_GRAPH_LOWER_MEMBER_H

#include "graph/lower/slots.h"

typedef struct lower_members {
    int32_t *n;           /* [n_families] members; 0: the family is lowered as a whole */
    int32_t *first_event; /* [members of all families + 1] of events */
    int32_t *events;      /* of the schedule; of each member ascending */
} lower_members;

/* FAILED when memory is short. */
cleave_status lower_find_members(const cleave_model *model, const lower_schedule *schedule,
                                 cleave_arena *arena, lower_members *members, cleave_error *error);

#endif
