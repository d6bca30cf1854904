/* Movement: turning the flows that cutting gives into packed messages, copies and waits. */
#include "graph/lower_move.h"

#include "graph/lower_cut.h"

#include <stdlib.h>
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
                !cleave_box_equal(tensor->rank, &demand->at.box, &from->at.box) ||
                !lower_region_is_dense(tensor, &from->at) || from->at.offset != 0)
                continue;
            from->taken = true;
            demand->at = from->at;
            break;
        }
    }
}

static int compare_contributions(const void *a, const void *b) {
    const move_contribution *x = a, *y = b;
    return x->key != y->key ? (x->key > y->key) - (x->key < y->key)
                            : (x->device > y->device) - (x->device < y->device);
}

static int compare_flows(const void *a, const void *b) {
    const move_flow *x = a, *y = b;
    if (x->stage != y->stage)
        return (x->stage > y->stage) - (x->stage < y->stage);
    if (x->source != y->source)
        return (x->source > y->source) - (x->source < y->source);
    if (x->destination != y->destination)
        return (x->destination > y->destination) - (x->destination < y->destination);
    return (x->order > y->order) - (x->order < y->order);
}

static void group_flows(lower_builder *builder, movement *move) {
    if (move->flows.n > 0)
        qsort(move->flows.items, (size_t)move->flows.n, sizeof *move->flows.items, compare_flows);
    int rank = rank_of(builder, move);
    int64_t element = lower_type_bytes(builder, move->tensor);
    for (int32_t f = 0; f < move->flows.n; f++) {
        const move_flow *flow = &move->flows.items[f];
        move_transfer *last =
            move->transfers.n > 0 ? &move->transfers.items[move->transfers.n - 1] : NULL;
        if (last == NULL || last->stage != flow->stage || last->source != flow->source ||
            last->destination != flow->destination) {
            LOWER_PUSH(builder, &move->transfers,
                       (move_transfer){.stage = flow->stage,
                                       .source = flow->source,
                                       .destination = flow->destination,
                                       .first_flow = f,
                                       .send_buffer = -1,
                                       .receive_buffer = -1});
            last = &move->transfers.items[move->transfers.n - 1];
        }
        last->n_flows++;
        move->flows.items[f].packed = last->bytes / element;
        last->bytes += cleave_box_size(rank, &flow->box) * element;
    }
}

/* Lists what arrives by device, and local copies by demand, so that a demand finds its own. */
static void index_arrivals(lower_builder *builder, movement *move) {
    move->first_transfer = LOWER_ARRAY(builder, int32_t, builder->n_devices);
    move->first_local = LOWER_ARRAY(builder, int32_t, move->demands.n);
    for (int32_t d = 0; d < builder->n_devices; d++)
        move->first_transfer[d] = -1;
    for (int32_t i = 0; i < move->demands.n; i++)
        move->first_local[i] = -1;
    for (int32_t t = move->transfers.n - 1; t >= 0; t--) {
        move_transfer *transfer = &move->transfers.items[t];
        if (transfer->stage == MOVE_PARTIAL)
            continue;
        transfer->next = move->first_transfer[transfer->destination];
        move->first_transfer[transfer->destination] = t;
    }
    for (int32_t i = move->locals.n - 1; i >= 0; i--) {
        move_local *local = &move->locals.items[i];
        if (local->demand < 0)
            continue;
        local->next = move->first_local[local->demand];
        move->first_local[local->demand] = i;
    }
}

/* Where a flow of a transfer lies in its packed message. */
static lower_region packed_region(const lower_builder *builder, const movement *move, int32_t f,
                                  int32_t buffer) {
    const move_flow *flow = &move->flows.items[f];
    lower_region region = {.buffer = buffer, .box = flow->box, .offset = flow->packed};
    cleave_tensor_strides(&builder->model->tensors[move->tensor], &region.box, region.stride);
    return region;
}

/* A transfer of one flow may go from and to where its elements lie, if they lie in one run there.
 */
static bool sent_in_place(const lower_builder *builder, const movement *move,
                          const move_transfer *transfer, lower_region *region) {
    const move_flow *flow = &move->flows.items[transfer->first_flow];
    if (transfer->n_flows != 1 || flow->n_sources != 1)
        return false;
    *region = lower_region_within(rank_of(builder, move), &move->regions.items[flow->first_source],
                                  &flow->box);
    return lower_region_is_dense(&builder->model->tensors[move->tensor], region);
}

