#include "graph/lower/lifetimes.h"

#include "graph/lower/events.h"
#include "graph/lower/instances.h"
#include "graph/lower/outputs.h"
#include "graph/lower/turns.h"
#include "graph/program/work.h"

#include <stdlib.h>
#include <string.h>

#define PUSH(assembly, list, ...) LOWER_PUSH((assembly)->builder, &(assembly)->list, __VA_ARGS__)

/* ---- computes -------------------------------------------------------------------------------- */

/* The buffer that part p reads or writes at an event. */
static int32_t bound(const lower_assembly *assembly, int32_t event, int32_t p) {
    return event < 0 ? -1 : assembly->bindings.items[assembly->first_row[event] + p];
}

/* The same, in a micro-batch. */
static int32_t bound_in(const lower_assembly *assembly, int32_t event, int32_t p, int32_t window) {
    return lower_instance_of(assembly, bound(assembly, event, p), window);
}

static bool adds(const lower_assembly *assembly, int32_t event, int32_t p, int32_t window) {
    int32_t row = assembly->rows.items[assembly->first_row[event] + p];
    return row == LOWER_ADDS || (row == LOWER_CARRIES && window > 0);
}

/* When a pass of a nest runs. */
static cleave_when when_of(const lower_builder *builder, int32_t n, uint8_t pass) {
    if (builder->micro == NULL || lower_goes_on(builder, n))
        return CLEAVE_WHEN_EVERY;
    cleave_when value = lower_value_when(builder, builder->model->nests[n].output.tensor);
    return pass == CLEAVE_PASS_FORWARD ? value : cleave_when_gradient(value);
}

/* A compute without operands, with its workspace. */
static cleave_compute new_compute(lower_assembly *assembly, int32_t n, int32_t p, cleave_pass pass,
                                  int32_t window) {
    const lower_builder *builder = assembly->builder;
    cleave_compute compute = {.nest = n,
                              .pass = pass,
                              .part = builder->parts[n].items[p],
                              .output = -1,
                              .combined = -1,
                              .output_gradient = -1,
                              .workspace = -1};
    lower_instance_part(assembly, n, window, &compute.part);
    compute.pieces =
        cleave_work_pieces(builder->model, &builder->model->nests[n], pass, &compute.part);
    for (int i = 0; i < CLEAVE_MAX_INPUTS; i++)
        compute.inputs[i] = compute.input_gradients[i] = -1;
    if (builder->options->workspace == NULL)
        return compute;
    int64_t bytes = builder->options->workspace(builder->options->workspace_context, builder->model,
                                                &builder->model->nests[n], pass, &compute.part);
    if (bytes <= 0)
        return compute;
    compute.workspace = assembly->buffers.n;
    PUSH(assembly, buffers,
         (cleave_buffer){.kind = CLEAVE_BUFFER_WORKSPACE,
                         .device = compute.part.device,
                         .tensor = -1,
                         .bytes = bytes,
                         .first = INT32_MAX,
                         .last = -1,
                         .storage = compute.workspace});
    PUSH(assembly, sent, false);
    bool every = when_of(builder, n, (uint8_t)pass) == CLEAVE_WHEN_EVERY;
    lower_turns_note_buffer(assembly, every ? window : CLEAVE_WINDOW_NONE);
    return compute;
}

/* How many read each tensor.  What nobody but one nest ever reads may be written over by it. */
static int32_t *count_readers(lower_builder *builder) {
    const cleave_model *model = builder->model;
    int32_t *readers = LOWER_ARRAY(builder, int32_t, model->n_tensors);
    cleave_model_count_readers(model, readers);
    for (int32_t n = 0; n < model->n_nests; n++)
        if (model->nests[n].kept_combined || model->nests[n].kept_output)
            readers[model->nests[n].output.tensor]++;
    return readers;
}

/* The event by which forward reads an input; where it comes again, as it then is there. */
static int32_t reading(const lower_schedule *schedule, int32_t n, int i, bool again) {
    return again && schedule->read_again[n][i] >= 0 ? schedule->read_again[n][i]
                                                    : schedule->read[n][i];
}

