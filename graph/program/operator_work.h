/* Whole operators as one piece of work, the grain in which frameworks run and are timed: a linear
   layer with its bias and what follows, a normalization, an attention.  All forward passes of an
   operator's nests are one call, and so are all their gradients.

   Measured nest by nest a framework takes twice as long as it does, so where a machine has times of
   whole operators, all of one is put on its lead, and its other nests take nothing.  But for turns
   of keys that go round (graph/model/ring.h), each of which is the whole operator on its keys. */
#ifndef CLEAVE_GRAPH_PROGRAM_OPERATOR_WORK_H
#define CLEAVE_GRAPH_PROGRAM_OPERATOR_WORK_H

#include "graph/program/work.h"

/* The nest that stands for an operator, forward or backward: the main one, or the first that has
   gradients where that has none; -1: nothing of it has. */
int32_t cleave_operator_lead(const cleave_model *model, int32_t op, bool backward);

/* The part of another nest of the operator that goes with a part of its lead: equal along axes of
   the operator that both have, whole along others; of what runs on owners, all that the nest before
   it writes. */
cleave_part cleave_operator_part(const cleave_model *model, const cleave_nest *lead,
                                 const cleave_part *part, const cleave_nest *nest);

/* "operator forward Gemm": alike for all parts.  Into [bytes] characters. */
void cleave_operator_family(const cleave_model *model, int32_t op, bool backward, char *family,
                            size_t bytes);

/* How many views lie between what the operator reads and what others gave, by such tensor that it
   reads: a framework runs each as a function, which takes it a while.  Into [CLEAVE_MOST_VIEWED],
   and how many there are. */
enum { CLEAVE_MOST_VIEWED = 16 };
int cleave_operator_views(const cleave_model *model, int32_t op, int64_t *views);

/* The whole work that goes with a part of the lead.  The key has the type and the lead's extents,
   and ends in a hash of all nests with their types, maps and tapes, and of views. */
void cleave_operator_work_describe(const cleave_model *model, int32_t op, bool backward,
                                   const cleave_part *part, cleave_work *work);

/* Is this the pass of the lead with which the call begins?  It is put on that: one call gives all
   gradients, and none of them can be sent before it is through. */
bool cleave_operator_begins(const cleave_model *model, const cleave_nest *lead, cleave_pass pass);

#endif
