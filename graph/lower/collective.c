/* Collectives.  Cells that one group of devices shares in one of these ways become one item:

     all-reduce       partial results of the whole group, read by the whole group
     reduce-scatter   partial results of the whole group, each cell read by one of it; all read
     all-gather       values that one of the group has, read by the whole group; all have some

   Every device lays the cells into one vector of units (elements, or records of moments), cut into
   the blocks of a plan (collective_steps.h): balanced for an all-reduce, the cells of one root each
   otherwise.  The steps of the plan stand in the program, or, in the symbolic form, one item does
   that the cost model prices. */
#include "graph/lower/move.h"

#include <string.h>

bool move_group_is_collective(const lower_builder *builder, int32_t n_devices) {
    /* Two devices, or every pair at once: the direct exchange through owners is the same. */
    return n_devices > 2 && !builder->layout->collectives.direct;
}

typedef struct reduction {
    lower_builder *builder;
    movement *move;
    const move_bucket *bucket;
    /* Of a fold, by their numbers among all devices; of all windows, where all take part. */
    int32_t n_members;
    const int32_t *members; /* [n_members] devices, ascending */
    int64_t unit_elements;
    cleave_type type; /* of the vector */
    int64_t unit_bytes;
    /* [cells of the bucket] in the bucket's order: where each begins in the vector, and how it lies
       there. */
    int64_t *first_unit;
    lower_region *region;
    cleave_collective_plan plan;
    int64_t n_units;
    int64_t
        *block; /* [n_blocks + 1] first unit of every block of a root; null: they are balanced */
    /* The vector on each device of the group: contiguous. */
    int32_t *buffer;
    int64_t *offset;   /* bytes */
    int32_t *demand;   /* that it lies in; -1: none */
    int32_t *received; /* buffer for what comes in and is added */
    /* What the cells have on every device, in the order of the cells: contributions and demands of
       device i are [first[i], first[i + 1]) of these. */
    int32_t *first_source, *first_target;
    struct reduction_member *sources, *targets;
} reduction;

typedef struct reduction_member {
    int32_t cell; /* of the bucket */
    int32_t id;   /* of the contribution or demand */
} reduction_member;

static const move_cell *cell_of(const reduction *state, int32_t c) {
    return &state->move->cells.items[state->bucket->cells.items[c]];
}

/* Where a cell lies in the packed vector: records of moments have their three numbers side by side.
 */
static lower_region vector_region(const reduction *state, int32_t c) {
    const cleave_tensor *tensor = &state->builder->model->tensors[state->move->tensor];
    const move_cell *cell = cell_of(state, c);
    lower_region region = {.box = cell->box, .offset = state->first_unit[c] * state->unit_elements};
    if (state->unit_elements == 1) {
        cleave_tensor_strides(tensor, &cell->box, region.stride);
        return region;
    }
    cleave_box record = cell->box;
    record.hi[0] = record.lo[0] + 1;
    cleave_tensor_strides(tensor, &record, region.stride);
    for (int d = 1; d < tensor->rank; d++)
        region.stride[d] *= state->unit_elements;
    region.stride[0] = 1;
    return region;
}

/* Does what lies there hold all cells one after the other, as the vector does?  Gives the region of
   the first one there. */
static bool holds_vector(const reduction *state, const lower_region *at, lower_region *region) {
    const cleave_tensor *tensor = &state->builder->model->tensors[state->move->tensor];
    if (lower_type_of(state->builder, at->buffer) != state->type)
        return false;
    for (int32_t c = 0; c < state->bucket->cells.n; c++) {
        const cleave_box *box = &cell_of(state, c)->box;
        if (!cleave_box_contains(tensor->rank, &at->box, box))
            return false;
        if (c == 0)
            *region = lower_region_within(tensor->rank, at, box);
        if (!lower_region_is_dense(tensor, box, at) ||
            lower_region_offset(tensor->rank, at, box) != region->offset + state->first_unit[c])
            return false;
    }
    return true;
}

