#include "simulator/estimate.h"

#include "base/list.h"
#include "base/random.h"
#include "costmodel/machine_fold.h"
#include "simulator/delta/delta.h"
#include "simulator/prepare.h"
#include "simulator/price_fragment.h"

#include <stdlib.h>
#include <string.h>

/* What fragments may take: at first, enough for the candidates of a large model.  Where fewer than
   one in `worth_remembering` comes back before the room is full, less room will do, and that stays
   in the caches. */
static const size_t most_remembered_bytes = (size_t)128 << 20,
                    least_remembered_bytes = (size_t)4 << 20;
static const int64_t worth_remembering = 32;

/* Two independent hashes of what a fragment follows from. */
typedef struct digest {
    uint64_t a, b;
} digest;

static digest join(digest d, uint64_t value) {
    d.a = cleave_hash_join(d.a, value);
    d.b = (d.b ^ value) * UINT64_C(0x9ddfea08eb382d69);
    d.b ^= d.b >> 29;
    return d;
}

static bool same(digest x, digest y) { return x.a == y.a && x.b == y.b; }

/* A priced fragment, with the slots that its place may name by their numbers: for all places that
   are alike. */
typedef struct shared_price {
    digest key;
    cleave_fragment_price *price;
    int32_t uses; /* memories */
    struct shared_price *next;
} shared_price;

/* One that is remembered for a place. */
typedef struct memory {
    digest key;
    int32_t place;
    shared_price *shared;
    cleave_delta_made *made;
    int32_t uses; /* places where it stands, or stood before what is now proposed */
    struct memory *next;
} memory;

typedef struct change {
    int32_t place;
    memory *before;
} change;

typedef struct old_split {
    int32_t op, first_device;
    cleave_split split; /* devices: see first_device */
    digest digest;
} old_split;

typedef struct old_shard {
    int32_t tensor;
    bool sharded;
} old_shard;

struct cleave_estimate {
    const cleave_model *model;
    cleave_lower_options options;
    cleave_cost_cache *cache;
    const cleave_fold *fold; /* null: of no window */
    int32_t *image;          /* of its links, or null */
    cleave_arena lasting;
    int32_t n_devices, n_families, n_places, n_slots;
    cleave_lowerer *lowerer;
    cleave_delta *delta;
    cleave_arena scratch;
    cleave_split *splits;    /* [n_operators] each with room for n_devices */
    digest *split_digest;    /* [n_operators] */
    bool *sharded;           /* [n_tensors] */
    uint64_t *shard_digest;  /* [n_families] of the parameters whose updates are sharded */
    int32_t *first_op, *ops; /* operators that touch each family: [n_families + 1] */
    memory **placed;         /* [n_places] families, then nests */
    bool *dirty;             /* [n_places] */
    int64_t
        *steps; /* [n_devices][n_slots + 1] by how much more is in use than in the slot before */
    int64_t own_bytes;
    CLEAVE_LIST(int32_t) dirty_places;
    CLEAVE_LIST(memory *) prepared; /* of the first dirty places, in their order */
    CLEAVE_LIST(change) changes;
    CLEAVE_LIST(old_split) old;
    CLEAVE_LIST(int32_t) old_devices;
    CLEAVE_LIST(old_shard) old_shards;
    cleave_alike alike;
    cleave_priced_chunk *chunks; /* [room_chunks] of a fragment that is put */
    int32_t room_chunks;
    memory **table;        /* [table_size] */
    shared_price **prices; /* [table_size] */
    int32_t table_size, n_remembered;
    size_t remembered_bytes, room_bytes;
    cleave_estimate_counts counted; /* when something was forgotten last */
    cleave_estimate_counts counts;
};

/* ---- what is remembered ---------------------------------------------------------------------- */

static memory **bucket_of(const cleave_estimate *e, digest key) {
    return &e->table[key.a & (uint64_t)(e->table_size - 1)];
}

static shared_price **price_bucket_of(const cleave_estimate *e, digest key) {
    return &e->prices[key.a & (uint64_t)(e->table_size - 1)];
}

