#include "simulator/step/price_fragment.h"

#include "graph/program/memory_plan.h"
#include "simulator/step/prepare.h"

#include <stdlib.h>
#include <string.h>

/* One block for all arrays: they are laid out twice, first to learn the size. */
typedef struct layout_of_block {
    char *base; /* null: only counting */
    size_t size;
} layout_of_block;

static void *lay(layout_of_block *block, size_t count, size_t size) {
    block->size = (block->size + 15) / 16 * 16;
    void *at = block->base == NULL ? NULL : block->base + block->size;
    block->size += count * size;
    return at;
}

static void lay_out(layout_of_block *block, cleave_fragment_price *price, int32_t n_hops,
                    int32_t n_links, int32_t n_live) {
    cleave_priced_fragment *p = &price->priced;
    lay(block, 1, sizeof *price);
    p->chunks = lay(block, (size_t)p->n_chunks, sizeof *p->chunks);
    p->items = lay(block, (size_t)p->n_items, sizeof *p->items);
    p->hop_start = lay(block, (size_t)p->n_messages + 1, sizeof *p->hop_start);
    p->hop_link = lay(block, (size_t)n_hops, sizeof *p->hop_link);
    p->hop_serialization = lay(block, (size_t)n_hops, sizeof *p->hop_serialization);
    p->ends = price->has_ends ? lay(block, (size_t)p->n_messages, sizeof *p->ends) : NULL;
    p->collective_joins = lay(block, (size_t)p->n_collectives, sizeof *p->collective_joins);
    p->collective_busy = lay(block, (size_t)p->n_collectives, sizeof *p->collective_busy);
    p->collective_rest = lay(block, (size_t)p->n_collectives, sizeof *p->collective_rest);
    p->collective_link_start =
        lay(block, (size_t)p->n_collectives + 1, sizeof *p->collective_link_start);
    p->collective_links = lay(block, (size_t)n_links, sizeof *p->collective_links);
    price->live = lay(block, (size_t)n_live, sizeof *price->live);
    price->size = block->size;
}

cleave_fragment_price *cleave_fragment_price_create(const cleave_priced_fragment *counts,
                                                    bool has_ends, int32_t n_hops, int32_t n_links,
                                                    int32_t n_live) {
    cleave_fragment_price price = {.priced = *counts, .has_ends = has_ends};
    layout_of_block block = {NULL, 0};
    lay_out(&block, &price, n_hops, n_links, n_live);
    cleave_fragment_price *made = malloc(block.size);
    if (made == NULL)
        return NULL;
    block = (layout_of_block){(char *)made, 0};
    lay_out(&block, &price, n_hops, n_links, n_live);
    *made = price;
    made->priced.hop_start[0] = made->priced.collective_link_start[0] = 0; /* of computes: none */
    return made;
}

/* ---- families -------------------------------------------------------------------------------- */

static cleave_priced_kind priced_kind(uint8_t kind) {
    static const cleave_priced_kind kinds[CLEAVE_ENGINE_N_KINDS] = {
        [CLEAVE_ENGINE_WORK] = CLEAVE_PRICED_WORK,
        [CLEAVE_ENGINE_POST] = CLEAVE_PRICED_POST,
        [CLEAVE_ENGINE_WAIT_ARRIVAL] = CLEAVE_PRICED_WAIT_ARRIVAL,
        [CLEAVE_ENGINE_WAIT_RELEASE] = CLEAVE_PRICED_WAIT_RELEASE,
        [CLEAVE_ENGINE_SYNC] = CLEAVE_PRICED_SYNC,
        [CLEAVE_ENGINE_JOIN] = CLEAVE_PRICED_JOIN,
        [CLEAVE_ENGINE_AWAIT] = CLEAVE_PRICED_AWAIT};
    return kinds[kind];
}

