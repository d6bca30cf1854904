#include "costmodel/cost_cache.h"

#include "base/random.h"
#include "graph/model/attention.h"
#include "graph/model/filled.h"
#include "graph/model/precision.h"
#include "graph/program/operator_work.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the cache ------------------------------------------------------------------------------- */

/* Room for all pairs of devices of small machines. */
static size_t size_of_route_table(int32_t n_devices) {
    size_t pairs = (size_t)n_devices * (size_t)n_devices, size = 1;
    while (size < pairs && size < (size_t)1 << 14)
        size *= 2;
    return size;
}

cleave_status cleave_cost_cache_create(const cleave_model *model, const cleave_machine *machine,
                                       cleave_cost_cache **cache, cleave_error *error) {
    for (int32_t k = 0; k < machine->n_kinds && model->precision != CLEAVE_F32; k++)
        if (machine->kinds[k].rates[model->precision] <= 0)
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "machine %s: kind \"%s\" has no \"%s\" among its \"rates\"",
                               machine->name, machine->kinds[k].name,
                               cleave_precision_name(model->precision));
    cleave_cost_cache *made = calloc(1, sizeof *made);
    if (made == NULL)
        return cleave_fail_memory(error, "preparing costs");
    made->model = model;
    made->machine = machine;
    made->capacity = 1024;
    made->entries = calloc(made->capacity, sizeof *made->entries);
    made->copy = CLEAVE_ARENA_ARRAY(&made->arena, cleave_copy_price, machine->n_kinds);
    made->load = CLEAVE_ARENA_ARRAY(&made->arena, cleave_byte_price, machine->n_kinds);
    made->update = CLEAVE_ARENA_ARRAY(&made->arena, cleave_byte_price, machine->n_kinds);
    made->shares = CLEAVE_ARENA_ARRAY(&made->arena, double, machine->n_links);
    made->exchange.load = made->shares;
    made->exchange.seconds_per_byte = CLEAVE_ARENA_ARRAY(&made->arena, double, machine->n_links);
    made->exchange.processor = CLEAVE_ARENA_ARRAY(&made->arena, double, machine->n_devices);
    made->exchange.n_sent = CLEAVE_ARENA_ARRAY(&made->arena, int32_t, machine->n_devices);
    made->exchange.links = CLEAVE_ARENA_ARRAY(&made->arena, int32_t, machine->n_links);
    made->n_routes = size_of_route_table(machine->n_devices);
    made->routes = CLEAVE_ARENA_ARRAY(&made->arena, cleave_route_price, made->n_routes);
    made->route_links =
        CLEAVE_ARENA_ARRAY(&made->arena, int32_t, made->n_routes * CLEAVE_MAX_ROUTE);
    made->padded_axes = CLEAVE_ARENA_ARRAY(&made->arena, uint32_t, model->n_nests);
    if (made->route_links == NULL || made->shares == NULL || made->entries == NULL ||
        made->routes == NULL || made->exchange.processor == NULL || made->exchange.n_sent == NULL ||
        made->exchange.links == NULL || made->exchange.seconds_per_byte == NULL ||
        made->padded_axes == NULL || made->copy == NULL || made->load == NULL ||
        made->update == NULL) {
        cleave_cost_cache_destroy(made);
        return cleave_fail_memory(error, "preparing costs");
    }
    cleave_status status =
        cleave_sent_together_create(model, machine, &made->arena, &made->together, error);
    if (status != CLEAVE_OK) {
        cleave_cost_cache_destroy(made);
        return status;
    }
    for (int32_t k = 0; k < machine->n_kinds; k++) {
        made->copy[k] = cleave_copy_price_of(&machine->kinds[k]);
        made->load[k] = cleave_byte_price_of(&machine->kinds[k], "load");
        made->update[k] = cleave_byte_price_of(&machine->kinds[k], "update");
    }
    for (int32_t l = 0; l < machine->n_links; l++)
        made->exchange.seconds_per_byte[l] = 1 / machine->links[l].bytes_per_second;
    for (int32_t n = 0; n < model->n_nests; n++)
        made->padded_axes[n] = cleave_nest_padded_axes(model, &model->nests[n]);
    *cache = made;
    return CLEAVE_OK;
}

static void free_rounds(cost_rounds *known) {
    if (known != NULL)
        free(known->devices);
    free(known);
}

