/* Tables of pairs: made once for all pairs of ports that are alike, and added up where two
   variables meet more than once. */
#ifndef CLEAVE_SEARCH_SOLVE_PAIRS_H
#define CLEAVE_SEARCH_SOLVE_PAIRS_H

#include "base/list.h"
#include "search/solve/internal.h"

typedef struct additive_table {
    uint64_t key;
    const int64_t *cost; /* [n_values of the first][n_values of the second] */
    bool is_zero;
    struct additive_table *next;
} additive_table;

typedef struct additive_meeting {
    cleave_additive_pair pair;
    bool owned; /* its table is of this pair alone */
    int32_t next;
} additive_meeting;

enum { ADDITIVE_TABLE_ROWS = 1024 };

typedef struct additive_pairs {
    additive_making *making;
    const int32_t *n_values; /* [n_variables] */
    int32_t *first;          /* [n_variables] meeting with it as the smaller one; -1: none */
    CLEAVE_LIST(additive_meeting) meetings;
    additive_table *rows[ADDITIVE_TABLE_ROWS];
} additive_pairs;

/* What a tensor costs from the operator that writes it to one that reads it, and its gradient back;
   shared evenly by the operators that read the same of it: what they read moves once where they are
   split alike, which is what they want.  Or what the gradient of a parameter costs that two
   operators read, beyond the synchronisation among those that the first one is split over. */
cleave_status additive_price_encounter(additive_pairs *p, const additive_encounter *met,
                                       const additive_table **table, cleave_error *error);

/* Adds a table, [n_values[a]][n_values[b]], to what two variables cost together. */
cleave_status additive_meet(additive_pairs *p, int32_t a, int32_t b, const additive_table *table,
                            cleave_error *error);

#endif
