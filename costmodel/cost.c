/* Prices of items.  A compute is priced once for each (nest, pass, extents, padding, kind of
   device) and then found again by a 128-bit hash of these, so that pricing a program after a small
   change of its layout costs a look-up an item. */
#include "costmodel/cost.h"

#include "base/random.h"
#include "costmodel/byte_price.h"
#include "costmodel/collective_rounds.h"
#include "costmodel/cost_exchange.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    uint64_t index, check; /* both 0: free */
    int64_t picoseconds;
    cleave_provenance provenance;
    int32_t source;     /* the kernel or the fit among those of its kind; -1 for a data sheet */
    int32_t family_fit; /* among those of its kind; -1: none */
} entry;

/* The rounds of the collectives of some devices. */
typedef struct known_rounds {
    cleave_collective like; /* kind, algorithm and devices count */
    int32_t *devices;       /* [like.n_devices] */
    cleave_collective_rounds rounds;
} known_rounds;

enum { N_KNOWN_ROUNDS = 1024 };

struct cleave_cost_cache {
    const cleave_model *model;
    const cleave_machine *machine;
    cleave_byte_price *copy, *load, *update; /* [machine's n_kinds] */
    entry *entries;                          /* [capacity] open addressing, at most half full */
    size_t capacity, n_entries;              /* capacity: a power of two */
    known_rounds *known[N_KNOWN_ROUNDS];     /* by a hash; null: none yet */
    double *shares;                          /* [machine's n_links] scratch, all 0 */
    cleave_exchange_price exchange;          /* of the last all-to-all */
    cleave_route_price *routes;              /* [n_routes] what was asked for last at each place */
    size_t n_routes;                         /* a power of two */
    bool *padded;                            /* [n_nests] something may stick out of its tensor */
    bool loads_data;                         /* else data are there already */
    cleave_arena arena;
};

/* The fit of a family among those of a kind, or -1. */
static int32_t find_fit(const cleave_device_kind *kind, const char *family) {
    for (int32_t i = 0; i < kind->n_fits; i++)
        if (strcmp(kind->fits[i].family, family) == 0)
            return i;
    return -1;
}

static double find_price(const cleave_device_kind *kind, const cleave_work *work,
                         cleave_provenance *provenance, int32_t *source) {
    const cleave_kernel_time *kernel = cleave_device_kind_find_kernel(kind, work->key);
    if (kernel != NULL && kernel->seconds > 0) {
        *provenance = CLEAVE_PROVENANCE_MEASURED;
        *source = (int32_t)(kernel - kind->kernels);
        return kernel->seconds;
    }
    *source = find_fit(kind, work->family);
    if (*source >= 0) {
        const cleave_family_fit *fit = &kind->fits[*source];
        *provenance = CLEAVE_PROVENANCE_PREDICTED;
        return fit->launch_seconds + fit->seconds_per_flop * work->flops +
               fit->seconds_per_byte * work->bytes;
    }
    *provenance = CLEAVE_PROVENANCE_DATA_SHEET;
    return kind->launch_seconds +
           fmax(work->flops / (kind->flops_per_second * kind->product_efficiency),
                work->bytes / (kind->bytes_per_second * kind->memory_efficiency));
}

double cleave_cost_compute(const cleave_device_kind *kind, const cleave_work *work,
                           cleave_provenance *provenance) {
    int32_t source;
    return find_price(kind, work, provenance, &source);
}

cleave_byte_price cleave_byte_price_of(const cleave_device_kind *kind, const char *family) {
    int32_t fit = find_fit(kind, family);
    if (fit >= 0)
        return (cleave_byte_price){kind->fits[fit].launch_seconds, kind->fits[fit].seconds_per_byte,
                                   fit};
    return (cleave_byte_price){kind->launch_seconds,
                               1 / (kind->bytes_per_second * kind->memory_efficiency), -1};
}

