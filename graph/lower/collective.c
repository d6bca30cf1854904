/* Collectives.  Cells that one group of devices shares in one of these ways become one item:

     all-reduce       partial results of the whole group, read by the whole group
     reduce-scatter   partial results of the whole group, each cell read by one of it; all read
     all-gather       values that one of the group has, read by the whole group; all have some

   Every device lays the cells into one vector of units (elements, or records of moments), cut into
   the blocks of a plan (collective_steps.h): balanced for an all-reduce, the cells of one root each
   otherwise.  The steps of the plan stand in the program, or, in the symbolic form, one item does
   that the cost model prices. */
#include "graph/lower/collective_vector.h"

#include <string.h>

bool move_group_is_collective(const lower_builder *builder, int32_t n_devices) {
    int32_t least = builder->options->least_collective;
    return n_devices >= (least > 0 ? least : CLEAVE_LEAST_COLLECTIVE) &&
           !builder->layout->collectives.direct;
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
    return reduction_first_unit(state, x->end) - reduction_first_unit(state, x->first);
}

static lower_run post(const reduction *state, const cleave_exchange *x, bool reduces) {
    int64_t at = reduction_first_unit(state, x->first) * state->unit_bytes;
    return lower_post(
        state->builder,
        &(cleave_message){.source = state->bucket->devices[x->from],
                          .destination = state->bucket->devices[x->to],
                          .lane = (uint8_t)state->move->lane,
                          .bytes = n_units_of(state, x) * state->unit_bytes,
                          .source_buffer = state->buffer[x->from],
                          .destination_buffer =
                              reduces ? state->received[x->to] : state->buffer[x->to],
                          .source_offset = state->offset[x->from] + at,
                          .destination_offset = reduces ? 0 : state->offset[x->to] + at,
                          .tensor = state->move->tensor});
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
            add_units(state, x.to, reduction_first_unit(state, x.first), n_units_of(state, &x));
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
            int64_t units =
                one ? reduction_first_unit(state, x.end - x.first) : n_units_of(state, &x);
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
            members[reduction_member_of(state, w, i)] =
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
    int64_t bytes = reduction_units(state) * state->unit_bytes;
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
    state.received = LOWER_ARRAY(builder, int32_t, n);
    reduction_lay_out(&state);
    for (int32_t i = 0; i < n; i++)
        reduction_pack(&state, i);
    LOWER_PUSH(builder, &builder->collectives, collective);
    int64_t received = most_received(&state) * state.unit_bytes;
    for (int32_t i = 0; i < n; i++)
        state.received[i] =
            bucket->kind == CLEAVE_ALL_GATHER
                ? -1
                : lower_message_bytes(builder, bucket->devices[i], state.type, received);
    if (builder->options->symbolic_collectives)
        run_symbolic(&state);
    else
        run_steps(&state);
    for (int32_t i = 0; i < n; i++)
        reduction_unpack(&state, i);
}

void move_collectives_combine(lower_builder *builder, movement *move) {
    for (int32_t b = 0; b < move->buckets.n; b++)
        if (move->buckets.items[b].cells.n > 0)
            run_bucket(builder, move, &move->buckets.items[b]);
}
