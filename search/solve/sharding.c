#include "search/solve/sharding.h"

#include "base/order.h"
#include "base/random.h"
#include "graph/model/precision.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_GRID = 1 << 14 };

/* A device, the shard that it has, and its key there. */
typedef struct place {
    int32_t shard, key, device;
} place;

static int by_shard(const void *a, const void *b) {
    const place *x = a, *y = b;
    CLEAVE_ORDER_BY(x->shard, y->shard);
    CLEAVE_ORDER_BY(x->key, y->key);
    return CLEAVE_ORDER(x->device, y->device);
}

typedef struct shard_key {
    int32_t shard, key;
    uint64_t value;
} shard_key;

typedef struct making {
    const cleave_shard_entry *entries;
    cleave_sharding *s;
    int32_t n_slots, *slots; /* open addressing: index + 1 */
    int32_t n_keys;
    shard_key *keys; /* [n_devices] distinct pairs of shard and key */
    place *places;
} making;

static int32_t find_shard(making *m, const cleave_box *box) {
    cleave_sharding *s = m->s;
    uint32_t mask = (uint32_t)m->n_slots - 1;
    for (uint32_t at = (uint32_t)cleave_box_hash(s->rank, box) & mask;; at = (at + 1) & mask) {
        if (m->slots[at] == 0) {
            s->shards[s->n_shards].box = *box;
            m->slots[at] = ++s->n_shards;
        }
        if (cleave_box_equal(s->rank, &s->shards[m->slots[at] - 1].box, box))
            return m->slots[at] - 1;
    }
}

static int32_t find_key(making *m, int32_t shard, uint64_t value) {
    uint32_t mask = (uint32_t)m->n_slots - 1;
    uint32_t at = (uint32_t)cleave_hash_join((uint64_t)shard, value) & mask;
    for (;; at = (at + 1) & mask) {
        if (m->slots[at] == 0) {
            m->keys[m->n_keys].shard = shard;
            m->keys[m->n_keys].key = m->s->shards[shard].n_keys++;
            m->keys[m->n_keys].value = value;
            m->slots[at] = ++m->n_keys;
        }
        int32_t i = m->slots[at] - 1;
        if (m->keys[i].shard == shard && m->keys[i].value == value)
            return m->keys[i].key;
    }
}

/* Shards, keys and members. */
static void list_members(making *m) {
    cleave_sharding *s = m->s;
    for (int32_t d = 0; d < s->n_devices; d++) {
        s->shard_of[d] = -1;
        if (m->entries[d].n_elements == 0)
            continue;
        s->shard_of[d] = find_shard(m, &m->entries[d].box);
        s->last_device = d;
    }
    memset(m->slots, 0, (size_t)m->n_slots * sizeof *m->slots);
    for (int32_t d = 0; d < s->n_devices; d++)
        if (s->shard_of[d] >= 0)
            m->places[s->n_members++] =
                (place){s->shard_of[d], find_key(m, s->shard_of[d], m->entries[d].key), d};
    bool sorted = true; /* as most are */
    for (int32_t i = 1; i < s->n_members && sorted; i++)
        sorted = by_shard(&m->places[i - 1], &m->places[i]) < 0;
    if (!sorted)
        CLEAVE_SORT(m->places, s->n_members, by_shard);
    for (int32_t i = 0; i < s->n_members; i++) {
        cleave_shard *shard = &s->shards[m->places[i].shard];
        if (shard->n_members++ == 0)
            shard->first_member = i;
        s->rank_of[m->places[i].device] = shard->n_members - 1;
        s->members[i] = (cleave_shard_member){m->places[i].device, m->places[i].key};
    }
    while (s->first_device < s->n_devices - 1 && s->shard_of[s->first_device] < 0)
        s->first_device++;
}

static int by_range(const void *a, const void *b) {
    const cleave_range *x = a, *y = b;
    CLEAVE_ORDER_BY(x->lo, y->lo);
    return CLEAVE_ORDER(x->hi, y->hi);
}

