/* Micro-batches, stages, recomputation and sharded state, drawn by chance. */
#ifndef CLEAVE_TESTS_SUPPORT_DRAWN_SCHEDULE_H
#define CLEAVE_TESTS_SUPPORT_DRAWN_SCHEDULE_H

#include "graph/model/layout.h"

/* Gives a layout, which stays legal, a schedule drawn from the seed: of no, one or several stages
   of any kind, on disjoint blocks of its devices with splits drawn anew, and as many micro-batches
   as drawn, or fewer where the model or the splits want that; those of `most` at most; some
   operators that are recomputed; and some parameters whose gradients or weights are sharded.
   Returns false where nothing came of it: the layout is as it was.
 */
bool draw_schedule(const cleave_model *model, uint64_t seed, int32_t most, cleave_arena *arena,
                   cleave_layout *layout);

#endif
