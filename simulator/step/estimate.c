#include "simulator/step/estimate_checks.h"

#include "base/list.h"
#include "base/random.h"
#include "costmodel/machine_fold.h"
#include "simulator/delta/checks.h"
#include "simulator/step/fragment_memory.h"
#include "simulator/step/live_bytes.h"

#include <stdlib.h>
#include <string.h>

typedef struct change {
    int32_t place;
    remembered_fragment *before;
} change;

typedef struct old_split {
    int32_t op, first_device;
    cleave_split split; /* devices: see first_device */
    fragment_digest digest;
} old_split;

typedef struct old_shard {
    int32_t tensor;
    cleave_sharded sharded;
} old_shard;

struct cleave_estimate {
    const cleave_model *model;
    cleave_lower_options options;
    cleave_cost_cache *cache;
    const cleave_fold *fold; /* null: of no window */
    int32_t n_devices, n_families, n_places;
    cleave_lowerer *lowerer;
    cleave_delta *delta;
    fragment_memory memory;
    live_bytes live;
    cleave_split *splits;         /* [n_operators] each with room for n_devices */
    uint8_t *sharded;             /* [n_tensors] cleave_sharded */
    remembered_fragment **placed; /* [n_places] families, then nests */
    bool *dirty;                  /* [n_places] */
    CLEAVE_LIST(int32_t) dirty_places;
    remembered_list prepared; /* of the first dirty places, in their order */
    CLEAVE_LIST(change) changes;
    CLEAVE_LIST(old_split) old;
    CLEAVE_LIST(int32_t) old_devices;
    CLEAVE_LIST(old_shard) old_shards;
};

/* ---- places ---------------------------------------------------------------------------------- */

/* Both stay in use until the change is accepted or rejected. */
static cleave_status put(cleave_estimate *e, int32_t place, remembered_fragment *fragment,
                         cleave_error *error) {
    CLEAVE_TRY(cleave_delta_put(e->delta, place, fragment->made, error));
    if (!CLEAVE_LIST_PUSH(&e->changes, (change){place, e->placed[place]}))
        return cleave_fail_memory(error, "estimating");
    CLEAVE_TRY(live_bytes_put(&e->live, place, fragment, error));
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
    int32_t n = e->prepared.n;
    return fragment_memory_find(&e->memory, e->dirty_places.n - n, e->dirty_places.items + n,
                                &e->prepared, error);
}

static cleave_status settle(cleave_estimate *e, cleave_error *error) {
    CLEAVE_TRY(cleave_estimate_prepare(e, error));
    for (int32_t i = 0; i < e->dirty_places.n; i++) {
        int32_t place = e->dirty_places.items[i];
        remembered_fragment *fragment = e->prepared.items[i];
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
                                                      .digest = e->memory.split_digest[op]});
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
    fragment_memory_set_split(&e->memory, op, fragment_digest_of_split(split));
    CLEAVE_TRY(cleave_lowerer_set_split(e->lowerer, op, &e->splits[op], error));
    return mark_operator(e, op, error);
}

static void set_sharded(cleave_estimate *e, int32_t tensor, cleave_sharded sharded) {
    if (e->sharded[tensor] == sharded)
        return;
    uint64_t of = (uint64_t)tensor * CLEAVE_N_SHARDED;
    e->memory.shard_digest[cleave_lowerer_family_of(e->lowerer, tensor)] ^=
        cleave_hash64(of + e->sharded[tensor]) ^ cleave_hash64(of + (uint64_t)sharded);
    e->sharded[tensor] = (uint8_t)sharded;
    cleave_lowerer_set_sharded(e->lowerer, tensor, sharded);
}

cleave_status cleave_estimate_shard(cleave_estimate *e, int32_t tensor, bool sharded,
                                    cleave_error *error) {
    if (!CLEAVE_LIST_PUSH(&e->old_shards, (old_shard){tensor, e->sharded[tensor]}))
        return cleave_fail_memory(error, "estimating");
    forget_prepared(e);
    set_sharded(e, tensor, sharded ? CLEAVE_SHARDED_UPDATE : CLEAVE_SHARDED_NOTHING);
    return mark_dirty(e, cleave_lowerer_family_of(e->lowerer, tensor), error);
}

