#include "simulator/fragment_memory.h"

#include "base/random.h"

#include <stdlib.h>

/* What fragments may take: at first, enough for the candidates of a large model.  Where fewer than
   one in `worth_remembering` comes back before the room is full, less room will do, and that stays
   in the caches. */
static const size_t most_remembered_bytes = (size_t)128 << 20,
                    least_remembered_bytes = (size_t)4 << 20;
static const int64_t worth_remembering = 32;

/* ---- what a fragment follows from ------------------------------------------------------------ */

static fragment_digest join(fragment_digest d, uint64_t value) {
    d.a = cleave_hash_join(d.a, value);
    d.b = (d.b ^ value) * UINT64_C(0x9ddfea08eb382d69);
    d.b ^= d.b >> 29;
    return d;
}

static bool same(fragment_digest x, fragment_digest y) { return x.a == y.a && x.b == y.b; }

fragment_digest fragment_digest_of_split(const cleave_split *split) {
    fragment_digest d = join((fragment_digest){1, 1}, (uint64_t)split->replicas);
    for (int a = 0; a < CLEAVE_MAX_AXES; a++)
        d = join(d, (uint64_t)split->degree[a]);
    for (int32_t p = 0; p < split->n_parts; p++)
        d = join(d, (uint64_t)split->devices[p]);
    return d;
}

/* Of a place, or of all that are like the place `like`. */
static fragment_digest key_of(const fragment_memory *memory, int32_t place, int32_t like) {
    fragment_digest key = join((fragment_digest){1, 1}, (uint64_t)like);
    if (place >= memory->n_families)
        return join(key,
                    memory->split_digest[memory->model->nests[place - memory->n_families].op].a ^
                        memory->split_digest[memory->model->nests[place - memory->n_families].op].b
                            << 1);
    key = join(key, memory->shard_digest[place]);
    for (int32_t i = memory->first_op[place]; i < memory->first_op[place + 1]; i++)
        key = join(join(key, memory->split_digest[memory->ops[i]].a),
                   memory->split_digest[memory->ops[i]].b);
    return key;
}

/* What a window is the first of depends on more than the splits of a family. */
static fragment_digest price_key_of(const fragment_memory *memory, int32_t place) {
    if (memory->folds)
        return key_of(memory, place, place);
    if (place >= memory->n_families)
        return key_of(memory, place, memory->alike.like[place]);
    uint64_t hash[2];
    cleave_lowerer_boxes(memory->lowerer, place, hash);
    fragment_digest key =
        join((fragment_digest){2, 2}, (uint64_t)memory->alike.like_by_boxes[place]);
    return join(join(key, hash[0]), hash[1]);
}

/* ---- forgetting ------------------------------------------------------------------------------ */

static remembered_fragment **bucket_of(const fragment_memory *memory, fragment_digest key) {
    return &memory->table[key.a & (uint64_t)(memory->table_size - 1)];
}

static shared_price **price_bucket_of(const fragment_memory *memory, fragment_digest key) {
    return &memory->prices[key.a & (uint64_t)(memory->table_size - 1)];
}

static void release_price(fragment_memory *memory, shared_price *price) {
    if (price == NULL || --price->uses > 0)
        return;
    shared_price **at = price_bucket_of(memory, price->key);
    while (*at != price)
        at = &(*at)->next;
    *at = price->next;
    memory->remembered_bytes -= price->price->size;
    free(price->price);
    free(price);
}

static void release(fragment_memory *memory, remembered_fragment *m) {
    cleave_delta_unmake(m->made);
    release_price(memory, m->shared);
    free(m);
}

/* Forgets what is not in use. */
static void forget(fragment_memory *memory) {
    for (int32_t b = 0; b < memory->table_size; b++)
        for (remembered_fragment **at = &memory->table[b]; *at != NULL;) {
            remembered_fragment *m = *at;
            if (m->uses > 0) {
                at = &m->next;
                continue;
            }
            *at = m->next;
            memory->remembered_bytes -= cleave_delta_made_bytes(m->made);
            release(memory, m);
        }
    int64_t fragments = memory->counts.fragments - memory->counted.fragments;
    int64_t found = fragments - (memory->counts.made - memory->counted.made);
    if (found < fragments / worth_remembering && memory->room_bytes > least_remembered_bytes)
        memory->room_bytes /= 2;
    /* Where much is in use, there is room for as much again. */
    if (memory->room_bytes < 2 * memory->remembered_bytes)
        memory->room_bytes = 2 * memory->remembered_bytes;
    memory->counted = memory->counts;
}

