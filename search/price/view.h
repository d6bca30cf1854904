/* What of a layout is lowered for its price: of layouts that fold (graph/model/fold.h) the first
   window stands for all, and of blocks that repeat a few do, so that neither the number of windows
   nor that of layers counts, but for the ways of collectives. */
#ifndef CLEAVE_SEARCH_PRICE_VIEW_H
#define CLEAVE_SEARCH_PRICE_VIEW_H

#include "graph/model/fold.h"
#include "search/price/repeat.h"
#include "simulator/step/few.h"

/* It lives until the pricer's next one. */
typedef struct cleave_lowered {
    bool repeats;             /* `program` is of a few blocks, and this of all of them: */
    cleave_repeated repeated; /* where it does */
    bool is_few;              /* `program` is of a few micro-batches, and this of all of them: */
    cleave_few few;           /* where it is */
    bool is_window;           /* of it the first window is lowered: */
    cleave_fold fold;         /* where it is */
    cleave_program program;
} cleave_lowered;

/* Would all of it, lowered whole, take more than 2 GiB or so?  What is not needed to the last item
   does without then. */
bool cleave_lowers_to_many(const cleave_layout *layout);

/* The first window with collectives in closed form; by three micro-batches of many where they may
   tell of all (`is_few`).  `folds` is false where the layout does not
   fold on the pricer's machine; or that is NO_LAYOUT, saying why (`must`). */
cleave_status cleave_lowered_fold(cleave_pricer *pricer, const cleave_layout *layout, bool is_few,
                                  bool must, bool *folds, cleave_lowered *lowered,
                                  cleave_error *error);
/* All devices. */
cleave_status cleave_lowered_whole(cleave_pricer *pricer, const cleave_layout *layout,
                                   bool in_steps, cleave_lowered *lowered, cleave_error *error);
/* The same, by three micro-batches of many; `tell` is false where it has no more, or these don't
   tell of all. */
cleave_status cleave_lowered_few(cleave_pricer *pricer, const cleave_layout *layout, bool in_steps,
                                 bool *tell, cleave_lowered *lowered, cleave_error *error);
/* Either of the first two. */
cleave_status cleave_lowered_closed_form(cleave_pricer *pricer, const cleave_layout *layout,
                                         cleave_lowered *lowered, cleave_error *error);

/* With the memory, messages and collectives of all blocks, but not all items. */
const cleave_program *cleave_lowered_program(const cleave_lowered *lowered);
/* Its step by scan, picoseconds, and what that rests on (null: not asked for); below 0 where a few
   micro-batches do not tell of all. */
cleave_status cleave_lowered_simulate(cleave_pricer *pricer, const cleave_lowered *lowered,
                                      int64_t *step, cleave_price_shares *shares,
                                      cleave_error *error);
/* The number on the machine of a device of the program. */
int32_t cleave_lowered_device(const cleave_lowered *lowered, int32_t device);
/* By all devices; closed forms as if their blocks were equal. */
int64_t cleave_lowered_bytes_sent(const cleave_lowered *lowered);

#endif
