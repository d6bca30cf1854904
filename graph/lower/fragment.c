#include "graph/lower/fragment.h"

#include "graph/lower/family.h"
#include "graph/lower/fragment_live.h"
#include "graph/lower/member.h"

#include <stdlib.h>
#include <string.h>

/* Of what the parts of an event's nest read or write. */
typedef struct box_hash {
    uint64_t a, b;
    bool is_known;
} box_hash;

struct cleave_lowerer {
    const cleave_model *model;
    cleave_lower_options options;
    cleave_layout layout; /* splits are not looked at: parts hold what they say */
    lower_schedule schedule;
    lower_members members;
    lowering state;
    cleave_parts *parts;  /* [n_nests] */
    cleave_arena *arenas; /* [n_operators] of the parts */
    box_hash *boxes;    /* [n_events] of the schedule: families of a hundred nests are hashed again
                           and again, and one nest has changed */
    cleave_arena arena; /* of what lives as long as the lowerer */
    cleave_arena scratch; /* of one family */
};

static void forget_boxes(cleave_lowerer *lowerer, int32_t nest) {
    const lower_schedule *schedule = &lowerer->schedule;
    for (int i = 0; i < lowerer->model->nests[nest].n_inputs; i++)
        if (schedule->read[nest][i] >= 0)
            lowerer->boxes[schedule->read[nest][i]].is_known = false;
    if (schedule->write[nest] >= 0)
        lowerer->boxes[schedule->write[nest]].is_known = false;
    if (schedule->write_statistics[nest] >= 0)
        lowerer->boxes[schedule->write_statistics[nest]].is_known = false;
}

static cleave_status prepare(cleave_lowerer *lowerer, const cleave_layout *layout,
                             cleave_error *error) {
    const cleave_model *model = lowerer->model;
    cleave_arena *arena = &lowerer->arena;
    CLEAVE_TRY(lower_schedule_create(model, lowerer->options.training,
                                     lowerer->options.together_bytes, NULL, layout, arena,
                                     &lowerer->schedule, error));
    CLEAVE_TRY(lower_find_members(model, &lowerer->schedule, arena, &lowerer->members, error));
    lowerer->parts = CLEAVE_ARENA_ARRAY(arena, cleave_parts, model->n_nests);
    lowerer->boxes = CLEAVE_ARENA_ARRAY(arena, box_hash, lowerer->schedule.n_events);
    lowerer->layout = *layout;
    lowerer->layout.splits = NULL;
    lowerer->layout.sharded = CLEAVE_ARENA_ARRAY(arena, uint8_t, model->n_tensors);
    if (lowerer->parts == NULL || lowerer->layout.sharded == NULL ||
        (lowerer->boxes == NULL && lowerer->schedule.n_events > 0))
        return cleave_fail_memory(error, "lowering");
    memcpy(lowerer->layout.sharded, layout->sharded,
           (size_t)model->n_tensors * sizeof *layout->sharded);
    for (int32_t op = 0; op < model->n_operators; op++)
        CLEAVE_TRY(cleave_lowerer_set_split(lowerer, op, &layout->splits[op], error));
    lowerer->state.base = (lower_builder){.model = model,
                                          .layout = &lowerer->layout,
                                          .options = &lowerer->options,
                                          .arena = arena,
                                          .error = error,
                                          .parts = lowerer->parts,
                                          .n_devices = layout->n_devices,
                                          .counts_pieces = true};
    if (setjmp(lowerer->state.base.unwind) != 0)
        return lowerer->state.base.status;
    lowering_begin(&lowerer->state, &lowerer->schedule);
    lowerer->state.base.arena = &lowerer->scratch;
    return CLEAVE_OK;
}

cleave_status cleave_lowerer_create(const cleave_model *model, const cleave_layout *layout,
                                    const cleave_lower_options *options, cleave_lowerer **lowerer,
                                    cleave_error *error) {
    if (options->training && !cleave_model_trains(model))
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%s: the model has no loss, so it can't be trained", model->file);
    if (!cleave_layout_is_whole(layout))
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "the layout has stages, micro-batches, recomputation or keys that go "
                           "round: it can't be estimated yet");
    cleave_lowerer *made = calloc(1, sizeof *made);
    if (made == NULL)
        return cleave_fail_memory(error, "lowering");
    made->model = model;
    made->options = *options;
    made->arenas = calloc((size_t)model->n_operators + 1, sizeof *made->arenas);
    cleave_status status =
        made->arenas == NULL ? cleave_fail_memory(error, "lowering") : prepare(made, layout, error);
    if (status != CLEAVE_OK) {
        cleave_lowerer_destroy(made);
        return status;
    }
    *lowerer = made;
    return CLEAVE_OK;
}