/* What device i alone gives to a reduce-scatter, and nobody asks for later, is added up where it
   lies: then that is the vector. */
static bool vector_in_source(const reduction *state, int32_t i, lower_region *region) {
    int32_t first = state->first_source[i], n = state->first_source[i + 1] - first;
    if (state->unit_elements != 1 || state->bucket->kind != CLEAVE_REDUCE_SCATTER ||
        n != state->bucket->cells.n)
        return false;
    move_contribution *from = &state->move->contributions.items[state->sources[first].id];
    for (int32_t s = first + 1; s < first + n; s++)
        if (state->sources[s].id != state->sources[first].id)
            return false;
    const cleave_buffer *buffer = &state->builder->buffers.items[from->at.buffer];
    if (!from->may_take || from->taken || buffer->bytes != state->n_units * state->unit_bytes ||
        !holds_vector(state, &from->at, region))
        return false;
    from->taken = true;
    return true;
}

/* Then it is the vector of its device i.  One that holds all cells is among those of the first. */
static bool vector_in_place(const reduction *state, int32_t i, lower_region *region) {
    state->demand[i] = -1;
    if (state->unit_elements != 1 || state->bucket->kind == CLEAVE_REDUCE_SCATTER)
        return false;
    for (int32_t t = state->first_target[i];
         t < state->first_target[i + 1] && state->targets[t].cell == 0; t++) {
        state->demand[i] = state->targets[t].id;
        if (holds_vector(state, &state->move->demands.items[state->demand[i]].at, region))
            return true;
    }
    state->demand[i] = -1;
    return false;
}

static int64_t units_of(const reduction *state, const move_cell *cell) {
    return cleave_box_size(state->builder->model->tensors[state->move->tensor].rank, &cell->box) /
           state->unit_elements;
}

/* Of a block, or behind the last one. */
static int64_t first_unit_of(const reduction *state, int32_t block) {
    return state->block != NULL ? state->block[block]
                                : cleave_block_start(state->n_units, state->plan.n_blocks, block);
}

/* By devices: their places in the group, or -1. */
static int32_t *index_group(const reduction *state) {
    lower_builder *builder = state->builder;
    int32_t *in_group = LOWER_ARRAY(builder, int32_t, builder->n_devices);
    memset(in_group, -1, (size_t)builder->n_devices * sizeof *in_group);
    for (int32_t i = 0; i < state->bucket->n_devices; i++)
        in_group[state->bucket->devices[i]] = i;
    return in_group;
}

static int32_t group_of(const lower_builder *builder, int32_t device) {
    return device / builder->fold->n_devices;
}

/* Which member does in a window what device i of the bucket does in window 0: in the order of their
   devices they stand group after group, of each window after window, or the other way round. */
static int32_t member_of(const reduction *state, int32_t window, int32_t i) {
    const lower_builder *builder = state->builder;
    const move_bucket *bucket = state->bucket;
    int32_t first = i, end = i + 1;
    if (bucket->n_windows == 1)
        return i;
    if (builder->fold->windows_outermost)
        return window * bucket->n_devices + i;
    int32_t group = group_of(builder, bucket->devices[i]);
    while (first > 0 && group_of(builder, bucket->devices[first - 1]) == group)
        first--;
    while (end < bucket->n_devices && group_of(builder, bucket->devices[end]) == group)
        end++;
    return first * bucket->n_windows + window * (end - first) + i - first;
}