/* Room for all pairs of devices of small machines. */
static size_t size_of_route_table(int32_t n_devices) {
    size_t pairs = (size_t)n_devices * (size_t)n_devices, size = 1;
    while (size < pairs && size < (size_t)1 << 14)
        size *= 2;
    return size;
}

cleave_status cleave_cost_cache_create(const cleave_model *model, const cleave_machine *machine,
                                       cleave_cost_cache **cache, cleave_error *error) {
    cleave_cost_cache *made = calloc(1, sizeof *made);
    if (made == NULL)
        return cleave_fail_memory(error, "preparing costs");
    made->model = model;
    made->machine = machine;
    made->capacity = 1024;
    made->entries = calloc(made->capacity, sizeof *made->entries);
    made->copy = CLEAVE_ARENA_ARRAY(&made->arena, cleave_byte_price, machine->n_kinds);
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
    made->padded = CLEAVE_ARENA_ARRAY(&made->arena, bool, model->n_nests);
    if (made->shares == NULL || made->entries == NULL || made->routes == NULL ||
        made->exchange.processor == NULL || made->exchange.n_sent == NULL ||
        made->exchange.links == NULL || made->exchange.seconds_per_byte == NULL ||
        made->padded == NULL || made->copy == NULL || made->load == NULL || made->update == NULL) {
        cleave_cost_cache_destroy(made);
        return cleave_fail_memory(error, "preparing costs");
    }
    for (int32_t k = 0; k < machine->n_kinds; k++) {
        made->copy[k] = cleave_byte_price_of(&machine->kinds[k], "copy");
        made->load[k] = cleave_byte_price_of(&machine->kinds[k], "load");
        made->update[k] = cleave_byte_price_of(&machine->kinds[k], "update");
    }
    for (int32_t l = 0; l < machine->n_links; l++)
        made->exchange.seconds_per_byte[l] = 1 / machine->links[l].bytes_per_second;
    for (int32_t n = 0; n < model->n_nests; n++)
        made->padded[n] = cleave_nest_is_padded(model, &model->nests[n]);
    *cache = made;
    return CLEAVE_OK;
}

static void free_rounds(known_rounds *known) {
    if (known != NULL)
        free(known->devices);
    free(known);
}

void cleave_cost_cache_destroy(cleave_cost_cache *cache) {
    if (cache == NULL)
        return;
    for (int k = 0; k < N_KNOWN_ROUNDS; k++)
        free_rounds(cache->known[k]);
    cleave_arena_free(&cache->arena);
    free(cache->entries);
    free(cache);
}

const cleave_machine *cleave_cost_cache_machine(const cleave_cost_cache *cache) {
    return cache->machine;
}

void cleave_cost_cache_load_data(cleave_cost_cache *cache) { cache->loads_data = true; }

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
        digest_add(&d, compute->part.hi[a] - compute->part.lo[a]);
    for (int i = 0; i < nest->n_inputs; i++)
        digest_padding(&d, cache->model, &nest->inputs[i], &compute->part);
    digest_padding(&d, cache->model, &nest->output, &compute->part);
    if (d.a == 0 && d.b == 0)
        d.a = 1;
    return d;
}

/* The entry of a digest, or the free one where it would go. */
static entry *find_entry(entry *entries, size_t capacity, digest d) {
    size_t at = d.a & (capacity - 1);
    while ((entries[at].index != 0 || entries[at].check != 0) &&
           (entries[at].index != d.a || entries[at].check != d.b))
        at = (at + 1) & (capacity - 1);
    return &entries[at];
}

static bool grow(cleave_cost_cache *cache) {
    size_t capacity = 2 * cache->capacity;
    entry *entries = calloc(capacity, sizeof *entries);
    if (entries == NULL)
        return false;
    for (size_t i = 0; i < cache->capacity; i++) {
        const entry *old = &cache->entries[i];
        if (old->index != 0 || old->check != 0)
            *find_entry(entries, capacity, (digest){old->index, old->check}) = *old;
    }
    free(cache->entries);
    cache->entries = entries;
    cache->capacity = capacity;
    return true;
}

