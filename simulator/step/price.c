#include "simulator/step/price.h"

#include "costmodel/cost_exchange.h"
#include "simulator/step/collective_links.h"

#include <math.h>
#include <string.h>

typedef cleave_price_context pricing;

static cleave_status short_of_memory(const pricing *p) {
    return cleave_fail_memory(p->error, "pricing a step");
}

/* ---- messages -------------------------------------------------------------------------------- */

static const cleave_route_price *route_of(const pricing *p, const cleave_message *message) {
    return cleave_cost_route(p->cache, cleave_program_device(p->program, message->source),
                             cleave_program_device(p->program, message->destination));
}

static cleave_status count_hops(const pricing *p, int64_t *n_hops) {
    const cleave_program *program = p->program;
    *n_hops = 0;
    for (int32_t m = 0; m < program->n_messages; m++) {
        p->priced->hop_start[m] = (int32_t)*n_hops;
        *n_hops += route_of(p, &program->messages[m])->n_links;
        if (*n_hops > INT32_MAX)
            return cleave_fail(p->error, CLEAVE_FAILED,
                               "the messages of the step cross more than 2^31 links");
    }
    p->priced->hop_start[program->n_messages] = (int32_t)*n_hops;
    return CLEAVE_OK;
}

static bool takes_as_long(const cleave_link *a, const cleave_link *b) {
    return a->bytes_per_second == b->bytes_per_second &&
           a->protocol.first_bytes == b->protocol.first_bytes &&
           a->protocol.first_bytes_per_second == b->protocol.first_bytes_per_second;
}

/* Neighbours on a route are often equally fast. */
static void serialize(const cleave_machine *machine, const cleave_route_price *route, int64_t bytes,
                      int32_t *hop_link, int64_t *hop_serialization) {
    const cleave_link *before = NULL;
    int64_t serialization = 0;
    for (int32_t h = 0; h < route->n_links; h++) {
        const cleave_link *link = &machine->links[route->links[h]];
        if (before == NULL || !takes_as_long(link, before))
            serialization = cleave_link_serialization(link, bytes);
        before = link;
        hop_link[h] = route->links[h];
        hop_serialization[h] = serialization;
    }
}

/* The links of a route agree at once, each with the next. */
static double agreement_of(const cleave_machine *machine, const cleave_route_price *route,
                           int64_t bytes) {
    double seconds = 0;
    for (int32_t h = 0; h < route->n_links; h++)
        seconds = fmax(seconds, cleave_link_agreement_seconds(&machine->links[route->links[h]],
                                                              (double)bytes));
    return seconds;
}

/* What its ends do for each message before it sets out and while it is on its way. */
static cleave_status price_ends(const pricing *p) {
    const cleave_program *program = p->program;
    if (!cleave_machine_ends_work(p->machine))
        return CLEAVE_OK;
    p->priced->ends = CLEAVE_ARENA_ARRAY(p->arena, cleave_message_ends, program->n_messages);
    if (p->priced->ends == NULL)
        return short_of_memory(p);
    for (int32_t m = 0; m < program->n_messages; m++) {
        const cleave_message *message = &program->messages[m];
        const cleave_route_price *route = route_of(p, message);
        p->priced->ends[m] = (cleave_message_ends){
            .work = cleave_picoseconds(route->overhead_seconds_per_byte * (double)message->bytes),
            .agreement = cleave_picoseconds(agreement_of(p->machine, route, message->bytes)),
            .source = message->source,
            .destination = message->destination};
    }
    return CLEAVE_OK;
}

static cleave_status price_messages(const pricing *p) {
    const cleave_program *program = p->program;
    cleave_priced_fragment *made = p->priced;
    int64_t n_hops = 0;
    made->n_messages = program->n_messages;
    made->hop_start = CLEAVE_ARENA_ARRAY(p->arena, int32_t, (size_t)program->n_messages + 1);
    if (made->hop_start == NULL)
        return short_of_memory(p);
    CLEAVE_TRY(count_hops(p, &n_hops));
    made->hop_link = CLEAVE_ARENA_ARRAY(p->arena, int32_t, n_hops);
    made->hop_serialization = CLEAVE_ARENA_ARRAY(p->arena, int64_t, n_hops);
    if (made->hop_link == NULL || made->hop_serialization == NULL)
        return short_of_memory(p);
    for (int32_t m = 0; m < program->n_messages; m++) {
        const cleave_message *message = &program->messages[m];
        int32_t first = made->hop_start[m];
        serialize(p->machine, route_of(p, message), message->bytes, made->hop_link + first,
                  made->hop_serialization + first);
    }
    return price_ends(p);
}

