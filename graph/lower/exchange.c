/* Exchanges.  Where devices send to several others each in one stage of a movement, as between an
   operator that is split one way and a reader that is split another, there are about as many
   messages as pairs of devices.  In the symbolic form one all-to-all stands for all of them and for
   the copies that pack them: a device joins it once, awaits it once, and unpacks with one copy what
   is there for a demand.  It says who sends how much to whom, and the cost model prices that.

   Devices between which no messages go are in exchanges of their own, so that a window of a fold
   has those that all devices have. */
#include "graph/lower/move.h"

#include <string.h>

/* Messages that a device takes part in, on average, from which on they are an exchange: an item or
   two stand for four or so of each.  In smaller ones the order of messages decides what they take.
 */
enum { LEAST_DEVICES = 8, LEAST_TRANSFERS = 1 };

static int32_t root_of(int32_t *parent, int32_t device) {
    while (parent[device] != device)
        device = parent[device] = parent[parent[device]];
    return device;
}

static void add_exchange(lower_builder *builder, movement *move, move_stage stage,
                         const int32_t *parent, int32_t root, int32_t n_devices) {
    int32_t *devices = LOWER_ARRAY(builder, int32_t, n_devices);
    if (move->members[stage] == NULL) {
        move->members[stage] = LOWER_ARRAY(builder, move_member, builder->n_devices);
        for (int32_t d = 0; d < builder->n_devices; d++)
            move->members[stage][d] =
                (move_member){.exchange = -1, .send_buffer = -1, .receive_buffer = -1};
    }
    n_devices = 0;
    for (int32_t d = root; d < builder->n_devices; d++) {
        if (parent[d] != root)
            continue;
        move->members[stage][d] = (move_member){.exchange = move->exchanges.n,
                                                .index = n_devices,
                                                .send_buffer = -1,
                                                .receive_buffer = -1,
                                                .first_in_place = -1};
        devices[n_devices++] = d;
    }
    LOWER_PUSH(builder, &move->exchanges,
               (move_exchange){
                   .stage = stage, .n_devices = n_devices, .devices = devices, .collective = -1});
}

/* Of the transfers posted as [first, end), which are of one stage. */
static void find_in_stage(lower_builder *builder, movement *move, int32_t first, int32_t end) {
    move_transfer *transfers = move->transfers.items;
    const int32_t *posting = move->posting;
    move_stage stage = transfers[posting[first]].stage;
    int32_t n = builder->n_devices;
    int32_t *parent = LOWER_ARRAY(builder, int32_t, n), *n_transfers, *n_devices;
    n_transfers = LOWER_ARRAY(builder, int32_t, n);
    n_devices = LOWER_ARRAY(builder, int32_t, n);
    for (int32_t d = 0; d < n; d++)
        parent[d] = d;
    for (int32_t t = first; t < end; t++) {
        int32_t a = root_of(parent, transfers[posting[t]].source);
        int32_t b = root_of(parent, transfers[posting[t]].destination);
        parent[a > b ? a : b] = a > b ? b : a; /* the least device is the root */
        n_transfers[transfers[posting[t]].source]++;
    }
    for (int32_t d = 0; d < n; d++) {
        parent[d] = root_of(parent, d);
        n_devices[parent[d]]++;
        if (parent[d] != d)
            n_transfers[parent[d]] += n_transfers[d];
    }
    for (int32_t d = 0; d < n; d++)
        if (parent[d] == d && n_devices[d] >= LEAST_DEVICES &&
            n_transfers[d] >= LEAST_TRANSFERS * n_devices[d])
            add_exchange(builder, move, stage, parent, d, n_devices[d]);
    for (int32_t t = first; t < end && move->members[stage] != NULL; t++) {
        move_transfer *transfer = &transfers[posting[t]];
        transfer->exchange = move->members[stage][transfer->source].exchange;
        if (transfer->exchange >= 0)
            move->exchanges.items[transfer->exchange].n_transfers++;
    }
}

void move_exchanges_find(lower_builder *builder, movement *move) {
    const move_transfer *transfers = move->transfers.items;
    const int32_t *posting = move->posting;
    if (!builder->options->symbolic_collectives ||
        !move_group_is_collective(builder, LEAST_DEVICES))
        return;
    for (int32_t first = 0, end; first < move->transfers.n; first = end) {
        for (end = first; end < move->transfers.n &&
                          transfers[posting[end]].stage == transfers[posting[first]].stage;)
            end++;
        if (end - first >= LEAST_DEVICES * LEAST_TRANSFERS)
            find_in_stage(builder, move, first, end);
    }
}

/* ---- joining --------------------------------------------------------------------------------- */