/* Items of a chunk with the marks between them; returns the number of items so far. */
static int32_t fill_chunk(const cleave_fragment *fragment, const cleave_engine_problem *problem,
                          const cleave_fragment_chunk *chunk, cleave_priced_item *items,
                          int32_t n) {
    int32_t mark = chunk->first_mark, end = chunk->first_item + chunk->n_items;
    for (int32_t i = chunk->first_item; i <= end; i++) {
        for (; mark < chunk->first_mark + chunk->n_marks && fragment->marks[mark].before == i;
             mark++) {
            const cleave_lane_mark *at = &fragment->marks[mark];
            items[n++] = (cleave_priced_item){.queue = at->device * CLEAVE_N_LANES + (int)at->lane,
                                              .subject = mark,
                                              .kind = CLEAVE_PRICED_MARK};
        }
        if (i < end)
            items[n++] = (cleave_priced_item){.duration = problem->duration[i],
                                              .queue = problem->queue[i],
                                              .subject = problem->subject[i],
                                              .kind = (uint8_t)priced_kind(problem->kind[i])};
    }
    return n;
}

static void fill(const cleave_fragment *fragment, const cleave_engine_problem *problem,
                 cleave_fragment_price *price) {
    cleave_priced_fragment *p = &price->priced;
    int32_t n = 0;
    for (int32_t c = 0; c < fragment->n_chunks; c++) {
        int32_t end = fill_chunk(fragment, problem, &fragment->chunks[c], p->items, n);
        p->chunks[c] = (cleave_priced_chunk){.slot = fragment->chunks[c].slot,
                                             .rank = fragment->chunks[c].rank,
                                             .first_item = n,
                                             .n_items = end - n};
        n = end;
    }
    size_t n_messages = (size_t)p->n_messages, n_collectives = (size_t)p->n_collectives;
    size_t n_hops = (size_t)problem->hop_start[n_messages],
           n_links = (size_t)problem->collective_link_start[n_collectives];
#define COPY(array, count)                                                                         \
    do {                                                                                           \
        if ((count) > 0) /* else there may be no array */                                          \
            memcpy(p->array, problem->array, (count) * sizeof *p->array);                          \
    } while (0)
    COPY(hop_start, n_messages + 1);
    COPY(hop_link, n_hops);
    COPY(hop_serialization, n_hops);
    COPY(ends, price->has_ends ? n_messages : 0);
    COPY(collective_joins, n_collectives);
    COPY(collective_busy, n_collectives);
    COPY(collective_rest, n_collectives);
    COPY(collective_link_start, n_collectives + 1);
    COPY(collective_links, n_links);
#undef COPY
    for (int32_t b = 0; b < fragment->program.n_buffers; b++) {
        const cleave_buffer *buffer = &fragment->program.buffers[b];
        if (buffer->last >= 0)
            price->live[price->n_live++] =
                (cleave_live_range){.device = buffer->device,
                                    .first = buffer->first,
                                    .last = buffer->last,
                                    .bytes = cleave_buffer_aligned(buffer->bytes)};
    }
    price->own_bytes = cleave_program_own_bytes(&fragment->program);
}

cleave_status cleave_price_fragment(const cleave_fragment *fragment, cleave_cost_cache *cache,
                                    int32_t *image, cleave_arena *scratch,
                                    cleave_fragment_price **price, cleave_error *error) {
    cleave_engine_problem problem = {0};
    cleave_arena_reset(scratch);
    const cleave_preparation preparation = {&fragment->program,
                                            cleave_cost_cache_machine(cache),
                                            scratch,
                                            &problem,
                                            error,
                                            image,
                                            true};
    CLEAVE_TRY(cleave_prepare_items(&preparation, cache));
    CLEAVE_TRY(cleave_prepare_messages(&preparation, cache));
    CLEAVE_TRY(cleave_prepare_collectives(&preparation, cache));
    const cleave_priced_fragment counts = {.n_chunks = fragment->n_chunks,
                                           .n_items = fragment->program.n_items + fragment->n_marks,
                                           .n_messages = fragment->program.n_messages,
                                           .n_collectives = problem.n_collectives,
                                           .n_marks = fragment->n_marks};
    cleave_fragment_price *made = cleave_fragment_price_create(
        &counts, problem.ends != NULL, problem.hop_start[counts.n_messages],
        problem.collective_link_start[counts.n_collectives], fragment->program.n_buffers);
    if (made == NULL)
        return cleave_fail_memory(error, "pricing a fragment");
    fill(fragment, &problem, made);
    *price = made;
    return CLEAVE_OK;
}

/* ---- computes -------------------------------------------------------------------------------- */