static void release_price(cleave_estimate *e, shared_price *price) {
    if (price == NULL || --price->uses > 0)
        return;
    shared_price **at = price_bucket_of(e, price->key);
    while (*at != price)
        at = &(*at)->next;
    *at = price->next;
    e->remembered_bytes -= price->price->size;
    free(price->price);
    free(price);
}

static void release(cleave_estimate *e, memory *m) {
    cleave_delta_unmake(m->made);
    release_price(e, m->shared);
    free(m);
}

/* Forgets what is not in use. */
static void forget(cleave_estimate *e) {
    for (int32_t b = 0; b < e->table_size; b++)
        for (memory **at = &e->table[b]; *at != NULL;) {
            memory *m = *at;
            if (m->uses > 0) {
                at = &m->next;
                continue;
            }
            *at = m->next;
            e->remembered_bytes -= cleave_delta_made_bytes(m->made);
            e->n_remembered--;
            release(e, m);
        }
    int64_t fragments = e->counts.fragments - e->counted.fragments;
    int64_t found = fragments - (e->counts.made - e->counted.made);
    if (found < fragments / worth_remembering && e->room_bytes > least_remembered_bytes)
        e->room_bytes /= 2;
    /* Where much is in use, there is room for as much again. */
    if (e->room_bytes < 2 * e->remembered_bytes)
        e->room_bytes = 2 * e->remembered_bytes;
    e->counted = e->counts;
}

static cleave_status make_fragment(cleave_estimate *e, int32_t place, cleave_fragment_price **price,
                                   cleave_error *error) {
    if (place >= e->n_families)
        return cleave_price_computes(e->lowerer, place - e->n_families, e->cache, e->n_devices,
                                     &e->scratch, price, error);
    cleave_fragment fragment;
    CLEAVE_TRY(cleave_lowerer_family(e->lowerer, place, &fragment, error));
    return cleave_price_fragment(&fragment, e->cache, e->image, &e->scratch, price, error);
}

/* Of a place, or of all that are like the place `like`. */
static digest key_of(const cleave_estimate *e, int32_t place, int32_t like) {
    digest key = join((digest){1, 1}, (uint64_t)like);
    if (place >= e->n_families)
        return join(key, e->split_digest[e->model->nests[place - e->n_families].op].a ^
                             e->split_digest[e->model->nests[place - e->n_families].op].b << 1);
    key = join(key, e->shard_digest[place]);
    for (int32_t i = e->first_op[place]; i < e->first_op[place + 1]; i++)
        key = join(join(key, e->split_digest[e->ops[i]].a), e->split_digest[e->ops[i]].b);
    return key;
}

/* The number of a slot among those that its place may name. */
static int32_t number_of(const cleave_estimate *e, int32_t place, int32_t slot) {
    const int32_t *slots = e->alike.slots[place];
    int32_t low = 0, n = e->alike.n_slots[place];
    while (n > 0) {
        int32_t half = n / 2;
        bool before = slots[low + half] < slot;
        low = before ? low + half + 1 : low;
        n = before ? n - half - 1 : half;
    }
    return low;
}

static void number_slots(const cleave_estimate *e, int32_t place, cleave_fragment_price *price) {
    for (int32_t c = 0; c < price->priced.n_chunks; c++)
        price->priced.chunks[c].slot = number_of(e, place, price->priced.chunks[c].slot);
    for (int32_t i = 0; i < price->n_live; i++) {
        price->live[i].first = number_of(e, place, price->live[i].first);
        price->live[i].last = number_of(e, place, price->live[i].last);
    }
}

