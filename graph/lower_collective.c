/* Collectives: cells of partial results that the same group of devices contributes to and reads,
   all around, are one all-reduce.  Every device packs its part of the cells into one vector of
   units (elements, or records of moments); the vector is reduced by an algorithm whose steps stand
   in the program, or, in the symbolic form, by one collective item that the cost model prices. */
#include "graph/lower_move.h"

#include <string.h>

bool move_bucket_is_collective(const lower_builder *builder, int32_t n_devices) {
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
    /* The vector on each device of the group: contiguous. */
    int32_t *buffer;
    int64_t *offset;   /* bytes */
    int32_t *received; /* buffer for what comes in and is combined */
} reduction;

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

/* A single cell that a demand of the device holds in one run is reduced where it lies. */
static bool vector_in_place(const reduction *state, int32_t device, lower_region *region) {
    const movement *move = state->move;
    const cleave_tensor *tensor = &state->builder->model->tensors[move->tensor];
    if (state->bucket->n_cells != 1 || state->unit_elements != 1)
        return false;
    const cleave_box *box = &move->cells.items[state->bucket->last_cell].box;
    for (int32_t i = 0; i < move->demands.n; i++) {
        const move_demand *demand = &move->demands.items[i];
        if (demand->device != device || !cleave_box_contains(tensor->rank, &demand->at.box, box))
            continue;
        *region = lower_region_within(tensor->rank, &demand->at, box);
        if (lower_region_is_dense(tensor, region))
            return true;
    }
    return false;
}

static int64_t units_of(const reduction *state, const move_cell *cell) {
    return cleave_box_size(state->builder->model->tensors[state->move->tensor].rank, &cell->box) /
           state->unit_elements;
}

/* Sums what a device has itself into its vector. */
static void pack_vector(const reduction *state, int32_t i) {
    lower_builder *builder = state->builder;
    movement *move = state->move;
    int rank = builder->model->tensors[move->tensor].rank;
    int32_t device = state->bucket->devices[i];
    lower_region place;
    bool in_place = vector_in_place(state, device, &place);
    if (in_place) {
        state->buffer[i] = place.buffer;
        state->offset[i] = place.offset * lower_type_bytes(builder, move->tensor);
        builder->sent[place.buffer] = true;
    } else {
        state->buffer[i] = lower_buffer_bytes(builder, CLEAVE_BUFFER_MESSAGE, device,
                                              state->bucket->units * state->unit_bytes);
    }
    lower_copy_begin(builder);
    int64_t first_unit = 0;
    for (int32_t c = state->bucket->last_cell; c >= 0; c = move->cells.items[c].next) {
        const move_cell *cell = &move->cells.items[c];
        lower_region to =
            in_place ? place : vector_region(state, cell, state->buffer[i], first_unit);
        first_unit += units_of(state, cell);
        bool started = false;
        for (int pass = 0; pass < 2; pass++)
            for (int32_t s = 0; s < cell->n_sources; s++) {
                const move_cell_source *source = &move->cell_sources.items[cell->first_source + s];
                bool same = lower_region_same_place(rank, &source->at, &to);
                if (source->rank_in_group != i || same != (pass == 0))
                    continue;
                if (!same)
                    lower_copy_add(builder, move->tensor,
                                   started ? move_mode(move) : CLEAVE_COPY_ASSIGN, &cell->box, &to,
                                   &source->at, 0);
                started = true;
            }
    }
    lower_copy_end(builder, device, move->lane);
}

