/* Operands: who needs what, and how it gets there. */
#include "graph/lower/operand.h"

#include "base/random.h"

#include <string.h>

static int32_t *find_slot(lowering *state, int32_t tensor, int32_t device, const cleave_box *box,
                          int32_t again_in, int32_t visit) {
    int rank = state->base.model->tensors[tensor].rank;
    uint64_t at = cleave_hash_join((uint64_t)tensor, (uint64_t)device) +
                  cleave_box_hash(rank, box) + (uint64_t)(again_in + 1) +
                  31 * (uint64_t)(visit + 1);
    for (;; at++) {
        int32_t *slot = &state->table[at & (uint64_t)(state->table_size - 1)];
        if (*slot == 0)
            return slot;
        const lower_operand *operand = &state->operands.items[*slot - 1];
        if (operand->tensor == tensor && operand->device == device &&
            operand->again_in == again_in && operand->visit == visit &&
            cleave_box_equal(rank, &operand->box, box))
            return slot;
    }
}

/* How large the table must be for what the family's nests read, where every part has a need of its
   own. */
static int32_t first_size(const lowering *state) {
    int64_t n = 1, size = 32;
    for (int32_t i = 0; i < state->n_events; i++) {
        const lower_event *event = &state->schedule->events[lower_nth_event(state, i)];
        if (event->kind == LOWER_READ)
            n += state->base.parts[event->nest].n;
    }
    while (size <= 2 * n)
        size *= 2;
    return size < INT32_MAX / 2 ? (int32_t)size : 256;
}

static void grow_table(lowering *state) {
    if (state->table_size > 2 * (state->operands.n + 1))
        return;
    state->table_size = state->table_size == 0 ? first_size(state) : 2 * state->table_size;
    state->table = LOWER_ARRAY(&state->base, int32_t, state->table_size);
    for (int32_t i = 0; i < state->operands.n; i++) {
        const lower_operand *operand = &state->operands.items[i];
        if (operand->passed)
            continue;
        *find_slot(state, operand->tensor, operand->device, &operand->box, operand->again_in,
                   operand->visit) = i + 1;
    }
}

static cleave_buffer_kind buffer_kind(const cleave_tensor *tensor) {
    switch (tensor->kind) {
    case CLEAVE_TENSOR_PARAMETER:
        return CLEAVE_BUFFER_PARAMETER;
    case CLEAVE_TENSOR_BUFFER:
        return CLEAVE_BUFFER_RUNNING;
    case CLEAVE_TENSOR_DATA:
        return CLEAVE_BUFFER_DATA;
    case CLEAVE_TENSOR_CONSTANT:
        return CLEAVE_BUFFER_CONSTANT;
    case CLEAVE_TENSOR_ACTIVATION:
        break;
    }
    return CLEAVE_BUFFER_ACTIVATION;
}

static lower_holder *find_holder(lower_tensor *tensor, int32_t device) {
    for (int32_t i = 0; i < tensor->holders.n; i++)
        if (tensor->holders.items[i].device == device)
            return &tensor->holders.items[i];
    return NULL;
}

static void hold(lowering *state, int32_t tensor, int32_t device, const cleave_box *box) {
    lower_tensor *of = &state->tensors[tensor];
    int rank = state->base.model->tensors[tensor].rank;
    lower_holder *holder = find_holder(of, device);
    if (holder == NULL) {
        LOWER_PUSH(&state->base, &of->holders,
                   (lower_holder){.device = device, .buffer = -1, .box = *box, .first_use = -1});
        holder = &of->holders.items[of->holders.n - 1];
    }
    for (int d = 0; d < rank; d++) {
        holder->box.lo[d] = box->lo[d] < holder->box.lo[d] ? box->lo[d] : holder->box.lo[d];
        holder->box.hi[d] = box->hi[d] > holder->box.hi[d] ? box->hi[d] : holder->box.hi[d];
    }
    for (int32_t u = holder->first_use; u >= 0; u = state->uses.items[u].next)
        if (cleave_box_equal(rank, &state->uses.items[u].box, box))
            return;
    LOWER_PUSH(&state->base, &state->uses, (lower_use){.box = *box, .next = holder->first_use});
    holder->first_use = state->uses.n - 1;
}

