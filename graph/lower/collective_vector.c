#include "graph/lower/collective_vector.h"

#include <string.h>

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

int64_t reduction_units(const reduction *state) {
    int64_t n = 0;
    for (int32_t c = 0; c < state->bucket->cells.n; c++)
        n += units_of(state, cell_of(state, c));
    return n;
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

/* In the order of their devices they stand group after group, of each window after window, or the
 * other way round. */
int32_t reduction_member_of(const reduction *state, int32_t window, int32_t i) {
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
        int32_t member = reduction_member_of(state, cell->window, in_group[cell->root]);
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

void reduction_lay_out(reduction *state) {
    lower_builder *builder = state->builder;
    int32_t n = state->bucket->n_devices, n_cells = state->bucket->cells.n;
    state->first_unit = LOWER_ARRAY(builder, int64_t, n_cells);
    state->region = LOWER_ARRAY(builder, lower_region, n_cells);
    state->buffer = LOWER_ARRAY(builder, int32_t, n);
    state->offset = LOWER_ARRAY(builder, int64_t, n);
    state->demand = LOWER_ARRAY(builder, int32_t, n);
    lay_out(state);
    for (int32_t c = 0; c < n_cells; c++)
        state->region[c] = vector_region(state, c);
    sort_members(state, false, &state->first_source, &state->sources);
    sort_members(state, true, &state->first_target, &state->targets);
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

void reduction_pack(const reduction *state, int32_t i) {
    lower_builder *builder = state->builder;
    int32_t device = state->bucket->devices[i];
    lower_region place = {.buffer = -1};
    if (vector_in_place(state, i, &place) || vector_in_source(state, i, &place)) {
        state->buffer[i] = place.buffer;
        state->offset[i] = place.offset * cleave_type_bytes(state->type);
        builder->sent[place.buffer] = true;
    } else {
        int64_t bytes = state->n_units * state->unit_bytes;
        state->buffer[i] = lower_message_bytes(builder, device, state->type, bytes);
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

void reduction_unpack(const reduction *state, int32_t i) {
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
