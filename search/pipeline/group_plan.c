/* A choice of a value for each operator, read as a plan: its splits, and what they take and keep.
 */
#include "search/pipeline/group_internal.h"

static bool make_room(cleave_arena *arena, int32_t n, cleave_group_plan *plan) {
    *plan = (cleave_group_plan){.splits = CLEAVE_ARENA_ARRAY(arena, cleave_split, n),
                                .again = CLEAVE_ARENA_ARRAY(arena, bool, n),
                                .sharded = CLEAVE_ARENA_ARRAY(arena, uint8_t, n),
                                .beside = CLEAVE_ARENA_ARRAY(arena, int64_t, n),
                                .passing = CLEAVE_ARENA_ARRAY(arena, int64_t, n),
                                .time = CLEAVE_ARENA_ARRAY(arena, int64_t, n),
                                .once = CLEAVE_ARENA_ARRAY(arena, int64_t, n),
                                .kept = CLEAVE_ARENA_ARRAY(arena, int64_t, n),
                                .second = CLEAVE_ARENA_ARRAY(arena, int64_t, n),
                                .wrote = CLEAVE_ARENA_ARRAY(arena, int64_t, n),
                                .stays = CLEAVE_ARENA_ARRAY(arena, int64_t, n)};
    return plan->splits != NULL && plan->again != NULL && plan->sharded != NULL &&
           plan->beside != NULL && plan->passing != NULL && plan->time != NULL &&
           plan->once != NULL && plan->kept != NULL && plan->second != NULL &&
           plan->wrote != NULL && plan->stays != NULL;
}

/* Operators and plans that have a candidate in common share its devices. */
static bool place(group_making *m, int32_t op, int32_t v, cleave_split *split) {
    int32_t l = m->candidates.list_of[op], of = m->model.candidates[op][v];
    const cleave_candidate *c = &m->candidates.lists[l].items[of];
    if (m->devices[l] == NULL)
        m->devices[l] = CLEAVE_ARENA_ARRAY(m->scratch, int32_t *, m->candidates.lists[l].n);
    if (m->devices[l] == NULL)
        return false;
    int32_t **devices = &m->devices[l][of];
    if (*devices == NULL)
        *devices = CLEAVE_ARENA_ARRAY(m->arena, int32_t, c->n_parts);
    if (*devices == NULL)
        return false;
    split->devices = *devices;
    cleave_candidate_place(c, 0, split);
    return true;
}

/* All operators as those that stand for them. */
static cleave_status expand(group_making *m, const cleave_group_plan *few,
                            cleave_group_plan *plan) {
    int32_t n = m->of->model->n_operators;
    if (!make_room(m->arena, n, plan))
        return group_short_of_memory(m);
    for (int32_t op = 0; op < n; op++) {
        int32_t of = m->of->few->stands_for[op];
        plan->splits[op] = few->splits[of];
        plan->again[op] = few->again[of];
        plan->sharded[op] = few->sharded[of];
        plan->beside[op] = few->beside[of];
        plan->passing[op] = few->passing[of];
        plan->time[op] = few->time[of];
        plan->once[op] = few->once[of];
        plan->kept[op] = few->kept[of];
        plan->second[op] = few->second[of];
        plan->wrote[op] = few->wrote[of];
        plan->stays[op] = few->stays[of];
    }
    return CLEAVE_OK;
}

/* What two operators exchange is counted with the one that reads. */
cleave_status group_take_plan(group_making *m, const int32_t *choice, cleave_group_plan *plan) {
    const cleave_additive_model *model = &m->model;
    bool *needed = CLEAVE_ARENA_ARRAY(m->scratch, bool, m->small.n_operators);
    cleave_group_plan few, *whole = plan;
    if (needed == NULL || !make_room(m->scratch, m->small.n_operators, &few))
        return group_short_of_memory(m);
    plan = &few;
    for (int32_t op = 0; op < m->small.n_operators; op++) {
        int32_t v = group_value_of(m, op, choice[op], &plan->again[op]);
        if (!place(m, op, v, &plan->splits[op]))
            return group_short_of_memory(m);
        plan->time[op] = group_time_of(m, op, v, plan->again[op]);
        plan->sharded[op] = (uint8_t)group_choose_sharded(m, op, v, plan->again[op]);
        const cleave_additive_state *state = &group_states_of(m, op, v)[plan->sharded[op]];
        m->most_beside[op] =
            group_beside(&group_states_of(m, op, v)[CLEAVE_SHARDED_WEIGHT], plan->again[op]);
        plan->beside[op] = (int64_t)group_beside(state, plan->again[op]);
        plan->once[op] = state->once;
        plan->passing[op] = state->passing;
        plan->stays[op] = (int64_t)group_stays(m, op, v) + state->bytes;
        plan->kept[op] = plan->again[op] ? 0 : model->kept[op][v];
        plan->second[op] = plan->again[op] ? model->kept[op][v] : 0;
        plan->wrote[op] = model->kept[op][v] + model->loose[op][v];
    }
    for (int32_t p = 0; p < model->additive.n_pairs; p++) {
        const cleave_additive_pair *pair = &model->additive.pairs[p];
        plan->time[pair->b] += group_pair_cost(m, pair, choice[pair->a], choice[pair->b], 0);
        needed[pair->a] = needed[pair->a] || (plan->again[pair->b] && !plan->again[pair->a]);
    }
    for (int32_t op = 0; op < m->small.n_operators; op++) {
        bool again;
        int32_t v = group_value_of(m, op, choice[op], &again);
        plan->kept[op] += needed[op] ? model->loose[op][v] : 0;
    }
    return expand(m, &few, whole);
}
