/* Fragments are put down one after the other, with ids that go on from one to the next. */
#include "graph/lower/assemble.h"

#include <string.h>

/* From so many elements on a list is given room for all that is foreseen, but not for so many times
   what is there. */
enum { LEAST_FORESEEN = 1024, MOST_TIMES_FORESEEN = 16 };

static inline int32_t moved(int32_t id, int32_t by) { return id < 0 ? id : id + by; }

static void add_memory(lower_assembly *to, const lower_builder *from) {
    int32_t buffers = to->buffers.n;
    for (int32_t i = 0; i < from->held.n; i++) {
        cleave_held held = from->held.items[i];
        held.buffer = moved(held.buffer, buffers);
        LOWER_PUSH_TO(to, held, held);
    }
    for (int32_t i = 0; i < from->touches.n; i++)
        LOWER_PUSH_TO(to, touches,
                      (lower_touch_mark){.buffer = from->touches.items[i].buffer + buffers,
                                         .item = from->touches.items[i].item + to->unplaced.n});
    for (int32_t i = 0; i < from->buffers.n; i++) {
        cleave_buffer buffer = from->buffers.items[i];
        buffer.storage += buffers;
        LOWER_PUSH_TO(to, buffers, buffer);
        LOWER_PUSH_TO(to, sent, from->sent[i]);
    }
}

/* A copy in the arena that lasts; of nothing, null. */
static void *keep(const lower_assembly *to, const void *items, int32_t n, size_t size) {
    if (items == NULL)
        return NULL;
    void *copy = cleave_arena_alloc(to->builder->lasting, (size_t)n, size);
    if (copy == NULL)
        lower_fail_memory(to->builder);
    if (n > 0)
        memcpy(copy, items, (size_t)n * size);
    return copy;
}

static const int32_t *keep_devices(lower_assembly *to, const int32_t *devices, int32_t n) {
    for (int k = 0; k < LOWER_KNOWN_MEMBERS; k++)
        if (to->kept[k].n == n &&
            (to->kept[k].devices == devices ||
             memcmp(to->kept[k].devices, devices, (size_t)n * sizeof *devices) == 0))
            return to->kept[k].devices;
    int k = to->next_kept++ % LOWER_KNOWN_MEMBERS;
    to->kept[k].n = n;
    return to->kept[k].devices = keep(to, devices, n, sizeof *devices);
}

static void add_collective(lower_assembly *to, cleave_collective of) {
    of.devices = keep_devices(to, of.devices, of.n_devices);
    of.transfers = keep(to, of.transfers, of.n_transfers, sizeof *of.transfers);
    of.packing = keep(to, of.packing, of.n_devices, sizeof *of.packing);
    LOWER_PUSH_TO(to, collectives, of);
}

/* Subjects of items; `buffers`: how far ids of buffers move. */
static void add_subjects(lower_assembly *to, const lower_builder *from, int32_t buffers) {
    for (int32_t i = 0; i < from->updates.n; i++) {
        cleave_update update = from->updates.items[i];
        update.parameter = moved(update.parameter, buffers);
        update.gradient = moved(update.gradient, buffers);
        update.master = moved(update.master, buffers);
        for (int s = 0; s < 2; s++)
            update.state[s] = moved(update.state[s], buffers);
        LOWER_PUSH_TO(to, updates, update);
    }
    for (int32_t i = 0; i < from->loads.n; i++)
        LOWER_PUSH_TO(to, loads, (cleave_load){.buffer = from->loads.items[i].buffer + buffers});
    for (int32_t i = 0; i < from->copies.n; i++) {
        cleave_copy copy = from->copies.items[i];
        copy.first_piece += to->copy_pieces.n;
        LOWER_PUSH_TO(to, copies, copy);
    }
    if (from->counts_pieces && from->copy_pieces.n > INT32_MAX - to->copy_pieces.n)
        lower_fail_memory(to->builder);
    if (from->counts_pieces)
        to->copy_pieces.n += from->copy_pieces.n;
    for (int32_t i = 0; i < from->copy_pieces.n && !from->counts_pieces; i++) {
        cleave_copy_piece piece = from->copy_pieces.items[i];
        piece.destination = moved(piece.destination, buffers);
        piece.source = moved(piece.source, buffers);
        LOWER_PUSH_TO(to, copy_pieces, piece);
    }
    for (int32_t i = 0; i < from->messages.n; i++) {
        cleave_message message = from->messages.items[i];
        message.source_buffer = moved(message.source_buffer, buffers);
        message.destination_buffer = moved(message.destination_buffer, buffers);
        LOWER_PUSH_TO(to, unposted, message);
    }
    for (int32_t i = 0; i < from->collectives.n; i++)
        add_collective(to, from->collectives.items[i]);
}