void cleave_cost_cache_destroy(cleave_cost_cache *cache) {
    if (cache == NULL)
        return;
    for (int k = 0; k < COST_N_ROUNDS; k++)
        free_rounds(cache->known[k]);
    cleave_arena_free(&cache->arena);
    free(cache->entries);
    free(cache);
}

const cleave_machine *cleave_cost_cache_machine(const cleave_cost_cache *cache) {
    return cache->machine;
}

void cleave_cost_cache_load_data(cleave_cost_cache *cache) { cache->loads_data = true; }

cleave_status cost_cache_check(const cleave_cost_cache *cache, const cleave_program *program,
                               cleave_error *error) {
    if (program->model != cache->model)
        return cleave_fail(error, CLEAVE_FAILED, "the costs are of another model");
    if (program->n_devices > cache->machine->n_devices)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "the layout is for %d devices, and the machine \"%s\" has %d",
                           program->n_devices, cache->machine->name, cache->machine->n_devices);
    return CLEAVE_OK;
}

/* ---- computes -------------------------------------------------------------------------------- */

/* Two independent hashes of what a price depends on. */
typedef struct digest {
    uint64_t a, b;
} digest;

static inline void digest_add(digest *d, int64_t value) {
    d->a = cleave_hash_join(d->a, (uint64_t)value);
    d->b = (d->b ^ (uint64_t)value) * UINT64_C(0x9ddfea08eb382d69);
    d->b ^= d->b >> 29;
}

static void digest_padding(digest *d, const cleave_model *model, const cleave_operand *operand,
                           const cleave_part *part) {
    const cleave_tensor *tensor = &model->tensors[operand->tensor];
    cleave_box raw;
    cleave_part_raw_box(part, operand, tensor->rank, &raw);
    for (int r = 0; r < tensor->rank; r++) {
        int64_t below = raw.lo[r] < 0 ? -raw.lo[r] : 0;
        int64_t above = raw.hi[r] > tensor->shape[r] ? raw.hi[r] - tensor->shape[r] : 0;
        if (below > 0 || above > 0) {
            digest_add(d, (int64_t)operand->tensor << 8 | r);
            digest_add(d, below);
            digest_add(d, above);
        }
    }
}

static digest digest_of(const cleave_cost_cache *cache, const cleave_compute *compute) {
    const cleave_nest *nest = &cache->model->nests[compute->nest];
    int32_t kind = cache->machine->device_kind[compute->part.device];
    digest d = {1, 1};
    digest_add(&d, compute->nest);
    digest_add(&d, (int64_t)compute->pass << 32 | kind);
    for (int a = 0; a < nest->n_axes; a++)
        digest_add(&d, cleave_part_extent(&compute->part, a));
    for (int i = 0; i < nest->n_inputs; i++)
        digest_padding(&d, cache->model, &nest->inputs[i], &compute->part);
    digest_padding(&d, cache->model, &nest->output, &compute->part);
    if (nest->attention != NULL)
        digest_add(&d,
                   (int64_t)(0x1p30 * cleave_attention_seen_share(nest->attention, compute->part.lo,
                                                                  compute->part.hi)));
    int filled = cleave_nest_filled_axis(cache->model, nest);
    if (filled >= 0)
        digest_add(&d, compute->part.lo[filled]);
    if (d.a == 0 && d.b == 0)
        d.a = 1;
    return d;
}

/* The entry of a digest, or the free one where it would go. */
static cost_entry *find_entry(cost_entry *entries, size_t capacity, digest d) {
    size_t at = d.a & (capacity - 1);
    while ((entries[at].index != 0 || entries[at].check != 0) &&
           (entries[at].index != d.a || entries[at].check != d.b))
        at = (at + 1) & (capacity - 1);
    return &entries[at];
}

static bool grow(cleave_cost_cache *cache) {
    size_t capacity = 2 * cache->capacity;
    cost_entry *entries = calloc(capacity, sizeof *entries);
    if (entries == NULL)
        return false;
    for (size_t i = 0; i < cache->capacity; i++) {
        const cost_entry *old = &cache->entries[i];
        if (old->index != 0 || old->check != 0)
            *find_entry(entries, capacity, (digest){old->index, old->check}) = *old;
    }
    free(cache->entries);
    cache->entries = entries;
    cache->capacity = capacity;
    return true;
}

