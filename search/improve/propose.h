/* Moves as proposals of a chain. */
#ifndef CLEAVE_SEARCH_IMPROVE_PROPOSE_H
#define CLEAVE_SEARCH_IMPROVE_PROPOSE_H

#include "search/improve/chain.h"
#include "search/improve/sweep.h"

/* Where a move is to be proposed; `members` is [n_operators], scratch. */
typedef struct cleave_proposing {
    const cleave_sweep_source *source;
    cleave_chain *chain;
    int32_t *members;
} cleave_proposing;

/* Proposes a move of one choice; `changes` false: it is what is there already, or of runs no more
   than moves of fewer places would be, and nothing is proposed. */
cleave_status cleave_propose_move(const cleave_proposing *to, const cleave_move *move,
                                  bool *changes, cleave_error *error);

/* Of a move of several candidates: the operators that change, none where it is another move, too.
 */
int32_t cleave_propose_whom(const cleave_proposing *to, const cleave_move *move);
/* Gives these one of the candidates. */
cleave_status cleave_propose_candidate(const cleave_proposing *to, int32_t n_members,
                                       int32_t candidate, cleave_error *error);

#endif
