/* Moves that are drawn: several operators at once, which single changes reach over worse layouts
   only. */
#ifndef CLEAVE_SEARCH_IMPROVE_DRAW_H
#define CLEAVE_SEARCH_IMPROVE_DRAW_H

#include "base/random.h"
#include "search/improve/chain.h"
#include "search/improve/sweep.h"

/* Room for a drawn move. */
typedef struct cleave_drawing {
    const cleave_sweep_source *source;
    int32_t *ops; /* [n_operators] scratch */
    bool *seen;   /* [n_operators] false between calls */
} cleave_drawing;

cleave_status cleave_drawing_create(const cleave_sweep_source *source, cleave_arena *arena,
                                    cleave_drawing *drawing, cleave_error *error);

/* Proposes a move of some kind to the chain; one that changes nothing, perhaps. */
cleave_status cleave_draw_move(cleave_drawing *drawing, cleave_random *random, cleave_chain *chain,
                               cleave_error *error);

#endif
