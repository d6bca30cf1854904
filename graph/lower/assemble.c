#include "graph/lower/lifetimes.h"

#include "graph/lower/events.h"
#include "graph/program/work.h"

#include <stdlib.h>
#include <string.h>

#define PUSH(assembly, list, ...) LOWER_PUSH((assembly)->builder, &(assembly)->list, __VA_ARGS__)

/* ---- computes -------------------------------------------------------------------------------- */

/* The buffer that part p reads or writes at an event. */
static int32_t bound(const lower_assembly *assembly, int32_t event, int32_t p) {
    return event < 0 ? -1 : assembly->bindings.items[assembly->first_row[event] + p];
}

static bool adds(const lower_assembly *assembly, int32_t event, int32_t p) {
    return assembly->rows.items[assembly->first_row[event] + p] == LOWER_ADDS;
}

/* A compute without operands, with its workspace. */
static cleave_compute new_compute(lower_assembly *assembly, int32_t n, int32_t p,
                                  cleave_pass pass) {
    const lower_builder *builder = assembly->builder;
    cleave_compute compute = {.nest = n,
                              .pass = pass,
                              .part = builder->parts[n].items[p],
                              .output = -1,
                              .combined = -1,
                              .output_gradient = -1,
                              .workspace = -1};
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
    return compute;
}

/* How many read each tensor.  What nobody but one nest ever reads may be written over by it. */
static int32_t *count_readers(lower_builder *builder) {
    const cleave_model *model = builder->model;
    int32_t *readers = LOWER_ARRAY(builder, int32_t, model->n_tensors);
    for (int32_t n = 0; n < model->n_nests; n++) {
        for (int i = 0; i < model->nests[n].n_inputs; i++)
            readers[model->nests[n].inputs[i].tensor]++;
        if (model->nests[n].kept_combined || model->nests[n].kept_output)
            readers[model->nests[n].output.tensor]++;
    }
    for (int32_t t = 0; t < model->n_tensors; t++)
        for (int32_t s = 0; s < model->tensors[t].view.n_sources; s++)
            readers[model->tensors[t].view.sources[s]]++;
    for (int32_t o = 0; o < model->n_outputs; o++)
        readers[model->outputs[o]]++;
    for (int32_t a = 0; a < model->n_assignments; a++)
        readers[model->assignments[a].source]++;
    return readers;
}

static cleave_compute forward_compute(lower_assembly *assembly, int32_t n, int32_t p,
                                      const int32_t *readers) {
    const cleave_nest *nest = &assembly->builder->model->nests[n];
    const lower_schedule *schedule = assembly->schedule;
    cleave_compute compute = new_compute(assembly, n, p, CLEAVE_PASS_FORWARD);
    for (int i = 0; i < nest->n_inputs; i++)
        compute.inputs[i] = bound(assembly, schedule->read[n][i], p);
    compute.output = bound(assembly, schedule->write[n], p);
    if (nest->in_place && readers[nest->inputs[0].tensor] == 1 &&
        !assembly->sent.items[compute.inputs[0]])
        assembly->buffers.items[compute.output].storage =
            assembly->buffers.items[compute.inputs[0]].storage;
    return compute;
}