/* Remembered of any place that is alike, or made. */
static cleave_status find_price(cleave_estimate *e, int32_t place, shared_price **found,
                                cleave_error *error) {
    /* What a window is the first of depends on more than the splits of a family. */
    digest key = key_of(e, place, e->fold == NULL ? e->alike.like[place] : place);
    shared_price **bucket = price_bucket_of(e, key);
    for (shared_price *p = *bucket; p != NULL; p = p->next)
        if (same(p->key, key)) {
            p->uses++;
            *found = p;
            return CLEAVE_OK;
        }
    shared_price *made = calloc(1, sizeof *made);
    if (made == NULL)
        return cleave_fail_memory(error, "estimating");
    cleave_status status = make_fragment(e, place, &made->price, error);
    if (status != CLEAVE_OK) {
        free(made);
        return status;
    }
    number_slots(e, place, made->price);
    made->key = key;
    made->uses = 1;
    made->next = *bucket;
    *bucket = made;
    e->remembered_bytes += made->price->size;
    e->counts.made++;
    *found = made;
    return CLEAVE_OK;
}

/* Makes a fragment ready for its place: in the slots of that. */
static cleave_status make_ready(cleave_estimate *e, int32_t place, memory *m, cleave_error *error) {
    cleave_priced_fragment priced = m->shared->price->priced;
    if (priced.n_chunks > e->room_chunks) {
        free(e->chunks);
        e->room_chunks = 2 * priced.n_chunks;
        e->chunks = malloc((size_t)e->room_chunks * sizeof *e->chunks);
        if (e->chunks == NULL) {
            e->room_chunks = 0;
            return cleave_fail_memory(error, "estimating");
        }
    }
    for (int32_t c = 0; c < priced.n_chunks; c++) {
        e->chunks[c] = priced.chunks[c];
        e->chunks[c].slot = e->alike.slots[place][priced.chunks[c].slot];
    }
    priced.chunks = e->chunks;
    return cleave_delta_make(e->delta, place, &priced, &m->made, error);
}

static cleave_status find_fragment(cleave_estimate *e, int32_t place, memory **found,
                                   cleave_error *error) {
    digest key = key_of(e, place, place);
    e->counts.fragments++;
    for (memory *m = *bucket_of(e, key); m != NULL; m = m->next)
        if (same(m->key, key)) {
            e->counts.bytes += (int64_t)m->shared->price->size;
            *found = m;
            return CLEAVE_OK;
        }
    if (e->remembered_bytes > e->room_bytes)
        forget(e);
    memory *made = calloc(1, sizeof *made);
    if (made == NULL)
        return cleave_fail_memory(error, "estimating");
    cleave_status status = find_price(e, place, &made->shared, error);
    if (status == CLEAVE_OK)
        status = make_ready(e, place, made, error);
    if (status != CLEAVE_OK) {
        release(e, made);
        return status;
    }
    made->key = key;
    made->place = place;
    made->next = *bucket_of(e, key);
    *bucket_of(e, key) = made;
    e->remembered_bytes += cleave_delta_made_bytes(made->made);
    e->n_remembered++;
    e->counts.bytes += (int64_t)made->shared->price->size;
    *found = made;
    return CLEAVE_OK;
}

/* ---- places ---------------------------------------------------------------------------------- */

static void weigh(cleave_estimate *e, const memory *m, int64_t sign) {
    if (m == NULL)
        return;
    const cleave_fragment_price *price = m->shared->price;
    const int32_t *slots = e->alike.slots[m->place];
    for (int32_t i = 0; i < price->n_live; i++) {
        const cleave_live_range *live = &price->live[i];
        int64_t *steps = &e->steps[(size_t)live->device * ((size_t)e->n_slots + 1)];
        steps[slots[live->first]] += sign * live->bytes;
        steps[slots[live->last] + 1] -= sign * live->bytes;
    }
    e->own_bytes += sign * price->own_bytes;
}

/* Both stay in use until the change is accepted or rejected. */
static cleave_status put(cleave_estimate *e, int32_t place, memory *fragment, cleave_error *error) {
    CLEAVE_TRY(cleave_delta_put_made(e->delta, place, fragment->made, error));
    if (!CLEAVE_LIST_PUSH(&e->changes, (change){place, e->placed[place]}))
        return cleave_fail_memory(error, "estimating");
    weigh(e, e->placed[place], -1);
    weigh(e, fragment, 1);
    e->placed[place] = fragment;
    fragment->uses++;
    return CLEAVE_OK;
}