/* Each cell lies in the block of its root's member. */
static void lay_out_rooted(reduction *state) {
    lower_builder *builder = state->builder;
    const move_bucket *bucket = state->bucket;
    int32_t n_blocks = state->plan.n_blocks, *in_group = index_group(state);
    int32_t *first = LOWER_ARRAY(builder, int32_t, state->n_members);
    int32_t *next = LOWER_ARRAY(builder, int32_t, bucket->cells.n);
    memset(first, -1, (size_t)state->n_members * sizeof *first);
    for (int32_t c = bucket->cells.n - 1; c >= 0; c--) {
        const move_cell *cell = cell_of(state, c);
        int32_t member = member_of(state, cell->window, in_group[cell->root]);
        next[c] = first[member];
        first[member] = c;
    }
    state->block = LOWER_ARRAY(builder, int64_t, n_blocks + 1);
    for (int32_t b = 0; b < n_blocks; b++) {
        state->block[b] = state->n_units;
        for (int32_t c = first[cleave_collective_member_of_block(&state->plan, b)]; c >= 0;
             c = next[c]) {
            state->first_unit[c] = state->n_units;
            state->n_units += units_of(state, cell_of(state, c));
        }
    }
    state->block[n_blocks] = state->n_units;
}

/* An all-reduce takes cells as they come. */
static void lay_out(reduction *state) {
    if (state->bucket->kind != CLEAVE_ALL_REDUCE) {
        lay_out_rooted(state);
        return;
    }
    for (int32_t c = 0; c < state->bucket->cells.n; c++) {
        state->first_unit[c] = state->n_units;
        state->n_units += units_of(state, cell_of(state, c));
    }
}

/* The cell as it lies in the vector of device i of the group. */
static lower_region cell_region(const reduction *state, int32_t i, int32_t c) {
    lower_region region = state->region[c];
    region.buffer = state->buffer[i];
    region.offset += state->offset[i] / cleave_type_bytes(state->type);
    return region;
}

static int32_t device_of_member(const movement *move, int32_t id, bool demand) {
    return demand ? move->demands.items[id].device : move->contributions.items[id].device;
}

/* Sorts the members of all cells by device: counts them, then lays them out. */
static void sort_members(reduction *state, bool demands, int32_t **first,
                         reduction_member **members) {
    lower_builder *builder = state->builder;
    const movement *move = state->move;
    const move_bucket *bucket = state->bucket;
    int32_t *in_group = index_group(state);
    int32_t *next = LOWER_ARRAY(builder, int32_t, bucket->n_devices + 1);
    bool of_root = demands == (bucket->kind == CLEAVE_REDUCE_SCATTER);
    *first = LOWER_ARRAY(builder, int32_t, bucket->n_devices + 1);
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t c = 0; c < bucket->cells.n; c++) {
            const move_cell *cell = cell_of(state, c);
            if (of_root && cell->window > 0)
                continue; /* another window has it */
            int32_t from = cell->first_member + (demands ? cell->n_contributions : 0);
            int32_t n = demands ? cell->n_demands : cell->n_contributions;
            for (int32_t m = from; m < from + n; m++) {
                int32_t id = move->cell_members.items[m];
                int32_t i = in_group[device_of_member(move, id, demands)];
                if (i >= 0 && pass == 0)
                    (*first)[i + 1]++;
                else if (i >= 0)
                    (*members)[next[i]++] = (reduction_member){c, id};
            }
        }
        for (int32_t i = 0; i < bucket->n_devices && pass == 0; i++) {
            (*first)[i + 1] += (*first)[i];
            next[i] = (*first)[i];
        }
        if (pass == 0)
            *members = LOWER_ARRAY(builder, reduction_member, (*first)[bucket->n_devices]);
    }
}

/* Sums what a device has itself of one cell, sources [from, end), into its vector. */
static void pack_cell(const reduction *state, int32_t i, int32_t from, int32_t end) {
    lower_builder *builder = state->builder;
    const movement *move = state->move;
    const move_cell *cell = cell_of(state, state->sources[from].cell);
    int rank = builder->model->tensors[move->tensor].rank;
    lower_region to = cell_region(state, i, state->sources[from].cell);
    bool started = false;
    for (int pass = 0; pass < 2; pass++) /* what lies there already comes first */
        for (int32_t s = from; s < end; s++) {
            const move_contribution *source = &move->contributions.items[state->sources[s].id];
            bool same = lower_region_same_place(rank, &cell->box, &source->at, &to);
            if (same != (pass == 0))
                continue;
            if (!same)
                lower_copy_add(builder, move->tensor,
                               started ? move_mode(move) : CLEAVE_COPY_ASSIGN, &cell->box, &to,
                               &source->at, 0);
            started = true;
        }
}

