/* Micro-batches, stages, recomputation and sharded state, drawn by chance. */
#ifndef CLEAVE_TESTS_SUPPORT_DRAWN_SCHEDULE_H
#define CLEAVE_TESTS_SUPPORT_DRAWN_SCHEDULE_H

#include "graph/model/layout_draw.h"

/* Of anything there is, in `most` micro-batches at most. */
static inline bool draw_schedule(const cleave_model *model, uint64_t seed, int32_t most,
                                 cleave_arena *arena, cleave_layout *layout) {
    const cleave_schedule_draw of = {.most_micro_batches = most, .kind = -1};
    return cleave_layout_draw_schedule(model, &of, seed, arena, layout);
}

#endif