/* The same of a backward pass: by itself, or as the first of them read it, or as it was there. */
static int32_t reading_back(const lower_schedule *schedule, int32_t n, int i, cleave_pass pass) {
    for (; pass >= CLEAVE_PASS_INPUT_GRADIENT; pass--)
        if (schedule->read_back[n][pass - 1][i] >= 0)
            return schedule->read_back[n][pass - 1][i];
    return reading(schedule, n, i, true);
}

/* The output that backward reads: what the parts have together, where it comes for this one, else
   what this one wrote. */
static int32_t kept_output(const lower_assembly *assembly, int32_t n, int32_t p, int32_t window) {
    const lower_schedule *schedule = assembly->schedule;
    int32_t wrote = schedule->write_again[n] >= 0 ? schedule->write_again[n] : schedule->write[n];
    int32_t come = bound_in(assembly, schedule->read_output[n], p, window);
    return come >= 0 ? come : bound_in(assembly, wrote, p, window);
}

/* Does forward write over its first input?  Not over what other micro-batches read, too, nor what
   it reads again. */
static bool is_in_place(const lower_assembly *assembly, int32_t n, int32_t p, bool again,
                        const int32_t *readers) {
    const lower_schedule *schedule = assembly->schedule;
    const cleave_nest *nest = &assembly->builder->model->nests[n];
    int32_t input = nest->in_place ? bound(assembly, reading(schedule, n, 0, again), p) : -1;
    if (!again && input >= 0 && input == bound(assembly, schedule->read_again[n][0], p))
        return false;
    return input >= 0 && readers[nest->inputs[0].tensor] == 1 && !assembly->sent.items[input] &&
           (!lower_goes_on(assembly->builder, n) || !assembly->is_shared[input]);
}

static cleave_compute forward_compute(lower_assembly *assembly, int32_t n, int32_t p,
                                      int32_t window, bool again, const int32_t *readers) {
    const cleave_nest *nest = &assembly->builder->model->nests[n];
    const lower_schedule *schedule = assembly->schedule;
    cleave_compute compute = new_compute(assembly, n, p, CLEAVE_PASS_FORWARD, window);
    for (int i = 0; i < nest->n_inputs; i++)
        compute.inputs[i] = bound_in(assembly, reading(schedule, n, i, again), p, window);
    int32_t lead = n - nest->turn; /* all turns write what the first is said to have written */
    compute.output =
        bound_in(assembly, again ? schedule->write_again[lead] : schedule->write[lead], p, window);
    compute.combined = bound_in(
        assembly, again ? schedule->write_statistics_again[lead] : schedule->write_statistics[lead],
        p, window);
    if (is_in_place(assembly, n, p, again, readers))
        assembly->buffers.items[compute.output].storage =
            assembly->buffers.items[compute.inputs[0]].storage;
    return compute;
}

static cleave_compute backward_compute(lower_assembly *assembly, int32_t n, int32_t p,
                                       int32_t window, cleave_pass pass) {
    const cleave_model *model = assembly->builder->model;
    const cleave_nest *nest = &model->nests[n];
    const lower_schedule *schedule = assembly->schedule;
    uint32_t gradients = cleave_nest_pass_inputs(model, nest, pass);
    uint32_t read = lower_inputs_read(nest, gradients);
    cleave_compute compute = new_compute(assembly, n, p, pass, window);
    int32_t lead = n - nest->turn;
    if (nest->kept_output)
        compute.output = kept_output(assembly, lead, p, window);
    compute.output_gradient = bound_in(assembly, schedule->read_gradient[lead], p, window);
    if (nest->kept_combined)
        compute.combined = bound_in(assembly, schedule->read_combined[lead], p, window);
    for (int i = 0; i < nest->n_inputs; i++) {
        if (read & (1u << i))
            compute.inputs[i] = bound_in(assembly, reading_back(schedule, n, i, pass), p, window);
        if (!(gradients & (1u << i)))
            continue;
        bool of_all = i == 0 && nest->n_turns > 0; /* turns add up the gradient of queries */
        int32_t event = schedule->write_gradient[of_all ? lead : n][i];
        compute.input_gradients[i] = bound_in(assembly, event, p, window);
        if (adds(assembly, event, p, window) || (of_all && nest->turn > 0))
            compute.accumulated |= 1u << i;
    }
    return compute;
}