static cleave_compute backward_compute(lower_assembly *assembly, int32_t n, int32_t p,
                                       cleave_pass pass) {
    const cleave_model *model = assembly->builder->model;
    const cleave_nest *nest = &model->nests[n];
    const lower_schedule *schedule = assembly->schedule;
    uint32_t gradients = cleave_nest_pass_inputs(model, nest, pass);
    uint32_t read = lower_inputs_read(nest, gradients);
    cleave_compute compute = new_compute(assembly, n, p, pass);
    compute.output = nest->kept_output ? bound(assembly, schedule->write[n], p) : -1;
    compute.output_gradient = bound(assembly, schedule->read_gradient[n], p);
    compute.combined = nest->kept_combined ? bound(assembly, schedule->read_combined[n], p) : -1;
    for (int i = 0; i < nest->n_inputs; i++) {
        if (read & (1u << i))
            compute.inputs[i] = bound(assembly, schedule->read[n][i], p);
        if (!(gradients & (1u << i)))
            continue;
        compute.input_gradients[i] = bound(assembly, schedule->write_gradient[n][i], p);
        if (adds(assembly, schedule->write_gradient[n][i], p))
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
    int32_t *lane_tail;  /* [n_devices][CLEAVE_N_LANES] last item of the lane, -1: none yet */
    int32_t *marked;     /* [marks] item that the mark stands for, or -1 */
    int32_t *item_of;    /* [unplaced] */
    int32_t *message_of; /* [unposted] */
} order;

static int32_t place_item(const order *o, cleave_item item) {
    lower_assembly *assembly = o->assembly;
    int32_t id = assembly->items.n;
    if (item.kind == CLEAVE_ITEM_SYNC) {
        item.subject = o->marked[item.subject];
        if (item.subject < 0)
            return -1; /* the other lane has not done anything yet */
    }
    if (item.kind == CLEAVE_ITEM_SEND) { /* always before the other end */
        o->message_of[item.subject] = assembly->messages.n;
        PUSH(assembly, messages, assembly->unposted.items[item.subject]);
    }
    if (item.kind == CLEAVE_ITEM_SEND || item.kind == CLEAVE_ITEM_RECEIVE ||
        item.kind == CLEAVE_ITEM_WAIT)
        item.subject = o->message_of[item.subject];
    if (item.kind == CLEAVE_ITEM_SEND)
        assembly->messages.items[item.subject].send_item = id;
    if (item.kind == CLEAVE_ITEM_RECEIVE)
        assembly->messages.items[item.subject].receive_item = id;
    PUSH(assembly, items, item);
    o->lane_tail[item.device * CLEAVE_N_LANES + item.lane] = id;
    return id;
}

static void place_chunk(const order *o, const cleave_fragment_chunk *chunk) {
    const lower_assembly *assembly = o->assembly;
    int32_t mark = chunk->first_mark;
    for (int32_t i = chunk->first_item; i <= chunk->first_item + chunk->n_items; i++) {
        for (; mark < chunk->first_mark + chunk->n_marks && assembly->marks.items[mark].before == i;
             mark++) {
            const cleave_lane_mark *at = &assembly->marks.items[mark];
            o->marked[mark] = o->lane_tail[at->device * CLEAVE_N_LANES + (int32_t)at->lane];
        }
        if (i < chunk->first_item + chunk->n_items)
            o->item_of[i] = place_item(o, assembly->unplaced.items[i]);
    }
}

static void place_computes(const order *o, int32_t slot, const int32_t *readers) {
    lower_assembly *assembly = o->assembly;
    const cleave_slot *of = &assembly->schedule->slots[slot];
    for (int32_t p = 0; of->nest >= 0 && p < assembly->builder->parts[of->nest].n; p++) {
        if (assembly->builder->parts[of->nest].items[p].empty)
            continue;
        cleave_compute compute = of->pass == CLEAVE_PASS_FORWARD
                                     ? forward_compute(assembly, of->nest, p, readers)
                                     : backward_compute(assembly, of->nest, p, of->pass);
        PUSH(assembly, computes, compute);
        place_item(o, (cleave_item){.kind = CLEAVE_ITEM_COMPUTE,
                                    .lane = CLEAVE_LANE_MAIN,
                                    .device = compute.part.device,
                                    .slot = slot,
                                    .subject = assembly->computes.n - 1});
    }
}

static int32_t count_computes(const lower_assembly *assembly) {
    int32_t n = 0;
    for (int32_t slot = 0; slot < assembly->schedule->n_slots; slot++)
        if (assembly->schedule->slots[slot].nest >= 0)
            n += assembly->builder->parts[assembly->schedule->slots[slot].nest].n;
    return n;
}

static void place_everything(lower_assembly *assembly) {
    lower_builder *builder = assembly->builder;
    int32_t n_computes = count_computes(assembly);
    if (!CLEAVE_LIST_RESERVE(&assembly->computes, n_computes) ||
        !CLEAVE_LIST_RESERVE(&assembly->messages, assembly->unposted.n) ||
        !CLEAVE_LIST_RESERVE(&assembly->items, assembly->unplaced.n + n_computes))
        lower_fail_memory(builder);
    size_t lanes = (size_t)builder->n_devices * CLEAVE_N_LANES;
    order o = {.assembly = assembly,
               .lane_tail = LOWER_ARRAY(builder, int32_t, lanes),
               .marked = LOWER_ARRAY(builder, int32_t, assembly->marks.n),
               .item_of = LOWER_ARRAY(builder, int32_t, assembly->unplaced.n),
               .message_of = LOWER_ARRAY(builder, int32_t, assembly->unposted.n)};
    memset(o.lane_tail, -1, lanes * sizeof *o.lane_tail);
    const int32_t *readers = count_readers(builder);
    if (assembly->chunks.n > 0)
        qsort(assembly->chunks.items, (size_t)assembly->chunks.n, sizeof *assembly->chunks.items,
              compare_chunks);
    int32_t c = 0;
    for (int32_t slot = 0; slot < assembly->schedule->n_slots; slot++) {
        const lower_placed_chunk *chunks = assembly->chunks.items;
        for (; c < assembly->chunks.n && chunks[c].chunk.slot == slot &&
               chunks[c].chunk.rank < CLEAVE_RANK_COMPUTE;
             c++)
            place_chunk(&o, &chunks[c].chunk);
        place_computes(&o, slot, readers);
        for (; c < assembly->chunks.n && chunks[c].chunk.slot == slot; c++)
            place_chunk(&o, &chunks[c].chunk);
    }
    for (int32_t i = 0; i < assembly->touches.n; i++)
        assembly->touches.items[i].item = o.item_of[assembly->touches.items[i].item];
}

/* ---- the program ----------------------------------------------------------------------------- */

static void find_results(const lower_assembly *assembly, cleave_program *program) {
    lower_builder *builder = assembly->builder;
    const cleave_model *model = builder->model;
    program->loss_buffer = program->loss_device = -1;
    program->n_outputs = program->training ? 0 : model->n_outputs;
    program->output_buffers = LOWER_ARRAY(builder, int32_t, program->n_outputs);
    program->output_devices = LOWER_ARRAY(builder, int32_t, program->n_outputs);
    for (int32_t e = 0; e < assembly->schedule->n_events; e++) {
        const lower_event *event = &assembly->schedule->events[e];
        if (event->kind != LOWER_READ_LOSS && event->kind != LOWER_READ_OUTPUT)
            continue;
        int32_t p = 0;
        while (bound(assembly, e, p) < 0)
            p++;
        int32_t buffer = bound(assembly, e, p);
        int32_t device = assembly->buffers.items[buffer].device;
        if (event->kind == LOWER_READ_OUTPUT) {
            program->output_buffers[event->input] = buffer;
            program->output_devices[event->input] = device;
        } else {
            program->loss_buffer = buffer;
            program->loss_device = device;
        }
    }
    if (program->loss_device < 0)
        program->loss_device = 0;
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
    CLEAVE_LIST_FREE(&assembly->rows);
    CLEAVE_LIST_FREE(&assembly->bindings);
}