/* ---- collectives ----------------------------------------------------------------------------- */

/* Where the collectives stand in the program as messages, no item joins them.  Finds the first JOIN
   of each; they stand side by side. */
static bool is_symbolic(const cleave_program *program, int32_t *first_join) {
    bool found = false;
    for (int32_t i = program->n_items - 1; i >= 0; i--)
        if (program->items[i].kind == CLEAVE_ITEM_JOIN) {
            first_join[program->items[i].subject] = i;
            found = true;
        }
    return found;
}

/* What the JOINs take is of each device its own. */
static cleave_status price_exchange(const pricing *p, int32_t collective, int32_t first_join,
                                    cleave_collective_links *known, cleave_collective_cost *cost) {
    const cleave_collective *of = &p->program->collectives[collective];
    const cleave_exchange_price *price = cleave_cost_cache_exchange(p->cache, of);
    int32_t *links = CLEAVE_ARENA_ARRAY(p->arena, int32_t, price->n_links);
    if (links == NULL)
        return short_of_memory(p);
    memcpy(links, price->links, (size_t)price->n_links * sizeof *links);
    for (int32_t i = 0; i < of->n_devices; i++)
        p->duration[first_join + i] = cleave_picoseconds(price->processor[i]);
    *known = (cleave_collective_links){price->n_links, links};
    *cost = cleave_exchange_price_cost(of, price);
    return CLEAVE_OK;
}

static cleave_status price_collective(const pricing *p, int32_t c, int32_t first_join,
                                      cleave_collective_links *known) {
    const cleave_collective *collective = &p->program->collectives[c];
    cleave_collective_cost cost;
    if (collective->kind == CLEAVE_ALL_TO_ALL)
        CLEAVE_TRY(price_exchange(p, c, first_join, known, &cost));
    else
        CLEAVE_TRY(cleave_cost_cache_collective(p->cache, collective, &cost, p->error));
    p->priced->collective_busy[c] = cost.busy;
    p->priced->collective_rest[c] = cost.rest;
    for (int32_t i = 0; i < collective->n_devices; i++)
        p->priced->collective_joins[c] += cleave_program_has(p->program, collective->devices[i]);
    return CLEAVE_OK;
}

static cleave_status price_collectives(const pricing *p) {
    const cleave_program *program = p->program;
    cleave_priced_fragment *made = p->priced;
    int32_t *first_join = CLEAVE_ARENA_ARRAY(p->arena, int32_t, program->n_collectives);
    cleave_collective_links *known =
        CLEAVE_ARENA_ARRAY(p->arena, cleave_collective_links, program->n_collectives);
    if (first_join == NULL || known == NULL)
        return short_of_memory(p);
    int32_t n = is_symbolic(program, first_join) ? program->n_collectives : 0;
    made->n_collectives = n;
    made->collective_joins = CLEAVE_ARENA_ARRAY(p->arena, int32_t, n);
    made->collective_busy = CLEAVE_ARENA_ARRAY(p->arena, int64_t, n);
    made->collective_rest = CLEAVE_ARENA_ARRAY(p->arena, int64_t, n);
    made->collective_link_start = CLEAVE_ARENA_ARRAY(p->arena, int32_t, (size_t)n + 1);
    if (made->collective_link_start == NULL || made->collective_joins == NULL ||
        made->collective_busy == NULL || made->collective_rest == NULL)
        return short_of_memory(p);
    for (int32_t c = 0; c < n; c++)
        CLEAVE_TRY(price_collective(p, c, first_join[c], &known[c]));
    return n > 0 ? cleave_find_collective_links(p, known) : CLEAVE_OK;
}

/* ---- items ----------------------------------------------------------------------------------- */

static cleave_priced_kind kind_of(const cleave_program *program, const cleave_item *item) {
    switch ((cleave_item_kind)item->kind) {
    case CLEAVE_ITEM_SEND:
    case CLEAVE_ITEM_RECEIVE:
        return CLEAVE_PRICED_POST;
    case CLEAVE_ITEM_WAIT:
        return item->device == program->messages[item->subject].destination
                   ? CLEAVE_PRICED_WAIT_ARRIVAL
                   : CLEAVE_PRICED_WAIT_RELEASE;
    case CLEAVE_ITEM_SYNC:
        return CLEAVE_PRICED_SYNC;
    case CLEAVE_ITEM_JOIN:
        return CLEAVE_PRICED_JOIN;
    case CLEAVE_ITEM_AWAIT:
        return CLEAVE_PRICED_AWAIT;
    default:
        return CLEAVE_PRICED_WORK;
    }
}

