#include "graph/fragment_live.h"

#include "graph/lower/events.h"

static void touch(lowering *state, int32_t buffer, int32_t first, int32_t last) {
    if (buffer < 0)
        return;
    cleave_buffer *of = &state->base.buffers.items[buffer];
    of->first = first < of->first ? first : of->first;
    of->last = last > of->last ? last : of->last;
}

static void touch_item(lowering *state, const cleave_item *item, int32_t last) {
    const lower_builder *builder = &state->base;
    switch ((cleave_item_kind)item->kind) {
    case CLEAVE_ITEM_UPDATE: {
        const cleave_update *update = &builder->updates.items[item->subject];
        touch(state, update->parameter, item->slot, last);
        touch(state, update->gradient, item->slot, last);
        touch(state, update->state[0], item->slot, last);
        touch(state, update->state[1], item->slot, last);
        break;
    }
    case CLEAVE_ITEM_LOAD:
        touch(state, builder->loads.items[item->subject].buffer, item->slot, last);
        break;
    case CLEAVE_ITEM_COPY: {
        const cleave_copy *copy = &builder->copies.items[item->subject];
        for (int32_t p = copy->first_piece; p < copy->first_piece + copy->n_pieces; p++) {
            touch(state, builder->copy_pieces.items[p].destination, item->slot, last);
            touch(state, builder->copy_pieces.items[p].source, item->slot, last);
        }
        break;
    }
    case CLEAVE_ITEM_SEND:
    case CLEAVE_ITEM_RECEIVE:
    case CLEAVE_ITEM_WAIT: {
        const cleave_message *message = &builder->messages.items[item->subject];
        touch(state,
              message->source == item->device ? message->source_buffer
                                              : message->destination_buffer,
              item->slot, last);
        break;
    }
    case CLEAVE_ITEM_COMPUTE:
    case CLEAVE_ITEM_SYNC:
    case CLEAVE_ITEM_JOIN:
    case CLEAVE_ITEM_AWAIT:
        break;
    }
}

/* What the communication lane uses may be in use until the main lane waits for it: in the update.
 */
static int32_t end_of_communication(const lowering *state) {
    const lower_schedule *schedule = state->schedule;
    int32_t end = 0;
    for (int32_t e = schedule->first_event[state->family];
         e < schedule->first_event[state->family + 1]; e++)
        if (schedule->events[e].kind == LOWER_UPDATE)
            end = schedule->events[e].slot;
    return end;
}

static void touch_items(lowering *state) {
    const lower_builder *builder = &state->base;
    int32_t end = end_of_communication(state);
    for (int32_t i = 0; i < builder->items.n; i++) {
        const cleave_item *item = &builder->items.items[i];
        bool beside = item->lane == CLEAVE_LANE_COMMUNICATION && item->slot < end;
        touch_item(state, item, beside ? end : item->slot);
    }
    for (int32_t i = 0; i < builder->touches.n; i++) {
        const lower_touch_mark *mark = &builder->touches.items[i];
        const cleave_item *item = &builder->items.items[mark->item];
        bool beside = item->lane == CLEAVE_LANE_COMMUNICATION && item->slot < end;
        touch(state, mark->buffer, item->slot, beside ? end : item->slot);
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
        return nest->kept_output;
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
        touch(state, binding[p], event->slot, last);
}

void lower_find_live_slots(lowering *state) {
    const lower_schedule *schedule = state->schedule;
    touch_items(state);
    for (int32_t e = schedule->first_event[state->family];
         e < schedule->first_event[state->family + 1]; e++)
        if (schedule->events[e].nest >= 0)
            touch_bindings(state, &schedule->events[e]);
    for (int32_t b = 0; b < state->base.buffers.n; b++) {
        cleave_buffer *buffer = &state->base.buffers.items[b];
        if (!buffer->persistent || buffer->last < 0)
            continue;
        buffer->first = 0;
        buffer->last = schedule->n_slots - 1;
    }
}