/* ---- remembering ----------------------------------------------------------------------------- */

static void number_links(const fragment_memory *memory, cleave_priced_fragment *priced) {
    int32_t n_hops = priced->hop_start[priced->n_messages],
            n_links = priced->collective_link_start[priced->n_collectives];
    for (int32_t h = 0; h < n_hops; h++)
        priced->hop_link[h] = memory->link_number[priced->hop_link[h]];
    for (int32_t l = 0; l < n_links; l++)
        priced->collective_links[l] = memory->link_number[priced->collective_links[l]];
}

static cleave_status make_fragment(fragment_memory *memory, int32_t place,
                                   cleave_fragment_price **price, cleave_error *error) {
    if (place >= memory->n_families)
        return cleave_price_computes(memory->lowerer, place - memory->n_families, memory->cache,
                                     memory->n_devices, &memory->scratch, price, error);
    cleave_fragment fragment;
    CLEAVE_TRY(cleave_lowerer_family(memory->lowerer, place, &fragment, error));
    CLEAVE_TRY(cleave_price_fragment(&fragment, memory->cache, memory->image, &memory->scratch,
                                     price, error));
    if (memory->link_number != NULL)
        number_links(memory, &(*price)->priced);
    return CLEAVE_OK;
}

/* The number of a slot among those that its place may name. */
static int32_t number_of(const fragment_memory *memory, int32_t place, int32_t slot) {
    const int32_t *slots = memory->alike.slots[place];
    int32_t low = 0, n = memory->alike.n_slots[place];
    while (n > 0) {
        int32_t half = n / 2;
        bool before = slots[low + half] < slot;
        low = before ? low + half + 1 : low;
        n = before ? n - half - 1 : half;
    }
    return low;
}

static void number_slots(const fragment_memory *memory, int32_t place,
                         cleave_fragment_price *price) {
    for (int32_t c = 0; c < price->priced.n_chunks; c++)
        price->priced.chunks[c].slot = number_of(memory, place, price->priced.chunks[c].slot);
    for (int32_t i = 0; i < price->n_live; i++) {
        price->live[i].first = number_of(memory, place, price->live[i].first);
        price->live[i].last = number_of(memory, place, price->live[i].last);
    }
}

/* Remembered of any place that is alike, or made. */
static cleave_status find_price(fragment_memory *memory, int32_t place, shared_price **found,
                                cleave_error *error) {
    fragment_digest key = price_key_of(memory, place);
    shared_price **bucket = price_bucket_of(memory, key);
    for (shared_price *p = *bucket; p != NULL; p = p->next)
        if (same(p->key, key)) {
            p->uses++;
            *found = p;
            return CLEAVE_OK;
        }
    shared_price *made = calloc(1, sizeof *made);
    if (made == NULL)
        return cleave_fail_memory(error, "estimating");
    cleave_status status = make_fragment(memory, place, &made->price, error);
    if (status != CLEAVE_OK) {
        free(made);
        return status;
    }
    number_slots(memory, place, made->price);
    made->key = key;
    made->uses = 1;
    made->next = *bucket;
    *bucket = made;
    memory->remembered_bytes += made->price->size;
    memory->counts.made++;
    *found = made;
    return CLEAVE_OK;
}

/* Makes a fragment ready for its place: in the slots of that. */
static cleave_status make_ready(fragment_memory *memory, int32_t place, remembered_fragment *m,
                                cleave_error *error) {
    cleave_priced_fragment priced = m->shared->price->priced;
    if (priced.n_chunks > memory->room_chunks) {
        free(memory->chunks);
        memory->room_chunks = 2 * priced.n_chunks;
        memory->chunks = malloc((size_t)memory->room_chunks * sizeof *memory->chunks);
        if (memory->chunks == NULL) {
            memory->room_chunks = 0;
            return cleave_fail_memory(error, "estimating");
        }
    }
    for (int32_t c = 0; c < priced.n_chunks; c++) {
        memory->chunks[c] = priced.chunks[c];
        memory->chunks[c].slot = memory->alike.slots[place][priced.chunks[c].slot];
    }
    priced.chunks = memory->chunks;
    return cleave_delta_make(memory->delta, place, &priced, &m->made, error);
}

