/* Lifetimes.  Memory is planned by the program order of the main lane.  What the communication lane
   uses is live from the main-lane item that it last waited for to the main-lane item that waits for
   it: in between the two run side by side. */
#include "graph/lower_finish.h"

#include <string.h>

typedef struct lifetimes {
    lower_builder *builder;
    int32_t *since; /* [n_items] main-lane position from which the item may run */
    int32_t *until; /* [n_items] main-lane position by which it has ended */
} lifetimes;

static void touch(const lifetimes *state, int32_t buffer, int32_t item) {
    if (buffer < 0)
        return;
    cleave_buffer *of = &state->builder->buffers.items[buffer];
    of->first = state->since[item] < of->first ? state->since[item] : of->first;
    of->last = state->until[item] > of->last ? state->until[item] : of->last;
}

static void touch_item(const lifetimes *state, int32_t id) {
    const lower_builder *builder = state->builder;
    const cleave_item *item = &builder->items.items[id];
    switch ((cleave_item_kind)item->kind) {
    case CLEAVE_ITEM_COMPUTE: {
        const cleave_compute *compute = &builder->computes.items[item->subject];
        for (int i = 0; i < CLEAVE_MAX_INPUTS; i++) {
            touch(state, compute->inputs[i], id);
            touch(state, compute->input_gradients[i], id);
        }
        touch(state, compute->output, id);
        touch(state, compute->combined, id);
        touch(state, compute->output_gradient, id);
        touch(state, compute->workspace, id);
        break;
    }
    case CLEAVE_ITEM_UPDATE: {
        const cleave_update *update = &builder->updates.items[item->subject];
        touch(state, update->parameter, id);
        touch(state, update->gradient, id);
        touch(state, update->state[0], id);
        touch(state, update->state[1], id);
        break;
    }
    case CLEAVE_ITEM_LOAD:
        touch(state, builder->loads.items[item->subject].buffer, id);
        break;
    case CLEAVE_ITEM_COPY: {
        const cleave_copy *copy = &builder->copies.items[item->subject];
        for (int32_t p = copy->first_piece; p < copy->first_piece + copy->n_pieces; p++) {
            touch(state, builder->copy_pieces.items[p].destination, id);
            touch(state, builder->copy_pieces.items[p].source, id);
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
              id);
        break;
    }
    case CLEAVE_ITEM_SYNC:
    case CLEAVE_ITEM_JOIN:
    case CLEAVE_ITEM_AWAIT:
        break;
    }
}

/* Main-lane items run at their own position; items of the communication lane between two syncs. */
static void find_spans(lifetimes *state) {
    lower_builder *builder = state->builder;
    int32_t n = builder->items.n;
    int32_t *seen = LOWER_ARRAY(builder, int32_t, builder->n_devices);
    for (int32_t i = 0; i < n; i++) {
        const cleave_item *item = &builder->items.items[i];
        bool main_lane = item->lane == CLEAVE_LANE_MAIN;
        if (!main_lane && item->kind == CLEAVE_ITEM_SYNC)
            seen[item->device] = item->subject;
        state->since[i] = main_lane ? i : seen[item->device];
    }
    /* Backwards: the earliest later main-lane sync whose target is this item or a later one of the
     * lane. */
    int32_t *waits = LOWER_ARRAY(builder, int32_t, builder->n_devices);
    int32_t *waited = LOWER_ARRAY(builder, int32_t, n);
    for (int32_t i = n - 1; i >= 0; i--) {
        const cleave_item *item = &builder->items.items[i];
        if (item->lane == CLEAVE_LANE_MAIN && item->kind == CLEAVE_ITEM_SYNC)
            waited[item->subject] = i;
    }
    for (int32_t d = 0; d < builder->n_devices; d++)
        waits[d] = n - 1;
    for (int32_t i = n - 1; i >= 0; i--) {
        const cleave_item *item = &builder->items.items[i];
        if (item->lane != CLEAVE_LANE_MAIN && waited[i] > 0)
            waits[item->device] = waited[i];
        state->until[i] = item->lane == CLEAVE_LANE_MAIN ? i : waits[item->device];
    }
}

