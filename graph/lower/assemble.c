/* A program from what is in order: its results, its lifetimes, its lists. */
#include "graph/lower/assemble_internal.h"

#include "graph/lower/lifetimes.h"
#include "graph/lower/outputs.h"
#include "graph/lower/turns.h"

#include <stdlib.h>
#include <string.h>

/* The loss is whole on each device that computed some of it: the first of them. */
static void find_loss(const lower_assembly *assembly, int32_t event, cleave_program *program) {
    int32_t p = 0;
    while (lower_bound(assembly, event, p) < 0)
        p++;
    program->loss_buffer = lower_bound(assembly, event, p);
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
            piece->buffer = lower_bound_in(assembly, event, p, w);
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
    lower_assembly_place(assembly);
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
    program->n_copy_pieces = assembly->copy_pieces.n;
    if (!assembly->builder->counts_pieces)
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
