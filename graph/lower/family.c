#include "graph/lower/family.h"

#include "graph/lower/events.h"

void lowering_begin(lowering *state, const lower_schedule *schedule) {
    lower_builder *builder = &state->base;
    const cleave_model *model = builder->model;
    state->schedule = schedule;
    state->tensors = LOWER_ARRAY(builder, lower_tensor, model->n_tensors);
    for (int32_t t = 0; t < model->n_tensors; t++) {
        lower_tensor *of = &state->tensors[t];
        int32_t writer = model->writer[t];
        of->forward.tensor = of->backward.tensor = t;
        of->forward.combiner = writer >= 0 ? model->nests[writer].combiner : CLEAVE_COMBINE_NONE;
        of->backward.combiner = CLEAVE_COMBINE_SUM;
        of->backward.zero_where_unwritten = true;
    }
}

static void clear(lowering *state, int32_t family) {
    const lower_schedule *schedule = state->schedule;
    lower_builder_clear(&state->base);
    state->family = family;
    state->operands.n = state->pieces.n = state->uses.n = state->rows.n = state->bindings.n = 0;
    state->table = NULL;
    state->table_size = 0;
    for (int32_t m = schedule->first_member[family]; m < schedule->first_member[family + 1]; m++) {
        int32_t t = schedule->members[m];
        lower_tensor *of = &state->tensors[t];
        movement_clear(&of->forward);
        movement_clear(&of->backward);
        of->forward.lane = of->backward.lane = CLEAVE_LANE_MAIN;
        of->holders.n = 0;
        of->shards = NULL;
        of->first_demand = of->main_after = NULL;
        of->pending = schedule->n_contributing[t];
    }
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

void lowering_free(lowering *state) {
    lower_builder_free(&state->base);
    CLEAVE_LIST_FREE(&state->operands);
    CLEAVE_LIST_FREE(&state->pieces);
    CLEAVE_LIST_FREE(&state->uses);
    CLEAVE_LIST_FREE(&state->rows);
    CLEAVE_LIST_FREE(&state->bindings);
    for (int32_t t = 0; state->tensors != NULL && t < state->base.model->n_tensors; t++) {
        movement_free(&state->tensors[t].forward);
        movement_free(&state->tensors[t].backward);
        CLEAVE_LIST_FREE(&state->tensors[t].holders);
        CLEAVE_LIST_FREE(&state->tensors[t].accumulators);
    }
}
