/* Transfers: flows are gathered by stage and pair of devices while cells are cut, and then put into
   the order in which they are posted. */
#include "graph/lower/move.h"

#include <string.h>

/* ---- gathering ------------------------------------------------------------------------------- */

static int32_t *find_place(movement *move, move_stage stage, int32_t source, int32_t destination) {
    uint32_t mask = (uint32_t)move->transfer_table_size - 1;
    uint64_t pair = (uint64_t)source << 34 | (uint64_t)destination << 2 | (uint64_t)stage;
    uint32_t at = (uint32_t)(pair * UINT64_C(0x9e3779b97f4a7c15) >> 40);
    for (;; at++) {
        int32_t *place = &move->transfer_table[at & mask];
        if (*place == 0)
            return place;
        const move_transfer *transfer = &move->transfers.items[*place - 1];
        if (transfer->source == source && transfer->destination == destination &&
            transfer->stage == stage)
            return place;
    }
}

static void grow_table(lower_builder *builder, movement *move) {
    if (move->transfer_table_size > 2 * (move->transfers.n + 1))
        return;
    move->transfer_table_size = move->transfer_table == NULL ? 256 : 4 * move->transfer_table_size;
    move->transfer_table = LOWER_ARRAY(builder, int32_t, move->transfer_table_size);
    for (int32_t t = 0; t < move->transfers.n; t++) {
        const move_transfer *of = &move->transfers.items[t];
        *find_place(move, of->stage, of->source, of->destination) = t + 1;
    }
}

static int32_t find_transfer(lower_builder *builder, movement *move, move_stage stage,
                             int32_t source, int32_t destination) {
    grow_table(builder, move);
    int32_t *place = find_place(move, stage, source, destination);
    if (*place == 0) {
        LOWER_PUSH(builder, &move->transfers,
                   (move_transfer){.stage = stage,
                                   .source = source,
                                   .destination = destination,
                                   .exchange = -1,
                                   .first_flow = move->flows.n,
                                   .send_buffer = -1,
                                   .receive_buffer = -1});
        *place = move->transfers.n;
    }
    return *place - 1;
}

/* A flow, whose places and targets are left to the caller: it is filled where it lies, since flows
   are many. */
static move_flow *add_flow(lower_builder *builder, movement *move, int32_t t, int32_t box) {
    move_transfer *transfer = &move->transfers.items[t];
    int64_t bytes = cleave_type_bytes(move_type(move, transfer->stage));
    move_flow *added = LOWER_ROOM(builder, &move->flows);
    move->flows.n++;
    added->transfer = t;
    added->box = box;
    added->packed = transfer->bytes / bytes;
    transfer->n_flows++;
    transfer->bytes += move->sizes.items[box] * bytes;
    return added;
}

void move_add_value(lower_builder *builder, movement *move, move_stage stage, int32_t source,
                    int32_t destination, int32_t box, int32_t n_targets) {
    int32_t t = find_transfer(builder, move, stage, source, destination);
    move_flow *added = add_flow(builder, move, t, box);
    added->first_source = move->places.n - 1;
    added->n_sources = 1;
    added->first_target = move->targets.n - n_targets;
    added->n_targets = n_targets;
    added->starts = false;
}

void move_add_partial(lower_builder *builder, movement *move, int32_t source, int32_t destination,
                      int32_t box, int32_t n_sources, bool starts) {
    int32_t t = find_transfer(builder, move, MOVE_PARTIAL, source, destination);
    move_flow *added = add_flow(builder, move, t, box);
    move_transfer *transfer = &move->transfers.items[t];
    int64_t size = move->sizes.items[box];
    added->first_source = move->places.n - 1 - n_sources;
    added->n_sources = n_sources;
    added->first_target = added->n_targets = 0;
    added->starts = starts;
    transfer->summed_elements += size * (n_sources - 1);
    transfer->added_elements += size * (starts ? 2 : 3);
}

/* ---- the order of posting -------------------------------------------------------------------- */

/* By stage, distance and source.  Where all send to all, each then sends to another one at a time;
   by source and destination all would begin with the first device.  Distances ahead come before
   those back, and no device has a number of its own in that, so all windows of a fold have one
   order: by their numbers among all devices. */
static uint64_t key_of(const lower_builder *builder, const move_transfer *transfer,
                       uint64_t n_devices) {
    int32_t source = lower_device_of_all(builder, transfer->source);
    int64_t distance = lower_device_of_all(builder, transfer->destination) - source;
    uint64_t ahead = (uint64_t)(distance < 0 ? distance + 2 * (int64_t)n_devices : distance);
    return ((uint64_t)transfer->stage * 2 * n_devices + ahead) * n_devices + (uint64_t)source;
}

