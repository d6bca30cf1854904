#include "graph/lower/family.h"

#include "graph/lower/events.h"

static int32_t n_members(const lower_schedule *schedule, int32_t family) {
    return schedule->first_member[family + 1] - schedule->first_member[family];
}

void lowering_begin(lowering *state, const lower_schedule *schedule) {
    lower_builder *builder = &state->base;
    state->schedule = schedule;
    state->n_spare = 0;
    state->family = -1;
    for (int32_t f = 0; f < schedule->n_families; f++)
        if (n_members(schedule, f) > state->n_spare)
            state->n_spare = n_members(schedule, f);
    state->tensors = LOWER_ARRAY(builder, lower_tensor, builder->model->n_tensors);
    state->spare = LOWER_ARRAY(builder, lower_tensor, state->n_spare);
}

/* The lists of what was lowered last go to these members. */
static void lend(lowering *state, int32_t first, int32_t n) {
    const int32_t *members = state->schedule->members;
    for (int32_t m = 0; m < state->n_lent; m++) {
        lower_tensor *of = &state->tensors[members[state->first_lent + m]];
        state->spare[m] = *of;
        *of = (lower_tensor){0};
    }
    state->first_lent = first;
    state->n_lent = n;
    for (int32_t m = 0; m < n; m++) {
        state->tensors[members[first + m]] = state->spare[m];
        state->spare[m] = (lower_tensor){0};
    }
}

static void clear_tensor(lowering *state, int32_t t) {
    const cleave_model *model = state->base.model;
    lower_tensor *of = &state->tensors[t];
    int32_t writer = model->writer[t];
    bool statistics = model->tensors[t].stored == CLEAVE_STATISTICS;
    movement_clear(&of->forward);
    movement_clear(&of->backward);
    movement_clear(&of->again);
    of->forward.tensor = of->backward.tensor = of->again.tensor = t;
    of->forward.lane = of->backward.lane = of->again.lane = CLEAVE_LANE_MAIN;
    of->forward.combiner = of->again.combiner = statistics    ? CLEAVE_COMBINE_STATISTICS
                                                : writer >= 0 ? model->nests[writer].combiner
                                                : t + 1 == model->squares ? CLEAVE_COMBINE_SUM
                                                                          : CLEAVE_COMBINE_NONE;
    of->backward.combiner = CLEAVE_COMBINE_SUM;
    of->backward.zero_where_unwritten = true;
    of->holders.n = 0;
    of->shares.n = 0;
    of->totals.n = 0;
    of->sharded = CLEAVE_SHARDED_NOTHING;
    of->main_after = NULL;
    of->pending = state->schedule->n_contributing[t];
}

static void clear(lowering *state) {
    const lower_schedule *schedule = state->schedule;
    lower_builder_clear(&state->base);
    state->operands.n = state->pieces.n = state->uses.n = state->rows.n = state->bindings.n =
        state->stretches.n = 0;
    state->table = NULL;
    state->table_size = 0;
    for (int32_t m = state->first_lent; m < state->first_lent + state->n_lent; m++)
        clear_tensor(state, schedule->members[m]);
    lower_begin_visits(state);
    state->passing = LOWER_ARRAY(&state->base, lower_passing, schedule->n_rings[state->family]);
    for (int32_t i = 0; i < state->n_events; i++) /* views have some, too */
        state->tensors[schedule->events[lower_nth_event(state, i)].tensor].accumulators.n = 0;
}