static bool find_ranges(cleave_sharding *s, int d, cleave_arena *arena) {
    cleave_range *ranges = CLEAVE_ARENA_ARRAY(arena, cleave_range, s->n_shards);
    if (ranges == NULL)
        return false;
    int32_t n_listed = 0, n = 0;
    for (int32_t i = 0; i < s->n_shards; i++) {
        const cleave_range own = {s->shards[i].box.lo[d], s->shards[i].box.hi[d]};
        if (n_listed == 0 || by_range(&ranges[n_listed - 1], &own) != 0)
            ranges[n_listed++] = own;
    }
    CLEAVE_SORT(ranges, n_listed, by_range);
    for (int32_t i = 0; i < n_listed; i++)
        if (n == 0 || by_range(&ranges[n - 1], &ranges[i]) != 0)
            ranges[n++] = ranges[i];
    s->tiles[d] = true;
    for (int32_t i = 1; i < n; i++) {
        s->overlaps = s->overlaps || ranges[i].lo < ranges[i - 1].hi;
        s->tiles[d] = s->tiles[d] && ranges[i].lo == ranges[i - 1].hi;
    }
    for (int32_t i = 0; i < s->n_shards; i++) {
        const cleave_range own = {s->shards[i].box.lo[d], s->shards[i].box.hi[d]};
        const cleave_range *at = bsearch(&own, ranges, (size_t)n, sizeof own, by_range);
        s->shards[i].range[d] = (int32_t)(at - ranges);
    }
    s->ranges[d] = ranges;
    s->n_ranges[d] = n;
    return true;
}

static bool make_grid(cleave_sharding *s, cleave_arena *arena) {
    int64_t size = 1;
    for (int d = 0; d < s->rank && size <= MAX_GRID; d++)
        size *= s->n_ranges[d];
    if (size > MAX_GRID)
        return true;
    s->grid = CLEAVE_ARENA_ARRAY(arena, int32_t, size);
    if (s->grid == NULL)
        return false;
    memset(s->grid, -1, (size_t)size * sizeof *s->grid);
    for (int32_t i = 0; i < s->n_shards; i++) {
        int64_t at = 0;
        for (int d = 0; d < s->rank; d++)
            at = at * s->n_ranges[d] + s->shards[i].range[d];
        s->grid[at] = i;
    }
    return true;
}

static void finish(cleave_sharding *s, const cleave_shard_entry *entries) {
    int64_t size = 1;
    for (int d = 0; d < s->rank && size <= s->n_shards; d++)
        size *= s->n_ranges[d];
    s->is_even = size == s->n_shards && s->grid != NULL;
    for (int32_t i = 0; i < s->n_shards; i++)
        s->has_replicas = s->has_replicas || s->shards[i].n_members > s->shards[i].n_keys;
    for (int32_t i = 1; i < s->n_shards; i++)
        s->is_even = s->is_even && s->shards[i].n_members == s->shards[0].n_members &&
                     s->shards[i].n_keys == s->shards[0].n_keys;
    double there = 0, all = 0;
    for (int32_t d = 0; d < s->n_devices; d++)
        if (s->shard_of[d] >= 0) {
            there += (double)entries[d].n_elements;
            all += (double)cleave_box_size(s->rank, &entries[d].box);
        }
    s->density = there < all ? there / all : 1;
    for (int32_t i = 0; i < s->n_shards; i++) {
        s->hash = cleave_hash_join(s->hash, cleave_box_hash(s->rank, &s->shards[i].box));
        for (int32_t k = 0; k < s->shards[i].n_members; k++) {
            const cleave_shard_member *of = &s->members[s->shards[i].first_member + k];
            s->hash =
                cleave_hash_join(s->hash, (uint64_t)of->device << 32 | (uint64_t)(uint32_t)of->key);
        }
    }
}

