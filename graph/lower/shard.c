/* Weights and gradients of which each device keeps its share: gathered and reduced for the visits
   of those that read and give them (visit.h). */
#include "graph/lower/events.h"
#include "graph/lower/visit.h"

#include <stdlib.h>
#include <string.h>

lower_visiting *lower_visiting_of(const lowering *state, int32_t visit, int32_t base) {
    const lower_visit *of = &state->schedule->visits[visit];
    return &state->visiting[of->first_movement +
                            lower_find_base(state->base.model, of->tensor, base)];
}

bool lower_is_gathered(const lowering *state, int32_t tensor) {
    return state->schedule->n_visits > 0 && state->tensors[tensor].sharded >= CLEAVE_SHARDED_WEIGHT;
}

static bool is_reduced(const lowering *state, int32_t tensor) {
    return state->schedule->n_visits > 0 &&
           state->tensors[tensor].sharded >= CLEAVE_SHARDED_GRADIENT;
}

void lower_count_reduced(const lowering *state, int32_t tensor, int32_t *n_reduced,
                         int32_t *n_others) {
    const cleave_tensor *of = &state->base.model->tensors[tensor];
    if (!of->needs_gradient)
        return;
    if (of->view.kind == CLEAVE_VIEW_NONE)
        ++*(is_reduced(state, tensor) ? n_reduced : n_others);
    for (int32_t s = 0; s < of->view.n_sources; s++)
        lower_count_reduced(state, of->view.sources[s], n_reduced, n_others);
}

/* ---- movements ------------------------------------------------------------------------------- */

static void clear_visiting(lowering *state, const lower_visit *visit, int32_t tensor,
                           int32_t *next) {
    const cleave_tensor *of = &state->base.model->tensors[tensor];
    if (of->view.kind == CLEAVE_VIEW_NONE) {
        lower_visiting *at = &state->visiting[(*next)++];
        movement_clear(&at->move);
        at->move.tensor = tensor;
        at->move.lane = CLEAVE_LANE_COMMUNICATION;
        at->move.combiner = visit->gives ? CLEAVE_COMBINE_SUM : CLEAVE_COMBINE_NONE;
        at->move.zero_where_unwritten = visit->gives;
        at->after = NULL;
    }
    for (int32_t s = 0; s < of->view.n_sources; s++)
        clear_visiting(state, visit, of->view.sources[s], next);
}

void lower_begin_visits(lowering *state) {
    const lower_schedule *schedule = state->schedule;
    int32_t n = schedule->n_visits > 0 ? schedule->n_movements[state->family] : 0;
    if (n > state->n_visiting) {
        lower_visiting *more = realloc(state->visiting, (size_t)n * sizeof *more);
        if (more == NULL)
            lower_fail_memory(&state->base);
        memset(more + state->n_visiting, 0, (size_t)(n - state->n_visiting) * sizeof *more);
        state->visiting = more;
        state->n_visiting = n;
    }
    for (int32_t i = 0; i < state->n_events && n > 0; i++) {
        const lower_event *event = &schedule->events[lower_nth_event(state, i)];
        if (event->kind != LOWER_GATHER && event->kind != LOWER_REDUCE)
            continue;
        const lower_visit *visit = &schedule->visits[event->visit];
        int32_t next = visit->first_movement;
        clear_visiting(state, visit, visit->tensor, &next);
    }
}

void lower_visits_free(lowering *state) {
    for (int32_t i = 0; i < state->n_visiting; i++)
        movement_free(&state->visiting[i].move);
    free(state->visiting);
    state->visiting = NULL;
    state->n_visiting = 0;
}

/* Remembers how far the communication lane has come on each device. */
static void mark_devices(lowering *state, lower_visiting *at) {
    lower_builder *builder = &state->base;
    if (at->move.lane != CLEAVE_LANE_COMMUNICATION || at->move.involved == NULL)
        return;
    at->after = LOWER_ARRAY(builder, int32_t, builder->n_devices);
    for (int32_t d = 0; d < builder->n_devices; d++)
        at->after[d] =
            at->move.involved[d] ? lower_mark(builder, d, CLEAVE_LANE_COMMUNICATION) : -1;
}

bool lower_await_visiting(lowering *state, lower_visiting *at, int32_t device) {
    if (at->after == NULL || at->after[device] < 0)
        return false;
    lower_sync(&state->base, at->after[device]);
    at->after[device] = -1;
    return true;
}

void lower_chores_of_gradient(lowering *state, const movement *move, cleave_chore chore) {
    lower_builder *builder = &state->base;
    const cleave_tensor *of = &builder->model->tensors[move->tensor];
    cleave_type sent = cleave_reduce_type(builder->model, move->tensor, cleave_exact_type(of));
    int64_t each = cleave_stored_bytes(of) + cleave_type_bytes(sent);
    for (int32_t i = 0; i < move->contributions.n; i++) {
        const move_contribution *given = &move->contributions.items[i];
        if (move->involved != NULL && move->involved[given->device])
            lower_chore(
                builder, given->device,
                (cleave_copy){.chore = chore,
                              .chore_bytes = cleave_box_size(of->rank, &given->at.box) * each});
    }
}

/* ---- weights --------------------------------------------------------------------------------- */

