/* Movement: turning the flows that cutting gives into packed messages, copies and waits. */
#include "graph/lower/move.h"

#include "base/order.h"
#include "graph/lower/cut.h"

#include <string.h>

static int rank_of(const lower_builder *builder, const movement *move) {
    return builder->model->tensors[move->tensor].rank;
}

/* A demand for exactly the box of a contribution of its device is laid into that contribution's
   buffer: a value then needs no copy, and a sum starts from it. */
static void lay_demands_into_contributions(lower_builder *builder, movement *move) {
    const cleave_tensor *tensor = &builder->model->tensors[move->tensor];
    int32_t *first = LOWER_ARRAY(builder, int32_t, builder->n_devices);
    int32_t *next = LOWER_ARRAY(builder, int32_t, move->contributions.n);
    for (int32_t d = 0; d < builder->n_devices; d++)
        first[d] = -1;
    for (int32_t i = move->contributions.n - 1; i >= 0; i--) {
        next[i] = first[move->contributions.items[i].device];
        first[move->contributions.items[i].device] = i;
    }
    for (int32_t i = 0; i < move->demands.n; i++) {
        move_demand *demand = &move->demands.items[i];
        if (!demand->may_move)
            continue;
        for (int32_t c = first[demand->device]; c >= 0; c = next[c]) {
            move_contribution *from = &move->contributions.items[c];
            if (from->taken || !from->may_take ||
                lower_type_of(builder, demand->at.buffer) !=
                    lower_type_of(builder, from->at.buffer) ||
                !cleave_box_equal(tensor->rank, &demand->at.box, &from->at.box) ||
                !lower_region_is_dense(tensor, &from->at.box, &from->at) || from->at.offset != 0)
                continue;
            from->taken = true;
            demand->at = from->at;
            break;
        }
    }
}

static int compare_contributions(const void *a, const void *b) {
    const move_contribution *x = a, *y = b;
    return x->key != y->key ? CLEAVE_ORDER(x->key, y->key) : CLEAVE_ORDER(x->device, y->device);
}

static bool are_sorted(const movement *move) {
    for (int32_t i = 1; i < move->contributions.n; i++)
        if (compare_contributions(&move->contributions.items[i - 1],
                                  &move->contributions.items[i]) > 0)
            return false;
    return true;
}

/* The place that a flow starts from, or where its owner adds up. */
static const lower_region *region_of(const movement *move, int32_t place) {
    return move_place_of(move, move->places.items[place]);
}

static const cleave_box *box_of(const movement *move, const move_flow *flow) {
    return &move->boxes.items[flow->box];
}

/* Where a flow of a transfer lies in its packed message. */
static void packed_region(const lower_builder *builder, const movement *move, const move_flow *flow,
                          int32_t buffer, lower_region *region) {
    region->buffer = buffer;
    region->box = *box_of(move, flow);
    region->offset = flow->packed;
    cleave_tensor_strides(&builder->model->tensors[move->tensor], &region->box, region->stride);
}

/* Of a flow alone in its transfer, where the elements lie in one run, as they are sent. */
static bool is_in_place(const lower_builder *builder, const movement *move, const move_flow *flow,
                        const lower_region *region, move_end *end) {
    const cleave_tensor *tensor = &builder->model->tensors[move->tensor];
    const cleave_box *box = box_of(move, flow);
    if (!lower_region_is_dense(tensor, box, region) ||
        lower_type_of(builder, region->buffer) !=
            move_type(move, move->transfers.items[flow->transfer].stage))
        return false;
    *end = (move_end){region->buffer, lower_region_offset(tensor->rank, region, box)};
    return true;
}

bool move_sent_in_place(const lower_builder *builder, const movement *move,
                        const move_transfer *transfer, move_end *end) {
    if (transfer->n_flows != 1)
        return false;
    const move_flow *flow = move_flow_of(move, transfer, 0);
    move_place place = move->places.items[flow->first_source];
    return flow->n_sources == 1 && (place < 0 || !move->contributions.items[place].becomes_sum) &&
           is_in_place(builder, move, flow, region_of(move, flow->first_source), end);
}

bool move_received_in_place(const lower_builder *builder, const movement *move,
                            const move_transfer *transfer, move_end *end) {
    if (transfer->stage == MOVE_PARTIAL || transfer->n_flows != 1)
        return false;
    const move_flow *flow = move_flow_of(move, transfer, 0);
    if (flow->n_targets != 1)
        return false;
    int32_t demand = move->targets.items[flow->first_target].demand;
    return is_in_place(builder, move, flow, &move->demands.items[demand].at, end);
}