cleave_status cleave_sharding_create(const cleave_tensor *tensor, int32_t n_devices,
                                     const cleave_shard_entry *entries, cleave_arena *arena,
                                     cleave_sharding *sharding, cleave_error *error) {
    cleave_sharding s = {.rank = tensor->rank,
                         .element_bytes =
                             tensor->kind == CLEAVE_TENSOR_PARAMETER && tensor->needs_gradient
                                 ? cleave_type_bytes(cleave_exact_type(tensor))
                                 : cleave_stored_bytes(tensor),
                         .n_devices = n_devices};
    memcpy(s.order, tensor->order, sizeof s.order);
    int32_t n = 0, n_slots = 2;
    for (int32_t d = 0; d < n_devices; d++)
        n += entries[d].n_elements > 0;
    while (n_slots < 2 * (n + 1))
        n_slots *= 2;
    making m = {.entries = entries,
                .s = &s,
                .n_slots = n_slots,
                .slots = calloc((size_t)n_slots, sizeof *m.slots),
                .keys = calloc((size_t)n + 1, sizeof *m.keys),
                .places = calloc((size_t)n + 1, sizeof *m.places)};
    s.shards = CLEAVE_ARENA_ARRAY(arena, cleave_shard, n);
    s.members = CLEAVE_ARENA_ARRAY(arena, cleave_shard_member, n);
    s.shard_of = CLEAVE_ARENA_ARRAY(arena, int32_t, n_devices);
    s.rank_of = CLEAVE_ARENA_ARRAY(arena, int32_t, n_devices);
    bool made = m.slots != NULL && m.keys != NULL && m.places != NULL && s.shards != NULL &&
                s.members != NULL && s.shard_of != NULL && s.rank_of != NULL;
    if (made)
        list_members(&m);
    for (int d = 0; d < s.rank && made; d++)
        made = find_ranges(&s, d, arena);
    made = made && make_grid(&s, arena);
    free(m.slots);
    free(m.keys);
    free(m.places);
    if (!made)
        return cleave_fail_memory(error, "sharding a tensor");
    finish(&s, entries);
    *sharding = s;
    return CLEAVE_OK;
}

static void *copy_of(cleave_arena *arena, const void *items, int64_t n, size_t size, bool *copied) {
    void *made = cleave_arena_alloc(arena, (size_t)n, size);
    *copied = *copied && made != NULL;
    if (made != NULL && n > 0)
        memcpy(made, items, (size_t)n * size);
    return made;
}

bool cleave_sharding_copy(const cleave_sharding *of, cleave_arena *arena, cleave_sharding *copy) {
    cleave_sharding made = *of;
    int64_t n_cells = 1;
    bool copied = true;
    made.shards = copy_of(arena, of->shards, of->n_shards, sizeof *of->shards, &copied);
    made.members = copy_of(arena, of->members, of->n_members, sizeof *of->members, &copied);
    made.shard_of = copy_of(arena, of->shard_of, of->n_devices, sizeof *of->shard_of, &copied);
    made.rank_of = copy_of(arena, of->rank_of, of->n_devices, sizeof *of->rank_of, &copied);
    for (int d = 0; d < of->rank; d++) {
        made.ranges[d] =
            copy_of(arena, of->ranges[d], of->n_ranges[d], sizeof *of->ranges[d], &copied);
        n_cells *= of->grid != NULL ? of->n_ranges[d] : 1;
    }
    if (of->grid != NULL)
        made.grid = copy_of(arena, of->grid, n_cells, sizeof *of->grid, &copied);
    *copy = made;
    return copied;
}

bool cleave_sharding_equal(const cleave_sharding *a, const cleave_sharding *b) {
    if (a == b)
        return true;
    if (a->hash != b->hash || a->rank != b->rank || a->n_shards != b->n_shards ||
        a->n_members != b->n_members || a->n_devices != b->n_devices)
        return false;
    for (int32_t i = 0; i < a->n_shards; i++)
        if (a->shards[i].n_members != b->shards[i].n_members ||
            !cleave_box_equal(a->rank, &a->shards[i].box, &b->shards[i].box))
            return false;
    return a->n_members == 0 ||
           memcmp(a->members, b->members, (size_t)a->n_members * sizeof *a->members) == 0;
}