static void pack_vector(const reduction *state, int32_t i) {
    lower_builder *builder = state->builder;
    int32_t device = state->bucket->devices[i];
    lower_region place = {.buffer = -1};
    if (vector_in_place(state, i, &place) || vector_in_source(state, i, &place)) {
        state->buffer[i] = place.buffer;
        state->offset[i] = place.offset * cleave_type_bytes(state->type);
        builder->sent[place.buffer] = true;
    } else {
        int64_t bytes = state->n_units * state->unit_bytes;
        state->buffer[i] =
            lower_buffer_bytes(builder, CLEAVE_BUFFER_MESSAGE, device, state->type, bytes);
    }
    lower_copy_begin(builder);
    int32_t end = state->first_source[i + 1];
    for (int32_t from = state->first_source[i], next; from < end; from = next) {
        for (next = from + 1; next < end && state->sources[next].cell == state->sources[from].cell;)
            next++;
        pack_cell(state, i, from, next);
    }
    lower_copy_end(builder, device, state->move->lane);
}

/* From the vector to the demands of device i. */
static void unpack_vector(const reduction *state, int32_t i) {
    lower_builder *builder = state->builder;
    const movement *move = state->move;
    int32_t device = state->bucket->devices[i];
    lower_copy_begin(builder);
    for (int32_t t = state->first_target[i]; t < state->first_target[i + 1]; t++) {
        if (state->targets[t].id == state->demand[i])
            continue; /* it lies there */
        lower_region from = cell_region(state, i, state->targets[t].cell);
        lower_copy_add(builder, move->tensor, CLEAVE_COPY_ASSIGN, &from.box,
                       &move->demands.items[state->targets[t].id].at, &from, 0);
    }
    lower_copy_end(builder, device, move->lane);
}

/* Adds received units to the vector. */
static void add_units(const reduction *state, int32_t i, int64_t first, int64_t n_units) {
    lower_builder *builder = state->builder;
    int64_t element = cleave_type_bytes(state->type);
    cleave_copy_piece piece = {.mode = move_mode(state->move),
                               .type = state->type,
                               .source_type = state->type,
                               .destination = state->buffer[i],
                               .source = state->received[i],
                               .destination_offset =
                                   state->offset[i] / element + first * state->unit_elements,
                               .rank = state->unit_elements == 1 ? 1 : 2};
    int units = piece.rank - 1;
    piece.extent[0] = state->unit_elements;
    piece.destination_stride[0] = piece.source_stride[0] = 1;
    piece.extent[units] = n_units;
    piece.destination_stride[units] = piece.source_stride[units] = state->unit_elements;
    lower_copy_begin(builder);
    lower_copy_add_sum(builder, &piece, 3 * n_units * state->unit_bytes);
    lower_copy_end(builder, state->bucket->devices[i], state->move->lane);
}

static int64_t n_units_of(const reduction *state, const cleave_exchange *x) {
    return first_unit_of(state, x->end) - first_unit_of(state, x->first);
}

static lower_run post(const reduction *state, const cleave_exchange *x, bool reduces) {
    lower_builder *builder = state->builder;
    int64_t at = first_unit_of(state, x->first) * state->unit_bytes;
    lower_run run = lower_messages(
        builder, state->move->tensor, state->move->lane, state->bucket->devices[x->from],
        state->buffer[x->from], state->offset[x->from] + at, state->bucket->devices[x->to],
        reduces ? state->received[x->to] : state->buffer[x->to],
        reduces ? 0 : state->offset[x->to] + at, n_units_of(state, x) * state->unit_bytes);
    lower_send(builder, run);
    lower_receive(builder, run);
    return run;
}