typedef struct sorted_transfer {
    uint64_t key;
    int32_t transfer;
} sorted_transfer;

enum { DIGIT_BITS = 8, FEW = 24 };

static void sort_few(sorted_transfer *items, int32_t n) {
    for (int32_t i = 1; i < n; i++) {
        sorted_transfer moved = items[i];
        int32_t at = i;
        for (; at > 0 && items[at - 1].key > moved.key; at--)
            items[at] = items[at - 1];
        items[at] = moved;
    }
}

/* By counting, the last digit first; returns where the items have come to lie. */
static sorted_transfer *sort_many(sorted_transfer *from, sorted_transfer *to, int32_t n,
                                  uint64_t most) {
    for (int shift = 0; most >> shift != 0; shift += DIGIT_BITS) {
        int32_t start[(1 << DIGIT_BITS) + 1] = {0};
        for (int32_t i = 0; i < n; i++)
            start[(from[i].key >> shift & ((1 << DIGIT_BITS) - 1)) + 1]++;
        for (int v = 0; v < 1 << DIGIT_BITS; v++)
            start[v + 1] += start[v];
        for (int32_t i = 0; i < n; i++)
            to[start[from[i].key >> shift & ((1 << DIGIT_BITS) - 1)]++] = from[i];
        sorted_transfer *kept = from;
        from = to;
        to = kept;
    }
    return from;
}

void move_sort_transfers(lower_builder *builder, movement *move) {
    int32_t n = move->transfers.n;
    uint64_t n_devices = (uint64_t)lower_device_of_all(builder, builder->n_devices - 1) + 1;
    sorted_transfer *items = LOWER_ARRAY(builder, sorted_transfer, n);
    for (int32_t t = 0; t < n; t++)
        items[t] = (sorted_transfer){key_of(builder, &move->transfers.items[t], n_devices), t};
    if (n <= FEW)
        sort_few(items, n);
    else
        items = sort_many(items, LOWER_ARRAY(builder, sorted_transfer, n), n,
                          (MOVE_N_STAGES * 2 * n_devices) * n_devices);
    move->posting = LOWER_ARRAY(builder, int32_t, n);
    for (int32_t i = 0; i < n; i++)
        move->posting[i] = items[i].transfer;
}

/* ---- indices --------------------------------------------------------------------------------- */

/* Nobody looks at one partial result of an exchange, unless it is alone. */
static bool lists_flows(const move_transfer *transfer) {
    return transfer->exchange < 0 || transfer->stage != MOVE_PARTIAL || transfer->n_flows == 1;
}

static int32_t group_flows(lower_builder *builder, movement *move) {
    int32_t n = 0;
    for (int32_t i = 0; i < move->transfers.n; i++) {
        move_transfer *transfer = &move->transfers.items[move->posting[i]];
        if (!lists_flows(transfer))
            continue;
        transfer->first_flow = n;
        n += transfer->n_flows;
    }
    int32_t *next = LOWER_ARRAY(builder, int32_t, move->transfers.n);
    move->flows_by_transfer = LOWER_ARRAY(builder, int32_t, n);
    for (int32_t f = 0; f < move->flows.n; f++) {
        int32_t t = move->flows.items[f].transfer;
        const move_transfer *transfer = &move->transfers.items[t];
        if (lists_flows(transfer))
            move->flows_by_transfer[transfer->first_flow + next[t]++] = f;
    }
    return n;
}

void move_index_flows(lower_builder *builder, movement *move) {
    int32_t n = group_flows(builder, move);
    move->first_target = LOWER_ARRAY(builder, int32_t, move->demands.n);
    move->first_local = LOWER_ARRAY(builder, int32_t, move->demands.n);
    for (int32_t i = 0; i < move->demands.n; i++)
        move->first_target[i] = move->first_local[i] = -1;
    for (int32_t i = n - 1; i >= 0; i--) {
        int32_t f = move->flows_by_transfer[i];
        const move_flow *flow = &move->flows.items[f];
        for (int32_t t = flow->first_target; t < flow->first_target + flow->n_targets; t++) {
            move_target *target = &move->targets.items[t];
            target->flow = f;
            target->next = move->first_target[target->demand];
            move->first_target[target->demand] = t;
        }
    }
    for (int32_t i = move->locals.n - 1; i >= 0; i--) {
        move_local *local = &move->locals.items[i];
        if (local->demand < 0)
            continue;
        local->next = move->first_local[local->demand];
        move->first_local[local->demand] = i;
    }
}