static void add_workspaces(const cleave_program *program, const cleave_machine *machine,
                           cleave_fragment_price *price) {
    for (int32_t i = 0; i < program->n_items; i++) {
        const cleave_compute *compute = &program->computes[program->items[i].subject];
        int64_t bytes = cleave_cost_workspace((void *)(uintptr_t)machine, program->model,
                                              &program->model->nests[compute->nest], compute->pass,
                                              &compute->part);
        if (bytes > 0)
            price->live[price->n_live++] =
                (cleave_live_range){.device = compute->part.device,
                                    .first = program->items[i].slot,
                                    .last = program->items[i].slot,
                                    .bytes = cleave_buffer_aligned(bytes)};
    }
}

/* The computes of one pass as a program of their own, so that they are priced like any other. */
static cleave_program computes_of(const cleave_parts *parts, int32_t nest, cleave_pass pass,
                                  int32_t slot, cleave_item *items, cleave_compute *computes) {
    cleave_program program = {.items = items, .computes = computes};
    for (int32_t p = 0; p < parts->n; p++) {
        if (parts->items[p].empty)
            continue;
        computes[program.n_computes] =
            (cleave_compute){.nest = nest, .pass = pass, .part = parts->items[p]};
        items[program.n_items++] = (cleave_item){.kind = CLEAVE_ITEM_COMPUTE,
                                                 .lane = CLEAVE_LANE_MAIN,
                                                 .device = parts->items[p].device,
                                                 .slot = slot,
                                                 .subject = program.n_computes++};
    }
    return program;
}

cleave_status cleave_price_computes(const cleave_lowerer *lowerer, int32_t nest,
                                    cleave_cost_cache *cache, int32_t n_devices,
                                    cleave_arena *scratch, cleave_fragment_price **price,
                                    cleave_error *error) {
    const cleave_parts *parts = cleave_lowerer_parts(lowerer, nest);
    cleave_arena_reset(scratch);
    cleave_item *items = CLEAVE_ARENA_ARRAY(scratch, cleave_item, parts->n);
    cleave_compute *computes = CLEAVE_ARENA_ARRAY(scratch, cleave_compute, parts->n);
    int64_t *durations = CLEAVE_ARENA_ARRAY(scratch, int64_t, parts->n);
    const cleave_priced_fragment counts = {.n_chunks = CLEAVE_PASS_UPDATE,
                                           .n_items = CLEAVE_PASS_UPDATE * parts->n};
    cleave_fragment_price *made =
        cleave_fragment_price_create(&counts, false, 0, 0, counts.n_items);
    if (made == NULL || items == NULL || computes == NULL || durations == NULL) {
        free(made);
        return cleave_fail_memory(error, "pricing a fragment");
    }
    cleave_priced_fragment *p = &made->priced;
    p->n_chunks = p->n_items = 0;
    for (cleave_pass pass = CLEAVE_PASS_FORWARD; pass < CLEAVE_PASS_UPDATE; pass++) {
        int32_t slot = cleave_lowerer_slot(lowerer, nest, pass);
        if (slot < 0)
            continue;
        cleave_program program = computes_of(parts, nest, pass, slot, items, computes);
        program.model = cleave_lowerer_model(lowerer);
        program.n_devices = n_devices;
        cleave_status status = cleave_cost_items(&program, cache, durations, error);
        if (status != CLEAVE_OK) {
            free(made);
            return status;
        }
        add_workspaces(&program, cleave_cost_cache_machine(cache), made);
        p->chunks[p->n_chunks++] = (cleave_priced_chunk){.slot = slot,
                                                         .rank = CLEAVE_RANK_COMPUTE,
                                                         .first_item = p->n_items,
                                                         .n_items = program.n_items};
        for (int32_t i = 0; i < program.n_items; i++)
            p->items[p->n_items++] =
                (cleave_priced_item){.duration = durations[i],
                                     .queue = items[i].device * CLEAVE_N_LANES + CLEAVE_LANE_MAIN,
                                     .subject = -1,
                                     .kind = CLEAVE_PRICED_WORK};
        made->own_bytes += cleave_program_own_bytes(&program);
    }
    *price = made;
    return CLEAVE_OK;
}
