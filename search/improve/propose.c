#include "search/improve/propose.h"

static cleave_status change_members(const cleave_proposing *to, int32_t n, cleave_choice choice,
                                    cleave_error *error) {
    for (int32_t i = 0; i < n; i++)
        CLEAVE_TRY(cleave_chain_change(to->chain, to->members[i], choice, error));
    return CLEAVE_OK;
}

/* Both ends of a run have to change: else it is a shorter one. */
static cleave_status propose_run(const cleave_proposing *to, const cleave_move *move, bool *changes,
                                 cleave_error *error) {
    const cleave_choice *is = to->chain->choices.of, *as = move->like->of;
    const int32_t *place_of = to->source->place_of;
    int32_t first = place_of[move->op], last = move->op;
    while (place_of[last] != first + move->n - 1)
        last++;
    *changes =
        !cleave_same_choice(is[move->op], as[move->op]) && !cleave_same_choice(is[last], as[last]);
    for (int32_t op = 0; op < to->source->model->n_operators && *changes; op++)
        if (place_of[op] >= first && place_of[op] < first + move->n)
            CLEAVE_TRY(cleave_chain_change(to->chain, op, as[op], error));
    return CLEAVE_OK;
}

cleave_status cleave_propose_move(const cleave_proposing *to, const cleave_move *move,
                                  bool *changes, cleave_error *error) {
    cleave_chain *c = to->chain;
    *changes = true;
    if (move->op < 0)
        return cleave_chain_shard(c, move->tensor, !c->choices.sharded[move->tensor], error);
    if (move->like != NULL)
        return propose_run(to, move, changes, error);
    *changes = !cleave_same_choice(c->choices.of[move->op], move->choice);
    if (move->with >= 0) {
        *changes = *changes || !cleave_same_choice(c->choices.of[move->with], move->with_choice);
        CLEAVE_TRY(cleave_chain_change(c, move->op, move->choice, error));
        return cleave_chain_change(c, move->with, move->with_choice, error);
    }
    if (!*changes)
        return CLEAVE_OK;
    int32_t n = cleave_sweep_members(to->source, &c->choices, move->op, move->scope, to->members);
    return change_members(to, n, move->choice, error);
}

int32_t cleave_propose_whom(const cleave_proposing *to, const cleave_move *move) {
    const int32_t *place_of = to->source->place_of, *members = to->members;
    int32_t n =
        cleave_sweep_members(to->source, &to->chain->choices, move->op, move->scope, to->members);
    if (move->scope == CLEAVE_MOVE_PLACE)
        return n;
    bool several = false;
    for (int32_t i = 0; i < n; i++)
        several = several || place_of[members[i]] != place_of[move->op];
    return several && members[0] == move->op ? n : 0;
}

cleave_status cleave_propose_candidate(const cleave_proposing *to, int32_t n_members,
                                       int32_t candidate, cleave_error *error) {
    return change_members(to, n_members, (cleave_choice){candidate, 0}, error);
}