static void unpack_vector(const reduction *state, int32_t i) {
    lower_builder *builder = state->builder;
    movement *move = state->move;
    int rank = builder->model->tensors[move->tensor].rank;
    int32_t device = state->bucket->devices[i];
    lower_region place;
    bool in_place = vector_in_place(state, device, &place);
    lower_copy_begin(builder);
    int64_t first_unit = 0;
    for (int32_t c = state->bucket->last_cell; c >= 0; c = move->cells.items[c].next) {
        const move_cell *cell = &move->cells.items[c];
        lower_region from =
            in_place ? place : vector_region(state, cell, state->buffer[i], first_unit);
        first_unit += units_of(state, cell);
        for (int32_t d = 0; d < move->demands.n; d++)
            if (move->demands.items[d].device == device &&
                cleave_box_contains(rank, &move->demands.items[d].at.box, &cell->box))
                lower_copy_add(builder, move->tensor, CLEAVE_COPY_ASSIGN, &cell->box,
                               &move->demands.items[d].at, &from, 0);
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
static void run_ring(const reduction *state) {
    int32_t n = state->bucket->n_devices;
    exchange *exchanges = LOWER_ARRAY(state->builder, exchange, n);
    for (int32_t step = 0; step < 2 * (n - 1); step++) {
        bool reduce = step < n - 1;
        for (int32_t i = 0; i < n; i++) {
            int32_t shift = reduce ? step : step - (n - 1) - 1;
            int32_t block = ((i - shift) % n + n) % n;
            int64_t first = cleave_block_start(state->bucket->units, n, block);
            exchanges[i] =
                (exchange){i, (i + 1) % n, first,
                           cleave_block_start(state->bucket->units, n, block + 1) - first};
        }
        run_step(state, n, exchanges, reduce);
    }
}

/* Recursive halving, then doubling (Thakur, Rabenseifner and Gropp, 2005), for powers of two:
   partners at distance n/2, n/4, ... exchange halves of what they still hold. */
static void run_halving_doubling(const reduction *state) {
    int32_t n = state->bucket->n_devices;
    exchange *exchanges = LOWER_ARRAY(state->builder, exchange, n);
    for (int pass = 0; pass < 2; pass++) {
        bool reduce = pass == 0;
        for (int32_t step = 1; step < n; step *= 2) {
            int32_t distance = reduce ? n / 2 / step : step;
            for (int32_t i = 0; i < n; i++) {
                /* Reducing: i sends the blocks that its partner's half will hold.  Gathering: it
                   sends the blocks that it holds complete.  Blocks of the holder h at this
                   distance: h's aligned run. */
                int32_t partner = i ^ distance, holder = reduce ? partner : i;
                int32_t first_block = holder / distance * distance;
                int64_t first = cleave_block_start(state->bucket->units, n, first_block);
                int64_t end = cleave_block_start(state->bucket->units, n, first_block + distance);
                exchanges[i] = (exchange){i, partner, first, end - first};
            }
            run_step(state, n, exchanges, reduce);
        }
    }
}

static void reduce_bucket(lower_builder *builder, movement *move, const move_bucket *bucket) {
    bool records = move->combiner == CLEAVE_COMBINE_MOMENTS;
    int32_t n = bucket->n_devices;
    reduction state = {
        .builder = builder, .move = move, .bucket = bucket, .unit_elements = records ? 3 : 1};
    state.unit_bytes = state.unit_elements * lower_type_bytes(builder, move->tensor);
    state.buffer = LOWER_ARRAY(builder, int32_t, n);
    state.offset = LOWER_ARRAY(builder, int64_t, n);
    state.received = LOWER_ARRAY(builder, int32_t, n);
    for (int32_t i = 0; i < n; i++)
        pack_vector(&state, i);
    cleave_collective collective = {.kind = CLEAVE_ALL_REDUCE,
                                    .algorithm = choose_algorithm(builder, n),
                                    .n_devices = n,
                                    .devices = bucket->devices,
                                    .bytes = bucket->units * state.unit_bytes,
                                    .tensor = move->tensor,
                                    .lane = (uint8_t)move->lane};
    LOWER_PUSH(builder, &builder->collectives, collective);
    int64_t most = collective.algorithm == CLEAVE_ALGORITHM_RING ? (bucket->units + n - 1) / n
                                                                 : (bucket->units + 1) / 2 + n;
    for (int32_t i = 0; i < n; i++)
        state.received[i] = lower_buffer_bytes(builder, CLEAVE_BUFFER_MESSAGE, bucket->devices[i],
                                               most * state.unit_bytes);
    if (builder->options->symbolic_collectives) {
        static const cleave_item_kind kinds[] = {CLEAVE_ITEM_JOIN, CLEAVE_ITEM_AWAIT};
        for (int k = 0; k < 2; k++)
            for (int32_t i = 0; i < n; i++) {
                int32_t item = lower_item(builder, bucket->devices[i], move->lane, kinds[k],
                                          builder->collectives.n - 1);
                lower_touch(builder, state.buffer[i], item);
                lower_touch(builder, state.received[i], item);
            }
    } else if (collective.algorithm == CLEAVE_ALGORITHM_RING) {
        run_ring(&state);
    } else {
        run_halving_doubling(&state);
    }
    for (int32_t i = 0; i < n; i++)
        unpack_vector(&state, i);
}

void move_collectives_combine(lower_builder *builder, movement *move) {
    for (int32_t b = 0; b < move->buckets.n; b++)
        reduce_bucket(builder, move, &move->buckets.items[b]);
}