static void pack(lower_builder *builder, movement *move, move_transfer *transfer) {
    lower_region to;
    lower_copy_begin(builder);
    for (int32_t f = 0; f < transfer->n_flows; f++) {
        const move_flow *flow = move_flow_of(move, transfer, f);
        packed_region(builder, move, flow, transfer->send_buffer, &to);
        for (int32_t s = 0; s < flow->n_sources; s++)
            lower_copy_add(builder, move->tensor, s == 0 ? CLEAVE_COPY_ASSIGN : move_mode(move),
                           &to.box, &to, region_of(move, flow->first_source + s), 0);
    }
    lower_copy_end(builder, transfer->source, move->lane);
}

/* Both ends post all transfers of a stage. */
static void post_stage(lower_builder *builder, movement *move, move_stage stage) {
    cleave_type type = move_type(move, stage);
    int64_t element = cleave_type_bytes(type);
    for (int32_t t = 0; t < move->transfers.n; t++) {
        move_transfer *transfer = &move->transfers.items[move->posting[t]];
        if (transfer->stage != stage || transfer->exchange >= 0)
            continue;
        move_end from, to;
        if (!move_sent_in_place(builder, move, transfer, &from)) {
            transfer->send_buffer =
                lower_message_bytes(builder, transfer->source, type, transfer->bytes);
            from = (move_end){transfer->send_buffer, 0};
            pack(builder, move, transfer);
        }
        if (!move_received_in_place(builder, move, transfer, &to)) {
            transfer->receive_buffer =
                lower_message_bytes(builder, transfer->destination, type, transfer->bytes);
            to = (move_end){transfer->receive_buffer, 0};
        }
        transfer->run =
            lower_post(builder, &(cleave_message){.source = transfer->source,
                                                  .destination = transfer->destination,
                                                  .lane = (uint8_t)move->lane,
                                                  .bytes = transfer->bytes,
                                                  .source_buffer = from.buffer,
                                                  .destination_buffer = to.buffer,
                                                  .source_offset = from.offset * element,
                                                  .destination_offset = to.offset * element,
                                                  .tensor = move->tensor});
    }
    move_exchanges_post(builder, move, stage);
}

/* In the communication lane the work of a device starts when its main lane has come this far. */
static void follow_main_lane(lower_builder *builder, movement *move) {
    if (move->lane != CLEAVE_LANE_COMMUNICATION)
        return;
    bool *involved = LOWER_ARRAY(builder, bool, builder->n_devices);
    for (int32_t t = 0; t < move->transfers.n; t++)
        involved[move->transfers.items[t].source] = involved[move->transfers.items[t].destination] =
            true;
    for (int32_t b = 0; b < move->buckets.n; b++)
        for (int32_t i = 0;
             i < move->buckets.items[b].n_devices && move->buckets.items[b].cells.n > 0; i++)
            involved[move->buckets.items[b].devices[i]] = true;
    for (int32_t i = 0; i < move->locals.n; i++)
        involved[move->locals.items[i].device] = true;
    for (int32_t d = 0; d < builder->n_devices; d++)
        if (involved[d])
            lower_sync(builder, lower_mark(builder, d, CLEAVE_LANE_MAIN));
    move->involved = involved;
}

static bool has_collectives(const movement *move) {
    for (int32_t b = 0; b < move->buckets.n; b++)
        if (move->buckets.items[b].cells.n > 0)
            return true;
    return false;
}

void move_carry(lower_builder *builder, const movement *move, cleave_buffer_kind kind,
                move_contribution *contribution) {
    lower_region given = contribution->at;
    int32_t total = lower_buffer_of_type(builder, kind, contribution->device, move->tensor,
                                         builder->model->tensors[move->tensor].type,
                                         &given.box); /* it adds up */
    lower_set_region(builder, total, &contribution->at);
    contribution->may_take = true;
    lower_carry(builder, move->tensor, &contribution->at, &given, contribution->device);
}

/* A sum is as exact as what it is made of. */
static void find_types(const lower_builder *builder, movement *move) {
    const cleave_tensor *tensor = &builder->model->tensors[move->tensor];
    move->value_type = move->demands.n > 0
                           ? lower_type_of(builder, move->demands.items[0].at.buffer)
                           : tensor->stored;
    move->sum_type = tensor->stored;
    for (int32_t i = 0; i < move->contributions.n; i++) {
        cleave_type type = lower_type_of(builder, move->contributions.items[i].at.buffer);
        move->sum_type = cleave_type_is_short(type) ? move->sum_type : type;
    }
    move->partial_type = cleave_reduce_type(builder->model, move->tensor, move->sum_type);
}

