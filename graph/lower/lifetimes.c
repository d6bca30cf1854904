/* Lifetimes.  Memory is planned by the program order of the main lane.  What the communication lane
   uses is live from the main-lane item that it last waited for to the main-lane item that waits for
   it: in between the two run side by side.  What it alone uses has its place in its own order, too.
 */
#include "graph/lower/lifetimes.h"

#include "graph/lower/assemble_internal.h"

#include "graph/lower/turns.h"
#include "graph/program/item_buffers.h"

#include <string.h>

/* Buffers are large, and items use them in any order: while all are looked at, when each is in use
   stands by itself. */
typedef struct span {
    int32_t first, last;
    int32_t lane_first, lane_last; /* of items of the communication lane */
    bool main_lane;                /* uses it */
} span;

typedef struct lifetimes {
    lower_assembly *assembly;
    span *spans;    /* [n_buffers] */
    int32_t *since; /* [n_items] main-lane position from which the item may run */
    int32_t *until; /* [n_items] main-lane position by which it has ended */
} lifetimes;

typedef struct use {
    const lifetimes *state;
    int32_t item;
    bool main_lane;
} use;

static void touch(void *context, int32_t buffer) {
    const use *by = context;
    if (buffer < 0)
        return;
    span *of = &by->state->spans[buffer];
    int32_t since = by->state->since[by->item], until = by->state->until[by->item];
    of->first = since < of->first ? since : of->first;
    of->last = until > of->last ? until : of->last;
    of->lane_first = by->item < of->lane_first ? by->item : of->lane_first;
    of->lane_last = by->item > of->lane_last ? by->item : of->lane_last;
    of->main_lane |= by->main_lane;
    lower_turns_note_use(by->state->assembly, by->state->assembly->buffers.items[buffer].storage,
                         until);
}

static use use_of(const lifetimes *state, int32_t item) {
    return (use){state, item, state->assembly->items.items[item].lane == CLEAVE_LANE_MAIN};
}

static void touch_items(const lifetimes *state) {
    const lower_assembly *assembly = state->assembly;
    const cleave_item_records records = {.computes = assembly->computes.items,
                                         .updates = assembly->updates.items,
                                         .loads = assembly->loads.items,
                                         .copies = assembly->copies.items,
                                         .copy_pieces = assembly->copy_pieces.items,
                                         .messages = assembly->messages.items};
    for (int32_t i = 0; i < assembly->items.n; i++) {
        use by = use_of(state, i);
        cleave_item_visit_buffers(&records, &assembly->items.items[i], touch, &by);
    }
}

/* Main-lane items run at their own position; items of the communication lane between two syncs. */
static void find_spans(lifetimes *state) {
    const lower_assembly *assembly = state->assembly;
    lower_builder *builder = assembly->builder;
    int32_t n = assembly->items.n;
    int32_t *seen = LOWER_ARRAY(builder, int32_t, builder->n_devices);
    for (int32_t i = 0; i < n; i++) {
        const cleave_item *item = &assembly->items.items[i];
        bool main_lane = item->lane == CLEAVE_LANE_MAIN;
        if (!main_lane && item->kind == CLEAVE_ITEM_SYNC)
            seen[item->device] = item->subject;
        state->since[i] = main_lane ? i : seen[item->device];
    }
    /* Backwards: the earliest later main-lane sync whose target is this item or a later one of the
     * lane. */
    int32_t *waits = LOWER_ARRAY(builder, int32_t, builder->n_devices);
    int32_t *waited = LOWER_ARRAY(builder, int32_t, n);
    for (int32_t i = n - 1; i >= 0; i--) {
        const cleave_item *item = &assembly->items.items[i];
        if (item->lane == CLEAVE_LANE_MAIN && item->kind == CLEAVE_ITEM_SYNC)
            waited[item->subject] = i;
    }
    for (int32_t d = 0; d < builder->n_devices; d++)
        waits[d] = n - 1;
    for (int32_t i = n - 1; i >= 0; i--) {
        const cleave_item *item = &assembly->items.items[i];
        if (item->lane != CLEAVE_LANE_MAIN && waited[i] > 0)
            waits[item->device] = waited[i];
        state->until[i] = item->lane == CLEAVE_LANE_MAIN ? i : waits[item->device];
    }
}

/* What lies in another buffer keeps that one. */
static void join_storage(const lifetimes *state) {
    const lower_assembly *assembly = state->assembly;
    for (int32_t b = 0; b < assembly->buffers.n; b++) {
        const span *of = &state->spans[b];
        int32_t storage = assembly->buffers.items[b].storage;
        if (of->last < 0 || storage == b)
            continue;
        span *root = &state->spans[storage];
        root->first = of->first < root->first ? of->first : root->first;
        root->last = of->last > root->last ? of->last : root->last;
        root->lane_first = of->lane_first < root->lane_first ? of->lane_first : root->lane_first;
        root->lane_last = of->lane_last > root->lane_last ? of->lane_last : root->lane_last;
        root->main_lane |= of->main_lane;
    }
}

/* The new id of each buffer, -1 of one that is never used; returns how many are. */
static int32_t rename_buffers(const lifetimes *state, int32_t *renamed) {
    int32_t kept = 0;
    for (int32_t b = 0; b < state->assembly->buffers.n; b++)
        renamed[b] = state->spans[b].last >= 0 ? kept++ : -1;
    return kept;
}

