/* Collectives.  Cells that one group of devices shares in one of these ways become one item:

     all-reduce       partial results of the whole group, read by the whole group
     reduce-scatter   partial results of the whole group, each cell read by one of it, and all of it
   read all-gather       values that one of the group has, read by the whole group, and all of it
   has some

   Every device lays the cells into one vector of units (elements, or records of moments), cut into
   a block for each of the group: balanced for an all-reduce, the cells of its root otherwise.
   Blocks are added up by the reducing half of an algorithm and spread by its gathering half; an
   all-reduce is both.  The steps stand in the program, or, in the symbolic form, one item does that
   the cost model prices. */
#include "graph/lower_move.h"

#include <string.h>

bool move_group_is_collective(const lower_builder *builder, int32_t n_devices) {
    /* Two devices, or every pair at once: the direct exchange through owners is the same. */
    return n_devices > 2 && builder->layout->all_reduce != CLEAVE_ALGORITHM_DIRECT;
}

static bool is_power_of_two(int32_t n) { return (n & (n - 1)) == 0; }

/* The fixed rule: recursive halving and doubling where the group is a power of two, else a ring. */
static cleave_collective_algorithm choose_algorithm(const lower_builder *builder,
                                                    int32_t n_devices) {
    return builder->layout->all_reduce != CLEAVE_ALGORITHM_RING && is_power_of_two(n_devices)
               ? CLEAVE_ALGORITHM_HALVING_DOUBLING
               : CLEAVE_ALGORITHM_RING;
}