static void run_event(lowering *state, const lower_event *event) {
    switch (event->kind) {
    case LOWER_READ:
    case LOWER_READ_COMBINED:
        lower_read(state, event);
        break;
    case LOWER_WRITE:
        lower_write(state, event);
        break;
    case LOWER_READ_LOSS:
    case LOWER_READ_OUTPUT:
        lower_read_final(state, event);
        break;
    case LOWER_READ_GRADIENT:
        lower_read_gradient(state, event);
        break;
    case LOWER_WRITE_GRADIENT:
        lower_write_gradient(state, event);
        break;
    case LOWER_GATHER:
    case LOWER_REDUCE:
    case LOWER_SETTLE:
        lower_visit_event(state, event);
        break;
    case LOWER_SET_OUT:
        lower_set_out(state, event);
        break;
    case LOWER_NORM_BEGIN:
        lower_norm_begin(state, event);
        break;
    case LOWER_NORM_ADD:
        lower_norm_add(state, event);
        break;
    case LOWER_NORM_END:
        lower_norm_end(state, event);
        break;
    case LOWER_UPDATE_EARLY:
    case LOWER_UPDATE:
        lower_update(state, event);
        break;
    case LOWER_ASSIGN:
        lower_assign(state, event);
        break;
    }
}

static void run_events(lowering *state) {
    clear(state);
    lower_plan_needs(state);
    if (state->base.options->training)
        lower_plan_shares(state);
    for (int32_t i = 0; i < state->n_events; i++) {
        state->event = &state->schedule->events[lower_nth_event(state, i)];
        state->part = 0;
        lower_begin_chunk(&state->base, state->event->slot, state->event->rank);
        lower_begin_stretch(state, false, 0);
        run_event(state, state->event);
    }
    lower_list_held(state);
}

void lower_family(lowering *state, int32_t family) {
    const lower_schedule *schedule = state->schedule;
    state->family = family;
    state->member = state->pulled.only = NULL;
    state->n_events = schedule->first_event[family + 1] - schedule->first_event[family];
    state->events = NULL;
    lend(state, schedule->first_member[family], n_members(schedule, family));
    run_events(state);
}

void lower_member(lowering *state, int32_t family, int32_t i, int32_t n_events,
                  const int32_t *events) {
    int32_t first = state->schedule->first_member[family] + i;
    state->family = family;
    state->member = state->pulled.only = &state->schedule->members[first];
    state->n_events = n_events;
    state->events = events;
    lend(state, first, 1);
    run_events(state);
}

/* Where the event is about the member itself, no other has anything between. */
void lower_begin_stretch(lowering *state, bool planned, int32_t piece) {
    const lower_builder *builder = &state->base;
    const lower_event *event = state->event;
    if (state->member == NULL)
        return;
    bool alone = event->tensor == *state->member;
    cleave_stretch_at at = cleave_stretch_place(planned, event->slot, event->rank,
                                                alone ? 0 : state->part, alone ? 0 : piece);
    if (state->stretches.n > 0 &&
        cleave_stretch_same(state->stretches.items[state->stretches.n - 1].at, at))
        return;
    LOWER_PUSH(&state->base, &state->stretches,
               (cleave_fragment_stretch){.at = at,
                                         .first_item = builder->items.n,
                                         .first_buffer = builder->buffers.n,
                                         .first_message = builder->messages.n,
                                         .first_collective = builder->collectives.n});
}

static void free_tensor(lower_tensor *tensor) {
    movement_free(&tensor->forward);
    movement_free(&tensor->backward);
    movement_free(&tensor->again);
    CLEAVE_LIST_FREE(&tensor->holders);
    CLEAVE_LIST_FREE(&tensor->shares);
    CLEAVE_LIST_FREE(&tensor->totals);
    CLEAVE_LIST_FREE(&tensor->accumulators);
}

void lowering_free(lowering *state) {
    lower_builder_free(&state->base);
    CLEAVE_LIST_FREE(&state->operands);
    CLEAVE_LIST_FREE(&state->pieces);
    CLEAVE_LIST_FREE(&state->uses);
    CLEAVE_LIST_FREE(&state->counted);
    CLEAVE_LIST_FREE(&state->pulled);
    CLEAVE_LIST_FREE(&state->rows);
    CLEAVE_LIST_FREE(&state->bindings);
    CLEAVE_LIST_FREE(&state->stretches);
    lower_visits_free(state);
    if (state->tensors == NULL || state->spare == NULL)
        return;
    for (int32_t t = 0; t < state->base.model->n_tensors; t++)
        free_tensor(&state->tensors[t]);
    for (int32_t m = 0; m < state->n_spare; m++)
        free_tensor(&state->spare[m]);
}
