/* The search on thousands of devices: layouts that fold, found on one window.

   Beyond some size nobody can lower all devices.  Layouts that fold (graph/model/fold.h) are made
   of equal windows of M devices, data parallel to one another: every operator has the batch cut
   into W = D / M ranges, outermost, and within its range any hierarchical split over the M devices
   of a window, in order.  A window is a node or a few; each size that the machine lets fold is
   searched, from baselines of a window, by the sweeps that few devices have, too
   (search/improve/refine.h), and repeated blocks (search/problem/blocks.h) change together.  Each
   proposal is priced by simulating its window on models of a few blocks; the layouts that come out
   get the price of the whole model, which follows from a few blocks, too (search/price/repeat.h).
   So the search takes the same time for any number of windows and, but for that last pricing, of
   blocks. */
#ifndef CLEAVE_SEARCH_IMPROVE_WINDOW_H
#define CLEAVE_SEARCH_IMPROVE_WINDOW_H

#include "search/price/view.h"
#include "search/problem/problem.h"

#include <signal.h>

typedef struct cleave_window_options {
    int64_t most_proposals; /* 0: no limit */
    double most_wholes;     /* work, in times of lowering all devices of the models that are priced
                               (shortened ones, where blocks repeat); 0: no limit */
    double until_seconds;   /* clock; 0: no limit, and the clock decides nothing */
    const volatile sig_atomic_t *interrupted; /* may be null */
} cleave_window_options;

typedef struct cleave_window_found {
    cleave_layout layout; /* on all devices; its operators share one list of them */
    cleave_price price;   /* folded, of the whole model */
    int32_t n_devices;    /* of the window that it folds to, at most */
    int32_t n_blocks;     /* that repeat; 0: none */
    int64_t proposals;
    double pricing_seconds; /* of that in which whole models were priced */
} cleave_window_found;

/* Searches the layouts that fold, under rules for collectives that the caller chose, and never
   gives one that is over the memory limit.  NO_LAYOUT, saying why, where the machine or the model
   has none that fold, or where none that was seen fits. */
cleave_status cleave_window_search(const cleave_problem *problem, cleave_pricer *pricer,
                                   const cleave_collective_rules *rules,
                                   const cleave_window_options *options, cleave_arena *arena,
                                   cleave_window_found *found, cleave_error *error);

#endif