static void run_step(const reduction *state, const cleave_collective_step *step) {
    lower_builder *builder = state->builder;
    lower_run *runs = LOWER_ARRAY(builder, lower_run, step->n_exchanges);
    for (int32_t e = 0; e < step->n_exchanges; e++) {
        cleave_exchange x = cleave_collective_exchange_of(&state->plan, step, e);
        if (n_units_of(state, &x) > 0)
            runs[e] = post(state, &x, step->reduces);
    }
    for (int32_t e = 0; e < step->n_exchanges; e++) {
        lower_wait_at_receiver(builder, runs[e]);
        lower_wait_at_sender(builder, runs[e]);
    }
    for (int32_t e = 0; e < step->n_exchanges && step->reduces; e++) {
        cleave_exchange x = cleave_collective_exchange_of(&state->plan, step, e);
        if (n_units_of(state, &x) > 0)
            add_units(state, x.to, first_unit_of(state, x.first), n_units_of(state, &x));
    }
}

/* The most units that a device is sent at once to add up.  Steps that are alike rotate the same
   runs of blocks over all members, so one of them has them all.  In a step of an all-reduce the
   runs are of one length, and the one that begins the vector has the most: the first blocks of a
   vector that does not divide are the larger ones. */
static int64_t most_received(const reduction *state) {
    int64_t most = 0;
    for (int32_t s = 0, alike; s < state->plan.n_steps; s += alike) {
        cleave_collective_step step = cleave_collective_step_of(&state->plan, s);
        bool one = state->bucket->kind == CLEAVE_ALL_REDUCE;
        alike = step.alike;
        for (int32_t e = 0; e < (one ? 1 : step.n_exchanges) && step.reduces; e++) {
            cleave_exchange x = cleave_collective_exchange_of(&state->plan, &step, e);
            int64_t units = one ? first_unit_of(state, x.end - x.first) : n_units_of(state, &x);
            most = units > most ? units : most;
        }
    }
    return most;
}

/* One item for the whole collective. */
static void run_symbolic(const reduction *state) {
    static const cleave_item_kind kinds[] = {CLEAVE_ITEM_JOIN, CLEAVE_ITEM_AWAIT};
    lower_builder *builder = state->builder;
    for (int k = 0; k < 2; k++)
        for (int32_t i = 0; i < state->bucket->n_devices; i++) {
            int32_t item = lower_item(builder, state->bucket->devices[i], state->move->lane,
                                      kinds[k], builder->collectives.n - 1);
            lower_touch(builder, state->buffer[i], item);
            if (state->received[i] >= 0)
                lower_touch(builder, state->received[i], item);
        }
}

static void run_steps(const reduction *state) {
    if (state->n_members > state->bucket->n_devices)
        lower_fail_fold(state->builder, state->move->tensor,
                        "all windows combine it, in steps that are not the same for all devices");
    for (int32_t s = 0; s < state->plan.n_steps; s++) {
        cleave_collective_step step = cleave_collective_step_of(&state->plan, s);
        run_step(state, &step);
    }
}

static void fill_members(const reduction *state, int32_t *members) {
    const lower_builder *builder = state->builder;
    const move_bucket *bucket = state->bucket;
    for (int32_t w = 0; w < bucket->n_windows; w++)
        for (int32_t i = 0; i < bucket->n_devices; i++)
            members[member_of(state, w, i)] =
                cleave_fold_device(builder->fold, bucket->devices[i]) +
                w * cleave_fold_stride(builder->fold);
}