static bool received_in_place(const lower_builder *builder, const movement *move,
                              const move_transfer *transfer, lower_region *region) {
    const move_flow *flow = &move->flows.items[transfer->first_flow];
    if (transfer->stage == MOVE_PARTIAL || transfer->n_flows != 1 || flow->n_targets != 1)
        return false;
    const move_demand *demand = &move->demands.items[move->targets.items[flow->first_target]];
    *region = lower_region_within(rank_of(builder, move), &demand->at, &flow->box);
    return lower_region_is_dense(&builder->model->tensors[move->tensor], region);
}

static void pack(lower_builder *builder, movement *move, move_transfer *transfer) {
    lower_copy_begin(builder);
    for (int32_t f = transfer->first_flow; f < transfer->first_flow + transfer->n_flows; f++) {
        const move_flow *flow = &move->flows.items[f];
        lower_region to = packed_region(builder, move, f, transfer->send_buffer);
        for (int32_t s = 0; s < flow->n_sources; s++)
            lower_copy_add(builder, move->tensor, s == 0 ? CLEAVE_COPY_ASSIGN : move_mode(move),
                           &flow->box, &to, &move->regions.items[flow->first_source + s], 0);
    }
    lower_copy_end(builder, transfer->source, move->lane);
}

/* Both ends post all transfers of a stage. */
static void post_stage(lower_builder *builder, movement *move, move_stage stage) {
    int64_t element = lower_type_bytes(builder, move->tensor);
    for (int32_t t = 0; t < move->transfers.n; t++) {
        move_transfer *transfer = &move->transfers.items[t];
        if (transfer->stage != stage)
            continue;
        lower_region from = {.buffer = -1}, to = {.buffer = -1};
        if (!sent_in_place(builder, move, transfer, &from)) {
            transfer->send_buffer = lower_buffer_bytes(builder, CLEAVE_BUFFER_MESSAGE,
                                                       transfer->source, transfer->bytes);
            from = (lower_region){.buffer = transfer->send_buffer};
            pack(builder, move, transfer);
        }
        if (!received_in_place(builder, move, transfer, &to)) {
            transfer->receive_buffer = lower_buffer_bytes(builder, CLEAVE_BUFFER_MESSAGE,
                                                          transfer->destination, transfer->bytes);
            to = (lower_region){.buffer = transfer->receive_buffer};
        }
        transfer->run = lower_messages(builder, move->tensor, move->lane, transfer->source,
                                       from.buffer, from.offset * element, transfer->destination,
                                       to.buffer, to.offset * element, transfer->bytes);
        lower_send(builder, transfer->run);
        lower_receive(builder, transfer->run);
    }
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

void move_begin(lower_builder *builder, movement *move) {
    int rank = rank_of(builder, move);
    move->begun = true;
    if (move->contributions.n > 0)
        qsort(move->contributions.items, (size_t)move->contributions.n,
              sizeof *move->contributions.items, compare_contributions);
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
    group_flows(builder, move);
    index_arrivals(builder, move);
    if (move->transfers.n == 0 && !has_collectives(move))
        move->lane = CLEAVE_LANE_MAIN; /* nothing to overlap */
    follow_main_lane(builder, move);
    post_stage(builder, move, MOVE_VALUE);
    post_stage(builder, move, MOVE_PARTIAL);
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
        lower_copy_begin(builder); /* one, however the cells of devices alternate */
        for (int32_t i = first[device]; i >= 0; i = move->locals.items[i].next) {
            const move_local *local = &move->locals.items[i];
            lower_copy_add(builder, move->tensor, local->mode, &local->box, &local->to,
                           &local->from, 0);
        }
        lower_copy_end(builder, device, move->lane);
    }
}

