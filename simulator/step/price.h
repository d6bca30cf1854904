/* From a lowered program to what is simulated: every item gets its price and every message and
   collective its links.  The same for a whole program and for a fragment of one. */
#ifndef CLEAVE_SIMULATOR_STEP_PRICE_H
#define CLEAVE_SIMULATOR_STEP_PRICE_H

#include "costmodel/cost.h"
#include "graph/lower/fragment.h"
#include "simulator/step/priced_fragment.h"

typedef struct cleave_price_context {
    const cleave_program *program;
    cleave_cost_cache *cache;
    const cleave_machine *machine; /* of the cache */
    int32_t *image;                /* of a window: cleave_machine_fold_links; else null */
    bool nearby; /* of a window: collectives of all windows take the links at the first one alone,
                    by their images: what else they take is not known from a part of a program */
    cleave_arena *arena;
    cleave_priced_fragment *priced; /* gets its arrays there */
    int64_t *duration;              /* [program's n_items] */
    cleave_error *error;
} cleave_price_context;

/* `fragment` without chunks is a whole program.  `image` as above.  What is priced lies in the
   arena and keeps nothing of the program.  Collectives have a price in the symbolic form only. */
cleave_status cleave_price(const cleave_fragment *fragment, cleave_cost_cache *cache,
                           int32_t *image, cleave_arena *arena, cleave_priced_fragment *priced,
                           cleave_error *error);

/* Of the machine's links, picoseconds, [n_links] in the arena. */
cleave_status cleave_price_latencies(const cleave_machine *machine, cleave_arena *arena,
                                     int64_t **latency, cleave_error *error);

#endif
