/* What the search of windows and its moves share. */
#ifndef CLEAVE_SEARCH_IMPROVE_WINDOW_INTERNAL_H
#define CLEAVE_SEARCH_IMPROVE_WINDOW_INTERNAL_H

#include "search/improve/window.h"
#include "search/price/price_window.h"
#include "search/price/repeat.h"

enum { WINDOW_MOST_STARTS = 32 };

typedef struct window_search {
    const cleave_problem *problem;
    cleave_pricer *pricer;
    const cleave_collective_rules *rules;
    const cleave_window_options *options;
    cleave_arena work;
    cleave_blocks blocks;    /* that change together */
    cleave_repeats *repeats; /* where the pricer has none */
    cleave_window_pricer *window_pricer;
    cleave_window_space space;
    int32_t windows_before; /* of the size of windows before; 0: this is the first */
    int32_t *choice;        /* [n_groups] */
    int32_t *order;         /* [n_groups] in which they are changed */
    cleave_window_price price;
    int32_t *changed, n_changed; /* groups of a move */
    int32_t *starts[WINDOW_MOST_STARTS],
        n_starts;              /* choices of this size: parts of them are moves, too */
    cleave_window_found found; /* of whole models; found.price.step 0: none yet */
    int64_t proposals;
    double whole_work; /* of all devices, by the first choice that folded; 0: none yet */
    double work_kept;  /* for larger windows */
    char why_not[sizeof(cleave_error)];
} window_search;

bool window_search_is_over(const window_search *s);
bool window_price_is_better(const cleave_window_price *a, const cleave_window_price *b);

/* Groups in the order in which they are changed. */
cleave_status window_make_order(window_search *s, cleave_error *error);
/* Changes from where it is for as long as they improve and work is left. */
cleave_status window_descend(window_search *s, cleave_error *error);

#endif