/* The priced entry of a compute; null when memory is short. */
static const entry *price_compute(cleave_cost_cache *cache, const cleave_compute *compute) {
    digest d = digest_of(cache, compute);
    entry *found = find_entry(cache->entries, cache->capacity, d);
    if (found->index != 0 || found->check != 0)
        return found;
    if (2 * (cache->n_entries + 1) > cache->capacity) {
        if (!grow(cache))
            return NULL;
        found = find_entry(cache->entries, cache->capacity, d);
    }
    const cleave_machine *machine = cache->machine;
    cleave_work work;
    cleave_work_describe(cache->model, &cache->model->nests[compute->nest], compute->pass,
                         &compute->part, &work);
    *found = (entry){.index = d.a, .check = d.b};
    double seconds = find_price(&machine->kinds[machine->device_kind[compute->part.device]], &work,
                                &found->provenance, &found->source);
    found->picoseconds = cleave_picoseconds(seconds);
    found->family_fit =
        find_fit(&machine->kinds[machine->device_kind[compute->part.device]], work.family);
    cache->n_entries++;
    return found;
}

/* Neighbours mostly have equal extents; where nothing sticks out of its tensor they then have equal
   prices. */
static bool same_price(const cleave_cost_cache *cache, const cleave_compute *a,
                       const cleave_compute *b) {
    const int32_t *kind = cache->machine->device_kind;
    if (a->nest != b->nest || a->pass != b->pass || cache->padded[a->nest] ||
        kind[a->part.device] != kind[b->part.device])
        return false;
    for (int i = 0; i < cache->model->nests[a->nest].n_axes; i++)
        if (a->part.hi[i] - a->part.lo[i] != b->part.hi[i] - b->part.lo[i])
            return false;
    return true;
}

static int64_t bytes_picoseconds(cleave_byte_price price, double bytes) {
    return cleave_picoseconds(price.launch_seconds + price.seconds_per_byte * bytes);
}

static int64_t price_copy(cleave_byte_price price, const cleave_copy *copy) {
    if (copy->n_copies > 1)
        price.launch_seconds *= copy->n_copies;
    return bytes_picoseconds(price, (double)copy->bytes);
}

static int64_t price_update(const cleave_cost_cache *cache, const cleave_program *program,
                            const cleave_update *update, int32_t kind) {
    int n_states = (update->state[0] >= 0) + (update->state[1] >= 0);
    double bytes = cleave_work_bytes_of_update(program->buffers[update->parameter].bytes, n_states);
    return bytes_picoseconds(cache->update[kind], bytes);
}

/* Read once, written once. */
static int64_t price_load(const cleave_cost_cache *cache, const cleave_program *program,
                          const cleave_load *load, int32_t kind) {
    return bytes_picoseconds(cache->load[kind], 2 * (double)program->buffers[load->buffer].bytes);
}

const cleave_route_price *cleave_cost_route(cleave_cost_cache *cache, int32_t source,
                                            int32_t destination) {
    const cleave_machine *machine = cache->machine;
    size_t pair = (size_t)source * (size_t)machine->n_devices + (size_t)destination;
    cleave_route_price *at = &cache->routes[pair & (cache->n_routes - 1)];
    if (at->n_links > 0 && at->source == source && at->destination == destination)
        return at;
    *at = (cleave_route_price){.source = source, .destination = destination};
    at->n_links = cleave_machine_route(machine, source, destination, at->links);
    for (int32_t l = 0; l < at->n_links; l++) {
        const cleave_link *link = &machine->links[at->links[l]];
        at->overhead_seconds = fmax(at->overhead_seconds, link->overhead_seconds);
        at->overhead_seconds_per_byte =
            fmax(at->overhead_seconds_per_byte, link->overhead_seconds_per_byte);
        if (l == 0 || link->protocol.receiving.large > at->protocol->receiving.large)
            at->protocol = &link->protocol;
        at->latency_seconds += link->latency_seconds;
    }
    return at;
}

