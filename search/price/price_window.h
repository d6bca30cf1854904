/* Prices of choices of a window space, by estimates of windows of models of a few blocks. */
#ifndef CLEAVE_SEARCH_PRICE_PRICE_WINDOW_H
#define CLEAVE_SEARCH_PRICE_PRICE_WINDOW_H

#include "search/price/price.h"
#include "search/problem/space.h"

typedef struct cleave_window_price {
    bool folds;           /* the rest is set where it does */
    int64_t step;         /* picoseconds: of the model, or that which a few blocks tell of all */
    int64_t excess_bytes; /* over the memory limit, in the same way */
} cleave_window_price;

typedef struct cleave_window_pricer cleave_window_pricer;

/* For a model whose blocks are `blocks` (n 0: none) on the machine of `pricer`, whose options it
   takes; `rules` are those of all layouts. Model, machine and rules must outlive it. */
cleave_status cleave_window_pricer_create(const cleave_pricer *pricer, const cleave_blocks *blocks,
                                          const cleave_collective_rules *rules,
                                          cleave_window_pricer **made, cleave_error *error);
void cleave_window_pricer_destroy(cleave_window_pricer *pricer); /* null: nothing */

/* Begins with a space, which must outlive it, and a choice in it: [n_groups], a split of each
   group's list. */
cleave_status cleave_window_pricer_begin(cleave_window_pricer *pricer,
                                         const cleave_window_space *space, const int32_t *choice,
                                         cleave_window_price *price, cleave_error *error);

/* The price of a choice, a few changes away from where it is; it goes there only if `moves`.  Not
   before one with which it began folds.  Else a step may be INT64_MAX that is no better than where
   it is, by the longest of the models priced. */
cleave_status cleave_window_pricer_run(cleave_window_pricer *pricer, const int32_t *choice,
                                       bool moves, cleave_window_price *price, cleave_error *error);

/* Bytes of the fragments of all that was priced, which tell how much work it was and depend on
   nothing but the choices. */
int64_t cleave_window_pricer_work(const cleave_window_pricer *pricer);

#endif