cleave_status fragment_memory_find(fragment_memory *memory, int32_t place,
                                   remembered_fragment **found, cleave_error *error) {
    fragment_digest key = key_of(memory, place, place);
    memory->counts.fragments++;
    for (remembered_fragment *m = *bucket_of(memory, key); m != NULL; m = m->next)
        if (same(m->key, key)) {
            memory->counts.bytes += (int64_t)m->shared->price->size;
            *found = m;
            return CLEAVE_OK;
        }
    if (memory->remembered_bytes > memory->room_bytes)
        forget(memory);
    remembered_fragment *made = calloc(1, sizeof *made);
    if (made == NULL)
        return cleave_fail_memory(error, "estimating");
    cleave_status status = find_price(memory, place, &made->shared, error);
    if (status == CLEAVE_OK)
        status = make_ready(memory, place, made, error);
    if (status != CLEAVE_OK) {
        release(memory, made);
        return status;
    }
    made->key = key;
    made->place = place;
    made->next = *bucket_of(memory, key);
    *bucket_of(memory, key) = made;
    memory->remembered_bytes += cleave_delta_made_bytes(made->made);
    memory->counts.bytes += (int64_t)made->shared->price->size;
    *found = made;
    return CLEAVE_OK;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Which operators touch which family. */
static cleave_status index_operators(fragment_memory *memory, cleave_error *error) {
    int32_t n, total = 0;
    memory->first_op = calloc((size_t)memory->n_families + 2, sizeof *memory->first_op);
    for (int32_t op = 0; op < memory->model->n_operators && memory->first_op != NULL; op++) {
        const int32_t *families = cleave_lowerer_families_of(memory->lowerer, op, &n);
        for (int32_t i = 0; i < n; i++)
            memory->first_op[families[i] + 2]++;
        total += n;
    }
    memory->ops = calloc((size_t)total + 1, sizeof *memory->ops);
    if (memory->first_op == NULL || memory->ops == NULL)
        return cleave_fail_memory(error, "estimating");
    for (int32_t f = 0; f <= memory->n_families; f++)
        memory->first_op[f + 1] += memory->first_op[f];
    for (int32_t op = 0; op < memory->model->n_operators; op++) {
        const int32_t *families = cleave_lowerer_families_of(memory->lowerer, op, &n);
        for (int32_t i = 0; i < n; i++)
            memory->ops[memory->first_op[families[i] + 1]++] = op;
    }
    return CLEAVE_OK;
}

cleave_status fragment_memory_begin(fragment_memory *memory, cleave_error *error) {
    memory->table_size = 1 << 14;
    memory->room_bytes = most_remembered_bytes;
    memory->split_digest =
        calloc((size_t)memory->model->n_operators + 1, sizeof *memory->split_digest);
    memory->shard_digest = calloc((size_t)memory->n_families + 1, sizeof *memory->shard_digest);
    memory->table = calloc((size_t)memory->table_size, sizeof(remembered_fragment *));
    memory->prices = calloc((size_t)memory->table_size, sizeof(shared_price *));
    if (memory->split_digest == NULL || memory->shard_digest == NULL || memory->table == NULL ||
        memory->prices == NULL)
        return cleave_fail_memory(error, "estimating");
    CLEAVE_TRY(index_operators(memory, error));
    return cleave_lowerer_alike(memory->lowerer, &memory->lasting, &memory->alike, error);
}

void fragment_memory_free(fragment_memory *memory) {
    for (int32_t b = 0; memory->table != NULL && b < memory->table_size; b++)
        for (remembered_fragment *m = memory->table[b], *next; m != NULL; m = next) {
            next = m->next;
            release(memory, m);
        }
    free(memory->table);
    free(memory->prices);
    free(memory->chunks);
    free(memory->split_digest);
    free(memory->shard_digest);
    free(memory->first_op);
    free(memory->ops);
    cleave_arena_free(&memory->scratch);
    cleave_arena_free(&memory->lasting);
}
