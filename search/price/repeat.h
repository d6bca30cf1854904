/* Prices of layouts whose blocks repeat, from a few blocks: the price is that of the whole model,
   to the bit (search/price/extend.h says why), but of a thousand layers six are lowered. */
#ifndef CLEAVE_SEARCH_PRICE_REPEAT_H
#define CLEAVE_SEARCH_PRICE_REPEAT_H

#include "search/price/extend.h"
#include "search/price/price.h"
#include "search/problem/problem.h"
#include "simulator/report/price_shares.h"

typedef struct cleave_repeats cleave_repeats;

/* For the model, machine and options of a pricer, which must outlive it; null where fewer blocks
   repeat than would be lowered, where they are connected otherwise than one to the next, or where
   gradients of several blocks set out together. */
cleave_status cleave_repeats_create(const cleave_pricer *pricer, const cleave_blocks *blocks,
                                    cleave_repeats **repeats, cleave_error *error);
void cleave_repeats_destroy(cleave_repeats *repeats); /* null: nothing */

/* Lowers a few blocks under a layout of the whole model, with collectives in closed form: one
   window (`folded`) or all devices.  `known` false where not all blocks are split, recomputed and
   sharded alike, or nothing folds; then the whole model has to be lowered.  The program lives until
   the next call. */
cleave_status cleave_repeats_lower(cleave_repeats *repeats, const cleave_layout *layout,
                                   bool folded, bool *known, cleave_program *program,
                                   cleave_error *error);

/* What the price of the whole model follows from; all of it lives until the next call. */
typedef struct cleave_repeated {
    cleave_program few; /* of the blocks that were lowered */
    cleave_extended whole;
    cleave_cost_cache *cache; /* of the few blocks' prices */
    cleave_arena *arena;      /* for more that lives so long */
} cleave_repeated;

/* The same for the whole model; `known` false also where the blocks turn out not to be alike, or
   where a simulation would settle (simulator/step/settle.h). */
cleave_status cleave_repeats_extend(cleave_repeats *repeats, const cleave_layout *layout,
                                    bool folded, bool *known, cleave_repeated *repeated,
                                    cleave_error *error);
/* Its step by scan, picoseconds, and (null: not asked for) what that rests on, as
   cleave_price_shares_find says of the simulated whole. */
cleave_status cleave_repeated_simulate(const cleave_repeated *repeated, int64_t *step,
                                       cleave_price_shares *shares, cleave_error *error);

#endif
