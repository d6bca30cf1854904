#include "simulator/step/fragment_memory.h"

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
    return join(join(key, memory->family_digest[place].a), memory->family_digest[place].b);
}

void fragment_memory_set_split(fragment_memory *memory, int32_t op, fragment_digest digest) {
    int32_t n;
    const int32_t *families = cleave_lowerer_families_of(memory->lowerer, op, &n);
    const fragment_digest of = {(uint64_t)op, (uint64_t)op},
                          before = join(join(of, memory->split_digest[op].a),
                                        memory->split_digest[op].b),
                          now = join(join(of, digest.a), digest.b);
    for (int32_t i = 0; i < n; i++) {
        memory->family_digest[families[i]].a += now.a - before.a;
        memory->family_digest[families[i]].b += now.b - before.b;
    }
    memory->split_digest[op] = digest;
}

static fragment_digest price_key_of(const fragment_memory *memory, int32_t place) {
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
    return &memory->prices[key.a & (uint64_t)(memory->prices_size - 1)];
}

static void release_price(fragment_memory *memory, shared_price *price) {
    if (price == NULL || --price->uses > 0)
        return;
    shared_price **at = price_bucket_of(memory, price->key);
    while (*at != price)
        at = &(*at)->next;
    *at = price->next;
    memory->n_prices--;
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
            memory->n_remembered--;
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

/* Tables stay as they are where memory is short: then more share a bucket. */
static void grow_table(fragment_memory *memory) {
    remembered_fragment **table, **old = memory->table;
    int32_t size = memory->table_size;
    if (memory->n_remembered < size || size > INT32_MAX / 2 ||
        (table = calloc(2 * (size_t)size, sizeof(remembered_fragment *))) == NULL)
        return;
    memory->table = table;
    memory->table_size = 2 * size;
    for (int32_t b = 0; b < size; b++)
        for (remembered_fragment *m = old[b], *next; m != NULL; m = next) {
            next = m->next;
            m->next = *bucket_of(memory, m->key);
            *bucket_of(memory, m->key) = m;
        }
    free(old);
}

static void grow_prices(fragment_memory *memory) {
    shared_price **prices, **old = memory->prices;
    int32_t size = memory->prices_size;
    if (memory->n_prices < size || size > INT32_MAX / 2 ||
        (prices = calloc(2 * (size_t)size, sizeof(shared_price *))) == NULL)
        return;
    memory->prices = prices;
    memory->prices_size = 2 * size;
    for (int32_t b = 0; b < size; b++)
        for (shared_price *p = old[b], *next; p != NULL; p = next) {
            next = p->next;
            p->next = *price_bucket_of(memory, p->key);
            *price_bucket_of(memory, p->key) = p;
        }
    free(old);
}

static void number_links(const fragment_memory *memory, cleave_priced_fragment *priced) {
    int32_t n_hops = priced->hop_start[priced->n_messages],
            n_links = priced->collective_link_start[priced->n_collectives];
    for (int32_t h = 0; h < n_hops; h++)
        priced->hop_link[h] = memory->link_number[priced->hop_link[h]];
    for (int32_t l = 0; l < n_links; l++)
        priced->collective_links[l] = memory->link_number[priced->collective_links[l]];
}

static cleave_status price_family(fragment_memory *memory, int32_t family,
                                  cleave_fragment_price **price, cleave_error *error) {
    cleave_fragment fragment;
    CLEAVE_TRY(cleave_lowerer_family(memory->lowerer, family, &fragment, error));
    return cleave_price_fragment(&fragment, memory->cache, memory->image, &memory->scratch, price,
                                 error);
}

static cleave_status make_fragment(fragment_memory *memory, int32_t place,
                                   cleave_fragment_price **price, cleave_error *error) {
    if (place >= memory->n_families)
        return cleave_price_computes(memory->lowerer, place - memory->n_families, memory->cache,
                                     &memory->scratch, price, error);
    if (cleave_lowerer_members(memory->lowerer, place) > 0)
        CLEAVE_TRY(member_memory_price(&memory->members, place, &memory->scratch, price, error));
    else
        CLEAVE_TRY(price_family(memory, place, price, error));
    if (memory->link_number != NULL)
        number_links(memory, &(*price)->priced);
    return CLEAVE_OK;
}

/* Slots become their numbers among those that the place may name. */
static void number_slots(const fragment_memory *memory, int32_t place,
                         cleave_fragment_price *price) {
    const int32_t *slots = memory->alike.slots[place];
    int32_t *number = memory->slot_number;
    for (int32_t i = 0; i < memory->alike.n_slots[place]; i++)
        number[slots[i]] = i;
    for (int32_t c = 0; c < price->priced.n_chunks; c++)
        price->priced.chunks[c].slot = number[price->priced.chunks[c].slot];
    for (int32_t i = 0; i < price->n_live; i++)
        cleave_life_renumber(&price->live[i], number);
}

/* Remembered of any place that is alike, or made. */
static cleave_status find_price(fragment_memory *memory, int32_t place, shared_price **found,
                                cleave_error *error) {
    fragment_digest key = price_key_of(memory, place);
    for (shared_price *p = *price_bucket_of(memory, key); p != NULL; p = p->next)
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
    grow_prices(memory);
    made->next = *price_bucket_of(memory, key);
    *price_bucket_of(memory, key) = made;
    memory->n_prices++;
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

static cleave_status make(fragment_memory *memory, int32_t place, fragment_digest key,
                          remembered_fragment **found, cleave_error *error) {
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
    grow_table(memory);
    made->key = key;
    made->place = place;
    made->price_bytes = made->shared->price->size;
    made->next = *bucket_of(memory, key);
    *bucket_of(memory, key) = made;
    memory->n_remembered++;
    memory->remembered_bytes += cleave_delta_made_bytes(made->made);
    *found = made;
    return CLEAVE_OK;
}

static cleave_status find(fragment_memory *memory, int32_t place, fragment_digest key,
                          remembered_fragment **found, cleave_error *error) {
    remembered_fragment *m = *bucket_of(memory, key);
    while (m != NULL && !same(m->key, key))
        m = m->next;
    if (m == NULL)
        CLEAVE_TRY(make(memory, place, key, &m, error));
    __builtin_prefetch(m->made);
    memory->counts.fragments++;
    memory->counts.bytes += (int64_t)m->price_bytes;
    *found = m;
    return CLEAVE_OK;
}

/* Buckets, and what is in them, are fetched before any is looked at. */
cleave_status fragment_memory_find(fragment_memory *memory, int32_t n, const int32_t *places,
                                   remembered_list *found, cleave_error *error) {
    memory->wanted.n = 0;
    for (int32_t i = 0; i < n; i++) {
        fragment_digest key = key_of(memory, places[i], places[i]);
        if (!CLEAVE_LIST_PUSH(&memory->wanted, key))
            return cleave_fail_memory(error, "estimating");
        __builtin_prefetch(bucket_of(memory, key));
    }
    for (int32_t i = 0; i < n; i++)
        __builtin_prefetch(*bucket_of(memory, memory->wanted.items[i]));
    for (int32_t i = 0; i < n; i++) {
        remembered_fragment *m;
        CLEAVE_TRY(find(memory, places[i], memory->wanted.items[i], &m, error));
        if (!CLEAVE_LIST_PUSH(found, m))
            return cleave_fail_memory(error, "estimating");
        m->uses++;
    }
    return CLEAVE_OK;
}

/* ---- life ------------------------------------------------------------------------------------ */

cleave_status fragment_memory_begin(fragment_memory *memory, cleave_error *error) {
    memory->table_size = memory->prices_size = 1 << 12;
    memory->room_bytes = most_remembered_bytes;
    memory->split_digest =
        calloc((size_t)memory->model->n_operators + 1, sizeof *memory->split_digest);
    memory->family_digest = calloc((size_t)memory->n_families + 1, sizeof *memory->family_digest);
    memory->shard_digest = calloc((size_t)memory->n_families + 1, sizeof *memory->shard_digest);
    memory->slot_number =
        calloc((size_t)cleave_lowerer_n_slots(memory->lowerer) + 1, sizeof *memory->slot_number);
    memory->table = calloc((size_t)memory->table_size, sizeof(remembered_fragment *));
    memory->prices = calloc((size_t)memory->prices_size, sizeof(shared_price *));
    if (memory->split_digest == NULL || memory->family_digest == NULL ||
        memory->shard_digest == NULL || memory->slot_number == NULL || memory->table == NULL ||
        memory->prices == NULL)
        return cleave_fail_memory(error, "estimating");
    memory->members = (member_memory){.lowerer = memory->lowerer,
                                      .cache = memory->cache,
                                      .image = memory->image,
                                      .n_families = memory->n_families};
    CLEAVE_TRY(member_memory_begin(&memory->members, error));
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
    CLEAVE_LIST_FREE(&memory->wanted);
    free(memory->chunks);
    free(memory->split_digest);
    free(memory->shard_digest);
    free(memory->slot_number);
    free(memory->family_digest);
    member_memory_free(&memory->members);
    cleave_arena_free(&memory->scratch);
    cleave_arena_free(&memory->lasting);
}