/* ---- the global order ------------------------------------------------------------------------ */

static int compare_chunks(const void *a, const void *b) {
    const lower_placed_chunk *x = a, *y = b;
    if (x->chunk.slot != y->chunk.slot)
        return (x->chunk.slot > y->chunk.slot) - (x->chunk.slot < y->chunk.slot);
    if (x->chunk.rank != y->chunk.rank)
        return (x->chunk.rank > y->chunk.rank) - (x->chunk.rank < y->chunk.rank);
    if (x->place != y->place)
        return (x->place > y->place) - (x->place < y->place);
    return (x->chunk.first_item > y->chunk.first_item) -
           (x->chunk.first_item < y->chunk.first_item);
}

typedef struct order {
    lower_assembly *assembly;
    int32_t *lane_tail;     /* [n_devices][CLEAVE_N_LANES] last item of the lane, -1: none yet */
    int32_t *marked;        /* [marks] item that the mark stands for, or -1 */
    const int32_t *readers; /* [n_tensors] */
    int32_t *first_chunk;   /* [n_slots + 1] */
    int32_t *item_of;       /* [n_windows][unplaced] -1: not in this micro-batch */
    int32_t *message_of;    /* [n_windows][unposted] what is done once is in the first */
} order;

static void post(const order *o, int32_t template, int32_t window) {
    lower_assembly *assembly = o->assembly;
    cleave_message message = assembly->unposted.items[template];
    message.source_buffer = lower_instance_of(assembly, message.source_buffer, window);
    message.destination_buffer = lower_instance_of(assembly, message.destination_buffer, window);
    o->message_of[(int64_t)window * assembly->unposted.n + template] = assembly->messages.n;
    PUSH(assembly, messages, message);
}

static int32_t place_item(const order *o, cleave_item item, int32_t in_window) {
    lower_assembly *assembly = o->assembly;
    int32_t id = assembly->items.n;
    int32_t window = item.when == CLEAVE_WHEN_EVERY ? in_window : 0;
    if (item.kind == CLEAVE_ITEM_SYNC) {
        item.subject = o->marked[item.subject];
        if (item.subject < 0)
            return -1; /* the other lane has not done anything yet */
    }
    if (item.kind == CLEAVE_ITEM_SEND) /* always before the other end */
        post(o, item.subject, window);
    if (item.kind == CLEAVE_ITEM_SEND || item.kind == CLEAVE_ITEM_RECEIVE ||
        item.kind == CLEAVE_ITEM_WAIT)
        item.subject = o->message_of[(int64_t)window * assembly->unposted.n + item.subject];
    else if (item.kind != CLEAVE_ITEM_SYNC)
        item.subject = lower_instance_subject(assembly, &item, window);
    if (item.kind == CLEAVE_ITEM_SEND)
        assembly->messages.items[item.subject].send_item = id;
    if (item.kind == CLEAVE_ITEM_RECEIVE)
        assembly->messages.items[item.subject].receive_item = id;
    PUSH(assembly, items, item);
    o->lane_tail[item.device * CLEAVE_N_LANES + item.lane] = id;
    return id;
}

static void place_chunk(const order *o, const cleave_fragment_chunk *chunk, int32_t window) {
    const lower_assembly *assembly = o->assembly;
    int32_t mark = chunk->first_mark;
    for (int32_t i = chunk->first_item; i <= chunk->first_item + chunk->n_items; i++) {
        for (; mark < chunk->first_mark + chunk->n_marks && assembly->marks.items[mark].before == i;
             mark++) {
            const cleave_lane_mark *at = &assembly->marks.items[mark];
            o->marked[mark] = o->lane_tail[at->device * CLEAVE_N_LANES + (int32_t)at->lane];
        }
        if (i < chunk->first_item + chunk->n_items &&
            lower_runs_in(assembly->unplaced.items[i].when, window, assembly->n_windows))
            o->item_of[(int64_t)window * assembly->unplaced.n + i] =
                place_item(o, assembly->unplaced.items[i], window);
    }
}

