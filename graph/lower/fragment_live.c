#include "graph/lower/fragment_live.h"

#include "graph/lower/events.h"
#include "graph/program/item_buffers.h"

/* An item, or what is bound to an event, uses buffers in these slots. */
typedef struct use {
    lowering *state;
    int32_t first, last;
    int32_t slot;
    bool main_lane;
} use;

static void touch(void *context, int32_t buffer) {
    const use *at = context;
    if (buffer < 0)
        return;
    cleave_buffer *of = &at->state->base.buffers.items[buffer];
    of->first = at->first < of->first ? at->first : of->first;
    of->last = at->last > of->last ? at->last : of->last;
    of->lane_first = at->slot < of->lane_first ? at->slot : of->lane_first;
    of->lane_last = at->slot > of->lane_last ? at->slot : of->lane_last;
    of->lane_only &= !at->main_lane;
}

/* What the communication lane uses may be in use until the main lane waits for it, at the `end`. */
static use use_of(lowering *state, const cleave_item *item, int32_t end) {
    bool main_lane = item->lane == CLEAVE_LANE_MAIN, beside = !main_lane && item->slot < end;
    return (use){state, item->slot, beside ? end : item->slot, item->slot, main_lane};
}

/* The main lane waits in the update, or where it looks at the gradient before. */
static int32_t end_of_communication(const lowering *state) {
    const lower_schedule *schedule = state->schedule;
    int32_t end = 0;
    for (int32_t i = 0; i < state->n_events; i++) {
        const lower_event *event = &schedule->events[lower_nth_event(state, i)];
        if (event->kind == LOWER_NORM_ADD ||
            (event->kind == LOWER_UPDATE && state->base.model->squares == 0))
            end = event->slot;
    }
    return end;
}

/* Of what is gathered, where it is read first; of what is reduced, where it is settled.  `end` of
   what else is in the slot. */
static int32_t end_of_visits(const lowering *state, int32_t slot, int32_t end) {
    const lower_schedule *schedule = state->schedule;
    int32_t last = -1;
    for (int32_t i = 0; i < state->n_events && schedule->n_visits > 0; i++) {
        const lower_event *event = &schedule->events[lower_nth_event(state, i)];
        if (event->slot != slot || (event->kind != LOWER_GATHER && event->kind != LOWER_REDUCE))
            continue;
        const lower_visit *visit = &schedule->visits[event->visit];
        int32_t awaited = event->kind == LOWER_GATHER ? visit->first_slot : visit->aside;
        last = awaited > last ? awaited : last;
    }
    return last >= 0 ? last : end;
}

static void touch_items(lowering *state) {
    const lower_builder *builder = &state->base;
    const cleave_item_records records = {.updates = builder->updates.items,
                                         .loads = builder->loads.items,
                                         .messages = builder->messages.items};
    int32_t last = end_of_communication(state), slot = -1, end = last;
    for (int32_t i = 0; i < builder->items.n; i++) {
        const cleave_item *item = &builder->items.items[i];
        if (item->slot != slot)
            end = end_of_visits(state, slot = item->slot, last);
        use at = use_of(state, item, end);
        cleave_item_visit_buffers(&records, item, touch, &at); /* those of copies are touches */
    }
    for (int32_t i = 0; i < builder->touches.n; i++) {
        const lower_touch_mark *mark = &builder->touches.items[i];
        const cleave_item *item = &builder->items.items[mark->item];
        if (item->slot != slot)
            end = end_of_visits(state, slot = item->slot, last);
        use at = use_of(state, item, end);
        touch(&at, mark->buffer);
    }
}

/* Does this pass of a nest use what is bound to the event? */
static bool uses(const lowering *state, const lower_event *event, cleave_pass pass) {
    const cleave_nest *nest = &state->base.model->nests[event->nest];
    uint32_t gradients = cleave_nest_pass_inputs(state->base.model, nest, pass);
    switch (event->kind) {
    case LOWER_READ:
        return (lower_inputs_read(nest, gradients) & (1u << event->input)) != 0;
    case LOWER_WRITE:
        return event->input < 0 && nest->kept_output;
    case LOWER_READ_GRADIENT:
    case LOWER_READ_COMBINED:
        return true;
    default:
        return false;
    }
}

static void touch_bindings(lowering *state, const lower_event *event) {
    const lower_schedule *schedule = state->schedule;
    int32_t last = event->slot;
    for (cleave_pass pass = CLEAVE_PASS_INPUT_GRADIENT; pass <= CLEAVE_PASS_WEIGHT_GRADIENT;
         pass++) {
        int32_t slot = schedule->slot_of[event->nest][pass];
        if (slot > last && uses(state, event, pass))
            last = slot;
    }
    const int32_t *binding = lower_binding(state, (int32_t)(event - schedule->events));
    for (int32_t p = 0; p < state->base.parts[event->nest].n; p++)
        touch(&(use){state, event->slot, last, event->slot, true}, binding[p]);
}

void lower_find_live_slots(lowering *state) {
    const lower_schedule *schedule = state->schedule;
    touch_items(state);
    for (int32_t i = 0; i < state->n_events; i++) {
        const lower_event *event = &schedule->events[lower_nth_event(state, i)];
        if (event->nest >= 0)
            touch_bindings(state, event);
    }
    for (int32_t b = 0; b < state->base.buffers.n; b++) {
        cleave_buffer *buffer = &state->base.buffers.items[b];
        if (!buffer->persistent || buffer->last < 0)
            continue;
        buffer->first = 0;
        buffer->last = schedule->n_slots - 1;
        buffer->lane_only = false;
    }
}