/* Where the kind has times of whole operators of this sort, all is the lead's. */
static bool price_in_operator(const cleave_cost_cache *cache, const cleave_device_kind *kind,
                              const cleave_compute *compute, cost_entry *price) {
    const cleave_nest *nest = &cache->model->nests[compute->nest];
    bool backward = compute->pass != CLEAVE_PASS_FORWARD;
    cleave_work work;
    cleave_operator_family(cache->model, nest->op, backward, work.family, sizeof work.family);
    int32_t fit = cost_find_fit(kind, work.family);
    if (fit < 0)
        return false;
    price->provenance = CLEAVE_PROVENANCE_PREDICTED;
    price->source = price->family_fit = fit;
    price->picoseconds = 0;
    bool is_lead = nest->n_turns > 0 ||
                   cleave_operator_lead(cache->model, nest->op, backward) == compute->nest;
    if (!is_lead || !cleave_operator_begins(cache->model, nest, compute->pass))
        return true;
    cleave_operator_work_describe(cache->model, nest->op, backward, &compute->part, &work);
    price->picoseconds =
        cleave_picoseconds(cost_find_price(kind, &work, &price->provenance, &price->source));
    return true;
}

const cost_entry *cost_cache_compute(cleave_cost_cache *cache, const cleave_compute *compute) {
    digest d = digest_of(cache, compute);
    cost_entry *found = find_entry(cache->entries, cache->capacity, d);
    if (found->index != 0 || found->check != 0)
        return found;
    if (2 * (cache->n_entries + 1) > cache->capacity) {
        if (!grow(cache))
            return NULL;
        found = find_entry(cache->entries, cache->capacity, d);
    }
    const cleave_machine *machine = cache->machine;
    const cleave_device_kind *kind = &machine->kinds[machine->device_kind[compute->part.device]];
    const cleave_nest *nest = &cache->model->nests[compute->nest];
    cleave_work work;
    *found = (cost_entry){.index = d.a, .check = d.b};
    cache->n_entries++;
    if (kind->n_fits > 0 && price_in_operator(cache, kind, compute, found))
        return found;
    if (kind->n_kernels > 0 || kind->n_fits > 0)
        cleave_work_describe(cache->model, nest, compute->pass, &compute->part, &work);
    else /* there is nothing to look up */
        cleave_work_measure(cache->model, nest, compute->pass, &compute->part, &work);
    double seconds = cost_find_price(kind, &work, &found->provenance, &found->source);
    found->picoseconds = cleave_picoseconds(seconds);
    found->family_fit = cost_find_fit(kind, work.family);
    return found;
}

static bool have_same_price(const cleave_cost_cache *cache, const cleave_compute *a,
                            const cleave_compute *b) {
    const int32_t *kind = cache->machine->device_kind;
    return a->nest == b->nest && a->pass == b->pass &&
           kind[a->part.device] == kind[b->part.device] &&
           cleave_parts_work_alike(&cache->model->nests[a->nest], cache->padded_axes[a->nest],
                                   &a->part, &b->part);
}

cleave_status cost_cache_next(cleave_cost_cache *cache, cost_cursor *cursor,
                              const cleave_compute *compute, cleave_error *error) {
    if (cursor->before == NULL || !have_same_price(cache, cursor->before, compute))
        cursor->price = cost_cache_compute(cache, compute);
    cursor->before = compute;
    return cursor->price != NULL ? CLEAVE_OK : cleave_fail_memory(error, "pricing a program");
}

/* ---- routes and collectives ------------------------------------------------------------------ */

/* Room for a route's links: side by side, but where another pair of devices may come to its place
   later. */
static int32_t *room_for_links(cleave_cost_cache *cache, size_t place, int32_t n_links) {
    size_t n_devices = (size_t)cache->machine->n_devices;
    if (n_devices * n_devices > cache->n_routes)
        return cache->route_links + place * CLEAVE_MAX_ROUTE;
    int32_t *room = cache->route_links + cache->n_route_links;
    cache->n_route_links += (size_t)n_links;
    return room;
}