static void place_computes(const order *o, int32_t slot, int32_t window) {
    lower_assembly *assembly = o->assembly;
    const lower_builder *builder = assembly->builder;
    const cleave_slot *of = &assembly->schedule->slots[slot];
    if (of->nest < 0)
        return;
    cleave_when when =
        cleave_micro_batches_when(builder->micro, builder->model, of->nest, (cleave_pass)of->pass);
    if (!lower_runs_in((uint8_t)when, window, assembly->n_windows))
        return;
    for (int32_t p = 0; p < builder->parts[of->nest].n; p++) {
        if (builder->parts[of->nest].items[p].empty)
            continue;
        cleave_compute compute =
            of->pass == CLEAVE_PASS_FORWARD
                ? forward_compute(assembly, of->nest, p, window, of->generation > 0, o->readers)
                : backward_compute(assembly, of->nest, p, window, of->pass);
        PUSH(assembly, computes, compute);
        place_item(o,
                   (cleave_item){.kind = CLEAVE_ITEM_COMPUTE,
                                 .lane = CLEAVE_LANE_MAIN,
                                 .when = (uint8_t)when,
                                 .device = compute.part.device,
                                 .slot = slot,
                                 .subject = assembly->computes.n - 1},
                   window);
    }
}

static int32_t count_computes(const lower_assembly *assembly) {
    int64_t n = 0;
    for (int32_t slot = 0; slot < assembly->schedule->n_slots; slot++)
        if (assembly->schedule->slots[slot].nest >= 0)
            n += (int64_t)assembly->builder->parts[assembly->schedule->slots[slot].nest].n *
                 assembly->n_windows;
    return n < INT32_MAX ? (int32_t)n : INT32_MAX;
}

/* A slot in one micro-batch. */
static void place_slot(const order *o, int32_t slot, int32_t window) {
    const lower_placed_chunk *chunks = o->assembly->chunks.items;
    int32_t c = o->first_chunk[slot], end = o->first_chunk[slot + 1];
    for (; c < end && chunks[c].chunk.rank < CLEAVE_RANK_COMPUTE; c++)
        place_chunk(o, &chunks[c].chunk, window);
    place_computes(o, slot, window);
    for (; c < end; c++)
        place_chunk(o, &chunks[c].chunk, window);
}

/* What is placed once has the ids of before; items of all micro-batches need more. */
static order begin_order(lower_assembly *assembly) {
    lower_builder *builder = assembly->builder;
    int64_t windows = assembly->n_windows, n_computes = count_computes(assembly);
    int64_t n_items = assembly->unplaced.n * windows + n_computes;
    if (n_items > INT32_MAX)
        lower_fail(builder, CLEAVE_FAILED, "the program has more than 2^31 items");
    if (!CLEAVE_LIST_RESERVE(&assembly->computes, (int32_t)n_computes) ||
        !CLEAVE_LIST_RESERVE(&assembly->messages, assembly->unposted.n) ||
        !CLEAVE_LIST_RESERVE(&assembly->items, (int32_t)n_items))
        lower_fail_memory(builder);
    size_t lanes = (size_t)builder->n_devices * CLEAVE_N_LANES;
    order o = {.assembly = assembly,
               .lane_tail = LOWER_ARRAY(builder, int32_t, lanes),
               .marked = LOWER_ARRAY(builder, int32_t, assembly->marks.n),
               .readers = count_readers(builder),
               .first_chunk = LOWER_ARRAY(builder, int32_t, assembly->schedule->n_slots + 1),
               .item_of = LOWER_ARRAY(builder, int32_t, assembly->unplaced.n * windows),
               .message_of = LOWER_ARRAY(builder, int32_t, assembly->unposted.n * windows)};
    memset(o.lane_tail, -1, lanes * sizeof *o.lane_tail);
    memset(o.item_of, -1, (size_t)(assembly->unplaced.n * windows) * sizeof *o.item_of);
    assembly->n_collectives = assembly->collectives.n;
    assembly->collective_of = LOWER_ARRAY(builder, int32_t, assembly->collectives.n * windows);
    return o;
}

