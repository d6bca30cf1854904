#include "simulator/step/price_fragment.h"

#include "graph/program/memory_plan.h"
#include "graph/program/traffic.h"

#include <stdlib.h>
#include <string.h>

/* Budgets of searches are counted in these bytes, so an item has the room of a record, though its
   members lie in four arrays of their own, and these count as one. */
enum { BYTES_OF_ITEM = sizeof(cleave_priced_item), UNCOUNTED = 4 * sizeof(void *) };

static size_t aligned(size_t size) { return (size + 15) / 16 * 16; }

/* One block for all arrays: they are laid out twice, first to learn the size. */
typedef struct layout_of_block {
    char *base; /* null: only counting */
    size_t size;
} layout_of_block;

static void *lay(layout_of_block *block, size_t count, size_t size) {
    block->size = aligned(block->size);
    void *at = block->base == NULL ? NULL : block->base + block->size;
    block->size += count * size;
    return at;
}

static void lay_out(layout_of_block *block, cleave_fragment_price *price, int32_t n_hops,
                    int32_t n_links, int32_t n_live) {
    cleave_priced_fragment *p = &price->priced;
    lay(block, 1, sizeof *price);
    p->chunks = lay(block, (size_t)p->n_chunks, sizeof *p->chunks);
    p->duration = lay(block, (size_t)p->n_items, BYTES_OF_ITEM);
    if (block->base != NULL) {
        p->queue = (int32_t *)(p->duration + p->n_items);
        p->subject = p->queue + p->n_items;
        p->kind = (uint8_t *)(p->subject + p->n_items);
    }
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
    price->size = block->size - (aligned(sizeof *price) - aligned(sizeof *price - UNCOUNTED));
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

/* ---- what is kept ---------------------------------------------------------------------------- */

/* Fills in what was priced elsewhere. */
static void keep(cleave_fragment_price *price, const cleave_priced_fragment *from) {
    cleave_priced_fragment *p = &price->priced;
    size_t n_items = (size_t)from->n_items, n_messages = (size_t)from->n_messages;
    size_t n_collectives = (size_t)from->n_collectives;
    size_t n_hops = (size_t)from->hop_start[n_messages];
    size_t n_links = (size_t)from->collective_link_start[n_collectives];
#define COPY(array, count)                                                                         \
    do {                                                                                           \
        if ((count) > 0) /* else there may be no array */                                          \
            memcpy(p->array, from->array, (count) * sizeof *p->array);                             \
    } while (0)
    COPY(chunks, (size_t)from->n_chunks);
    COPY(kind, n_items);
    COPY(queue, n_items);
    COPY(subject, n_items);
    COPY(duration, n_items);
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
    p->n_chunks = from->n_chunks;
    p->n_items = from->n_items;
}

static void add_workspaces(const cleave_program *program, const cleave_machine *machine,
                           cleave_fragment_price *price) {
    for (int32_t i = 0; i < program->n_items && program->n_computes > 0; i++) {
        const cleave_compute *compute = &program->computes[program->items[i].subject];
        int64_t bytes = cleave_cost_workspace((void *)(uintptr_t)machine, program->model,
                                              &program->model->nests[compute->nest], compute->pass,
                                              &compute->part);
        if (bytes > 0)
            price->live[price->n_live++] = (cleave_life){.bytes = bytes,
                                                         .device = compute->part.device,
                                                         .first = program->items[i].slot,
                                                         .last = program->items[i].slot};
    }
}

static void add_buffers(const cleave_program *program, cleave_fragment_price *price) {
    for (int32_t b = 0; b < program->n_buffers; b++) {
        const cleave_buffer *buffer = &program->buffers[b];
        if (buffer->last >= 0)
            price->live[price->n_live++] = cleave_buffer_life(buffer);
    }
}

/* How much a price is to have room for. */
typedef struct room {
    int32_t n_items, n_live, n_chunks;
} room;

static cleave_status price_and_keep(const cleave_fragment *fragment, cleave_cost_cache *cache,
                                    int32_t *image, const room *most, cleave_arena *scratch,
                                    cleave_fragment_price **price, cleave_error *error) {
    cleave_priced_fragment priced;
    CLEAVE_TRY(cleave_price(fragment, cache, image, scratch, &priced, error));
    cleave_priced_fragment largest = priced;
    largest.n_items = most->n_items;
    largest.n_chunks = most->n_chunks;
    cleave_fragment_price *made = cleave_fragment_price_create(
        &largest, priced.ends != NULL, priced.hop_start[priced.n_messages],
        priced.collective_link_start[priced.n_collectives], most->n_live);
    if (made == NULL)
        return cleave_fail_memory(error, "pricing a fragment");
    keep(made, &priced);
    add_buffers(&fragment->program, made);
    add_workspaces(&fragment->program, cleave_cost_cache_machine(cache), made);
    made->own_bytes = cleave_program_own_bytes(&fragment->program);
    made->bytes_sent = cleave_program_bytes_sent(&fragment->program, NULL);
    *price = made;
    return CLEAVE_OK;
}

cleave_status cleave_price_fragment(const cleave_fragment *fragment, cleave_cost_cache *cache,
                                    int32_t *image, cleave_arena *scratch,
                                    cleave_fragment_price **price, cleave_error *error) {
    const room most = {fragment->program.n_items + fragment->n_marks, fragment->program.n_buffers,
                       fragment->n_chunks};
    cleave_arena_reset(scratch);
    return price_and_keep(fragment, cache, image, &most, scratch, price, error);
}

/* There is room for all passes of all parts, whichever there are: budgets of searches are counted
   in these bytes. */
cleave_status cleave_price_computes(cleave_lowerer *lowerer, int32_t nest, cleave_cost_cache *cache,
                                    cleave_arena *scratch, cleave_fragment_price **price,
                                    cleave_error *error) {
    cleave_fragment fragment;
    int32_t n = CLEAVE_PASS_UPDATE * cleave_lowerer_parts(lowerer, nest)->n;
    const room most = {n, n, CLEAVE_PASS_UPDATE};
    CLEAVE_TRY(cleave_lowerer_computes(lowerer, nest, &fragment, error));
    cleave_arena_reset(scratch);
    return price_and_keep(&fragment, cache, NULL, &most, scratch, price, error);
}