const cleave_route_price *cleave_cost_route(cleave_cost_cache *cache, int32_t source,
                                            int32_t destination) {
    const cleave_machine *machine = cache->machine;
    size_t place = cost_cache_route_place(cache, source, destination);
    cleave_route_price *at = &cache->routes[place];
    if (at->n_links > 0 && at->source == source && at->destination == destination)
        return at;
    int32_t links[CLEAVE_MAX_ROUTE], n_links;
    n_links = cleave_machine_route(machine, source, destination, links);
    int32_t *room = room_for_links(cache, place, n_links);
    memcpy(room, links, (size_t)n_links * sizeof *links);
    *at = (cleave_route_price){
        .source = source, .destination = destination, .n_links = n_links, .links = room};
    bool holds = cleave_frameworks[machine->kinds[machine->device_kind[source]].framework]
                     .holds_for_messages;
    for (int32_t l = 0; l < n_links; l++) {
        const cleave_link *link = &machine->links[links[l]];
        at->overhead_seconds = fmax(at->overhead_seconds, link->overhead_seconds);
        at->overhead_seconds_per_byte =
            fmax(at->overhead_seconds_per_byte,
                 holds ? 1 / link->bytes_per_second : link->overhead_seconds_per_byte);
        if (l == 0 || link->protocol.receiving.large > at->protocol->receiving.large)
            at->protocol = &link->protocol;
        at->latency_seconds += link->latency_seconds;
    }
    return at;
}

static bool is_like(const cleave_collective *a, const cleave_collective *b,
                    const int32_t *b_devices) {
    return a->kind == b->kind && a->algorithm == b->algorithm &&
           a->node_members == b->node_members && a->n_devices == b->n_devices &&
           memcmp(a->devices, b_devices, (size_t)a->n_devices * sizeof *b_devices) == 0;
}

void cleave_cost_cache_stand_for(cleave_cost_cache *cache, const cleave_cost_cache *whole,
                                 const int32_t *tensor_of_whole) {
    cache->together.all_elements = whole->together.all_elements;
    for (int32_t t = 0; t < cache->model->n_tensors && cache->together.elements != NULL; t++)
        if (cache->together.elements[t] > 0)
            cache->together.elements[t] = whole->together.elements[tensor_of_whole[t]];
    for (int32_t t = 0; t < cache->model->n_tensors && cache->together.whole_over_piece != NULL;
         t++)
        if (cache->together.whole_over_piece[t] > 0)
            cache->together.whole_over_piece[t] =
                whole->together.whole_over_piece[tensor_of_whole[t]];
}

int64_t cleave_cost_cache_vector_bytes(const cleave_cost_cache *cache,
                                       const cleave_collective *collective) {
    return cleave_sent_together_bytes(&cache->together, collective->kind, collective->tensor,
                                      collective->bytes);
}

cleave_status cleave_cost_cache_collective(cleave_cost_cache *cache,
                                           const cleave_collective *collective,
                                           cleave_collective_cost *cost, cleave_error *error) {
    int32_t n = collective->n_devices;
    *cost = (cleave_collective_cost){0};
    if (n < 2)
        return CLEAVE_OK;
    /* The devices in the middle tell groups apart that have the same ends. */
    uint64_t hash = (uint64_t)collective->kind << 8 | (uint64_t)collective->algorithm;
    hash = cleave_hash_join(hash, (uint64_t)collective->devices[0] << 32 | (uint64_t)n);
    hash = cleave_hash_join(hash, (uint64_t)collective->devices[n / 2] << 32 |
                                      (uint64_t)collective->devices[n - 1]);
    cost_rounds **at = &cache->known[hash % COST_N_ROUNDS], *known = *at;
    if (known == NULL || !is_like(collective, &known->like, known->devices)) {
        free_rounds(known);
        *at = known = malloc(sizeof *known);
        int32_t *devices = malloc((size_t)n * sizeof *devices);
        if (known == NULL || devices == NULL) {
            free(known);
            free(devices);
            *at = NULL;
            return cleave_fail_memory(error, "pricing a collective");
        }
        memcpy(devices, collective->devices, (size_t)n * sizeof *devices);
        known->like = *collective;
        known->devices = devices;
        cleave_collective_rounds_find(cache->machine, collective, cache->shares, &known->rounds);
    }
    *cost = cleave_collective_rounds_price(&known->rounds, collective->bytes,
                                           cleave_cost_cache_vector_bytes(cache, collective));
    return CLEAVE_OK;
}

const cleave_exchange_price *cleave_cost_cache_exchange(cleave_cost_cache *cache,
                                                        const cleave_collective *collective) {
    cleave_exchange_price_find(cache, collective, cache->copy, &cache->exchange);
    return &cache->exchange;
}