/* Statistics combine as whole records, so whoever reads one of the three numbers gets the record
 * first. */
static bool needs_whole_record(const lowering *state, int32_t tensor, const cleave_box *box) {
    int32_t writer = state->base.model->writer[tensor];
    return writer >= 0 && state->base.model->nests[writer].combiner == CLEAVE_COMBINE_MOMENTS &&
           (box->lo[0] != 0 || box->hi[0] != state->base.model->tensors[tensor].shape[0]);
}

static movement *forward_of(lowering *state, int32_t tensor, bool again) {
    lower_tensor *of = &state->tensors[tensor];
    return again ? &of->again : &of->forward;
}

/* Finds out where one piece of an operand comes from. */
static void source_piece(lowering *state, int32_t operand, int32_t p) {
    const cleave_model *model = state->base.model;
    const lower_operand_piece *piece = &state->pieces.items[p];
    const lower_operand *of = &state->operands.items[operand];
    int32_t tensor = piece->piece.tensor, device = of->device, demand = -1, from_operand = -1;
    const cleave_tensor *base = &model->tensors[tensor];
    if (base->kind == CLEAVE_TENSOR_PARAMETER || base->kind == CLEAVE_TENSOR_BUFFER) {
        hold(state, tensor, device, &piece->piece.box);
        if (of->visit >= 0 && state->base.layout->sharded[tensor] >= CLEAVE_SHARDED_WEIGHT) {
            movement *move = &lower_visiting_of(state, of->visit, tensor)->move;
            lower_region_of_piece(base->rank, &piece->piece, of->buffer,
                                  move_demand_of(&state->base, move, device, operand, of->whole));
            demand = move->demands.n - 1;
        }
    } else if (base->kind == CLEAVE_TENSOR_ACTIVATION &&
               needs_whole_record(state, tensor, &piece->piece.box)) {
        cleave_box record = piece->piece.box;
        record.lo[0] = 0;
        record.hi[0] = base->shape[0];
        state->operands.items[operand].whole = false;
        from_operand = lower_operand_need(state, tensor, device, &record, of->again_in, -1);
    } else if (base->kind != CLEAVE_TENSOR_ACTIVATION && tensor != of->tensor) {
        const cleave_box box = piece->piece.box;
        from_operand = lower_operand_need(state, tensor, device, &box, -1, -1);
    } else if (base->kind == CLEAVE_TENSOR_ACTIVATION) {
        movement *move = forward_of(state, tensor, piece->again);
        lower_region_of_piece(base->rank, &piece->piece, of->buffer,
                              move_demand_of(&state->base, move, device, operand, of->whole));
        demand = move->demands.n - 1;
    }
    state->pieces.items[p].demand = demand; /* another need may have moved the list */
    state->pieces.items[p].from_operand = from_operand;
}

/* Does the only piece of a box cover it, and lie as in its base tensor? */
static bool is_whole(const lower_builder *builder, int32_t tensor, const cleave_box *box,
                     const cleave_piece *piece) {
    const cleave_tensor *base = &builder->model->tensors[piece->tensor];
    lower_region region;
    lower_region_of_piece(base->rank, piece, -1, &region);
    return piece->offset == 0 && lower_region_is_dense(base, &piece->box, &region) &&
           cleave_box_size(base->rank, &piece->box) ==
               cleave_box_size(builder->model->tensors[tensor].rank, box);
}

static void add_piece(lowering *state, const cleave_piece *piece, int32_t again_in) {
    lower_operand_piece *added = LOWER_ROOM(&state->base, &state->pieces);
    state->pieces.n++;
    added->piece = *piece;
    added->again = again_in >= 0 && state->schedule->again_in[piece->tensor] == again_in;
    added->demand = added->from_operand = -1;
}