static void gather(lowering *state, const lower_visit *visit, lower_visiting *at) {
    lower_builder *builder = &state->base;
    lower_contribute_shares(state, &at->move);
    lower_operand_prepare(state, &at->move);
    lower_do(builder, (cleave_when)visit->when);
    move_all(builder, &at->move);
    mark_devices(state, at);
}

/* ---- gradients ------------------------------------------------------------------------------- */

static void reduce(lowering *state, const lower_visit *visit, lower_visiting *at) {
    lower_builder *builder = &state->base;
    const lower_tensor *of = &state->tensors[at->move.tensor];
    lower_do(builder, (cleave_when)visit->when);
    for (int32_t i = 0; i < of->shares.n; i++) {
        const lower_share *share = &of->shares.items[i];
        int32_t device = of->holders.items[share->holder].device;
        int32_t buffer =
            lower_buffer(builder, CLEAVE_BUFFER_GRADIENT, device, at->move.tensor, &share->at.box);
        lower_pad_share(builder, share, buffer);
        LOWER_PUSH(builder, &at->move.demands,
                   (move_demand){.operand = -1,
                                 .device = device,
                                 .at = lower_region_of(builder, buffer),
                                 .may_move = true});
    }
    lower_demand_like_shares(state, &at->move);
    move_all(builder, &at->move);
    lower_chores_of_gradient(state, &at->move, CLEAVE_CHORE_PACK);
    mark_devices(state, at);
}

static lower_total *find_total(const lower_tensor *of, int32_t group, int32_t share) {
    for (int32_t i = 0; i < of->totals.n; i++)
        if (of->totals.items[i].group == group && of->totals.items[i].share == share)
            return &of->totals.items[i];
    return NULL;
}

static void add_to(lower_builder *builder, int32_t tensor, int32_t device, const lower_region *to,
                   const lower_region *from) {
    lower_copy_begin(builder);
    lower_copy_add(builder, tensor, CLEAVE_COPY_SUM, &to->box, to, from, 0);
    lower_copy_end(builder, device, CLEAVE_LANE_MAIN);
}

/* What came to a share is added to what came before in visits of the group, in ascending order of
   micro-batches. */
static void settle_share(lowering *state, const lower_visit *visit, const lower_visiting *at,
                         int32_t i) {
    lower_builder *builder = &state->base;
    int32_t tensor = at->move.tensor;
    lower_tensor *of = &state->tensors[tensor];
    const lower_region *given = &at->move.demands.items[i].at;
    int32_t device = at->move.demands.items[i].device;
    const lower_total *total = find_total(of, visit->group, i);
    if (total != NULL) {
        add_to(builder, tensor, device, &total->at, given);
        return;
    }
    lower_total first = {.group = visit->group, .share = i, .at = *given};
    if (builder->micro != NULL && visit->when == CLEAVE_WHEN_EVERY) {
        int32_t buffer = lower_buffer(builder, CLEAVE_BUFFER_GRADIENT, device, tensor, &given->box);
        lower_pad_share(builder, &of->shares.items[i], buffer);
        first.at = lower_region_of(builder, buffer);
        lower_carry(builder, tensor, &first.at, given, device);
    }
    LOWER_PUSH(builder, &of->totals, first);
}

static void settle(lowering *state, const lower_visit *visit, lower_visiting *at) {
    lower_do(&state->base, (cleave_when)visit->when);
    for (int32_t i = 0; i < state->tensors[at->move.tensor].shares.n; i++) {
        lower_await_visiting(state, at, at->move.demands.items[i].device);
        settle_share(state, visit, at, i);
    }
    for (int32_t d = 0; d < state->base.n_devices; d++)
        lower_await_visiting(state, at, d); /* what it gave may be let go */
}

lower_region lower_sum_of_visits(lowering *state, int32_t tensor, int32_t share) {
    const lower_tensor *of = &state->tensors[tensor];
    const lower_total *sum = NULL;
    for (int32_t before = -1;;) {
        const lower_total *next = NULL;
        for (int32_t i = 0; i < of->totals.n; i++) {
            const lower_total *total = &of->totals.items[i];
            if (total->share == share && total->group > before &&
                (next == NULL || total->group < next->group))
                next = total;
        }
        if (next == NULL)
            return sum->at;
        before = next->group;
        if (sum == NULL)
            sum = next;
        else
            add_to(&state->base, tensor, of->holders.items[of->shares.items[share].holder].device,
                   &sum->at, &next->at);
    }
}

/* ---- events ---------------------------------------------------------------------------------- */

void lower_visit_event(lowering *state, const lower_event *event) {
    const lower_visit *visit = &state->schedule->visits[event->visit];
    int32_t n = lower_count_bases(state->base.model, visit->tensor);
    for (int32_t k = 0; k < n; k++) {
        lower_visiting *at = &state->visiting[visit->first_movement + k];
        if (!(visit->gives ? is_reduced(state, at->move.tensor)
                           : lower_is_gathered(state, at->move.tensor)))
            continue;
        if (event->kind == LOWER_GATHER)
            gather(state, visit, at);
        else if (event->kind == LOWER_REDUCE)
            reduce(state, visit, at);
        else
            settle(state, visit, at);
    }
}
