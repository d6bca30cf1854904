#include "graph/lower/instances.h"

#include "graph/lower/turns.h"

#include "graph/program/item_buffers.h"

#include <string.h>

/* ---- buffers --------------------------------------------------------------------------------- */

static void share(void *context, int32_t buffer) {
    if (buffer >= 0)
        ((lower_assembly *)context)->is_shared[buffer] = true;
}

static void share_bound(lower_assembly *assembly, int32_t event, int32_t n) {
    for (int32_t p = 0; p < n; p++)
        share(assembly, assembly->bindings.items[assembly->first_row[event] + p]);
}

/* What nests use that run once, and what those of every micro-batch add to. */
static void share_bindings(lower_assembly *assembly) {
    const lower_schedule *schedule = assembly->schedule;
    const lower_builder *builder = assembly->builder;
    for (int32_t e = 0; e < schedule->n_events; e++) {
        const lower_event *event = &schedule->events[e];
        if (event->nest < 0)
            continue;
        int32_t n = builder->parts[event->nest].n, row = assembly->first_row[e];
        if (!lower_goes_on(builder, event->nest))
            share_bound(assembly, e, n);
        for (int32_t p = 0; p < n && event->kind == LOWER_WRITE_GRADIENT; p++)
            if (assembly->rows.items[row + p] == LOWER_CARRIES)
                share(assembly, assembly->bindings.items[row + p]);
    }
}

/* Of data and constants: has each micro-batch its own? */
static bool is_cut(const lower_assembly *assembly, const cleave_buffer *buffer) {
    const lower_builder *builder = assembly->builder;
    cleave_tensor_kind kind = builder->model->tensors[buffer->tensor].kind;
    return (kind == CLEAVE_TENSOR_DATA || kind == CLEAVE_TENSOR_CONSTANT) &&
           lower_value_when(builder, buffer->tensor) == CLEAVE_WHEN_EVERY;
}

static void find_shared(lower_assembly *assembly) {
    const cleave_item_records records = {.updates = assembly->updates.items,
                                         .loads = assembly->loads.items,
                                         .copies = assembly->copies.items,
                                         .copy_pieces = assembly->copy_pieces.items,
                                         .messages = assembly->unposted.items};
    for (int32_t b = 0; b < assembly->buffers.n; b++)
        if (assembly->buffers.items[b].persistent && !is_cut(assembly, &assembly->buffers.items[b]))
            share(assembly, b);
    for (int32_t i = 0; i < assembly->unplaced.n; i++)
        if (assembly->unplaced.items[i].when != CLEAVE_WHEN_EVERY)
            cleave_item_visit_buffers(&records, &assembly->unplaced.items[i], share, assembly);
    for (int32_t i = 0; i < assembly->touches.n; i++)
        if (assembly->unplaced.items[assembly->touches.items[i].item].when != CLEAVE_WHEN_EVERY)
            share(assembly, assembly->touches.items[i].buffer);
    for (int32_t c = 0; c < assembly->copies.n; c++)
        for (int32_t p = 0; p < assembly->copies.items[c].n_pieces; p++)
            if (assembly->copies.items[c].carries)
                share(assembly,
                      assembly->copy_pieces.items[assembly->copies.items[c].first_piece + p]
                          .destination);
    share_bindings(assembly);
}

void lower_instance_box(const lower_builder *builder, int32_t tensor, int32_t window,
                        cleave_box *box) {
    int d = builder->micro->sharing.tensor_dimension[tensor];
    if (d < 0)
        return;
    int64_t by = window * cleave_micro_batches_step(builder->micro,
                                                    builder->model->tensors[tensor].shape[d]);
    box->lo[d] += by;
    box->hi[d] += by;
}

/* The same buffer, so many micro-batches later. */
static cleave_buffer later(const lower_assembly *assembly, int32_t b, int32_t window) {
    cleave_buffer buffer = assembly->buffers.items[b];
    buffer.storage = assembly->buffers.n;
    if (buffer.tensor >= 0)
        lower_instance_box(assembly->builder, buffer.tensor, window, &buffer.box);
    return buffer;
}

/* Before any of the others is there: all of them may take more memory than a price is worth. */
static void check_number(const lower_assembly *assembly) {
    const int64_t most = assembly->builder->options->most_records;
    int64_t n = (int64_t)assembly->buffers.n + assembly->unplaced.n + assembly->copy_pieces.n;
    if (most > 0 && n * assembly->n_windows > most)
        lower_fail(assembly->builder, CLEAVE_NO_LAYOUT,
                   "%d micro-batches of %lld items, buffers and pieces of copies are more than are "
                   "lowered (%lld)",
                   assembly->n_windows, (long long)n, (long long)most);
}