typedef struct reduction {
    lower_builder *builder;
    movement *move;
    const move_bucket *bucket;
    int64_t unit_elements;
    int64_t unit_bytes;
    int64_t *first_unit; /* [cells of the bucket] where each begins in the vector, in the bucket's
                            order */
    int64_t *block;      /* [n_devices + 1] first unit of every device's block */
    /* The vector on each device of the group: contiguous. */
    int32_t *buffer;
    int64_t *offset;   /* bytes */
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
static lower_region vector_region(const reduction *state, const move_cell *cell, int32_t buffer,
                                  int64_t first_unit) {
    const cleave_tensor *tensor = &state->builder->model->tensors[state->move->tensor];
    lower_region region = {
        .buffer = buffer, .box = cell->box, .offset = first_unit * state->unit_elements};
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

/* A demand that holds all cells one after the other, as the vector does, is the vector. */
static bool vector_in_place(const reduction *state, int32_t device, lower_region *region) {
    const movement *move = state->move;
    const cleave_tensor *tensor = &state->builder->model->tensors[move->tensor];
    if (state->unit_elements != 1 || state->bucket->kind == CLEAVE_REDUCE_SCATTER)
        return false;
    for (int32_t i = 0; i < move->demands.n; i++) {
        const move_demand *demand = &move->demands.items[i];
        bool fits = demand->device == device;
        for (int32_t c = 0; c < state->bucket->cells.n && fits; c++) {
            const cleave_box *box = &cell_of(state, c)->box;
            fits = cleave_box_contains(tensor->rank, &demand->at.box, box);
            if (!fits)
                break;
            lower_region at = lower_region_within(tensor->rank, &demand->at, box);
            if (c == 0)
                *region = at;
            fits = lower_region_is_dense(tensor, &at) &&
                   at.offset == region->offset + state->first_unit[c];
        }
        if (fits)
            return true;
    }
    return false;
}

static int64_t units_of(const reduction *state, const move_cell *cell) {
    return cleave_box_size(state->builder->model->tensors[state->move->tensor].rank, &cell->box) /
           state->unit_elements;
}

/* Lays the cells out: in the order of their roots, and in the bucket's within. */
static void lay_out(reduction *state) {
    const move_bucket *bucket = state->bucket;
    int32_t n = bucket->n_devices;
    int64_t units = 0;
    for (int32_t i = 0; i < n; i++) {
        state->block[i] = units;
        for (int32_t c = 0; c < bucket->cells.n; c++) {
            const move_cell *cell = cell_of(state, c);
            if (cell->root >= 0 ? cell->root != bucket->devices[i] : i > 0)
                continue;
            state->first_unit[c] = units;
            units += units_of(state, cell);
        }
    }
    state->block[n] = units;
    for (int32_t i = 0; i < n && bucket->kind == CLEAVE_ALL_REDUCE; i++)
        state->block[i] = cleave_block_start(units, n, i);
}

/* The cell as it lies in the vector of device i of the group. */
static lower_region cell_region(const reduction *state, int32_t i, int32_t c) {
    lower_region region =
        vector_region(state, cell_of(state, c), state->buffer[i], state->first_unit[c]);
    region.offset += state->offset[i] / lower_type_bytes(state->builder, state->move->tensor);
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
    int32_t *in_group = LOWER_ARRAY(builder, int32_t, builder->n_devices);
    memset(in_group, -1, (size_t)builder->n_devices * sizeof *in_group);
    for (int32_t i = 0; i < bucket->n_devices; i++)
        in_group[bucket->devices[i]] = i;
    int32_t *next = LOWER_ARRAY(builder, int32_t, bucket->n_devices + 1);
    *first = LOWER_ARRAY(builder, int32_t, bucket->n_devices + 1);
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t c = 0; c < bucket->cells.n; c++) {
            const move_cell *cell = cell_of(state, c);
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
            lower_region at = lower_region_within(rank, &source->at, &cell->box);
            bool same = lower_region_same_place(rank, &at, &to);
            if (same != (pass == 0))
                continue;
            if (!same)
                lower_copy_add(builder, move->tensor,
                               started ? move_mode(move) : CLEAVE_COPY_ASSIGN, &cell->box, &to, &at,
                               0);
            started = true;
        }
}

static void pack_vector(const reduction *state, int32_t i) {
    lower_builder *builder = state->builder;
    int32_t device = state->bucket->devices[i];
    lower_region place = {.buffer = -1};
    if (vector_in_place(state, device, &place)) {
        state->buffer[i] = place.buffer;
        state->offset[i] = place.offset * lower_type_bytes(builder, state->move->tensor);
        builder->sent[place.buffer] = true;
    } else {
        int64_t bytes = state->block[state->bucket->n_devices] * state->unit_bytes;
        state->buffer[i] = lower_buffer_bytes(builder, CLEAVE_BUFFER_MESSAGE, device, bytes);
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
        lower_region from = cell_region(state, i, state->targets[t].cell);
        lower_copy_add(builder, move->tensor, CLEAVE_COPY_ASSIGN, &from.box,
                       &move->demands.items[state->targets[t].id].at, &from, 0);
    }
    lower_copy_end(builder, device, move->lane);
}

/* Adds received units to the vector. */
static void add_units(const reduction *state, int32_t i, int64_t first, int64_t n_units) {
    lower_builder *builder = state->builder;
    const cleave_tensor *tensor = &builder->model->tensors[state->move->tensor];
    int64_t element = cleave_type_bytes(tensor->type);
    cleave_copy_piece piece = {.mode = move_mode(state->move),
                               .type = tensor->type,
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
    cleave_copy *copy = &builder->copies.items[builder->copies.n - 1];
    copy->n_pieces = 1;
    copy->bytes = 3 * n_units * state->unit_bytes;
    LOWER_PUSH(builder, &builder->copy_pieces, piece);
    lower_copy_end(builder, state->bucket->devices[i], state->move->lane);
}

/* One exchange of a step: device i of the group sends units to device j, which adds them up or
 * keeps them. */
typedef struct exchange {
    int32_t from, to;
    int64_t first, n_units;
} exchange;

static void run_step(const reduction *state, int32_t n, const exchange *exchanges, bool reduce) {
    lower_builder *builder = state->builder;
    lower_run *runs = LOWER_ARRAY(builder, lower_run, n);
    for (int32_t e = 0; e < n; e++) {
        const exchange *x = &exchanges[e];
        if (x->n_units == 0)
            continue;
        int64_t at = x->first * state->unit_bytes;
        runs[e] = lower_messages(
            builder, state->move->tensor, state->move->lane, state->bucket->devices[x->from],
            state->buffer[x->from], state->offset[x->from] + at, state->bucket->devices[x->to],
            reduce ? state->received[x->to] : state->buffer[x->to],
            reduce ? 0 : state->offset[x->to] + at, x->n_units * state->unit_bytes);
        lower_send(builder, runs[e]);
        lower_receive(builder, runs[e]);
    }
    for (int32_t e = 0; e < n; e++) {
        lower_wait_at_receiver(builder, runs[e]);
        lower_wait_at_sender(builder, runs[e]);
    }
    for (int32_t e = 0; e < n && reduce; e++)
        if (exchanges[e].n_units > 0)
            add_units(state, exchanges[e].to, exchanges[e].first, exchanges[e].n_units);
}

/* Ring (Patarasuk and Yuan, 2009): n - 1 steps in which blocks are added up on their way around,
   then n - 1 in which they go around complete. */
static void run_ring(const reduction *state, bool reduce) {
    int32_t n = state->bucket->n_devices;
    exchange *exchanges = LOWER_ARRAY(state->builder, exchange, n);
    for (int32_t step = 0; step < n - 1; step++) {
        for (int32_t i = 0; i < n; i++) {
            /* Reducing: block i - 1 - step has come to i from all that it has passed, and ends at
               its own device.  Gathering: block i - step, from its own device on. */
            int32_t block = ((i - step - (reduce ? 1 : 0)) % n + n) % n;
            exchanges[i] = (exchange){i, (i + 1) % n, state->block[block],
                                      state->block[block + 1] - state->block[block]};
        }
        run_step(state, n, exchanges, reduce);
    }
}

/* Recursive halving, then doubling (Thakur, Rabenseifner and Gropp, 2005), for powers of two:
   partners at distance n/2, n/4, ... exchange halves of what they still hold. */
static void run_halving_doubling(const reduction *state, bool reduce) {
    int32_t n = state->bucket->n_devices;
    exchange *exchanges = LOWER_ARRAY(state->builder, exchange, n);
    for (int32_t step = 1; step < n; step *= 2) {
        int32_t distance = reduce ? n / 2 / step : step;
        for (int32_t i = 0; i < n; i++) {
            /* Reducing: i sends the blocks that its partner will hold.  Gathering: those that it
               holds complete.  The blocks of a holder at this distance are its aligned run of that
               many. */
            int32_t partner = i ^ distance, holder = reduce ? partner : i;
            int32_t first = holder / distance * distance;
            exchanges[i] = (exchange){i, partner, state->block[first],
                                      state->block[first + distance] - state->block[first]};
        }
        run_step(state, n, exchanges, reduce);
    }
}

/* The most units that a device is sent at once to add up. */
static int64_t most_received(const reduction *state, cleave_collective_algorithm algorithm) {
    int32_t n = state->bucket->n_devices, run = algorithm == CLEAVE_ALGORITHM_RING ? 1 : n / 2;
    int64_t most = 0;
    for (int32_t i = 0; i < n; i += run) {
        int64_t units = state->block[i + run] - state->block[i];
        most = units > most ? units : most;
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

static void run_steps(const reduction *state, cleave_collective_algorithm algorithm) {
    bool reduces = state->bucket->kind != CLEAVE_ALL_GATHER,
         gathers = state->bucket->kind != CLEAVE_REDUCE_SCATTER;
    void (*run)(const reduction *, bool) =
        algorithm == CLEAVE_ALGORITHM_RING ? run_ring : run_halving_doubling;
    if (reduces)
        run(state, true);
    if (gathers)
        run(state, false);
}

static void run_bucket(lower_builder *builder, movement *move, const move_bucket *bucket) {
    int32_t n = bucket->n_devices;
    reduction state = {.builder = builder, .move = move, .bucket = bucket};
    state.unit_elements = move->combiner == CLEAVE_COMBINE_MOMENTS ? 3 : 1;
    state.unit_bytes = state.unit_elements * lower_type_bytes(builder, move->tensor);
    state.first_unit = LOWER_ARRAY(builder, int64_t, bucket->cells.n);
    state.block = LOWER_ARRAY(builder, int64_t, n + 1);
    state.buffer = LOWER_ARRAY(builder, int32_t, n);
    state.offset = LOWER_ARRAY(builder, int64_t, n);
    state.received = LOWER_ARRAY(builder, int32_t, n);
    lay_out(&state);
    sort_members(&state, false, &state.first_source, &state.sources);
    sort_members(&state, true, &state.first_target, &state.targets);
    for (int32_t i = 0; i < n; i++)
        pack_vector(&state, i);
    cleave_collective collective = {.kind = bucket->kind,
                                    .algorithm = choose_algorithm(builder, n),
                                    .n_devices = n,
                                    .devices = bucket->devices,
                                    .bytes = state.block[n] * state.unit_bytes,
                                    .tensor = move->tensor,
                                    .lane = (uint8_t)move->lane};
    LOWER_PUSH(builder, &builder->collectives, collective);
    int64_t received = most_received(&state, collective.algorithm) * state.unit_bytes;
    for (int32_t i = 0; i < n; i++)
        state.received[i] =
            bucket->kind == CLEAVE_ALL_GATHER
                ? -1
                : lower_buffer_bytes(builder, CLEAVE_BUFFER_MESSAGE, bucket->devices[i], received);
    if (builder->options->symbolic_collectives)
        run_symbolic(&state);
    else
        run_steps(&state, collective.algorithm);
    for (int32_t i = 0; i < n; i++)
        unpack_vector(&state, i);
}

void move_collectives_combine(lower_builder *builder, movement *move) {
    for (int32_t b = 0; b < move->buckets.n; b++)
        if (move->buckets.items[b].cells.n > 0)
            run_bucket(builder, move, &move->buckets.items[b]);
}