static cleave_status mark_dirty(cleave_estimate *e, int32_t place, cleave_error *error) {
    if (e->dirty[place])
        return CLEAVE_OK;
    if (!CLEAVE_LIST_PUSH(&e->dirty_places, place))
        return cleave_fail_memory(error, "estimating");
    e->dirty[place] = true;
    return CLEAVE_OK;
}

static cleave_status mark_operator(cleave_estimate *e, int32_t op, cleave_error *error) {
    int32_t n;
    const int32_t *families = cleave_lowerer_families_of(e->lowerer, op, &n);
    for (int32_t i = 0; i < n; i++)
        CLEAVE_TRY(mark_dirty(e, families[i], error));
    for (int32_t k = 0; k < e->model->operators[op].n_nests; k++)
        CLEAVE_TRY(mark_dirty(e, e->n_families + e->model->operators[op].nests[k], error));
    return CLEAVE_OK;
}

/* What is prepared is in use, so that it is not forgotten before it is put. */
cleave_status cleave_estimate_prepare(cleave_estimate *e, cleave_error *error) {
    while (e->prepared.n < e->dirty_places.n) {
        memory *fragment = NULL;
        CLEAVE_TRY(find_fragment(e, e->dirty_places.items[e->prepared.n], &fragment, error));
        if (!CLEAVE_LIST_PUSH(&e->prepared, fragment))
            return cleave_fail_memory(error, "estimating");
        fragment->uses++;
    }
    return CLEAVE_OK;
}

static cleave_status settle(cleave_estimate *e, cleave_error *error) {
    CLEAVE_TRY(cleave_estimate_prepare(e, error));
    for (int32_t i = 0; i < e->dirty_places.n; i++) {
        int32_t place = e->dirty_places.items[i];
        memory *fragment = e->prepared.items[i];
        if (fragment != e->placed[place])
            CLEAVE_TRY(put(e, place, fragment, error));
    }
    for (int32_t i = 0; i < e->dirty_places.n; i++) {
        e->dirty[e->dirty_places.items[i]] = false;
        e->prepared.items[i]->uses--;
    }
    e->dirty_places.n = e->prepared.n = 0;
    return CLEAVE_OK;
}

/* ---- splits ---------------------------------------------------------------------------------- */

static digest digest_of(const cleave_split *split) {
    digest d = join((digest){1, 1}, (uint64_t)split->replicas);
    for (int a = 0; a < CLEAVE_MAX_AXES; a++)
        d = join(d, (uint64_t)split->degree[a]);
    for (int32_t p = 0; p < split->n_parts; p++)
        d = join(d, (uint64_t)split->devices[p]);
    return d;
}

static void replace(cleave_split *to, const cleave_split *from, const int32_t *devices) {
    int32_t *room = to->devices;
    *to = *from;
    to->devices = room;
    memcpy(room, devices, (size_t)from->n_parts * sizeof *room);
}

static cleave_status keep_old(cleave_estimate *e, int32_t op, cleave_error *error) {
    const cleave_split *split = &e->splits[op];
    bool kept = CLEAVE_LIST_PUSH(&e->old, (old_split){.op = op,
                                                      .first_device = e->old_devices.n,
                                                      .split = *split,
                                                      .digest = e->split_digest[op]});
    for (int32_t p = 0; p < split->n_parts && kept; p++)
        kept = CLEAVE_LIST_PUSH(&e->old_devices, split->devices[p]);
    return kept ? CLEAVE_OK : cleave_fail_memory(error, "estimating");
}

static void forget_prepared(cleave_estimate *e) { /* of splits that are no more */
    for (int32_t i = 0; i < e->prepared.n; i++)
        e->prepared.items[i]->uses--;
    e->prepared.n = 0;
}