/* Unused buffers go; the rest keep their order. */
static void compact_buffers(lower_builder *builder, cleave_program *program) {
    int32_t n = builder->buffers.n, kept = 0;
    int32_t *renamed = LOWER_ARRAY(builder, int32_t, n);
    cleave_buffer *buffers = builder->buffers.items;
    for (int32_t b = 0; b < n; b++) /* what lies in another buffer keeps that one */
        if (buffers[b].last >= 0 && buffers[b].storage != b) {
            cleave_buffer *root = &buffers[buffers[b].storage];
            root->first = buffers[b].first < root->first ? buffers[b].first : root->first;
            root->last = buffers[b].last > root->last ? buffers[b].last : root->last;
        }
    for (int32_t b = 0; b < n; b++) {
        renamed[b] = buffers[b].last >= 0 ? kept : -1;
        if (buffers[b].last < 0)
            continue;
        if (buffers[b].persistent) {
            buffers[b].first = 0;
            buffers[b].last = builder->items.n - 1;
        }
        buffers[kept++] = buffers[b];
    }
    builder->buffers.n = kept;
#define RENAME(id) ((id) = (id) < 0 ? -1 : renamed[id])
    for (int32_t b = 0; b < kept; b++)
        RENAME(buffers[b].storage);
    for (int32_t i = 0; i < builder->computes.n; i++) {
        cleave_compute *compute = &builder->computes.items[i];
        for (int j = 0; j < CLEAVE_MAX_INPUTS; j++) {
            RENAME(compute->inputs[j]);
            RENAME(compute->input_gradients[j]);
        }
        RENAME(compute->output);
        RENAME(compute->combined);
        RENAME(compute->output_gradient);
        RENAME(compute->workspace);
    }
    for (int32_t i = 0; i < builder->updates.n; i++) {
        RENAME(builder->updates.items[i].parameter);
        RENAME(builder->updates.items[i].gradient);
        RENAME(builder->updates.items[i].state[0]);
        RENAME(builder->updates.items[i].state[1]);
    }
    for (int32_t i = 0; i < builder->loads.n; i++)
        RENAME(builder->loads.items[i].buffer);
    for (int32_t i = 0; i < builder->copy_pieces.n; i++) {
        RENAME(builder->copy_pieces.items[i].destination);
        RENAME(builder->copy_pieces.items[i].source);
    }
    for (int32_t i = 0; i < builder->messages.n; i++) {
        RENAME(builder->messages.items[i].source_buffer);
        RENAME(builder->messages.items[i].destination_buffer);
    }
    int32_t n_held = 0; /* what is held but never used is not there */
    for (int32_t i = 0; i < builder->held.n; i++) {
        RENAME(builder->held.items[i].buffer);
        if (builder->held.items[i].buffer >= 0)
            builder->held.items[n_held++] = builder->held.items[i];
    }
    builder->held.n = n_held;
    RENAME(program->loss_buffer);
    for (int32_t o = 0; o < program->n_outputs; o++)
        RENAME(program->output_buffers[o]);
#undef RENAME
}

#define TAKE(builder, program, list)                                                               \
    do {                                                                                           \
        (program)->n_##list = (builder)->list.n;                                                   \
        (program)->list =                                                                          \
            lower_array((builder), (size_t)(builder)->list.n, sizeof *(program)->list);            \
        if ((builder)->list.n > 0)                                                                 \
            memcpy((program)->list, (builder)->list.items,                                         \
                   (size_t)(builder)->list.n * sizeof *(program)->list);                           \
    } while (0)

void lower_finish(lower_builder *builder, cleave_program *program) {
    lifetimes state = {.builder = builder,
                       .since = LOWER_ARRAY(builder, int32_t, builder->items.n),
                       .until = LOWER_ARRAY(builder, int32_t, builder->items.n)};
    find_spans(&state);
    for (int32_t i = 0; i < builder->items.n; i++)
        touch_item(&state, i);
    for (int32_t i = 0; i < builder->touches.n; i++)
        touch(&state, builder->touches.items[i].buffer, builder->touches.items[i].item);
    if (builder->items.n > 0) {
        if (program->loss_buffer >= 0)
            touch(&state, program->loss_buffer, builder->items.n - 1);
        for (int32_t o = 0; o < program->n_outputs; o++)
            touch(&state, program->output_buffers[o], builder->items.n - 1);
    }
    compact_buffers(builder, program);
    TAKE(builder, program, items);
    TAKE(builder, program, slots);
    TAKE(builder, program, buffers);
    TAKE(builder, program, computes);
    TAKE(builder, program, updates);
    TAKE(builder, program, loads);
    TAKE(builder, program, copies);
    TAKE(builder, program, copy_pieces);
    TAKE(builder, program, messages);
    TAKE(builder, program, collectives);
    TAKE(builder, program, held);
}