static void combine_transfer(lower_builder *builder, movement *move,
                             const move_transfer *transfer) {
    lower_wait_at_receiver(builder, transfer->run);
    lower_copy_begin(builder);
    for (int32_t f = transfer->first_flow; f < transfer->first_flow + transfer->n_flows; f++) {
        const move_flow *flow = &move->flows.items[f];
        lower_region from = packed_region(builder, move, f, transfer->receive_buffer);
        const lower_region *sum = &move->regions.items[flow->first_source + flow->n_sources];
        lower_copy_add(builder, move->tensor,
                       flow->first_target ? move_mode(move) : CLEAVE_COPY_ASSIGN, &flow->box, sum,
                       &from, 0);
    }
    lower_copy_end(builder, transfer->destination, move->lane);
}

void move_combine(lower_builder *builder, movement *move) {
    if (move->combined)
        return;
    move->combined = true;
    combine_locals(builder, move);
    for (int32_t t = 0; t < move->transfers.n; t++)
        if (move->transfers.items[t].stage == MOVE_PARTIAL)
            combine_transfer(builder, move, &move->transfers.items[t]);
    /* A result may be received into the buffer that a partial result was sent from. */
    for (int32_t t = 0; t < move->transfers.n; t++)
        if (move->transfers.items[t].stage == MOVE_PARTIAL)
            lower_wait_at_sender(builder, move->transfers.items[t].run);
    move_collectives_combine(builder, move);
    post_stage(builder, move, MOVE_RESULT);
}

static void arrive_transfer(lower_builder *builder, movement *move, move_transfer *transfer,
                            int32_t demand) {
    bool concerns = false;
    for (int32_t f = transfer->first_flow; f < transfer->first_flow + transfer->n_flows; f++) {
        const move_flow *flow = &move->flows.items[f];
        for (int32_t i = 0; i < flow->n_targets && !concerns; i++)
            concerns = move->targets.items[flow->first_target + i] == demand;
    }
    if (!concerns)
        return;
    if (!transfer->arrived) {
        lower_wait_at_receiver(builder, transfer->run);
        lower_wait_at_sender(builder, transfer->run);
        transfer->arrived = true;
    }
    if (transfer->receive_buffer < 0)
        return;
    lower_copy_begin(builder);
    for (int32_t f = transfer->first_flow; f < transfer->first_flow + transfer->n_flows; f++) {
        const move_flow *flow = &move->flows.items[f];
        lower_region from = packed_region(builder, move, f, transfer->receive_buffer);
        for (int32_t i = 0; i < flow->n_targets; i++)
            if (move->targets.items[flow->first_target + i] == demand)
                lower_copy_add(builder, move->tensor, CLEAVE_COPY_ASSIGN, &flow->box,
                               &move->demands.items[demand].at, &from, 0);
    }
    lower_copy_end(builder, transfer->destination, move->lane);
}

void move_arrive(lower_builder *builder, movement *move, int32_t demand) {
    move_combine(builder, move);
    int32_t device = move->demands.items[demand].device;
    for (int32_t t = move->first_transfer[device]; t >= 0; t = move->transfers.items[t].next)
        arrive_transfer(builder, move, &move->transfers.items[t], demand);
    lower_copy_begin(builder);
    for (int32_t i = move->first_local[demand]; i >= 0; i = move->locals.items[i].next) {
        const move_local *local = &move->locals.items[i];
        lower_copy_add(builder, move->tensor, local->mode, &local->box, &local->to,
                       local->fill ? NULL : &local->from, 0);
    }
    lower_copy_end(builder, device, move->lane);
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
        move->regions.n = move->targets.n = move->buckets.n = move->cells.n = move->cell_members.n =
            0;
    memset(move->level, 0, sizeof move->level);
    move->involved = NULL;
    move->begun = move->combined = false;
}

void movement_free(movement *move) {
    CLEAVE_LIST_FREE(&move->contributions);
    CLEAVE_LIST_FREE(&move->demands);
    CLEAVE_LIST_FREE(&move->flows);
    CLEAVE_LIST_FREE(&move->transfers);
    CLEAVE_LIST_FREE(&move->locals);
    CLEAVE_LIST_FREE(&move->regions);
    CLEAVE_LIST_FREE(&move->targets);
    for (int32_t b = 0; b < move->buckets.n; b++)
        CLEAVE_LIST_FREE(&move->buckets.items[b].cells);
    CLEAVE_LIST_FREE(&move->buckets);
    CLEAVE_LIST_FREE(&move->cells);
    CLEAVE_LIST_FREE(&move->cell_members);
}