void cleave_lowerer_destroy(cleave_lowerer *lowerer) {
    if (lowerer == NULL)
        return;
    lowering_free(&lowerer->state);
    for (int32_t op = 0; lowerer->arenas != NULL && op < lowerer->model->n_operators; op++)
        cleave_arena_free(&lowerer->arenas[op]);
    free(lowerer->arenas);
    cleave_arena_free(&lowerer->scratch);
    cleave_arena_free(&lowerer->arena);
    free(lowerer);
}

int32_t cleave_lowerer_n_families(const cleave_lowerer *lowerer) {
    return lowerer->schedule.n_families;
}

int32_t cleave_lowerer_n_slots(const cleave_lowerer *lowerer) { return lowerer->schedule.n_slots; }

const int32_t *cleave_lowerer_families_of(const cleave_lowerer *lowerer, int32_t op, int32_t *n) {
    const lower_schedule *schedule = &lowerer->schedule;
    *n = schedule->first_touched[op + 1] - schedule->first_touched[op];
    return schedule->touched + schedule->first_touched[op];
}

int32_t cleave_lowerer_slot(const cleave_lowerer *lowerer, int32_t nest, cleave_pass pass) {
    return lowerer->schedule.slot_of[nest][pass];
}

cleave_status cleave_lowerer_alike(const cleave_lowerer *lowerer, cleave_arena *arena,
                                   cleave_alike *alike, cleave_error *error) {
    return lower_find_alike(lowerer->model, &lowerer->schedule, arena, alike, error);
}

cleave_status cleave_lowerer_set_split(cleave_lowerer *lowerer, int32_t op,
                                       const cleave_split *split, cleave_error *error) {
    const cleave_operator *of = &lowerer->model->operators[op];
    for (int32_t k = 0; k < of->n_nests; k++)
        forget_boxes(lowerer, of->nests[k]);
    cleave_arena_reset(&lowerer->arenas[op]);
    return cleave_parts_derive_operator(lowerer->model, op, split, NULL, &lowerer->arenas[op],
                                        lowerer->parts, error);
}

int32_t cleave_lowerer_family_of(const cleave_lowerer *lowerer, int32_t tensor) {
    return lowerer->schedule.family_of[tensor];
}

void cleave_lowerer_set_sharded(cleave_lowerer *lowerer, int32_t tensor, cleave_sharded sharded) {
    lowerer->layout.sharded[tensor] = (uint8_t)sharded;
}

void cleave_lowerer_set_fold(cleave_lowerer *lowerer, const cleave_fold *fold) {
    lowerer->state.base.fold = fold;
}