cleave_status cleave_estimate_change(cleave_estimate *e, int32_t op, const cleave_split *split,
                                     cleave_error *error) {
    CLEAVE_TRY(keep_old(e, op, error));
    forget_prepared(e);
    replace(&e->splits[op], split, split->devices);
    e->split_digest[op] = digest_of(split);
    CLEAVE_TRY(cleave_lowerer_set_split(e->lowerer, op, &e->splits[op], error));
    return mark_operator(e, op, error);
}

static void set_sharded(cleave_estimate *e, int32_t tensor, bool sharded) {
    if (e->sharded[tensor] == sharded)
        return;
    e->sharded[tensor] = sharded;
    e->shard_digest[cleave_lowerer_family_of(e->lowerer, tensor)] ^=
        cleave_hash64((uint64_t)tensor);
    cleave_lowerer_set_sharded(e->lowerer, tensor, sharded);
}

cleave_status cleave_estimate_shard(cleave_estimate *e, int32_t tensor, bool sharded,
                                    cleave_error *error) {
    if (!CLEAVE_LIST_PUSH(&e->old_shards, (old_shard){tensor, e->sharded[tensor]}))
        return cleave_fail_memory(error, "estimating");
    forget_prepared(e);
    set_sharded(e, tensor, sharded);
    return mark_dirty(e, cleave_lowerer_family_of(e->lowerer, tensor), error);
}

/* ---- running --------------------------------------------------------------------------------- */

cleave_status cleave_estimate_run(cleave_estimate *e, int64_t *step, cleave_error *error) {
    CLEAVE_TRY(settle(e, error));
    return cleave_delta_run(e->delta, step, error);
}

cleave_status cleave_estimate_full(cleave_estimate *e, int64_t *step, cleave_error *error) {
    CLEAVE_TRY(settle(e, error));
    return cleave_delta_full(e->delta, step, error);
}

static void end_proposal(cleave_estimate *e) {
    e->changes.n = e->old.n = e->old_devices.n = e->old_shards.n = 0;
}

cleave_status cleave_estimate_accept(cleave_estimate *e, cleave_error *error) {
    CLEAVE_TRY(settle(e, error));
    cleave_delta_accept(e->delta);
    for (int32_t i = 0; i < e->changes.n; i++)
        if (e->changes.items[i].before != NULL)
            e->changes.items[i].before->uses--;
    end_proposal(e);
    return CLEAVE_OK;
}

cleave_status cleave_estimate_reject(cleave_estimate *e, cleave_error *error) {
    CLEAVE_TRY(settle(e, error));
    cleave_delta_reject(e->delta);
    for (int32_t i = e->changes.n - 1; i >= 0; i--) {
        const change *c = &e->changes.items[i];
        weigh(e, e->placed[c->place], -1);
        weigh(e, c->before, 1);
        e->placed[c->place]->uses--;
        e->placed[c->place] = c->before;
    }
    for (int32_t i = e->old.n - 1; i >= 0; i--) {
        const old_split *old = &e->old.items[i];
        replace(&e->splits[old->op], &old->split, e->old_devices.items + old->first_device);
        e->split_digest[old->op] = old->digest;
        CLEAVE_TRY(cleave_lowerer_set_split(e->lowerer, old->op, &e->splits[old->op], error));
    }
    for (int32_t i = e->old_shards.n - 1; i >= 0; i--)
        set_sharded(e, e->old_shards.items[i].tensor, e->old_shards.items[i].sharded);
    end_proposal(e);
    return CLEAVE_OK;
}

cleave_estimate_counts cleave_estimate_count(const cleave_estimate *e) { return e->counts; }

int64_t cleave_estimate_live_bytes(const cleave_estimate *e, int32_t device) {
    const int64_t *steps = &e->steps[(size_t)device * ((size_t)e->n_slots + 1)];
    int64_t live = 0, most = 0;
    for (int32_t slot = 0; slot < e->n_slots; slot++) {
        live += steps[slot];
        most = live > most ? live : most;
    }
    return most;
}