static int64_t price_post(cleave_cost_cache *cache, const cleave_message *message) {
    const cleave_route_price *route =
        cleave_cost_route(cache, message->source, message->destination);
    return cleave_picoseconds(route->overhead_seconds +
                              route->overhead_seconds_per_byte * (double)message->bytes);
}

static bool is_like(const cleave_collective *a, const cleave_collective *b,
                    const int32_t *b_devices) {
    return a->kind == b->kind && a->algorithm == b->algorithm &&
           a->node_members == b->node_members && a->n_devices == b->n_devices &&
           memcmp(a->devices, b_devices, (size_t)a->n_devices * sizeof *b_devices) == 0;
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
    known_rounds **at = &cache->known[hash % N_KNOWN_ROUNDS], *known = *at;
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
    *cost = cleave_collective_rounds_price(&known->rounds, collective->bytes);
    return CLEAVE_OK;
}

const cleave_exchange_price *cleave_cost_cache_exchange(cleave_cost_cache *cache,
                                                        const cleave_collective *collective) {
    cleave_exchange_price_find(cache, collective, cache->copy, &cache->exchange);
    return &cache->exchange;
}

static cleave_status price_join(cleave_cost_cache *cache, const cleave_collective *collective,
                                cleave_collective_cost *join, cleave_error *error) {
    *join = (cleave_collective_cost){0};
    return collective->kind == CLEAVE_ALL_TO_ALL
               ? CLEAVE_OK
               : cleave_cost_cache_collective(cache, collective, join, error);
}

static cleave_status check_fits(const cleave_program *program, const cleave_cost_cache *cache,
                                cleave_error *error) {
    if (program->model != cache->model)
        return cleave_fail(error, CLEAVE_FAILED, "the costs are of another model");
    if (program->n_devices > cache->machine->n_devices)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "the layout is for %d devices, and the machine \"%s\" has %d",
                           program->n_devices, cache->machine->name, cache->machine->n_devices);
    return CLEAVE_OK;
}

cleave_status cleave_cost_items(const cleave_program *program, cleave_cost_cache *cache,
                                int64_t *duration, cleave_error *error) {
    CLEAVE_TRY(check_fits(program, cache, error));
    int32_t joined = -1; /* the JOIN items of a collective come together: price it once */
    cleave_collective_cost join = {0};
    const cleave_compute *compute, *before = NULL;
    const entry *price = NULL;
    for (int32_t i = 0; i < program->n_items; i++) {
        const cleave_item *item = &program->items[i];
        int32_t kind = cache->machine->device_kind[item->device];
        duration[i] = 0;
        switch ((cleave_item_kind)item->kind) {
        case CLEAVE_ITEM_COMPUTE:
            compute = &program->computes[item->subject];
            if (before == NULL || !same_price(cache, before, compute))
                price = price_compute(cache, compute);
            before = compute;
            if (price == NULL)
                return cleave_fail_memory(error, "pricing a program");
            duration[i] = price->picoseconds;
            break;
        case CLEAVE_ITEM_UPDATE:
            duration[i] = price_update(cache, program, &program->updates[item->subject], kind);
            break;
        case CLEAVE_ITEM_LOAD:
            if (cache->loads_data)
                duration[i] = price_load(cache, program, &program->loads[item->subject], kind);
            break;
        case CLEAVE_ITEM_COPY:
            duration[i] = price_copy(cache->copy[kind], &program->copies[item->subject]);
            break;
        case CLEAVE_ITEM_SEND:
        case CLEAVE_ITEM_RECEIVE:
            duration[i] = price_post(cache, &program->messages[item->subject]);
            break;
        case CLEAVE_ITEM_JOIN:
            if (item->subject != joined)
                CLEAVE_TRY(price_join(cache, &program->collectives[item->subject], &join, error));
            joined = item->subject;
            duration[i] = join.processor;
            break;
        case CLEAVE_ITEM_WAIT:
        case CLEAVE_ITEM_SYNC:
        case CLEAVE_ITEM_AWAIT:
            break;
        }
    }
    return CLEAVE_OK;
}