/* ---- running --------------------------------------------------------------------------------- */

cleave_status cleave_estimate_run(cleave_estimate *e, int64_t *step, cleave_error *error) {
    return cleave_estimate_run_below(e, INT64_MAX, step, error);
}

cleave_status cleave_estimate_run_below(cleave_estimate *e, int64_t below, int64_t *step,
                                        cleave_error *error) {
    CLEAVE_TRY(settle(e, error));
    return cleave_delta_run_below(e->delta, below, step, error);
}

cleave_status cleave_estimate_full(cleave_estimate *e, int64_t *step, cleave_error *error) {
    CLEAVE_TRY(settle(e, error));
    *step = cleave_delta_full(e->delta);
    return CLEAVE_OK;
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
        CLEAVE_TRY(live_bytes_put(&e->live, c->place, c->before, error));
        e->placed[c->place]->uses--;
        e->placed[c->place] = c->before;
    }
    for (int32_t i = e->old.n - 1; i >= 0; i--) {
        const old_split *old = &e->old.items[i];
        replace(&e->splits[old->op], &old->split, e->old_devices.items + old->first_device);
        fragment_memory_set_split(&e->memory, old->op, old->digest);
        CLEAVE_TRY(cleave_lowerer_set_split(e->lowerer, old->op, &e->splits[old->op], error));
    }
    for (int32_t i = e->old_shards.n - 1; i >= 0; i--)
        set_sharded(e, e->old_shards.items[i].tensor, e->old_shards.items[i].sharded);
    end_proposal(e);
    return CLEAVE_OK;
}

cleave_estimate_counts cleave_estimate_count(const cleave_estimate *e) { return e->memory.counts; }

int64_t cleave_estimate_live_bytes(cleave_estimate *e, int32_t device) {
    return live_bytes_most(&e->live, device);
}

cleave_status cleave_estimate_fits(cleave_estimate *e, const int64_t *room, bool *fits,
                                   cleave_error *error) {
    return live_bytes_fit(&e->live, room, fits, error);
}

double cleave_estimate_over(cleave_estimate *e, int32_t device, int64_t bytes) {
    return live_bytes_over(&e->live, device, bytes);
}

int64_t cleave_estimate_own_bytes(cleave_estimate *e) { return live_bytes_own(&e->live); }

int64_t cleave_estimate_bytes_sent(cleave_estimate *e) { return live_bytes_sent(&e->live); }

/* ---- life ------------------------------------------------------------------------------------ */

static cleave_status allocate(cleave_estimate *e, const cleave_layout *layout,
                              cleave_error *error) {
    size_t n_ops = (size_t)e->model->n_operators, n_devices = (size_t)e->n_devices;
    e->splits = calloc(n_ops + 1, sizeof *e->splits);
    e->sharded = calloc((size_t)e->model->n_tensors + 1, sizeof *e->sharded);
    e->placed = calloc((size_t)e->n_places, sizeof(remembered_fragment *));
    e->dirty = calloc((size_t)e->n_places, sizeof *e->dirty);
    int32_t *devices = calloc(n_ops * n_devices + 1, sizeof *devices);
    if (e->splits == NULL || e->placed == NULL || e->dirty == NULL || devices == NULL ||
        e->sharded == NULL) {
        free(devices);
        return cleave_fail_memory(error, "estimating");
    }
    e->splits[n_ops].devices = devices; /* owned */
    for (size_t op = 0; op < n_ops; op++) {
        e->splits[op].devices = devices + op * n_devices;
        replace(&e->splits[op], &layout->splits[op], layout->splits[op].devices);
        fragment_memory_set_split(&e->memory, (int32_t)op,
                                  fragment_digest_of_split(&e->splits[op]));
    }
    for (int32_t t = 0; t < e->model->n_tensors; t++)
        set_sharded(e, t, (cleave_sharded)layout->sharded[t]);
    return CLEAVE_OK;
}