/* An operand whose pieces nobody has asked for yet; -1: there is nothing of it. */
static int32_t make_operand(lowering *state, int32_t tensor, int32_t device, const cleave_box *box,
                            int32_t again_in, int32_t visit) {
    lower_builder *builder = &state->base;
    const cleave_tensor *of = &builder->model->tensors[tensor];
    state->pulled.n = 0;
    cleave_status status =
        cleave_view_pull(builder->model, tensor, box, &state->pulled, builder->error);
    if (status != CLEAVE_OK)
        lower_unwind(builder, status);
    int32_t id = state->operands.n, first = state->pieces.n, n = state->pulled.n;
    if (n == 0 && state->pulled.n_met > 0)
        return -1; /* nothing of the member */
    lower_operand *operand = LOWER_ROOM(builder, &state->operands);
    state->operands.n++;
    operand->tensor = tensor;
    operand->device = device;
    operand->again_in = again_in;
    operand->visit = visit;
    lower_copy_box(of->rank, box, &operand->box);
    operand->buffer = lower_buffer(builder, buffer_kind(of), device, tensor, box);
    operand->first_piece = first;
    operand->n_pieces = n;
    operand->whole = n == 1 && is_whole(builder, tensor, box, &state->pulled.items[0]) &&
                     of->stored == builder->model->tensors[state->pulled.items[0].tensor].stored;
    operand->filled = operand->arrived = operand->passed = false;
    for (int32_t i = 0; i < n; i++)
        add_piece(state, &state->pulled.items[i], again_in);
    return id;
}

int32_t lower_operand_need(lowering *state, int32_t tensor, int32_t device, const cleave_box *box,
                           int32_t again_in, int32_t visit) {
    grow_table(state);
    if (again_in >= 0 && !lower_sees_again(state->schedule, state->base.model, tensor, again_in))
        again_in = -1;
    int32_t *slot = find_slot(state, tensor, device, box, again_in, visit);
    if (*slot != 0)
        return *slot - 1;
    int32_t id = make_operand(state, tensor, device, box, again_in, visit);
    if (id < 0)
        return -1;
    *slot = id + 1;
    int32_t first = state->operands.items[id].first_piece, n = state->operands.items[id].n_pieces;
    for (int32_t i = 0; i < n; i++)
        source_piece(state, id, first + i);
    return id;
}

int32_t lower_operand_passed(lowering *state, int32_t tensor, int32_t device,
                             const cleave_box *box) {
    int32_t id = make_operand(state, tensor, device, box, -1, -1);
    lower_operand *made = &state->operands.items[id];
    made->passed = made->filled = made->arrived = true;
    made->whole = false;
    return id;
}

/* What an operand holds, as it lies there. */
static lower_region region_of(const lowering *state, int32_t operand) {
    const lower_operand *of = &state->operands.items[operand];
    lower_region region = lower_region_of(&state->base, of->buffer);
    region.box = of->box;
    cleave_tensor_strides(&state->base.model->tensors[of->tensor], &of->box, region.stride);
    return region;
}

void lower_operand_place_holders(lowering *state) {
    lower_builder *builder = &state->base;
    const lower_schedule *schedule = state->schedule;
    for (int32_t m = schedule->first_member[state->family];
         m < schedule->first_member[state->family + 1]; m++) {
        int32_t t = schedule->members[m];
        const cleave_tensor *tensor = &builder->model->tensors[t];
        for (int32_t i = 0; i < state->tensors[t].holders.n; i++) {
            lower_holder *holder = &state->tensors[t].holders.items[i];
            holder->buffer =
                lower_buffer(builder, buffer_kind(tensor), holder->device, t, &holder->box);
            builder->buffers.items[holder->buffer].persistent = true;
        }
    }
    for (int32_t i = 0; i < state->operands.n; i++) {
        const lower_operand *operand = &state->operands.items[i];
        const cleave_tensor *tensor = &builder->model->tensors[operand->tensor];
        /* Data too: what is read first is mostly kept for backward, to the end of the step. */
        if (tensor->view.kind == CLEAVE_VIEW_NONE &&
            (tensor->kind == CLEAVE_TENSOR_CONSTANT || tensor->kind == CLEAVE_TENSOR_DATA))
            builder->buffers.items[operand->buffer].persistent = true;
    }
}