/* What packing a transfer reads and writes. */
static int64_t packing_bytes(const movement *move, const move_transfer *transfer) {
    return 2 * transfer->bytes +
           3 * transfer->summed_elements * cleave_type_bytes(move_type(move, transfer->stage));
}

/* A transfer that needs no packing, or no unpacking, is sent from or received in its place. */
static void add_transfer(lower_builder *builder, movement *move, int32_t t,
                         cleave_packing *packing) {
    move_transfer *transfer = &move->transfers.items[t];
    move_member *from = &move->members[transfer->stage][transfer->source];
    move_member *to = &move->members[transfer->stage][transfer->destination];
    move_end end;
    if (move_sent_in_place(builder, move, transfer, &end)) {
        builder->sent[end.buffer] = true;
        transfer->sent_from = end.buffer;
        transfer->next_in_place = from->first_in_place;
        from->first_in_place = t;
    } else {
        transfer->sent_from = -1;
        packing[from->index].n_copies++;
        packing[from->index].bytes += packing_bytes(move, transfer);
        from->sent_bytes += transfer->bytes;
    }
    transfer->received_in = -1;
    transfer->unpacks = !move_received_in_place(builder, move, transfer, &end);
    if (transfer->unpacks)
        to->received_bytes += transfer->bytes;
    else
        transfer->received_in = end.buffer;
}

static void take_buffers(lower_builder *builder, movement *move, const move_exchange *exchange) {
    cleave_type type = move_type(move, exchange->stage);
    for (int32_t i = 0; i < exchange->n_devices; i++) {
        int32_t device = exchange->devices[i];
        move_member *member = &move->members[exchange->stage][device];
        if (member->sent_bytes > 0)
            member->send_buffer = lower_message_bytes(builder, device, type, member->sent_bytes);
        if (member->received_bytes > 0)
            member->receive_buffer =
                lower_message_bytes(builder, device, type, member->received_bytes);
    }
}

static void touch(lower_builder *builder, int32_t buffer, int32_t item) {
    if (buffer >= 0)
        lower_touch(builder, buffer, item);
}

/* Memory that is read and written from the joins on: sources are packed or sent from. */
static void touch_ends(lower_builder *builder, const movement *move, int32_t x) {
    move_stage stage = move->exchanges.items[x].stage;
    const move_member *members = move->members[stage];
    for (int32_t t = 0; t < move->transfers.n; t++)
        if (move->transfers.items[t].exchange == x)
            touch(builder, move->transfers.items[t].received_in,
                  members[move->transfers.items[t].destination].join);
    for (int32_t i = 0; i < move->contributions.n && stage != MOVE_RESULT; i++) {
        const move_contribution *from = &move->contributions.items[i];
        if (from->sent[stage] && members[from->device].exchange == x)
            lower_touch(builder, from->at.buffer, members[from->device].join);
    }
    for (int32_t i = 0; i < move->sums.n && stage == MOVE_RESULT; i++) {
        const move_sum *from = &move->sums.items[i];
        if (from->sent && members[from->device].exchange == x)
            lower_touch(builder, from->at.buffer, members[from->device].join);
    }
}

static void join(lower_builder *builder, movement *move, move_exchange *exchange) {
    exchange->collective = builder->collectives.n - 1;
    for (int32_t i = 0; i < exchange->n_devices; i++) {
        move_member *member = &move->members[exchange->stage][exchange->devices[i]];
        member->join = lower_item(builder, exchange->devices[i], move->lane, CLEAVE_ITEM_JOIN,
                                  exchange->collective);
        touch(builder, member->send_buffer, member->join);
        touch(builder, member->receive_buffer, member->join);
    }
}

/* By their numbers among all devices. */
static const int32_t *number_devices(lower_builder *builder, const move_exchange *exchange) {
    if (builder->fold == NULL || builder->fold->n_groups == 1)
        return exchange->devices;
    int32_t *devices = LOWER_ARRAY(builder, int32_t, exchange->n_devices);
    for (int32_t i = 0; i < exchange->n_devices; i++)
        devices[i] = lower_device_of_all(builder, exchange->devices[i]);
    return devices;
}