/* Numbers the links of the machine that a window's items take, those that are their own images, one
   after the other, and leaves the latencies of these only: there are far fewer than of all windows.
 */
static cleave_status number_links_of_window(cleave_estimate *e, int64_t *latency, int32_t *n_links,
                                            cleave_error *error) {
    fragment_memory *memory = &e->memory;
    int32_t n = 0, n_all = *n_links;
    CLEAVE_TRY(cleave_machine_fold_links(cleave_cost_cache_machine(e->cache), e->n_devices,
                                         e->fold->n_windows, &memory->lasting, &memory->image,
                                         error));
    memory->link_number = CLEAVE_ARENA_ARRAY(&memory->lasting, int32_t, n_all);
    if (memory->link_number == NULL)
        return cleave_fail_memory(error, "estimating");
    for (int32_t l = 0; l < n_all; l++) {
        memory->link_number[l] = memory->image[l] == l ? n : -1;
        if (memory->image[l] == l)
            latency[n++] = latency[l];
    }
    *n_links = n;
    return CLEAVE_OK;
}

/* What remembers fragments, the delta that they are made ready for, and what weighs them. */
static cleave_status begin_parts(cleave_estimate *e, cleave_error *error) {
    const cleave_machine *machine = cleave_cost_cache_machine(e->cache);
    fragment_memory *memory = &e->memory;
    int32_t n_slots = cleave_lowerer_n_slots(e->lowerer), n_links = machine->n_links;
    int64_t *latency;
    CLEAVE_TRY(cleave_price_latencies(machine, &memory->scratch, &latency, error));
    if (e->fold != NULL)
        CLEAVE_TRY(number_links_of_window(e, latency, &n_links, error));
    const cleave_delta_shape shape = {.n_places = e->n_places,
                                      .n_slots = n_slots,
                                      .n_devices = e->n_devices,
                                      .n_links = n_links,
                                      .link_latency = latency,
                                      .ends_work = cleave_machine_ends_work(machine)};
    CLEAVE_TRY(cleave_delta_create(&shape, &e->delta, error));
    memory->model = e->model;
    memory->lowerer = e->lowerer;
    memory->cache = e->cache;
    memory->delta = e->delta;
    memory->n_devices = e->n_devices;
    memory->n_families = e->n_families;
    CLEAVE_TRY(fragment_memory_begin(memory, error));
    e->live.n_devices = e->n_devices;
    e->live.n_places = e->n_places;
    e->live.n_slots = n_slots;
    e->live.slots = memory->alike.slots;
    return live_bytes_begin(&e->live, error);
}

static cleave_status begin(cleave_estimate *e, const cleave_layout *layout, cleave_error *error) {
    CLEAVE_TRY(cleave_lowerer_create(e->model, layout, &e->options, &e->lowerer, error));
    cleave_lowerer_set_fold(e->lowerer, e->fold);
    e->n_families = cleave_lowerer_n_families(e->lowerer);
    e->n_places = e->n_families + e->model->n_nests;
    CLEAVE_TRY(begin_parts(e, error));
    CLEAVE_TRY(allocate(e, layout, error));
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
                              .n_devices = layout->n_devices};
    made->options.symbolic_collectives = options->symbolic_collectives || fold != NULL;
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
    fragment_memory_free(&e->memory);
    live_bytes_free(&e->live);
    if (e->splits != NULL)
        free(e->splits[e->model->n_operators].devices);
    free(e->splits);
    free(e->sharded);
    free(e->placed);
    free(e->dirty);
    CLEAVE_LIST_FREE(&e->dirty_places);
    CLEAVE_LIST_FREE(&e->prepared);
    CLEAVE_LIST_FREE(&e->changes);
    CLEAVE_LIST_FREE(&e->old);
    CLEAVE_LIST_FREE(&e->old_devices);
    CLEAVE_LIST_FREE(&e->old_shards);
    cleave_lowerer_destroy(e->lowerer);
    free(e);
}