/* Whatever has the id of a buffer. */
static void rename_uses(const int32_t *renamed, lower_assembly *assembly, cleave_program *program) {
#define RENAME(id) ((id) = (id) < 0 ? -1 : renamed[id])
    for (int32_t i = 0; i < assembly->computes.n; i++) {
        cleave_compute *compute = &assembly->computes.items[i];
        for (int j = 0; j < CLEAVE_MAX_INPUTS; j++) {
            RENAME(compute->inputs[j]);
            RENAME(compute->input_gradients[j]);
        }
        RENAME(compute->output);
        RENAME(compute->combined);
        RENAME(compute->output_gradient);
        RENAME(compute->workspace);
    }
    for (int32_t i = 0; i < assembly->updates.n; i++) {
        RENAME(assembly->updates.items[i].parameter);
        RENAME(assembly->updates.items[i].gradient);
        RENAME(assembly->updates.items[i].master);
        RENAME(assembly->updates.items[i].state[0]);
        RENAME(assembly->updates.items[i].state[1]);
        RENAME(assembly->updates.items[i].squares);
    }
    for (int32_t i = 0; i < assembly->loads.n; i++)
        RENAME(assembly->loads.items[i].buffer);
    for (int32_t i = 0; i < assembly->copy_pieces.n && assembly->copy_pieces.items != NULL; i++) {
        RENAME(assembly->copy_pieces.items[i].destination);
        RENAME(assembly->copy_pieces.items[i].source);
    }
    for (int32_t i = 0; i < assembly->messages.n; i++) {
        RENAME(assembly->messages.items[i].source_buffer);
        RENAME(assembly->messages.items[i].destination_buffer);
    }
    int32_t n_held = 0; /* what is held but never used is not there */
    for (int32_t i = 0; i < assembly->held.n; i++) {
        RENAME(assembly->held.items[i].buffer);
        if (assembly->held.items[i].buffer >= 0)
            assembly->held.items[n_held++] = assembly->held.items[i];
    }
    assembly->held.n = n_held;
    RENAME(program->loss_buffer);
    RENAME(program->squares_buffer);
    for (int32_t o = 0; o < program->n_outputs; o++)
        RENAME(program->outputs[o].buffer);
#undef RENAME
}

/* Unused buffers go; the rest keep their order. */
static void compact_buffers(const lifetimes *state, lower_assembly *assembly,
                            cleave_program *program) {
    int32_t n = assembly->buffers.n;
    int32_t *renamed = LOWER_ARRAY(assembly->builder, int32_t, n);
    cleave_buffer *buffers = assembly->buffers.items;
    join_storage(state);
    int32_t kept = rename_buffers(state, renamed);
    for (int32_t b = 0; b < n; b++) {
        if (renamed[b] < 0)
            continue;
        cleave_buffer *to = &buffers[renamed[b]];
        if (renamed[b] != b)
            *to = buffers[b];
        to->first = to->persistent ? 0 : state->spans[b].first;
        to->last = to->persistent ? assembly->items.n - 1 : state->spans[b].last;
        to->lane_only = !to->persistent && !state->spans[b].main_lane;
        to->lane_first = to->lane_only ? state->spans[b].lane_first : 0;
        to->lane_last = to->lane_only ? state->spans[b].lane_last : 0;
        to->storage = renamed[to->storage];
    }
    assembly->buffers.n = kept;
    lower_turns_rename_buffers(assembly, renamed);
    rename_uses(renamed, assembly, program);
}

/* Results are there to the end on all devices that have them, whichever of them they are taken
   from: no window of a fold keeps other things than the next. */
static void touch_results(lifetimes *state, const cleave_program *program) {
    const lower_assembly *assembly = state->assembly;
    const lower_schedule *schedule = assembly->schedule;
    const lower_builder *builder = assembly->builder;
    use at_end = {state, assembly->items.n - 1, true};
    for (int32_t e = 0; e < schedule->n_events; e++) {
        if (schedule->events[e].kind != LOWER_READ_LOSS)
            continue;
        for (int32_t p = 0; p < builder->parts[builder->model->writer[builder->model->loss]].n; p++)
            touch(&at_end, lower_bound(assembly, e, p));
    }
    for (int32_t s = 0; s < assembly->squares.n; s++)
        touch(&at_end, assembly->squares.items[s].sum);
    for (int32_t o = 0; o < program->n_outputs; o++)
        touch(&at_end, program->outputs[o].buffer);
}

void lower_find_lifetimes(lower_assembly *assembly, cleave_program *program) {
    lifetimes state = {.assembly = assembly,
                       .spans = LOWER_ARRAY(assembly->builder, span, assembly->buffers.n),
                       .since = LOWER_ARRAY(assembly->builder, int32_t, assembly->items.n),
                       .until = LOWER_ARRAY(assembly->builder, int32_t, assembly->items.n)};
    for (int32_t b = 0; b < assembly->buffers.n; b++)
        state.spans[b] = (span){INT32_MAX, -1, INT32_MAX, -1, false};
    find_spans(&state);
    touch_items(&state);
    for (int32_t i = 0; i < assembly->placed_touches.n; i++) {
        use by = use_of(&state, assembly->placed_touches.items[i].item);
        touch(&by, assembly->placed_touches.items[i].buffer);
    }
    if (assembly->items.n > 0)
        touch_results(&state, program);
    compact_buffers(&state, assembly, program);
}