static void post(lower_builder *builder, movement *move, int32_t x) {
    move_exchange *exchange = &move->exchanges.items[x];
    cleave_packing *packing = LOWER_ARRAY(builder, cleave_packing, exchange->n_devices);
    cleave_transfer *transfers = LOWER_ARRAY(builder, cleave_transfer, exchange->n_transfers);
    const move_member *members = move->members[exchange->stage];
    int32_t n = 0;
    int64_t bytes = 0;
    for (int32_t i = 0; i < move->transfers.n; i++) {
        int32_t t = move->posting[i];
        const move_transfer *transfer = &move->transfers.items[t];
        if (transfer->exchange != x)
            continue;
        add_transfer(builder, move, t, packing);
        transfers[n++] = (cleave_transfer){.source = members[transfer->source].index,
                                           .destination = members[transfer->destination].index,
                                           .bytes = transfer->bytes};
        bytes += transfer->bytes;
    }
    take_buffers(builder, move, exchange);
    LOWER_PUSH(builder, &builder->collectives,
               (cleave_collective){.kind = CLEAVE_ALL_TO_ALL,
                                   .algorithm = CLEAVE_ALGORITHM_DIRECT,
                                   .node_members = 1,
                                   .n_devices = exchange->n_devices,
                                   .devices = number_devices(builder, exchange),
                                   .bytes = bytes,
                                   .tensor = move->tensor,
                                   .lane = (uint8_t)move->lane,
                                   .n_transfers = n,
                                   .transfers = transfers,
                                   .packing = packing});
    join(builder, move, exchange);
    touch_ends(builder, move, x);
}

void move_exchanges_post(lower_builder *builder, movement *move, move_stage stage) {
    for (int32_t x = 0; x < move->exchanges.n; x++)
        if (move->exchanges.items[x].stage == stage)
            post(builder, move, x);
}

/* ---- awaiting -------------------------------------------------------------------------------- */

static void await(lower_builder *builder, movement *move, move_stage stage, int32_t device) {
    move_member *member = &move->members[stage][device];
    if (member->awaited)
        return;
    member->awaited = true;
    int32_t item = lower_item(builder, device, move->lane, CLEAVE_ITEM_AWAIT,
                              move->exchanges.items[member->exchange].collective);
    touch(builder, member->send_buffer, item);
    touch(builder, member->receive_buffer, item);
    for (int32_t t = member->first_in_place; t >= 0; t = move->transfers.items[t].next_in_place)
        lower_touch(builder, move->transfers.items[t].sent_from, item);
}

/* One copy for many, of which no piece is listed. */
static int32_t copy(lower_builder *builder, const movement *move, int32_t device,
                    cleave_packing of) {
    lower_copy_begin(builder);
    cleave_copy *made = &builder->copies.items[builder->copies.n - 1];
    made->n_copies = of.n_copies;
    made->bytes = of.bytes;
    return lower_item(builder, device, move->lane, CLEAVE_ITEM_COPY, builder->copies.n - 1);
}

void move_exchange_arrive(lower_builder *builder, movement *move, const move_transfer *transfer,
                          int64_t bytes, cleave_packing *unpacking) {
    await(builder, move, transfer->stage, transfer->destination);
    await(builder, move, transfer->stage, transfer->source);
    if (!transfer->unpacks)
        return;
    unpacking->n_copies++;
    unpacking->bytes += 2 * bytes;
}

void move_exchange_unpack(lower_builder *builder, movement *move, int32_t demand,
                          const cleave_packing *unpacking) {
    int32_t device = move->demands.items[demand].device;
    if (unpacking->n_copies == 0)
        return;
    int32_t item = copy(builder, move, device, *unpacking);
    lower_touch(builder, move->demands.items[demand].at.buffer, item);
    for (int stage = 0; stage < MOVE_N_STAGES; stage++)
        if (move->members[stage] != NULL)
            touch(builder, move->members[stage][device].receive_buffer, item);
}

/* Owners add up what they were sent. */
void move_exchanges_combine(lower_builder *builder, movement *move) {
    move_member *members = move->members[MOVE_PARTIAL];
    if (members == NULL)
        return;
    cleave_packing *adding = LOWER_ARRAY(builder, cleave_packing, builder->n_devices);
    int32_t *item = LOWER_ARRAY(builder, int32_t, builder->n_devices);
    int64_t element = cleave_type_bytes(move->partial_type);
    for (int32_t t = 0; t < move->transfers.n; t++) {
        const move_transfer *transfer = &move->transfers.items[t];
        if (transfer->stage != MOVE_PARTIAL || transfer->exchange < 0)
            continue;
        cleave_packing *of = &adding[transfer->destination];
        of->n_copies++;
        of->bytes += transfer->added_elements * element;
    }
    for (int32_t d = 0; d < builder->n_devices; d++)
        if (members[d].exchange >= 0)
            await(builder, move, MOVE_PARTIAL, d);
    for (int32_t d = 0; d < builder->n_devices; d++) {
        item[d] = adding[d].n_copies > 0 ? copy(builder, move, d, adding[d]) : -1;
        if (item[d] >= 0)
            touch(builder, members[d].receive_buffer, item[d]);
    }
    for (int32_t i = 0; i < move->sums.n; i++) {
        const move_sum *sum = &move->sums.items[i];
        if (sum->receives && item[sum->device] >= 0)
            lower_touch(builder, sum->at.buffer, item[sum->device]);
    }
}
