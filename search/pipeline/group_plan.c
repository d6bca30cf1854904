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
                                .behind = CLEAVE_ARENA_ARRAY(arena, int64_t, n),
                                .kept = CLEAVE_ARENA_ARRAY(arena, int64_t, n),
                                .late = CLEAVE_ARENA_ARRAY(arena, int64_t, n),
                                .across = CLEAVE_ARENA_ARRAY(arena, int64_t, n),
                                .back = CLEAVE_ARENA_ARRAY(arena, int32_t, n),
                                .wrote = CLEAVE_ARENA_ARRAY(arena, int64_t, n),
                                .stays = CLEAVE_ARENA_ARRAY(arena, int64_t, n),
                                .tied = CLEAVE_ARENA_ARRAY(arena, int64_t, n)};
    return plan->splits != NULL && plan->again != NULL && plan->sharded != NULL &&
           plan->beside != NULL && plan->passing != NULL && plan->time != NULL &&
           plan->once != NULL && plan->behind != NULL && plan->kept != NULL && plan->late != NULL &&
           plan->wrote != NULL && plan->stays != NULL && plan->tied != NULL &&
           plan->across != NULL && plan->back != NULL;
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

/* Has an operator gradients of weights that may be put off? */
static bool reads_late(const group_making *m, int32_t op) {
    const cleave_operator *of = &m->small.operators[op];
    bool reads = false;
    for (int32_t k = 0; k < of->n_nests && cleave_model_trains(&m->small); k++)
        reads = reads || cleave_nest_pass_inputs(&m->small, &m->small.nests[of->nests[k]],
                                                 CLEAVE_PASS_WEIGHT_GRADIENT) != 0;
    return reads;
}

/* Of what is read on other devices, too, the update, where any state is. */
static int tied_sharded(const cleave_group_problem *problem) {
    return problem->sharded == CLEAVE_SHARDED_NOTHING ? CLEAVE_SHARDED_NOTHING
                                                      : CLEAVE_SHARDED_UPDATE;
}

static void take_reading(const group_making *m, const cleave_additive_reading *reading,
                         const int32_t *choice, cleave_group_plan *plan) {
    int32_t writer = reading->writer, op = reading->reader;
    int64_t at = group_place_of(m, reading, choice[writer], choice[op]);
    int64_t held = group_held(m, reading, choice[writer], choice[op]);
    plan->kept[op] += held;
    if (reads_late(m, op))
        plan->late[op] += reading->kept[at];
    if (plan->again[writer]) {
        plan->across[op] += (plan->again[op] ? reading->read : reading->kept)[at];
        plan->back[op] = op - writer > plan->back[op] ? op - writer : plan->back[op];
    }
}

/* What two operators exchange is counted with the one that reads. */
cleave_status group_take_plan(group_making *m, const int32_t *choice, cleave_group_plan *plan) {
    const cleave_additive_model *model = &m->model;
    if (!make_room(m->arena, m->small.n_operators, plan))
        return group_short_of_memory(m);
    for (int32_t op = 0; op < m->small.n_operators; op++) {
        int32_t v = group_value_of(m, op, choice[op], &plan->again[op]);
        if (!place(m, op, v, &plan->splits[op]))
            return group_short_of_memory(m);
        plan->time[op] = group_time_of(m, op, v, plan->again[op]);
        plan->sharded[op] = (uint8_t)group_choose_sharded(m, op, v, plan->again[op]);
        const cleave_additive_state *state = &group_states_of(m, op, v)[plan->sharded[op]];
        m->most_beside[op] =
            group_beside(&group_states_of(m, op, v)[group_most_sharded(m)], plan->again[op]);
        m->most_once[op] = (double)group_states_of(m, op, v)[CLEAVE_SHARDED_NOTHING].once;
        plan->time[op] +=
            (int64_t)cleave_state_chores_each(&state->chores, m->micro_batches, plan->again[op]);
        plan->beside[op] = (int64_t)group_beside(state, plan->again[op]);
        plan->once[op] = state->once;
        plan->behind[op] = state->behind + state->chores.bucketing;
        plan->passing[op] = state->passing;
        plan->stays[op] = (int64_t)group_stays(m, op, v) + state->bytes;
        plan->tied[op] = model->tied[op][v * CLEAVE_N_SHARDED + tied_sharded(m->of)].bytes;
        plan->kept[op] = plan->again[op] ? 0 : model->own[op][v];
        plan->late[op] = reads_late(m, op) ? model->wrote[op][v] : 0;
        plan->wrote[op] = model->wrote[op][v];
    }
    for (int32_t p = 0; p < model->additive.n_pairs; p++) {
        const cleave_additive_pair *pair = &model->additive.pairs[p];
        plan->time[pair->b] += group_pair_cost(m, pair, choice[pair->a], choice[pair->b]);
    }
    for (int32_t i = 0; i < model->n_readings; i++)
        take_reading(m, &model->readings[i], choice, plan);
    return CLEAVE_OK;
}