/* Sources are numbered over all kinds: the kernels of a kind, then its fits, then the next kind. */
static int32_t number_source(const cleave_machine *machine, int32_t kind,
                             cleave_provenance provenance, int32_t source) {
    if (source < 0)
        return -1;
    for (int32_t k = 0; k < kind; k++)
        source += machine->kinds[k].n_kernels + machine->kinds[k].n_fits;
    return provenance == CLEAVE_PROVENANCE_PREDICTED ? source + machine->kinds[kind].n_kernels
                                                     : source;
}

int32_t cleave_cost_n_sources(const cleave_cost_cache *cache) {
    int64_t n = 0;
    for (int32_t k = 0; k < cache->machine->n_kinds; k++)
        n += cache->machine->kinds[k].n_kernels + cache->machine->kinds[k].n_fits;
    return (int32_t)n;
}

static cleave_price_basis basis_of_compute(const cleave_cost_cache *cache, const entry *price,
                                           int32_t kind) {
    const cleave_device_kind *k = &cache->machine->kinds[kind];
    double spread =
        price->provenance == CLEAVE_PROVENANCE_MEASURED    ? k->kernels[price->source].spread
        : price->provenance == CLEAVE_PROVENANCE_PREDICTED ? k->fits[price->source].spread
                                                           : 0;
    return (cleave_price_basis){
        price->provenance, number_source(cache->machine, kind, price->provenance, price->source),
        spread};
}

static cleave_price_basis basis_of_bytes(const cleave_cost_cache *cache, cleave_byte_price price,
                                         int32_t kind) {
    if (price.fit < 0)
        return (cleave_price_basis){CLEAVE_PROVENANCE_DATA_SHEET, -1, 0};
    return (cleave_price_basis){
        CLEAVE_PROVENANCE_PREDICTED,
        number_source(cache->machine, kind, CLEAVE_PROVENANCE_PREDICTED, price.fit),
        cache->machine->kinds[kind].fits[price.fit].spread};
}

/* A machine file does not say where the figures of a link come from; calibration measures links
   together with the kernels of the devices that they join. */
cleave_provenance cleave_cost_link_provenance(const cleave_machine *machine, int32_t source,
                                              int32_t destination) {
    const int32_t *kind = machine->device_kind;
    bool calibrated =
        machine->kinds[kind[source]].n_fits > 0 && machine->kinds[kind[destination]].n_fits > 0;
    return calibrated ? CLEAVE_PROVENANCE_MEASURED : CLEAVE_PROVENANCE_DATA_SHEET;
}

static cleave_price_basis basis_of_links(const cleave_cost_cache *cache, int32_t source,
                                         int32_t destination) {
    return (cleave_price_basis){cleave_cost_link_provenance(cache->machine, source, destination),
                                -1, 0};
}

cleave_status cleave_cost_basis(const cleave_program *program, cleave_cost_cache *cache,
                                cleave_price_basis *basis, cleave_error *error) {
    CLEAVE_TRY(check_fits(program, cache, error));
    for (int32_t i = 0; i < program->n_items; i++) {
        const cleave_item *item = &program->items[i];
        int32_t kind = cache->machine->device_kind[item->device];
        const cleave_message *message;
        const entry *price;
        switch ((cleave_item_kind)item->kind) {
        case CLEAVE_ITEM_COMPUTE:
            price = price_compute(cache, &program->computes[item->subject]);
            if (price == NULL)
                return cleave_fail_memory(error, "pricing a program");
            basis[i] = basis_of_compute(cache, price, kind);
            break;
        case CLEAVE_ITEM_UPDATE:
            basis[i] = basis_of_bytes(cache, cache->update[kind], kind);
            break;
        case CLEAVE_ITEM_LOAD:
            basis[i] = basis_of_bytes(cache, cache->load[kind], kind);
            break;
        case CLEAVE_ITEM_COPY:
            basis[i] = basis_of_bytes(cache, cache->copy[kind], kind);
            break;
        case CLEAVE_ITEM_SEND:
        case CLEAVE_ITEM_RECEIVE:
        case CLEAVE_ITEM_WAIT:
            message = &program->messages[item->subject];
            basis[i] = basis_of_links(cache, message->source, message->destination);
            break;
        case CLEAVE_ITEM_JOIN:
        case CLEAVE_ITEM_AWAIT:
        case CLEAVE_ITEM_SYNC:
            basis[i] = basis_of_links(cache, item->device, item->device);
        }
    }
    return CLEAVE_OK;
}

