/* Estimates of layouts that fold, by windows of models of a few blocks: what a search on many
   devices asks, proposal after proposal (search/improve/chain.h). */
#ifndef CLEAVE_SEARCH_PRICE_PRICE_WINDOW_H
#define CLEAVE_SEARCH_PRICE_PRICE_WINDOW_H

#include "search/price/price.h"
#include "search/problem/blocks.h"

typedef struct cleave_windows cleave_windows;

/* Operators that have got other splits than where the windows are. */
typedef struct cleave_window_change {
    const cleave_layout *layout; /* as it is now */
    const int32_t *operators;
    int32_t n;
} cleave_window_change;

/* For a model whose blocks are `blocks` (n 0: none) on the machine of `pricer`, whose options it
   takes.  Model and machine must outlive it. */
cleave_status cleave_windows_create(const cleave_pricer *pricer, const cleave_blocks *blocks,
                                    cleave_windows **windows, cleave_error *error);
void cleave_windows_destroy(cleave_windows *windows); /* null: nothing */

/* Begins with a layout and its price; splits over all devices in order, blocks split alike.  Its
   collectives, and the devices of its splits, must outlive it.  NO_LAYOUT, and the windows have not
   begun, where it does not fold to windows of so many devices. */
cleave_status cleave_windows_begin(cleave_windows *windows, const cleave_layout *layout,
                                   int32_t window_devices, cleave_price *price,
                                   cleave_error *error);

/* Step, excess and over of a proposal; excess INT64_MAX where it does not fold.  Where it
   `screens`, a step that is no better than where it is, by the longest of the models priced, may be
   INT64_MAX. */
cleave_status cleave_windows_price(cleave_windows *windows, const cleave_window_change *change,
                                   bool screens, cleave_price *price, cleave_error *error);
/* What was priced stays: it folds, and was not screened. */
cleave_status cleave_windows_accept(cleave_windows *windows, cleave_error *error);
/* Or goes: the same operators, with the splits that they had before. */
cleave_status cleave_windows_reject(cleave_windows *windows, const cleave_window_change *change,
                                    cleave_error *error);

/* Bytes of the fragments of all that was priced, which tell how much work it was and depend on
   nothing but the layouts. */
int64_t cleave_windows_work(const cleave_windows *windows);

#endif