/* Uses that no item shows, in every micro-batch. */
static void place_touches(const order *o) {
    lower_assembly *assembly = o->assembly;
    int32_t n = assembly->touches.n;
    for (int32_t w = assembly->n_windows - 1; w >= 0; w--)
        for (int32_t i = 0; i < n; i++) {
            lower_touch_mark mark = assembly->touches.items[i];
            int32_t item = o->item_of[(int64_t)w * assembly->unplaced.n + mark.item];
            mark.buffer = lower_instance_of(assembly, mark.buffer, w);
            mark.item = item;
            if (item >= 0)
                PUSH(assembly, placed_touches, mark);
        }
}

static void sort_chunks(const order *o) {
    lower_assembly *assembly = o->assembly;
    int32_t c = 0;
    if (assembly->chunks.n > 0)
        qsort(assembly->chunks.items, (size_t)assembly->chunks.n, sizeof *assembly->chunks.items,
              compare_chunks);
    for (int32_t slot = 0; slot < assembly->schedule->n_slots; slot++) {
        while (c < assembly->chunks.n && assembly->chunks.items[c].chunk.slot < slot)
            c++;
        o->first_chunk[slot] = c;
    }
    o->first_chunk[assembly->schedule->n_slots] = assembly->chunks.n;
}

/* Does a slot belong to the block, whatever its micro-batch?  Updates belong to none. */
static bool is_in_block(const order *o, int32_t slot, const cleave_stage_block *block) {
    const lower_schedule *schedule = o->assembly->schedule;
    const cleave_slot *of = &schedule->slots[slot];
    return of->nest >= 0 && schedule->stage_of[of->nest] == block->stage &&
           of->block == block->kind;
}

/* The slots of every kind of block and stage, [kinds x n_stages] lists one behind the other. */
typedef struct block_slots {
    int32_t *first, *slots;
} block_slots;

static block_slots list_block_slots(const order *o) {
    lower_builder *builder = o->assembly->builder;
    const lower_schedule *schedule = o->assembly->schedule;
    int32_t n_stages = builder->layout->schedule.n_stages, n = 0;
    block_slots lists = {.first =
                             LOWER_ARRAY(builder, int32_t, CLEAVE_N_BLOCK_KINDS * n_stages + 1),
                         .slots = LOWER_ARRAY(builder, int32_t, schedule->n_slots)};
    for (int kind = 0; kind < CLEAVE_N_BLOCK_KINDS; kind++)
        for (int32_t s = 0; s < n_stages; s++) {
            const cleave_stage_block block = {.kind = (uint8_t)kind, .stage = s};
            int32_t list = lower_turns_list(&builder->layout->schedule, kind, s);
            for (int32_t slot = schedule->n_prologue_slots; slot < schedule->n_slots; slot++)
                if (is_in_block(o, slot, &block))
                    lists.slots[n++] = slot;
            lists.first[list + 1] = n;
        }
    return lists;
}

