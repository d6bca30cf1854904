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

/* The lists of the last family go to this one. */
static void lend(lowering *state, int32_t family) {
    const lower_schedule *schedule = state->schedule;
    for (int32_t m = 0; state->family >= 0 && m < n_members(schedule, state->family); m++) {
        int32_t t = schedule->members[schedule->first_member[state->family] + m];
        state->spare[m] = state->tensors[t];
        state->tensors[t] = (lower_tensor){0};
    }
    state->family = family;
    for (int32_t m = 0; m < n_members(schedule, family); m++) {
        int32_t t = schedule->members[schedule->first_member[family] + m];
        state->tensors[t] = state->spare[m];
        state->spare[m] = (lower_tensor){0};
    }
}

static void clear_tensor(lowering *state, int32_t t) {
    const cleave_model *model = state->base.model;
    lower_tensor *of = &state->tensors[t];
    int32_t writer = model->writer[t];
    movement_clear(&of->forward);
    movement_clear(&of->backward);
    of->forward.tensor = of->backward.tensor = t;
    of->forward.lane = of->backward.lane = CLEAVE_LANE_MAIN;
    of->forward.combiner = writer >= 0 ? model->nests[writer].combiner : CLEAVE_COMBINE_NONE;
    of->backward.combiner = CLEAVE_COMBINE_SUM;
    of->backward.zero_where_unwritten = true;
    of->holders.n = 0;
    of->shards = NULL;
    of->first_demand = of->main_after = NULL;
    of->pending = state->schedule->n_contributing[t];
}

static void clear(lowering *state, int32_t family) {
    const lower_schedule *schedule = state->schedule;
    lower_builder_clear(&state->base);
    lend(state, family);
    state->operands.n = state->pieces.n = state->uses.n = state->rows.n = state->bindings.n = 0;
    state->table = NULL;
    state->table_size = 0;
    for (int32_t m = schedule->first_member[family]; m < schedule->first_member[family + 1]; m++)
        clear_tensor(state, schedule->members[m]);
    for (int32_t e = schedule->first_event[family]; e < schedule->first_event[family + 1]; e++)
        state->tensors[schedule->events[e].tensor].accumulators.n = 0; /* views have some, too */
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
    case LOWER_UPDATE:
        lower_update(state, event);
        break;
    case LOWER_ASSIGN:
        lower_assign(state, event);
        break;
    }
}

void lower_family(lowering *state, int32_t family) {
    const lower_schedule *schedule = state->schedule;
    clear(state, family);
    lower_plan_needs(state);
    if (state->base.options->training)
        lower_plan_shards(state);
    for (int32_t e = schedule->first_event[family]; e < schedule->first_event[family + 1]; e++) {
        const lower_event *event = &schedule->events[e];
        lower_begin_chunk(&state->base, event->slot, event->rank);
        run_event(state, event);
    }
    lower_list_held(state);
}

static void free_tensor(lower_tensor *tensor) {
    movement_free(&tensor->forward);
    movement_free(&tensor->backward);
    CLEAVE_LIST_FREE(&tensor->holders);
    CLEAVE_LIST_FREE(&tensor->accumulators);
}

void lowering_free(lowering *state) {
    lower_builder_free(&state->base);
    CLEAVE_LIST_FREE(&state->operands);
    CLEAVE_LIST_FREE(&state->pieces);
    CLEAVE_LIST_FREE(&state->uses);
    CLEAVE_LIST_FREE(&state->pulled);
    CLEAVE_LIST_FREE(&state->rows);
    CLEAVE_LIST_FREE(&state->bindings);
    if (state->tensors == NULL || state->spare == NULL)
        return;
    for (int32_t t = 0; t < state->base.model->n_tensors; t++)
        free_tensor(&state->tensors[t]);
    for (int32_t m = 0; m < state->n_spare; m++)
        free_tensor(&state->spare[m]);
}