double cleave_estimate_over(const cleave_estimate *e, int32_t device, int64_t bytes) {
    const int64_t *steps = &e->steps[(size_t)device * ((size_t)e->n_slots + 1)];
    int64_t live = 0;
    double over = 0;
    for (int32_t slot = 0; slot < e->n_slots; slot++) {
        live += steps[slot];
        if (live <= bytes)
            continue;
        double share = (double)(live - bytes) / (double)(bytes > 1 ? bytes : 1);
        over += share * share * share;
    }
    return over;
}

int64_t cleave_estimate_own_bytes(const cleave_estimate *e) { return e->own_bytes; }

/* ---- life ------------------------------------------------------------------------------------ */

/* Which operators touch which family. */
static cleave_status index_operators(cleave_estimate *e, cleave_error *error) {
    int32_t n, total = 0;
    e->first_op = calloc((size_t)e->n_families + 2, sizeof *e->first_op);
    for (int32_t op = 0; op < e->model->n_operators && e->first_op != NULL; op++) {
        const int32_t *families = cleave_lowerer_families_of(e->lowerer, op, &n);
        for (int32_t i = 0; i < n; i++)
            e->first_op[families[i] + 2]++;
        total += n;
    }
    e->ops = calloc((size_t)total + 1, sizeof *e->ops);
    if (e->first_op == NULL || e->ops == NULL)
        return cleave_fail_memory(error, "estimating");
    for (int32_t f = 0; f <= e->n_families; f++)
        e->first_op[f + 1] += e->first_op[f];
    for (int32_t op = 0; op < e->model->n_operators; op++) {
        const int32_t *families = cleave_lowerer_families_of(e->lowerer, op, &n);
        for (int32_t i = 0; i < n; i++)
            e->ops[e->first_op[families[i] + 1]++] = op;
    }
    return CLEAVE_OK;
}

static cleave_status allocate(cleave_estimate *e, const cleave_layout *layout,
                              cleave_error *error) {
    size_t n_ops = (size_t)e->model->n_operators, n_devices = (size_t)e->n_devices;
    e->table_size = 1 << 14;
    e->splits = calloc(n_ops + 1, sizeof *e->splits);
    e->split_digest = calloc(n_ops + 1, sizeof *e->split_digest);
    e->sharded = calloc((size_t)e->model->n_tensors + 1, sizeof *e->sharded);
    e->shard_digest = calloc((size_t)e->n_families + 1, sizeof *e->shard_digest);
    e->placed = calloc((size_t)e->n_places, sizeof *e->placed);
    e->dirty = calloc((size_t)e->n_places, sizeof *e->dirty);
    e->steps = calloc(n_devices * ((size_t)e->n_slots + 1), sizeof *e->steps);
    e->table = calloc((size_t)e->table_size, sizeof(memory *));
    e->prices = calloc((size_t)e->table_size, sizeof(shared_price *));
    int32_t *devices = calloc(n_ops * n_devices + 1, sizeof *devices);
    if (e->splits == NULL || e->split_digest == NULL || e->placed == NULL || e->dirty == NULL ||
        e->steps == NULL || e->table == NULL || e->prices == NULL || devices == NULL ||
        e->sharded == NULL || e->shard_digest == NULL) {
        free(devices);
        return cleave_fail_memory(error, "estimating");
    }
    e->splits[n_ops].devices = devices; /* owned */
    for (size_t op = 0; op < n_ops; op++) {
        e->splits[op].devices = devices + op * n_devices;
        replace(&e->splits[op], &layout->splits[op], layout->splits[op].devices);
        e->split_digest[op] = digest_of(&e->splits[op]);
    }
    for (int32_t t = 0; t < e->model->n_tensors; t++)
        set_sharded(e, t, layout->sharded[t]);
    return CLEAVE_OK;
}

