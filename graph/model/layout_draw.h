/* Micro-batches, stages, recomputation and sharded state, drawn by chance. */
#ifndef CLEAVE_GRAPH_MODEL_LAYOUT_DRAW_H
#define CLEAVE_GRAPH_MODEL_LAYOUT_DRAW_H

#include "graph/model/layout.h"

/* What is not left to chance: 0, and -1 of kind, leave it open. */
typedef struct cleave_schedule_draw {
    int32_t most_micro_batches; /* where they are open */
    int32_t micro_batches, stages, virtual_stages;
    int kind; /* cleave_schedule_kind */
} cleave_schedule_draw;

/* Gives a layout, which stays legal, a schedule drawn from the seed: of no, one or several stages
   of any kind, on disjoint blocks of its devices with splits drawn anew, and as many micro-batches
   as drawn, or, where they are open, fewer where the model or the splits want that; some operators
   that are recomputed; and some parameters whose gradients or weights are sharded.  Returns false
   where nothing came of it: the layout is as it was.  Where something of the schedule is asked for,
   it is often that no legal layout has what was drawn. */
bool cleave_layout_draw_schedule(const cleave_model *model, const cleave_schedule_draw *of,
                                 uint64_t seed, cleave_arena *arena, cleave_layout *layout);

#endif