/* Block by block, and the updates. */
static void place_blocks(const order *o) {
    lower_builder *builder = o->assembly->builder;
    const lower_schedule *schedule = o->assembly->schedule;
    const cleave_schedule *of = &builder->layout->schedule;
    int32_t *group, n_blocks = 0;
    cleave_stage_block *sequence = NULL;
    cleave_status status =
        cleave_layout_groups(builder->layout, builder->arena, &group, builder->error);
    if (status == CLEAVE_OK)
        status = cleave_schedule_sequence(of, group, builder->arena, &sequence, &n_blocks,
                                          builder->error);
    if (status != CLEAVE_OK)
        lower_unwind(builder, status);
    block_slots lists = list_block_slots(o);
    for (int32_t b = 0; b < n_blocks; b++) {
        if (!builder->options->training && sequence[b].kind != CLEAVE_BLOCK_FORWARD)
            continue;
        int32_t list = lower_turns_list(of, sequence[b].kind, sequence[b].stage);
        int32_t window = lower_turns_window(o->assembly, sequence[b].micro_batch);
        if (lower_turns_take(o->assembly, list, sequence[b].micro_batch))
            for (int32_t i = lists.first[list]; i < lists.first[list + 1]; i++)
                place_slot(o, lists.slots[i], window);
    }
    lower_turns_take(o->assembly, LOWER_TURN_OF_UPDATES, of->micro_batches - 1);
    for (int32_t slot = schedule->n_prologue_slots; slot < schedule->n_slots; slot++)
        if (schedule->slots[slot].nest < 0)
            place_slot(o, slot, o->assembly->n_windows - 1);
}

static void place_everything(lower_assembly *assembly) {
    const lower_schedule *schedule = assembly->schedule;
    const cleave_layout *layout = assembly->builder->layout;
    lower_instances_make(assembly);
    order o = begin_order(assembly);
    sort_chunks(&o);
    lower_turns_begin(assembly);
    for (int32_t u = 0; u < layout->schedule.micro_batches && schedule->n_prologue_slots > 0; u++)
        if (lower_turns_take(assembly, LOWER_TURN_OF_PROLOGUE, u))
            for (int32_t slot = 0; slot < schedule->n_prologue_slots; slot++)
                place_slot(&o, slot, lower_turns_window(assembly, u));
    if (!cleave_schedule_is_plain(&layout->schedule))
        place_blocks(&o);
    else
        for (int32_t slot = 0; slot < schedule->n_slots; slot++)
            place_slot(&o, slot, 0);
    place_touches(&o);
}

/* ---- the program ----------------------------------------------------------------------------- */

/* The loss is whole on each device that computed some of it: the first of them. */
static void find_loss(const lower_assembly *assembly, int32_t event, cleave_program *program) {
    int32_t p = 0;
    while (bound(assembly, event, p) < 0)
        p++;
    program->loss_buffer = bound(assembly, event, p);
    program->loss_device = assembly->buffers.items[program->loss_buffer].device;
}

/* What its parts keep of an output, in every micro-batch. */
static void find_pieces(const lower_assembly *assembly, int32_t event, cleave_program *program) {
    const lower_builder *builder = assembly->builder;
    int32_t output = assembly->schedule->events[event].input,
            tensor = builder->model->outputs[output];
    bool every = assembly->n_windows > 1 && lower_value_when(builder, tensor) == CLEAVE_WHEN_EVERY;
    for (int32_t w = every ? 0 : assembly->n_windows - 1; w < assembly->n_windows; w++)
        for (int32_t p = 0; p < lower_output_n_parts(builder, output); p++) {
            cleave_output *piece = &program->outputs[program->n_outputs];
            if (!lower_output_piece(builder, output, p, piece))
                continue;
            piece->buffer = bound_in(assembly, event, p, w);
            if (every)
                lower_instance_box(builder, tensor, w, &piece->box);
            program->n_outputs++;
        }
}

static void find_results(const lower_assembly *assembly, cleave_program *program) {
    lower_builder *builder = assembly->builder;
    const lower_schedule *schedule = assembly->schedule;
    int64_t most = 0;
    program->loss_buffer = program->loss_device = -1;
    for (int32_t e = 0; e < schedule->n_events; e++)
        if (schedule->events[e].kind == LOWER_READ_OUTPUT)
            most += lower_output_n_parts(builder, schedule->events[e].input);
    program->outputs = LOWER_ARRAY(builder, cleave_output, most * assembly->n_windows);
    for (int32_t e = 0; e < schedule->n_events; e++)
        if (schedule->events[e].kind == LOWER_READ_LOSS)
            find_loss(assembly, e, program);
        else if (schedule->events[e].kind == LOWER_READ_OUTPUT)
            find_pieces(assembly, e, program);
    if (program->loss_device < 0)
        program->loss_device = 0;
    program->squares_buffer = assembly->squares.n > 0 ? assembly->squares.items[0].sum : -1;
}

