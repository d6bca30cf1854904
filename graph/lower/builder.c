/* Putting buffers, items and messages into a fragment under construction; copies are in
   builder_copy.c. */
#include "graph/lower/builder.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void lower_unwind(lower_builder *builder, cleave_status status) {
    builder->status = status;
    longjmp(builder->unwind, 1);
}

void lower_fail(lower_builder *builder, cleave_status status, const char *format, ...) {
    if (builder->error != NULL) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(builder->error->message, sizeof builder->error->message, format, arguments);
        va_end(arguments);
    }
    lower_unwind(builder, status);
}

void lower_fail_memory(lower_builder *builder) {
    lower_fail(builder, CLEAVE_FAILED, "out of memory, or more than 2^31 items, while lowering");
}

void lower_fail_fold(lower_builder *builder, int32_t tensor, const char *why) {
    lower_fail(builder, CLEAVE_NO_LAYOUT, "tensor %s: %s", builder->model->tensors[tensor].name,
               why);
}

void lower_reserve(lower_builder *builder, void **items, int32_t *capacity, int64_t n,
                   size_t size) {
    while (*capacity < n)
        if (!cleave_list_grow(items, capacity, *capacity, size))
            lower_fail_memory(builder);
}

void *lower_array(lower_builder *builder, size_t count, size_t size) {
    void *array = cleave_arena_alloc(builder->arena, count, size);
    if (array == NULL)
        lower_fail_memory(builder);
    return array;
}

static void grow_sent(lower_builder *builder) {
    int32_t capacity = builder->buffers.capacity;
    bool *sent = realloc(builder->sent, (size_t)capacity * sizeof *sent);
    if (sent == NULL)
        lower_fail_memory(builder);
    memset(sent + builder->sent_capacity, 0,
           (size_t)(capacity - builder->sent_capacity) * sizeof *sent);
    builder->sent = sent;
    builder->sent_capacity = capacity;
}

/* Its box is left to the caller: buffers are large and many. */
static cleave_buffer *add_buffer(lower_builder *builder, cleave_buffer_kind kind, int32_t device,
                                 int32_t tensor, cleave_type type, int64_t bytes) {
    if (bytes < 0)
        lower_fail(builder, CLEAVE_FAILED, "a buffer has more than 2^63 bytes");
    cleave_buffer *buffer = LOWER_ROOM(builder, &builder->buffers);
    builder->buffers.n++;
    buffer->kind = kind;
    buffer->device = device;
    buffer->tensor = tensor;
    buffer->type = type;
    buffer->bytes = bytes;
    buffer->padding = 0;
    buffer->offset = 0;
    buffer->storage = builder->buffers.n - 1;
    buffer->first = INT32_MAX;
    buffer->last = -1;
    buffer->lane_first = INT32_MAX;
    buffer->lane_last = -1;
    buffer->lane_only = true; /* until the main lane uses it */
    buffer->persistent = false;
    if (builder->buffers.n > builder->sent_capacity)
        grow_sent(builder);
    return buffer;
}

int32_t lower_buffer_of_type(lower_builder *builder, cleave_buffer_kind kind, int32_t device,
                             int32_t tensor, cleave_type type, const cleave_box *box) {
    const cleave_tensor *of = &builder->model->tensors[tensor];
    int64_t bytes = cleave_box_size(of->rank, box) * cleave_type_bytes(type);
    lower_copy_box(of->rank, box, &add_buffer(builder, kind, device, tensor, type, bytes)->box);
    return builder->buffers.n - 1;
}

int32_t lower_buffer(lower_builder *builder, cleave_buffer_kind kind, int32_t device,
                     int32_t tensor, const cleave_box *box) {
    const cleave_tensor *of = &builder->model->tensors[tensor];
    bool exact = kind == CLEAVE_BUFFER_GRADIENT || kind == CLEAVE_BUFFER_STATE;
    cleave_type value =
        kind == CLEAVE_BUFFER_ACTIVATION_GRADIENT ? cleave_value_gradient_type(of) : of->stored;
    return lower_buffer_of_type(builder, kind, device, tensor,
                                exact ? cleave_exact_type(of) : value, box);
}

int32_t lower_message_bytes(lower_builder *builder, int32_t device, cleave_type type,
                            int64_t bytes) {
    cleave_buffer *made = add_buffer(builder, CLEAVE_BUFFER_MESSAGE, device, -1, type, bytes);
    made->box.lo[0] = 0; /* no box is of rank -1 */
    return builder->buffers.n - 1;
}

void lower_set_region(const lower_builder *builder, int32_t buffer, lower_region *region) {
    const cleave_buffer *of = &builder->buffers.items[buffer];
    const cleave_tensor *tensor = &builder->model->tensors[of->tensor];
    region->buffer = buffer;
    region->offset = 0;
    lower_copy_box(tensor->rank, &of->box, &region->box);
    cleave_tensor_strides(tensor, &of->box, region->stride);
}

lower_region lower_region_of(const lower_builder *builder, int32_t buffer) {
    lower_region region;
    lower_set_region(builder, buffer, &region);
    return region;
}

lower_region lower_region_within(int rank, const lower_region *region, const cleave_box *box) {
    lower_region within = *region;
    within.box = *box;
    within.offset = lower_region_offset(rank, region, box);
    return within;
}

bool lower_region_same_place(int rank, const cleave_box *box, const lower_region *a,
                             const lower_region *b) {
    if (a->buffer != b->buffer ||
        lower_region_offset(rank, a, box) != lower_region_offset(rank, b, box))
        return false;
    for (int d = 0; d < rank; d++)
        if (box->hi[d] - box->lo[d] > 1 && a->stride[d] != b->stride[d])
            return false;
    return true;
}