void lower_instances_make(lower_assembly *assembly) {
    lower_builder *builder = assembly->builder;
    int32_t n = assembly->buffers.n;
    assembly->n_windows = builder->turns != NULL   ? CLEAVE_FEW_MICRO_BATCHES
                          : builder->micro != NULL ? builder->micro->n
                                                   : 1;
    if (assembly->n_windows == 1)
        return;
    check_number(assembly);
    assembly->is_shared = LOWER_ARRAY(builder, bool, n);
    assembly->first_instance = LOWER_ARRAY(builder, int32_t, n);
    find_shared(assembly);
    for (int32_t b = 0; b < n; b++)
        lower_turns_note_buffer(assembly, assembly->is_shared[b] ? CLEAVE_WINDOW_NONE : 0);
    for (int32_t b = 0; b < n; b++) {
        assembly->first_instance[b] = assembly->buffers.n;
        for (int32_t w = 1; w < assembly->n_windows && !assembly->is_shared[b]; w++) {
            const cleave_buffer buffer = later(assembly, b, w);
            LOWER_PUSH_TO(assembly, buffers, buffer);
            LOWER_PUSH_TO(assembly, sent, assembly->sent.items[b]);
            lower_turns_note_buffer(assembly, w);
        }
    }
}

/* ---- items ----------------------------------------------------------------------------------- */

/* A copy that carries assigns the first time, and adds from then on: three passes for two. */
static int32_t another_copy(lower_assembly *assembly, int32_t c, int32_t window) {
    cleave_copy copy = assembly->copies.items[c];
    int32_t first = copy.first_piece;
    copy.first_piece = assembly->copy_pieces.n;
    if (copy.chore == CLEAVE_CHORE_ACCUMULATE)
        copy.carries = false;
    if (copy.carries)
        copy.bytes = copy.summed_bytes = copy.bytes / 2 * 3;
    for (int32_t p = first; p < first + copy.n_pieces; p++) {
        cleave_copy_piece piece = assembly->copy_pieces.items[p];
        piece.destination = lower_instance_of(assembly, piece.destination, window);
        piece.source = lower_instance_of(assembly, piece.source, window);
        if (copy.carries)
            piece.mode = CLEAVE_COPY_SUM;
        LOWER_PUSH_TO(assembly, copy_pieces, piece);
    }
    LOWER_PUSH_TO(assembly, copies, copy);
    return assembly->copies.n - 1;
}

static int32_t another_collective(lower_assembly *assembly, int32_t c, int32_t window) {
    int32_t *of = &assembly->collective_of[(int64_t)window * assembly->n_collectives + c];
    if (*of == 0) { /* its first item in this micro-batch */
        *of = assembly->collectives.n;
        LOWER_PUSH_TO(assembly, collectives, assembly->collectives.items[c]);
    }
    return *of;
}

int32_t lower_instance_subject(lower_assembly *assembly, const cleave_item *item, int32_t window) {
    if (window == 0 || item->when != CLEAVE_WHEN_EVERY)
        return item->subject;
    if (item->kind == CLEAVE_ITEM_COPY)
        return another_copy(assembly, item->subject, window);
    if (item->kind == CLEAVE_ITEM_JOIN || item->kind == CLEAVE_ITEM_AWAIT)
        return another_collective(assembly, item->subject, window);
    if (item->kind != CLEAVE_ITEM_LOAD)
        return item->subject;
    int32_t buffer = assembly->loads.items[item->subject].buffer;
    LOWER_PUSH_TO(assembly, loads,
                  (cleave_load){.buffer = lower_instance_of(assembly, buffer, window)});
    return assembly->loads.n - 1;
}

void lower_instance_part(const lower_assembly *assembly, int32_t nest, int32_t window,
                         cleave_part *part) {
    const lower_builder *builder = assembly->builder;
    if (window == 0 || !lower_goes_on(builder, nest))
        return;
    int axis = builder->micro->sharing.nest_axis[nest];
    int64_t by = window * cleave_micro_batches_step(builder->micro,
                                                    builder->model->nests[nest].axes[axis].extent);
    part->lo[axis] += by;
    part->hi[axis] += by;
}