void move_begin(lower_builder *builder, movement *move) {
    int rank = rank_of(builder, move);
    move->begun = true;
    find_types(builder, move);
    if (!are_sorted(move))
        CLEAVE_SORT(move->contributions.items, move->contributions.n, compare_contributions);
    lay_demands_into_contributions(builder, move);
    int32_t n_contributions = 0, n_demands = 0;
    int32_t *contributions = LOWER_ARRAY(builder, int32_t, move->contributions.n);
    int32_t *demands = LOWER_ARRAY(builder, int32_t, move->demands.n);
    for (int32_t i = 0; i < move->contributions.n; i++)
        if (!cleave_box_is_empty(rank, &move->contributions.items[i].at.box))
            contributions[n_contributions++] = i;
    for (int32_t i = 0; i < move->demands.n; i++)
        if (!cleave_box_is_empty(rank, &move->demands.items[i].at.box))
            demands[n_demands++] = i;
    lower_cut(builder, move, n_contributions, contributions, n_demands, demands);
    move_sort_transfers(builder, move);
    move_exchanges_find(builder, move);
    move_index_flows(builder, move);
    if (move->transfers.n == 0 && !has_collectives(move))
        move->lane = CLEAVE_LANE_MAIN; /* nothing to overlap */
    follow_main_lane(builder, move);
    post_stage(builder, move, MOVE_VALUE);
    post_stage(builder, move, MOVE_PARTIAL);
}

static void add_local(lower_builder *builder, const movement *move, const move_local *local) {
    const lower_region *to = local->demand >= 0 ? &move->demands.items[local->demand].at
                                                : move_place_of(move, local->to);
    lower_copy_add(builder, move->tensor, local->mode, &move->boxes.items[local->box], to,
                   local->mode == CLEAVE_COPY_FILL ? NULL : move_place_of(move, local->from), 0);
}

/* The owner's copies: what it has itself, then what each other device sent. */
static void combine_locals(lower_builder *builder, movement *move) {
    int32_t *first = LOWER_ARRAY(builder, int32_t, builder->n_devices);
    memset(first, -1, (size_t)builder->n_devices * sizeof *first);
    for (int32_t i = move->locals.n - 1; i >= 0; i--) {
        move_local *local = &move->locals.items[i];
        if (local->demand >= 0)
            continue;
        local->next = first[local->device];
        first[local->device] = i;
    }
    for (int32_t device = 0; device < builder->n_devices; device++) {
        if (first[device] < 0)
            continue;
        lower_copy_begin(builder); /* one, however the cells of devices alternate */
        for (int32_t i = first[device]; i >= 0; i = move->locals.items[i].next)
            add_local(builder, move, &move->locals.items[i]);
        lower_copy_end(builder, device, move->lane);
    }
}

static void combine_transfer(lower_builder *builder, movement *move,
                             const move_transfer *transfer) {
    lower_region from;
    lower_wait_at_receiver(builder, transfer->run);
    lower_copy_begin(builder);
    for (int32_t f = 0; f < transfer->n_flows; f++) {
        const move_flow *flow = move_flow_of(move, transfer, f);
        packed_region(builder, move, flow, transfer->receive_buffer, &from);
        lower_copy_add(builder, move->tensor, flow->starts ? CLEAVE_COPY_ASSIGN : move_mode(move),
                       &from.box, region_of(move, flow->first_source + flow->n_sources), &from, 0);
    }
    lower_copy_end(builder, transfer->destination, move->lane);
}

/* Of messages. */
static bool is_partial(const move_transfer *transfer) {
    return transfer->stage == MOVE_PARTIAL && transfer->exchange < 0;
}

/* The transfers of partial results by their sources: owners combine in that order. */
static int32_t *sort_partial(lower_builder *builder, const movement *move, int32_t *n) {
    int32_t *start = LOWER_ARRAY(builder, int32_t, builder->n_devices + 1);
    *n = 0;
    for (int32_t t = 0; t < move->transfers.n; t++)
        if (is_partial(&move->transfers.items[t])) {
            start[move->transfers.items[t].source + 1]++;
            ++*n;
        }
    for (int32_t d = 0; d < builder->n_devices; d++)
        start[d + 1] += start[d];
    int32_t *sorted = LOWER_ARRAY(builder, int32_t, *n);
    for (int32_t i = 0; i < move->transfers.n; i++) {
        int32_t t = move->posting[i];
        if (is_partial(&move->transfers.items[t]))
            sorted[start[move->transfers.items[t].source]++] = t;
    }
    return sorted;
}

void move_combine(lower_builder *builder, movement *move) {
    if (move->combined)
        return;
    move->combined = true;
    combine_locals(builder, move);
    int32_t n_partial, *partial = sort_partial(builder, move, &n_partial);
    for (int32_t i = 0; i < n_partial; i++)
        combine_transfer(builder, move, &move->transfers.items[partial[i]]);
    /* A result may be received into the buffer that a partial result was sent from. */
    for (int32_t i = 0; i < move->transfers.n; i++)
        if (is_partial(&move->transfers.items[move->posting[i]]))
            lower_wait_at_sender(builder, move->transfers.items[move->posting[i]].run);
    move_exchanges_combine(builder, move);
    move_collectives_combine(builder, move);
    post_stage(builder, move, MOVE_RESULT);
}