static void copy_piece(lowering *state, const lower_operand *operand,
                       const lower_operand_piece *piece, const lower_region *from) {
    const cleave_piece *of = &piece->piece;
    lower_region to = {.buffer = operand->buffer, .box = of->box, .offset = of->offset};
    memcpy(to.stride, of->stride, sizeof to.stride);
    lower_copy_add(&state->base, of->tensor, CLEAVE_COPY_ASSIGN, &of->box, &to, from, 0);
}

/* From what the device holds: that memory itself where it is the same, else a copy at every step.
 */
static void arrive_held(lowering *state, lower_operand *operand, const lower_operand_piece *piece) {
    lower_builder *builder = &state->base;
    int32_t tensor = piece->piece.tensor;
    lower_holder *holder = find_holder(&state->tensors[tensor], operand->device);
    if (operand->whole &&
        cleave_box_equal(builder->model->tensors[tensor].rank, &holder->box, &piece->piece.box)) {
        operand->buffer = holder->buffer;
        return;
    }
    lower_region from = lower_region_of(builder, holder->buffer);
    copy_piece(state, operand, piece, &from);
}

static void arrive_from_operand(lowering *state, lower_operand *operand,
                                const lower_operand_piece *piece) {
    lower_region from = region_of(state, piece->from_operand);
    copy_piece(state, operand, piece, &from);
}

/* What a pad adds. */
static void fill_uncovered(lowering *state, lower_operand *operand) {
    lower_builder *builder = &state->base;
    if (operand->filled || state->member != NULL)
        return; /* no member of a family is padded */
    operand->filled = true;
    const cleave_tensor *tensor = &builder->model->tensors[operand->tensor];
    int64_t covered = 0;
    for (int32_t p = operand->first_piece; p < operand->first_piece + operand->n_pieces; p++) {
        const cleave_piece *piece = &state->pieces.items[p].piece;
        covered += cleave_box_size(builder->model->tensors[piece->tensor].rank, &piece->box);
    }
    if (covered >= cleave_box_size(tensor->rank, &operand->box))
        return;
    lower_region all = lower_region_of(builder, operand->buffer);
    lower_copy_begin(builder);
    lower_copy_add(builder, operand->tensor, CLEAVE_COPY_FILL, &operand->box, &all, NULL,
                   cleave_view_fill(builder->model, operand->tensor));
    lower_copy_end(builder, operand->device, CLEAVE_LANE_MAIN);
}

/* Of one in which something is gathered as often as it is read. */
static cleave_when when_of(const lowering *state, const lower_operand *operand) {
    for (int32_t p = 0; p < operand->n_pieces && operand->visit >= 0; p++)
        if (lower_is_gathered(state, state->pieces.items[operand->first_piece + p].piece.tensor))
            return (cleave_when)state->schedule->visits[operand->visit].when;
    return lower_value_when(&state->base, operand->tensor);
}

void lower_operand_prepare(lowering *state, const movement *move) {
    for (int32_t i = 0; i < move->demands.n; i++) {
        if (move->demands.items[i].operand < 0)
            continue;
        lower_operand *operand = &state->operands.items[move->demands.items[i].operand];
        lower_do(&state->base, when_of(state, operand));
        fill_uncovered(state, operand);
    }
}

static bool is_gathered(const lowering *state, const lower_operand_piece *piece) {
    return piece->demand >= 0 && lower_is_gathered(state, piece->piece.tensor);
}

/* Does it come by a movement?  (What was to be gathered may be held after all.) */
static bool moves(const lowering *state, const lower_operand_piece *piece) {
    return piece->demand >= 0 &&
           (state->base.model->tensors[piece->piece.tensor].kind == CLEAVE_TENSOR_ACTIVATION ||
            is_gathered(state, piece));
}