bool lower_region_is_dense(const cleave_tensor *tensor, const cleave_box *box,
                           const lower_region *region) {
    int64_t expected = 1;
    for (int i = tensor->rank - 1; i >= 0; i--) {
        int d = tensor->order[i];
        int64_t extent = box->hi[d] - box->lo[d];
        if (extent > 1 && region->stride[d] != expected)
            return false;
        expected *= extent;
    }
    return true;
}

void lower_begin_chunk(lower_builder *builder, int32_t slot, int32_t rank) {
    cleave_fragment_chunk chunk = {
        .slot = slot, .rank = rank, .first_item = builder->items.n, .first_mark = builder->marks.n};
    if (builder->chunks.n > 0) {
        const cleave_fragment_chunk *last = &builder->chunks.items[builder->chunks.n - 1];
        if (last->n_items == 0 && last->n_marks == 0)
            builder->chunks.n--;
    }
    LOWER_PUSH(builder, &builder->chunks, chunk);
}

int32_t lower_item(lower_builder *builder, int32_t device, cleave_lane lane, cleave_item_kind kind,
                   int32_t subject) {
    cleave_fragment_chunk *chunk = &builder->chunks.items[builder->chunks.n - 1];
    LOWER_PUSH(builder, &builder->items,
               (cleave_item){.kind = (uint8_t)kind,
                             .lane = (uint8_t)lane,
                             .when = (uint8_t)builder->when,
                             .device = device,
                             .slot = chunk->slot,
                             .subject = subject});
    chunk->n_items++;
    return builder->items.n - 1;
}

int32_t lower_mark(lower_builder *builder, int32_t device, cleave_lane lane) {
    LOWER_PUSH(builder, &builder->marks,
               (cleave_lane_mark){.before = builder->items.n, .device = device, .lane = lane});
    builder->chunks.items[builder->chunks.n - 1].n_marks++;
    return builder->marks.n - 1;
}

void lower_sync(lower_builder *builder, int32_t mark) {
    const cleave_lane_mark *at = &builder->marks.items[mark];
    cleave_lane other = at->lane == CLEAVE_LANE_MAIN ? CLEAVE_LANE_COMMUNICATION : CLEAVE_LANE_MAIN;
    lower_item(builder, at->device, other, CLEAVE_ITEM_SYNC, mark);
}

void lower_touch(lower_builder *builder, int32_t buffer, int32_t item) {
    LOWER_PUSH(builder, &builder->touches, (lower_touch_mark){.buffer = buffer, .item = item});
}

void lower_builder_clear(lower_builder *builder) {
    if (builder->buffers.n > 0)
        memset(builder->sent, 0, (size_t)builder->buffers.n * sizeof *builder->sent);
    builder->chunks.n = builder->marks.n = builder->items.n = builder->buffers.n =
        builder->updates.n = builder->loads.n = builder->copies.n = builder->copy_pieces.n =
            builder->messages.n = builder->collectives.n = builder->held.n = builder->touches.n = 0;
}

void lower_builder_free(lower_builder *builder) {
    CLEAVE_LIST_FREE(&builder->chunks);
    CLEAVE_LIST_FREE(&builder->marks);
    CLEAVE_LIST_FREE(&builder->items);
    CLEAVE_LIST_FREE(&builder->buffers);
    CLEAVE_LIST_FREE(&builder->updates);
    CLEAVE_LIST_FREE(&builder->loads);
    CLEAVE_LIST_FREE(&builder->copies);
    CLEAVE_LIST_FREE(&builder->copy_pieces);
    CLEAVE_LIST_FREE(&builder->messages);
    CLEAVE_LIST_FREE(&builder->collectives);
    CLEAVE_LIST_FREE(&builder->held);
    CLEAVE_LIST_FREE(&builder->touches);
    free(builder->sent);
    builder->sent = NULL;
    builder->sent_capacity = 0;
}

/* The messages that carry these bytes. */
static lower_run cut(lower_builder *builder, const cleave_message *whole) {
    lower_run run = {.first_message = builder->messages.n};
    for (int64_t done = 0; done < whole->bytes; done += CLEAVE_MOST_MESSAGE_BYTES) {
        cleave_message message = *whole;
        message.bytes = whole->bytes - done;
        if (message.bytes > CLEAVE_MOST_MESSAGE_BYTES)
            message.bytes = CLEAVE_MOST_MESSAGE_BYTES;
        message.source_offset += done;
        message.destination_offset += done;
        message.send_item = message.receive_item = -1;
        LOWER_PUSH(builder, &builder->messages, message);
        run.n_messages++;
    }
    builder->sent[whole->source_buffer] = true;
    return run;
}

static void each_message(lower_builder *builder, lower_run run, cleave_item_kind kind,
                         bool at_source) {
    for (int32_t m = run.first_message; m < run.first_message + run.n_messages; m++) {
        cleave_message *message = &builder->messages.items[m];
        int32_t device = at_source ? message->source : message->destination;
        int32_t item = lower_item(builder, device, (cleave_lane)message->lane, kind, m);
        if (kind == CLEAVE_ITEM_SEND)
            message->send_item = item;
        else if (kind == CLEAVE_ITEM_RECEIVE)
            message->receive_item = item;
    }
}

lower_run lower_post(lower_builder *builder, const cleave_message *whole) {
    lower_run run = cut(builder, whole);
    each_message(builder, run, CLEAVE_ITEM_SEND, true);
    each_message(builder, run, CLEAVE_ITEM_RECEIVE, false);
    return run;
}
void lower_wait_at_receiver(lower_builder *builder, lower_run run) {
    each_message(builder, run, CLEAVE_ITEM_WAIT, false);
}
void lower_wait_at_sender(lower_builder *builder, lower_run run) {
    each_message(builder, run, CLEAVE_ITEM_WAIT, true);
}
