/* What a layout of thousands of devices costs, where it folds (graph/model/fold.h): one window is
   lowered, planned and simulated for all, with collectives in closed form.  The time does not grow
   with the number of windows, but for the ways of their collectives. */
#ifndef CLEAVE_SEARCH_PRICE_PRICE_FOLDED_H
#define CLEAVE_SEARCH_PRICE_PRICE_FOLDED_H

#include "search/price/price.h"

/* The price of a whole layout with collectives in closed form, from its first window: the step,
   peak and excess that cleave_price_layout gives, not expanded. `bytes_sent` counts messages of all
   devices, and closed forms as if their blocks were equal. NO_LAYOUT, saying why, where the layout
   does not fold on the pricer's machine.  Where the pricer knows how blocks repeat, only a few of
   them are lowered; the price is the same. */
cleave_status cleave_price_folded(cleave_pricer *pricer, const cleave_layout *layout,
                                  cleave_price *price, cleave_error *error);

/* Lowers, into the pricer's arena, all that a price with collectives in closed form follows from:
   the first window of a layout that folds on the pricer's machine, else all devices. */
cleave_status cleave_lower_closed_form(cleave_pricer *pricer, const cleave_layout *layout,
                                       cleave_program *program, cleave_error *error);

/* The same where the layout folds; else only says that it does not. */
cleave_status cleave_lower_if_folded(cleave_pricer *pricer, const cleave_layout *layout,
                                     bool *folds, cleave_program *program, cleave_error *error);

/* The price that cleave_price_layout gives, not expanded, of what is lowered that way. */
cleave_status cleave_price_closed_form(cleave_pricer *pricer, const cleave_layout *layout,
                                       cleave_price *price, cleave_error *error);

/* The same, but where the layout does not fold and surely fits the memory this is not planned:
   peak_bytes is about what it needs, and bytes_sent is not set. */
cleave_status cleave_price_found(cleave_pricer *pricer, const cleave_layout *layout,
                                 cleave_price *price, cleave_error *error);

/* The price that cleave_price_layout gives, not expanded; of a few blocks, where they repeat. */
cleave_status cleave_price_all_devices(cleave_pricer *pricer, const cleave_layout *layout,
                                       cleave_price *price, cleave_error *error);

/* Can any layout of a machine fold: are there several nodes, all alike, on a network that lets
   windows of one node be?  The error says why not; it may be null. */
bool cleave_machine_may_fold(const cleave_machine *machine, cleave_error *error);

#endif