static inline void put(box_hash *hash, uint64_t value) {
    hash->a = (hash->a ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    hash->a ^= hash->a >> 32;
    hash->b = (hash->b + value) * UINT64_C(0xd6e8feb86659fd93);
    hash->b ^= hash->b >> 29;
}

static void put_parts(const cleave_lowerer *lowerer, int32_t nest, const cleave_operand *operand,
                      box_hash *hash) {
    const cleave_parts *parts = &lowerer->parts[nest];
    int rank = lowerer->model->tensors[operand->tensor].rank;
    put(hash, (uint64_t)parts->n);
    for (int32_t p = 0; p < parts->n; p++) {
        const cleave_part *part = &parts->items[p];
        cleave_box box;
        put(hash, (uint64_t)part->device << 32 | (uint64_t)part->key << 1 | part->empty);
        if (part->empty)
            continue;
        cleave_part_box(lowerer->model, part, operand, &box);
        for (int d = 0; d < rank; d++) {
            put(hash, (uint64_t)box.lo[d]);
            put(hash, (uint64_t)box.hi[d]);
        }
    }
}

static const box_hash *find_boxes(cleave_lowerer *lowerer, int32_t e) {
    const lower_event *event = &lowerer->schedule.events[e];
    const cleave_nest *nest = &lowerer->model->nests[event->nest];
    box_hash *of = &lowerer->boxes[e];
    if (of->is_known)
        return of;
    *of = (box_hash){1, 1, true};
    put_parts(lowerer, event->nest,
              event->kind == LOWER_WRITE ? lower_written(nest, event) : &nest->inputs[event->input],
              of);
    return of;
}

static void put_tensor(const cleave_lowerer *lowerer, int32_t tensor, box_hash *hash) {
    const cleave_fold *fold = lowerer->state.base.fold;
    bool repeats = fold != NULL && fold->sharing.tensor_dimension[tensor] < 0;
    put(hash, (uint64_t)lowerer->layout.sharded[tensor] << 1 | repeats);
}

static void put_event(cleave_lowerer *lowerer, int32_t e, box_hash *hash) {
    const lower_event *event = &lowerer->schedule.events[e];
    if (event->kind != LOWER_READ && event->kind != LOWER_WRITE)
        return; /* backward is about the same operands */
    const box_hash *boxes = find_boxes(lowerer, e);
    put(hash, boxes->a);
    put(hash, boxes->b);
    put(hash, lower_in_every_window(&lowerer->state.base, event->nest));
}

void cleave_lowerer_boxes(cleave_lowerer *lowerer, int32_t family, uint64_t hash[2]) {
    const lower_schedule *schedule = &lowerer->schedule;
    box_hash of = {1, 1, true};
    for (int32_t m = schedule->first_member[family]; m < schedule->first_member[family + 1]; m++)
        put_tensor(lowerer, schedule->members[m], &of);
    for (int32_t e = schedule->first_event[family]; e < schedule->first_event[family + 1]; e++)
        put_event(lowerer, e, &of);
    hash[0] = of.a;
    hash[1] = of.b;
}

int32_t cleave_lowerer_members(const cleave_lowerer *lowerer, int32_t family) {
    return lowerer->members.n[family];
}

void cleave_lowerer_member_boxes(cleave_lowerer *lowerer, int32_t family, int32_t i,
                                 uint64_t hash[2]) {
    const lower_members *members = &lowerer->members;
    int32_t m = lowerer->schedule.first_member[family] + i;
    box_hash of = {1, 1, true};
    put_tensor(lowerer, lowerer->schedule.members[m], &of);
    for (int32_t k = members->first_event[m]; k < members->first_event[m + 1]; k++)
        put_event(lowerer, members->events[k], &of);
    hash[0] = of.a;
    hash[1] = of.b;
}

const cleave_parts *cleave_lowerer_parts(const cleave_lowerer *lowerer, int32_t nest) {
    return &lowerer->parts[nest];
}

/* What is under construction, as it now is. */
static cleave_fragment fragment_of(const cleave_lowerer *lowerer) {
    const lower_builder *builder = &lowerer->state.base;
    return (cleave_fragment){
        .program = {.model = lowerer->model,
                    .parts = lowerer->parts,
                    .n_devices = builder->n_devices,
                    .n_windows = builder->fold != NULL ? builder->fold->n_windows : 1,
                    .training = lowerer->options.training,
                    .symbolic = lowerer->options.symbolic_collectives,
                    .n_items = builder->items.n,
                    .items = builder->items.items,
                    .n_slots = lowerer->schedule.n_slots,
                    .slots = lowerer->schedule.slots,
                    .n_buffers = builder->buffers.n,
                    .buffers = builder->buffers.items,
                    .n_updates = builder->updates.n,
                    .updates = builder->updates.items,
                    .n_loads = builder->loads.n,
                    .loads = builder->loads.items,
                    .n_copies = builder->copies.n,
                    .copies = builder->copies.items,
                    .n_copy_pieces = builder->copy_pieces.n,
                    .n_messages = builder->messages.n,
                    .messages = builder->messages.items,
                    .n_collectives = builder->collectives.n,
                    .collectives = builder->collectives.items,
                    .n_held = builder->held.n,
                    .held = builder->held.items,
                    .loss_buffer = -1,
                    .squares_buffer = -1},
        .n_chunks = builder->chunks.n,
        .n_marks = builder->marks.n,
        .chunks = builder->chunks.items,
        .marks = builder->marks.items,
        .n_stretches = lowerer->state.stretches.n,
        .stretches = lowerer->state.stretches.items};
}

/* The i-th member of a family, or, below 0, all of it. */
static cleave_status lower(cleave_lowerer *lowerer, int32_t family, int32_t i,
                           cleave_fragment *fragment, cleave_error *error) {
    const lower_members *members = &lowerer->members;
    lower_builder *builder = &lowerer->state.base;
    builder->error = error;
    cleave_arena_reset(&lowerer->scratch);
    for (int k = 0; k < LOWER_KNOWN_MEMBERS; k++) /* they lay there */
        builder->known_members[k].n = 0;
    if (setjmp(builder->unwind) != 0)
        return builder->status;
    if (i < 0) {
        lower_family(&lowerer->state, family);
    } else {
        int32_t m = lowerer->schedule.first_member[family] + i, first = members->first_event[m];
        lower_member(&lowerer->state, family, i, members->first_event[m + 1] - first,
                     members->events + first);
    }
    lower_find_live_slots(&lowerer->state);
    *fragment = fragment_of(lowerer);
    return CLEAVE_OK;
}

cleave_status cleave_lowerer_member(cleave_lowerer *lowerer, int32_t family, int32_t i,
                                    cleave_fragment *fragment, cleave_error *error) {
    return lower(lowerer, family, i, fragment, error);
}

cleave_status cleave_lowerer_family(cleave_lowerer *lowerer, int32_t family,
                                    cleave_fragment *fragment, cleave_error *error) {
    return lower(lowerer, family, -1, fragment, error);
}

static void add_computes(const cleave_lowerer *lowerer, int32_t nest, cleave_pass pass,
                         cleave_program *program) {
    const cleave_parts *parts = &lowerer->parts[nest];
    int32_t slot = lowerer->schedule.slot_of[nest][pass];
    for (int32_t p = 0; p < parts->n && slot >= 0; p++) {
        if (parts->items[p].empty)
            continue;
        program->computes[program->n_computes] =
            (cleave_compute){.nest = nest, .pass = pass, .part = parts->items[p]};
        program->items[program->n_items++] = (cleave_item){.kind = CLEAVE_ITEM_COMPUTE,
                                                           .lane = CLEAVE_LANE_MAIN,
                                                           .device = parts->items[p].device,
                                                           .slot = slot,
                                                           .subject = program->n_computes++};
    }
}

cleave_status cleave_lowerer_computes(cleave_lowerer *lowerer, int32_t nest,
                                      cleave_fragment *fragment, cleave_error *error) {
    int64_t room = (int64_t)CLEAVE_PASS_UPDATE * lowerer->parts[nest].n;
    cleave_arena_reset(&lowerer->scratch);
    cleave_program made = {.model = lowerer->model, .n_devices = lowerer->state.base.n_devices};
    made.items = CLEAVE_ARENA_ARRAY(&lowerer->scratch, cleave_item, room);
    made.computes = CLEAVE_ARENA_ARRAY(&lowerer->scratch, cleave_compute, room);
    cleave_fragment_chunk *chunks =
        CLEAVE_ARENA_ARRAY(&lowerer->scratch, cleave_fragment_chunk, CLEAVE_PASS_UPDATE);
    if (made.items == NULL || made.computes == NULL || chunks == NULL)
        return cleave_fail_memory(error, "lowering");
    int32_t n_chunks = 0;
    for (cleave_pass pass = CLEAVE_PASS_FORWARD; pass < CLEAVE_PASS_UPDATE; pass++) {
        int32_t slot = lowerer->schedule.slot_of[nest][pass], first = made.n_items;
        add_computes(lowerer, nest, pass, &made);
        if (slot >= 0)
            chunks[n_chunks++] = (cleave_fragment_chunk){.slot = slot,
                                                         .rank = CLEAVE_RANK_COMPUTE,
                                                         .first_item = first,
                                                         .n_items = made.n_items - first};
    }
    *fragment = (cleave_fragment){.program = made, .n_chunks = n_chunks, .chunks = chunks};
    return CLEAVE_OK;
}
