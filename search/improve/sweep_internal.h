/* A sweep while it is made. */
#ifndef CLEAVE_SEARCH_IMPROVE_SWEEP_INTERNAL_H
#define CLEAVE_SEARCH_IMPROVE_SWEEP_INTERNAL_H

#include "base/list.h"
#include "search/improve/sweep.h"

typedef struct sweep_builder {
    const cleave_sweep_source *source;
    const cleave_choices *base;
    int32_t *members; /* [n_operators] of the group at hand */
    int32_t n_members;
    bool *is_member;             /* [n_operators] */
    int32_t **value_of;          /* [n_operators][n of the list] of a candidate; -1: it has none */
    int32_t *first_pair, *pairs; /* [n_operators + 1] pairs of each operator */
    CLEAVE_LIST(cleave_move) moves;
    cleave_sweep_kind kind;
    int32_t n_places;        /* of which the first operator has been seen */
    cleave_move_scope scope; /* of the group at hand */
    bool complete, failed;
} sweep_builder;

void sweep_add(sweep_builder *b, cleave_move move);
/* The first device of what an operator has in the base. */
int32_t sweep_first_device(const sweep_builder *b, int32_t op);
/* Moves of two neighbours at once; false when memory is short. */
bool sweep_add_pairs(sweep_builder *b, cleave_arena *arena);

#endif