static void add_items(lower_assembly *to, const lower_builder *from, int32_t family) {
    const int32_t first[] = {
        [CLEAVE_ITEM_COMPUTE] = 0, /* comes later */
        [CLEAVE_ITEM_UPDATE] = to->updates.n - from->updates.n,
        [CLEAVE_ITEM_LOAD] = to->loads.n - from->loads.n,
        [CLEAVE_ITEM_COPY] = to->copies.n - from->copies.n,
        [CLEAVE_ITEM_SEND] = to->unposted.n - from->messages.n,
        [CLEAVE_ITEM_RECEIVE] = to->unposted.n - from->messages.n,
        [CLEAVE_ITEM_WAIT] = to->unposted.n - from->messages.n,
        [CLEAVE_ITEM_SYNC] = to->marks.n,
        [CLEAVE_ITEM_JOIN] = to->collectives.n - from->collectives.n,
        [CLEAVE_ITEM_AWAIT] = to->collectives.n - from->collectives.n,
    };
    for (int32_t c = 0; c < from->chunks.n; c++) {
        cleave_fragment_chunk chunk = from->chunks.items[c];
        chunk.first_item += to->unplaced.n;
        chunk.first_mark += to->marks.n;
        LOWER_PUSH_TO(to, chunks, (lower_placed_chunk){.chunk = chunk, .place = family});
    }
    for (int32_t m = 0; m < from->marks.n; m++) {
        cleave_lane_mark mark = from->marks.items[m];
        mark.before += to->unplaced.n;
        LOWER_PUSH_TO(to, marks, mark);
    }
    for (int32_t i = 0; i < from->items.n; i++) {
        cleave_item item = from->items.items[i];
        item.subject += first[item.kind];
        LOWER_PUSH_TO(to, unplaced, item);
    }
}

/* How long a list will be that comes to `n` with the family at hand, if all families are as those
   so far. */
static int32_t foresee(const lowering *state, int64_t n) {
    int64_t seen = state->family + 1, all = state->schedule->n_families;
    int64_t wanted = n / seen * all / 8 * 9, least = n + n / 2, most = n * MOST_TIMES_FORESEEN;
    wanted = wanted < least ? least : wanted > most ? most : wanted;
    return wanted < INT32_MAX ? (int32_t)wanted : INT32_MAX;
}

/* Room for a family, and for those to come.  Memory that is not needed is never touched and given
   back at the end, while lists that grow are copied again and again.  Where there is no room for so
   much, lists grow as ever. */
#define MAKE_ROOM(to, list, more)                                                                  \
    do {                                                                                           \
        int64_t n_then = (int64_t)(to)->list.n + (more);                                           \
        if (n_then > (to)->list.capacity && n_then >= LEAST_FORESEEN)                              \
            (void)CLEAVE_LIST_RESERVE(&(to)->list, foresee(state, n_then));                        \
    } while (0)

static void make_room(lower_assembly *to, const lowering *state) {
    const lower_builder *from = &state->base;
    MAKE_ROOM(to, held, from->held.n);
    MAKE_ROOM(to, touches, from->touches.n);
    MAKE_ROOM(to, buffers, from->buffers.n);
    MAKE_ROOM(to, sent, from->buffers.n);
    MAKE_ROOM(to, copies, from->copies.n);
    if (!from->counts_pieces)
        MAKE_ROOM(to, copy_pieces, from->copy_pieces.n);
    MAKE_ROOM(to, unposted, from->messages.n);
    MAKE_ROOM(to, unplaced, from->items.n);
    MAKE_ROOM(to, rows, state->rows.n);
    MAKE_ROOM(to, bindings, state->rows.n);
}

/* Where the devices have their parts of the squares of all gradients, and the sum. */
static void note_squares(lower_assembly *to, const lowering *state, int32_t buffers) {
    int32_t tensor = state->base.model->squares - 1;
    if (tensor < 0 || state->family != state->schedule->family_of[tensor])
        return;
    const movement *move = &state->tensors[tensor].forward;
    for (int32_t d = 0; d < move->demands.n; d++)
        LOWER_PUSH_TO(to, squares,
                      (lower_squares){.part = move->contributions.items[d].at.buffer + buffers,
                                      .sum = move->demands.items[d].at.buffer + buffers});
}

void lower_assembly_bind_squares(lower_assembly *of) {
    for (int32_t i = 0; i < of->unplaced.n; i++) {
        const cleave_item *item = &of->unplaced.items[i];
        const lower_squares *squares = &of->squares.items[item->device];
        if (item->kind == CLEAVE_ITEM_UPDATE &&
            of->updates.items[item->subject].squares == LOWER_SQUARES)
            of->updates.items[item->subject].squares = squares->sum;
        if (item->kind != CLEAVE_ITEM_COPY)
            continue;
        const cleave_copy *copy = &of->copies.items[item->subject];
        for (int32_t p = copy->first_piece; p < copy->first_piece + copy->n_pieces; p++)
            if (of->copy_pieces.items[p].destination == LOWER_SQUARES_PART)
                of->copy_pieces.items[p].destination = squares->part;
    }
}

void lower_assembly_add(lower_assembly *to, const lowering *state) {
    make_room(to, state);
    const lower_schedule *schedule = state->schedule;
    int32_t buffers = to->buffers.n, rows = to->rows.n,
            first = schedule->first_event[state->family],
            end = schedule->first_event[state->family + 1];
    add_memory(to, &state->base);
    add_subjects(to, &state->base, buffers);
    add_items(to, &state->base, state->family);
    note_squares(to, state, buffers);
    for (int32_t e = first; e < end; e++)
        to->first_row[e] = rows + state->first_row[e - first];
    for (int32_t r = 0; r < state->rows.n; r++) {
        LOWER_PUSH_TO(to, rows, state->rows.items[r]);
        LOWER_PUSH_TO(to, bindings, moved(state->bindings.items[r], buffers));
    }
}