static movement *movement_of(lowering *state, const lower_operand *operand,
                             const lower_operand_piece *piece) {
    return is_gathered(state, piece)
               ? &lower_visiting_of(state, operand->visit, piece->piece.tensor)->move
               : forward_of(state, piece->piece.tensor, piece->again);
}

static void await_gathered(lowering *state, const lower_operand *operand,
                           const lower_operand_piece *piece) {
    const cleave_tensor *of = &state->base.model->tensors[piece->piece.tensor];
    lower_do(&state->base, (cleave_when)state->schedule->visits[operand->visit].when);
    if (lower_await_visiting(state, lower_visiting_of(state, operand->visit, piece->piece.tensor),
                             operand->device))
        lower_chore(&state->base, operand->device,
                    (cleave_copy){.chore = CLEAVE_CHORE_UNPACK,
                                  .chore_bytes = 2 * cleave_stored_bytes(of) *
                                                 cleave_box_size(of->rank, &piece->piece.box)});
}

void lower_operand_combine(lowering *state, int32_t id) {
    lower_builder *builder = &state->base;
    const lower_operand *operand = &state->operands.items[id];
    if (operand->arrived)
        return;
    for (int32_t p = operand->first_piece; p < operand->first_piece + operand->n_pieces; p++) {
        const lower_operand_piece *piece = &state->pieces.items[p];
        movement *move = moves(state, piece) ? movement_of(state, operand, piece) : NULL;
        if (move == NULL && piece->from_operand >= 0)
            lower_operand_combine(state, piece->from_operand);
        if (move == NULL || move->combined || is_gathered(state, piece))
            continue;
        lower_begin_stretch(state, false, 1 + piece->piece.index);
        lower_do(builder, lower_value_when(builder, piece->piece.tensor));
        move_combine(builder, move);
    }
}

void lower_operand_arrive(lowering *state, int32_t id) {
    lower_builder *builder = &state->base;
    lower_operand *operand = &state->operands.items[id];
    if (operand->arrived)
        return;
    operand->arrived = true;
    const cleave_tensor *tensor = &builder->model->tensors[operand->tensor];
    lower_do(builder, when_of(state, operand));
    if (tensor->kind == CLEAVE_TENSOR_DATA && tensor->view.kind == CLEAVE_VIEW_NONE) {
        LOWER_PUSH(builder, &builder->loads, (cleave_load){.buffer = operand->buffer});
        lower_item(builder, operand->device, CLEAVE_LANE_MAIN, CLEAVE_ITEM_LOAD,
                   builder->loads.n - 1);
        return;
    }
    fill_uncovered(state, operand);
    for (int32_t p = operand->first_piece; p < operand->first_piece + operand->n_pieces; p++) {
        const lower_operand_piece *piece = &state->pieces.items[p];
        lower_begin_stretch(state, false, 1 + piece->piece.index);
        lower_do(builder, lower_value_when(builder, piece->piece.tensor));
        if (is_gathered(state, piece))
            await_gathered(state, operand, piece);
        else if (moves(state, piece))
            move_arrive(builder, forward_of(state, piece->piece.tensor, piece->again),
                        piece->demand);
        else if (piece->from_operand >= 0)
            lower_operand_arrive(state, piece->from_operand);
    }
    lower_do(builder, when_of(state, operand));
    lower_copy_begin(builder);
    for (int32_t p = operand->first_piece; p < operand->first_piece + operand->n_pieces; p++) {
        const lower_operand_piece *piece = &state->pieces.items[p];
        cleave_tensor_kind kind = builder->model->tensors[piece->piece.tensor].kind;
        if (moves(state, piece) && operand->whole)
            operand->buffer =
                movement_of(state, operand, piece)->demands.items[piece->demand].at.buffer;
        else if (moves(state, piece))
            continue; /* it came to its place */
        else if (piece->from_operand >= 0)
            arrive_from_operand(state, operand, piece);
        else if (kind == CLEAVE_TENSOR_PARAMETER || kind == CLEAVE_TENSOR_BUFFER)
            arrive_held(state, operand, piece);
    }
    lower_copy_end(builder, operand->device, CLEAVE_LANE_MAIN);
}