/* The same of a transfer that is part of an exchange. */
static int32_t arrive_of_exchange(lower_builder *builder, movement *move, int32_t target,
                                  cleave_packing *unpacking) {
    int32_t t = move->flows.items[move->targets.items[target].flow].transfer;
    int64_t n = 0;
    for (; target >= 0; target = move->targets.items[target].next) {
        const move_flow *flow = &move->flows.items[move->targets.items[target].flow];
        if (flow->transfer != t)
            break;
        n += move->sizes.items[flow->box];
    }
    move_exchange_arrive(builder, move, &move->transfers.items[t],
                         n * cleave_type_bytes(move_type(move, move->transfers.items[t].stage)),
                         unpacking);
    return target;
}

/* The flows of one transfer to a demand, from `target` on; returns the target of the next one. */
static int32_t arrive_transfer(lower_builder *builder, movement *move, int32_t target,
                               cleave_packing *unpacking) {
    const move_demand *demand = &move->demands.items[move->targets.items[target].demand];
    int32_t t = move->flows.items[move->targets.items[target].flow].transfer;
    move_transfer *transfer = &move->transfers.items[t];
    lower_region from;
    if (transfer->exchange >= 0)
        return arrive_of_exchange(builder, move, target, unpacking);
    if (!transfer->arrived) {
        lower_wait_at_receiver(builder, transfer->run);
        lower_wait_at_sender(builder, transfer->run);
        transfer->arrived = true;
    }
    lower_copy_begin(builder);
    for (; target >= 0; target = move->targets.items[target].next) {
        const move_flow *flow = &move->flows.items[move->targets.items[target].flow];
        if (flow->transfer != t)
            break;
        if (transfer->receive_buffer < 0)
            continue;
        packed_region(builder, move, flow, transfer->receive_buffer, &from);
        lower_copy_add(builder, move->tensor, CLEAVE_COPY_ASSIGN, &from.box, &demand->at, &from, 0);
    }
    lower_copy_end(builder, transfer->destination, move->lane);
    return target;
}

void move_arrive(lower_builder *builder, movement *move, int32_t demand) {
    move_combine(builder, move);
    cleave_packing unpacking = {0};
    for (int32_t target = move->first_target[demand]; target >= 0;)
        target = arrive_transfer(builder, move, target, &unpacking);
    move_exchange_unpack(builder, move, demand, &unpacking);
    lower_copy_begin(builder);
    for (int32_t i = move->first_local[demand]; i >= 0; i = move->locals.items[i].next)
        add_local(builder, move, &move->locals.items[i]);
    lower_copy_end(builder, move->demands.items[demand].device, move->lane);
}

void move_all(lower_builder *builder, movement *move) {
    move_begin(builder, move);
    move_combine(builder, move);
    for (int32_t i = 0; i < move->demands.n; i++)
        move_arrive(builder, move, i);
}

void movement_clear(movement *move) {
    for (int32_t b = 0; b < move->buckets.n; b++)
        CLEAVE_LIST_FREE(&move->buckets.items[b].cells);
    move->contributions.n = move->demands.n = move->flows.n = move->transfers.n = move->locals.n =
        move->boxes.n = move->sizes.n = move->places.n = move->sums.n = move->targets.n =
            move->buckets.n = move->cells.n = move->cell_members.n = move->exchanges.n = 0;
    memset(move->members, 0, sizeof move->members);
    move->transfer_table = NULL;
    move->transfer_table_size = 0;
    move->involved = NULL;
    move->begun = move->combined = false;
}

void movement_free(movement *move) {
    CLEAVE_LIST_FREE(&move->contributions);
    CLEAVE_LIST_FREE(&move->demands);
    CLEAVE_LIST_FREE(&move->flows);
    CLEAVE_LIST_FREE(&move->transfers);
    CLEAVE_LIST_FREE(&move->locals);
    CLEAVE_LIST_FREE(&move->boxes);
    CLEAVE_LIST_FREE(&move->sizes);
    CLEAVE_LIST_FREE(&move->places);
    CLEAVE_LIST_FREE(&move->sums);
    CLEAVE_LIST_FREE(&move->targets);
    for (int32_t b = 0; b < move->buckets.n; b++)
        CLEAVE_LIST_FREE(&move->buckets.items[b].cells);
    CLEAVE_LIST_FREE(&move->buckets);
    CLEAVE_LIST_FREE(&move->cells);
    CLEAVE_LIST_FREE(&move->cell_members);
    CLEAVE_LIST_FREE(&move->exchanges);
}