static void put(const pricing *p, cleave_priced_kind kind, int32_t queue, int32_t subject,
                int64_t duration) {
    cleave_priced_fragment *made = p->priced;
    int32_t n = made->n_items++;
    made->kind[n] = (uint8_t)kind;
    made->queue[n] = queue;
    made->subject[n] = subject;
    made->duration[n] = duration;
}

static void put_item(const pricing *p, int32_t i) {
    const cleave_item *item = &p->program->items[i];
    cleave_priced_kind kind = kind_of(p->program, item);
    put(p, kind, item->device * CLEAVE_N_LANES + item->lane,
        kind == CLEAVE_PRICED_WORK ? -1 : item->subject, p->duration[i]);
}

/* Items of a chunk with the marks between them. */
static void put_chunk(const pricing *p, const cleave_fragment *fragment, int32_t c) {
    const cleave_fragment_chunk *chunk = &fragment->chunks[c];
    cleave_priced_chunk *made = &p->priced->chunks[c];
    int32_t mark = chunk->first_mark, end = chunk->first_item + chunk->n_items;
    *made = (cleave_priced_chunk){
        .slot = chunk->slot, .rank = chunk->rank, .first_item = p->priced->n_items};
    for (int32_t i = chunk->first_item; i <= end; i++) {
        for (; mark < chunk->first_mark + chunk->n_marks && fragment->marks[mark].before == i;
             mark++) {
            const cleave_lane_mark *at = &fragment->marks[mark];
            put(p, CLEAVE_PRICED_MARK, at->device * CLEAVE_N_LANES + (int)at->lane, mark, 0);
        }
        if (i < end)
            put_item(p, i);
    }
    made->n_items = p->priced->n_items - made->first_item;
}

static cleave_status take_items(pricing *p, const cleave_fragment *fragment) {
    size_t n = (size_t)p->program->n_items + (size_t)fragment->n_marks;
    cleave_priced_fragment *made = p->priced;
    made->kind = CLEAVE_ARENA_ARRAY(p->arena, uint8_t, n);
    made->queue = CLEAVE_ARENA_ARRAY(p->arena, int32_t, n);
    made->subject = CLEAVE_ARENA_ARRAY(p->arena, int32_t, n);
    made->duration = CLEAVE_ARENA_ARRAY(p->arena, int64_t, n);
    made->chunks = CLEAVE_ARENA_ARRAY(p->arena, cleave_priced_chunk, fragment->n_chunks);
    /* In a whole program every item keeps its place. */
    p->duration = fragment->n_chunks == 0
                      ? made->duration
                      : CLEAVE_ARENA_ARRAY(p->arena, int64_t, p->program->n_items);
    bool taken = made->kind != NULL && made->queue != NULL && made->subject != NULL &&
                 made->duration != NULL && made->chunks != NULL && p->duration != NULL;
    return taken ? CLEAVE_OK : short_of_memory(p);
}

static void put_items(const pricing *p, const cleave_fragment *fragment) {
    for (int32_t c = 0; c < fragment->n_chunks; c++)
        put_chunk(p, fragment, c);
    for (int32_t i = 0; i < p->program->n_items && fragment->n_chunks == 0; i++)
        put_item(p, i);
}

cleave_status cleave_price(const cleave_fragment *fragment, cleave_cost_cache *cache,
                           int32_t *image, cleave_arena *arena, cleave_priced_fragment *priced,
                           cleave_error *error) {
    cleave_priced_fragment made = {.n_chunks = fragment->n_chunks, .n_marks = fragment->n_marks};
    pricing p = {.program = &fragment->program,
                 .cache = cache,
                 .machine = cleave_cost_cache_machine(cache),
                 .image = image,
                 .nearby = fragment->n_chunks > 0,
                 .arena = arena,
                 .priced = &made,
                 .error = error};
    CLEAVE_TRY(take_items(&p, fragment));
    CLEAVE_TRY(cleave_cost_items(p.program, cache, p.duration, error));
    CLEAVE_TRY(price_messages(&p));
    CLEAVE_TRY(price_collectives(&p));
    put_items(&p, fragment);
    *priced = made;
    return CLEAVE_OK;
}

cleave_status cleave_price_latencies(const cleave_machine *machine, cleave_arena *arena,
                                     int64_t **latency, cleave_error *error) {
    int64_t *made = CLEAVE_ARENA_ARRAY(arena, int64_t, machine->n_links);
    if (made == NULL)
        return cleave_fail_memory(error, "pricing a step");
    for (int32_t l = 0; l < machine->n_links; l++)
        made[l] = cleave_picoseconds(machine->links[l].latency_seconds);
    *latency = made;
    return CLEAVE_OK;
}