/* The devices, among all, that do as those of the bucket do. */
static const int32_t *list_members(const reduction *state) {
    lower_builder *builder = state->builder;
    const move_bucket *bucket = state->bucket;
    if (bucket->n_windows == 1 && (builder->fold == NULL || builder->fold->n_groups == 1))
        return bucket->devices;
    for (int k = 0; k < LOWER_KNOWN_MEMBERS; k++)
        if (builder->known_members[k].n == state->n_members &&
            builder->known_members[k].n_first == bucket->n_devices &&
            memcmp(builder->known_members[k].first, bucket->devices,
                   (size_t)bucket->n_devices * sizeof *bucket->devices) == 0)
            return builder->known_members[k].devices;
    cleave_arena *arena = builder->lasting != NULL ? builder->lasting : builder->arena;
    int32_t *members = CLEAVE_ARENA_ARRAY(arena, int32_t, state->n_members);
    int32_t *first = CLEAVE_ARENA_ARRAY(arena, int32_t, bucket->n_devices);
    if (members == NULL || first == NULL)
        lower_fail_memory(builder);
    memcpy(first, bucket->devices, (size_t)bucket->n_devices * sizeof *first);
    fill_members(state, members);
    int k = builder->next_known++ % LOWER_KNOWN_MEMBERS;
    builder->known_members[k].n = state->n_members;
    builder->known_members[k].n_first = bucket->n_devices;
    builder->known_members[k].first = first;
    builder->known_members[k].devices = members;
    return members;
}

/* By the layout's rules, which may ask for the bytes. */
static cleave_collective describe(const reduction *state) {
    const move_bucket *bucket = state->bucket;
    int64_t bytes = 0;
    for (int32_t c = 0; c < bucket->cells.n; c++)
        bytes += units_of(state, cell_of(state, c)) * state->unit_bytes;
    cleave_collective collective = {.kind = bucket->kind,
                                    .n_devices = state->n_members,
                                    .devices = state->members,
                                    .bytes = bytes,
                                    .tensor = state->move->tensor,
                                    .lane = (uint8_t)state->move->lane};
    collective.algorithm = cleave_collective_rules_choose(
        &state->builder->layout->collectives, bucket->kind, state->n_members, state->members, bytes,
        &collective.node_members);
    return collective;
}

static void run_bucket(lower_builder *builder, movement *move, const move_bucket *bucket) {
    int32_t n = bucket->n_devices;
    reduction state = {.builder = builder, .move = move, .bucket = bucket};
    state.unit_elements = move->combiner == CLEAVE_COMBINE_MOMENTS ? 3 : 1;
    state.type = bucket->kind == CLEAVE_ALL_GATHER ? move->value_type : move->partial_type;
    state.unit_bytes = state.unit_elements * cleave_type_bytes(state.type);
    state.n_members = n * bucket->n_windows;
    state.members = list_members(&state);
    cleave_collective collective = describe(&state);
    state.plan = cleave_collective_plan_of(collective.kind, collective.algorithm, state.n_members,
                                           collective.node_members);
    state.first_unit = LOWER_ARRAY(builder, int64_t, bucket->cells.n);
    state.buffer = LOWER_ARRAY(builder, int32_t, n);
    state.offset = LOWER_ARRAY(builder, int64_t, n);
    state.received = LOWER_ARRAY(builder, int32_t, n);
    state.demand = LOWER_ARRAY(builder, int32_t, n);
    state.region = LOWER_ARRAY(builder, lower_region, bucket->cells.n);
    lay_out(&state);
    for (int32_t c = 0; c < bucket->cells.n; c++)
        state.region[c] = vector_region(&state, c);
    sort_members(&state, false, &state.first_source, &state.sources);
    sort_members(&state, true, &state.first_target, &state.targets);
    for (int32_t i = 0; i < n; i++)
        pack_vector(&state, i);
    LOWER_PUSH(builder, &builder->collectives, collective);
    int64_t received = most_received(&state) * state.unit_bytes;
    for (int32_t i = 0; i < n; i++)
        state.received[i] = bucket->kind == CLEAVE_ALL_GATHER
                                ? -1
                                : lower_buffer_bytes(builder, CLEAVE_BUFFER_MESSAGE,
                                                     bucket->devices[i], state.type, received);
    if (builder->options->symbolic_collectives)
        run_symbolic(&state);
    else
        run_steps(&state);
    for (int32_t i = 0; i < n; i++)
        unpack_vector(&state, i);
}

void move_collectives_combine(lower_builder *builder, movement *move) {
    for (int32_t b = 0; b < move->buckets.n; b++)
        if (move->buckets.items[b].cells.n > 0)
            run_bucket(builder, move, &move->buckets.items[b]);
}