bool cleave_cost_knows_neighbours(const cleave_cost_cache *cache) {
    const cleave_machine *machine = cache->machine;
    for (int32_t l = 0; l < machine->n_links; l++) {
        const cleave_polls *receiving = &machine->links[l].protocol.receiving;
        if (receiving->small > 0 || receiving->large > 0 || receiving->per_byte > 0)
            return true;
    }
    for (int32_t k = 0; k < machine->n_kinds; k++)
        for (int32_t f = 0; f < machine->kinds[k].n_fits; f++)
            if (machine->kinds[k].fits[f].alone > 0)
                return true;
    return false;
}

static float alone_of_fit(const cleave_device_kind *kind, int32_t fit) {
    return fit >= 0 && kind->fits[fit].alone > 0 ? (float)kind->fits[fit].alone : 1;
}

cleave_status cleave_cost_alone(const cleave_program *program, cleave_cost_cache *cache,
                                float *alone, cleave_error *error) {
    CLEAVE_TRY(check_fits(program, cache, error));
    for (int32_t i = 0; i < program->n_items; i++) {
        const cleave_item *item = &program->items[i];
        int32_t kind_id = cache->machine->device_kind[item->device];
        const cleave_device_kind *kind = &cache->machine->kinds[kind_id];
        const entry *price;
        alone[i] = 1;
        switch ((cleave_item_kind)item->kind) {
        case CLEAVE_ITEM_COMPUTE:
            price = price_compute(cache, &program->computes[item->subject]);
            if (price == NULL)
                return cleave_fail_memory(error, "pricing a program");
            alone[i] = alone_of_fit(kind, price->family_fit);
            break;
        case CLEAVE_ITEM_UPDATE:
            alone[i] = alone_of_fit(kind, cache->update[kind_id].fit);
            break;
        case CLEAVE_ITEM_COPY:
            alone[i] = alone_of_fit(kind, cache->copy[kind_id].fit);
            break;
        default:
            break;
        }
    }
    return CLEAVE_OK;
}

/* On the safe side: as much as any kernel of the family takes, and more in proportion for work that
   is larger than any known. */
static int64_t predict_workspace(const cleave_device_kind *kind, const cleave_work *work) {
    int32_t known = find_fit(kind, work->family);
    if (known < 0)
        return 0;
    const cleave_family_fit *fit = &kind->fits[known];
    double growth = work->bytes > fit->largest_bytes && fit->largest_bytes > 0
                        ? work->bytes / fit->largest_bytes
                        : 1;
    return (int64_t)fmin(ceil(growth * (double)fit->workspace_bytes), 0x1p62);
}

int64_t cleave_cost_workspace(void *machine, const cleave_model *model, const cleave_nest *nest,
                              cleave_pass pass, const cleave_part *part) {
    const cleave_machine *m = machine;
    if (part->device < 0 || part->device >= m->n_devices)
        return 0;
    const cleave_device_kind *kind = &m->kinds[m->device_kind[part->device]];
    if (kind->n_kernels == 0)
        return 0;
    cleave_work work;
    cleave_work_describe(model, nest, pass, part, &work);
    const cleave_kernel_time *kernel = cleave_device_kind_find_kernel(kind, work.key);
    return kernel != NULL ? kernel->workspace_bytes : predict_workspace(kind, &work);
}