static cleave_status begin(cleave_estimate *e, const cleave_layout *layout, cleave_error *error) {
    const cleave_machine *machine = cleave_cost_cache_machine(e->cache);
    cleave_engine_problem links = {0};
    CLEAVE_TRY(cleave_lowerer_create(e->model, layout, &e->options, &e->lowerer, error));
    cleave_lowerer_set_fold(e->lowerer, e->fold);
    if (e->fold != NULL)
        CLEAVE_TRY(cleave_machine_fold_links(machine, e->n_devices, &e->lasting, &e->image, error));
    e->n_families = cleave_lowerer_n_families(e->lowerer);
    e->n_places = e->n_families + e->model->n_nests;
    e->n_slots = cleave_lowerer_n_slots(e->lowerer);
    CLEAVE_TRY(allocate(e, layout, error));
    CLEAVE_TRY(index_operators(e, error));
    CLEAVE_TRY(cleave_lowerer_alike(e->lowerer, &e->lasting, &e->alike, error));
    CLEAVE_TRY(cleave_prepare_links(machine, &e->scratch, &links, error));
    CLEAVE_TRY(cleave_delta_create(e->n_places, e->n_slots, e->n_devices * CLEAVE_N_LANES,
                                   links.n_links, links.link_latency, &e->delta, error));
    for (int32_t place = 0; place < e->n_places; place++)
        CLEAVE_TRY(mark_dirty(e, place, error));
    int64_t step;
    CLEAVE_TRY(cleave_estimate_run(e, &step, error));
    return cleave_estimate_accept(e, error);
}

static cleave_status create(const cleave_model *model, const cleave_layout *layout,
                            const cleave_fold *fold, const cleave_lower_options *options,
                            cleave_cost_cache *cache, cleave_estimate **estimate,
                            cleave_error *error) {
    cleave_estimate *made = calloc(1, sizeof *made);
    if (made == NULL)
        return cleave_fail_memory(error, "estimating");
    *made = (cleave_estimate){.model = model,
                              .options = *options,
                              .cache = cache,
                              .fold = fold,
                              .n_devices = layout->n_devices,
                              .room_bytes = most_remembered_bytes};
    made->options.symbolic_collectives = true;
    made->options.workspace = NULL;
    cleave_status status = begin(made, layout, error);
    if (status != CLEAVE_OK) {
        cleave_estimate_destroy(made);
        return status;
    }
    *estimate = made;
    return CLEAVE_OK;
}

cleave_status cleave_estimate_create(const cleave_model *model, const cleave_layout *layout,
                                     const cleave_lower_options *options, cleave_cost_cache *cache,
                                     cleave_estimate **estimate, cleave_error *error) {
    return create(model, layout, NULL, options, cache, estimate, error);
}

cleave_status cleave_estimate_create_window(const cleave_model *model, const cleave_fold *fold,
                                            const cleave_lower_options *options,
                                            cleave_cost_cache *cache, cleave_estimate **estimate,
                                            cleave_error *error) {
    return create(model, &fold->window, fold, options, cache, estimate, error);
}

void cleave_estimate_destroy(cleave_estimate *e) {
    if (e == NULL)
        return;
    cleave_delta_destroy(e->delta); /* before what stands in it */
    for (int32_t b = 0; e->table != NULL && b < e->table_size; b++)
        for (memory *m = e->table[b], *next; m != NULL; m = next) {
            next = m->next;
            release(e, m);
        }
    free(e->table);
    free(e->prices);
    free(e->chunks);
    if (e->splits != NULL)
        free(e->splits[e->model->n_operators].devices);
    free(e->splits);
    free(e->split_digest);
    free(e->sharded);
    free(e->shard_digest);
    free(e->first_op);
    free(e->ops);
    free(e->placed);
    free(e->dirty);
    free(e->steps);
    CLEAVE_LIST_FREE(&e->dirty_places);
    CLEAVE_LIST_FREE(&e->prepared);
    CLEAVE_LIST_FREE(&e->changes);
    CLEAVE_LIST_FREE(&e->old);
    CLEAVE_LIST_FREE(&e->old_devices);
    CLEAVE_LIST_FREE(&e->old_shards);
    cleave_lowerer_destroy(e->lowerer);
    cleave_arena_free(&e->scratch);
    cleave_arena_free(&e->lasting);
    free(e);
}