/* From so many bytes on a list is not copied into the arena but handed over: to touch so much
   memory once more would take as long as all else that is done with it. */
enum { HANDED_OVER_BYTES = 1 << 18 };

static void *take(lower_builder *builder, void **items, size_t n, size_t size) {
    size_t bytes = n * size; /* of a list, so it fits */
    if (bytes >= HANDED_OVER_BYTES) {
        void *fitted = realloc(*items, bytes); /* lists have room for up to twice as much */
        if (fitted != NULL)
            *items = fitted;
        if (!cleave_arena_adopt(builder->arena, *items, bytes))
            lower_fail_memory(builder);
        void *taken = *items;
        *items = NULL;
        return taken;
    }
    void *copy = lower_array(builder, n, size);
    if (n > 0)
        memcpy(copy, *items, bytes);
    return copy;
}

#define TAKE(assembly, program, list)                                                              \
    ((program)->n_##list = (assembly)->list.n,                                                     \
     (program)->list = take((assembly)->builder, (void **)&(assembly)->list.items,                 \
                            (size_t)(assembly)->list.n, sizeof *(program)->list))

void lower_assembly_finish(lower_assembly *assembly, cleave_program *program) {
    const lower_schedule *schedule = assembly->schedule;
    if (assembly->squares.n > 0)
        lower_assembly_bind_squares(assembly);
    place_everything(assembly);
    find_results(assembly, program);
    lower_find_lifetimes(assembly, program);
    program->n_slots = schedule->n_slots;
    program->slots = LOWER_ARRAY(assembly->builder, cleave_slot, schedule->n_slots);
    if (schedule->n_slots > 0)
        memcpy(program->slots, schedule->slots, (size_t)schedule->n_slots * sizeof *program->slots);
    TAKE(assembly, program, items);
    TAKE(assembly, program, buffers);
    TAKE(assembly, program, computes);
    TAKE(assembly, program, updates);
    TAKE(assembly, program, loads);
    TAKE(assembly, program, copies);
    TAKE(assembly, program, copy_pieces);
    TAKE(assembly, program, messages);
    TAKE(assembly, program, collectives);
    TAKE(assembly, program, held);
    lower_turns_finish(assembly);
}

void lower_assembly_free(lower_assembly *assembly) {
    CLEAVE_LIST_FREE(&assembly->chunks);
    CLEAVE_LIST_FREE(&assembly->marks);
    CLEAVE_LIST_FREE(&assembly->unplaced);
    CLEAVE_LIST_FREE(&assembly->items);
    CLEAVE_LIST_FREE(&assembly->buffers);
    CLEAVE_LIST_FREE(&assembly->sent);
    CLEAVE_LIST_FREE(&assembly->computes);
    CLEAVE_LIST_FREE(&assembly->updates);
    CLEAVE_LIST_FREE(&assembly->loads);
    CLEAVE_LIST_FREE(&assembly->copies);
    CLEAVE_LIST_FREE(&assembly->copy_pieces);
    CLEAVE_LIST_FREE(&assembly->unposted);
    CLEAVE_LIST_FREE(&assembly->messages);
    CLEAVE_LIST_FREE(&assembly->collectives);
    CLEAVE_LIST_FREE(&assembly->held);
    CLEAVE_LIST_FREE(&assembly->touches);
    CLEAVE_LIST_FREE(&assembly->placed_touches);
    CLEAVE_LIST_FREE(&assembly->squares);
    CLEAVE_LIST_FREE(&assembly->rows);
    CLEAVE_LIST_FREE(&assembly->bindings);
    lower_turns_free(assembly);
}
