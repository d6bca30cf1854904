/* Prices come from the function that prices programs, so that a bound made of them holds to the
   picosecond. */
#include "search/problem/node_cost.h"

#include "base/list.h"
#include "graph/model/attention.h"
#include "graph/model/filled.h"
#include "search/problem/node_cells.h"
#include "search/problem/state_chores.h"

#include <math.h>
#include <stdlib.h>

/* What cells cost, under their key. */
typedef struct known_cost {
    uint64_t a, b;
    int64_t total, largest;
    int64_t *least; /* [n_nests of the operator][CLEAVE_N_COMPUTE_PASSES]; null: a free entry */
} known_cost;

enum { FIRST_CAPACITY = 256 };

struct cleave_node_costs {
    const cleave_model *model;
    const cleave_machine *machine;
    cleave_arena arena, scratch; /* scratch is reset by every call */
    cleave_parts *parts;         /* [n_nests] of the operator at hand */
    uint32_t *padded_axes;       /* [n_nests] cleave_nest_padded_axes */
    uint32_t *stuck_out_axes;    /* [n_nests] the same but for what masks hide, of which it matters
                                    how much of it a part has, not where */
    CLEAVE_LIST(cleave_compute) computes; /* that differ, of the operator at hand */
    cleave_cost_cache *cache;
    known_cost *known; /* [capacity] by the first half of the key, the next free one */
    int32_t n_known, capacity;
    cleave_least_chores chores;
    int32_t micro_batches;
};

cleave_status cleave_node_costs_create(const cleave_model *model, const cleave_machine *machine,
                                       cleave_node_costs **costs, cleave_error *error) {
    cleave_node_costs *result = calloc(1, sizeof *result);
    if (result == NULL)
        return cleave_fail_memory(error, "pricing operators");
    result->machine = machine;
    result->parts = CLEAVE_ARENA_ARRAY(&result->arena, cleave_parts, model->n_nests);
    result->padded_axes = CLEAVE_ARENA_ARRAY(&result->arena, uint32_t, model->n_nests);
    result->stuck_out_axes = CLEAVE_ARENA_ARRAY(&result->arena, uint32_t, model->n_nests);
    result->known = calloc(FIRST_CAPACITY, sizeof *result->known);
    result->capacity = FIRST_CAPACITY;
    bool made = result->parts != NULL && result->padded_axes != NULL &&
                result->stuck_out_axes != NULL && result->known != NULL;
    cleave_status status = made ? cleave_node_costs_take(result, model, 1, error)
                                : cleave_fail_memory(error, "pricing operators");
    if (status == CLEAVE_OK)
        status = cleave_least_chores_find(model, machine, &result->arena, &result->chores, error);
    if (status != CLEAVE_OK) {
        cleave_node_costs_destroy(result);
        return status;
    }
    *costs = result;
    return CLEAVE_OK;
}

cleave_status cleave_node_costs_take(cleave_node_costs *costs, const cleave_model *model,
                                     int32_t micro_batches, cleave_error *error) {
    cleave_cost_cache *cache;
    CLEAVE_TRY(cleave_cost_cache_create(model, costs->machine, &cache, error));
    cleave_cost_cache_destroy(costs->cache);
    costs->cache = cache;
    costs->model = model;
    costs->micro_batches = micro_batches;
    for (int32_t n = 0; n < model->n_nests; n++) {
        cleave_nest unmasked = model->nests[n];
        unmasked.attention = NULL;
        costs->padded_axes[n] = cleave_nest_padded_axes(model, &model->nests[n]);
        costs->stuck_out_axes[n] = cleave_nest_padded_axes(model, &unmasked);
    }
    return CLEAVE_OK;
}

void cleave_node_costs_destroy(cleave_node_costs *costs) {
    if (costs == NULL)
        return;
    cleave_arena_free(&costs->arena);
    cleave_arena_free(&costs->scratch);
    CLEAVE_LIST_FREE(&costs->computes);
    cleave_cost_cache_destroy(costs->cache);
    free(costs->known);
    free(costs);
}

static bool has_pass(const cleave_model *model, const cleave_nest *nest, int pass) {
    if (pass == CLEAVE_PASS_FORWARD)
        return true;
    return cleave_model_trains(model) &&
           cleave_nest_pass_inputs(model, nest, (cleave_pass)pass) != 0;
}

/* Pieces of work that are priced together, and the part that each is of. */
typedef struct batch {
    int32_t n;
    int32_t *compute_of;     /* [n] among the computes that differ */
    int32_t *device, *place; /* [n] */
    int32_t n_buckets;       /* a power of two, more than a nest has parts */
    int32_t *bucket;         /* [n_buckets] the first pass of a part that differs; -1: none */
} batch;

static bool make_batch(cleave_arena *scratch, const cleave_operator *op, const cleave_parts *parts,
                       batch *b) {
    int32_t most = 0, longest = 0;
    for (int32_t i = 0; i < op->n_nests; i++) {
        int32_t n = parts[op->nests[i]].n;
        most += n * CLEAVE_N_COMPUTE_PASSES;
        longest = n > longest ? n : longest;
    }
    int32_t n_buckets = 2;
    while (n_buckets < 2 * longest)
        n_buckets *= 2;
    *b = (batch){.compute_of = CLEAVE_ARENA_ARRAY(scratch, int32_t, most),
                 .device = CLEAVE_ARENA_ARRAY(scratch, int32_t, most),
                 .place = CLEAVE_ARENA_ARRAY(scratch, int32_t, most),
                 .n_buckets = n_buckets,
                 .bucket = CLEAVE_ARENA_ARRAY(scratch, int32_t, n_buckets)};
    return b->compute_of != NULL && b->device != NULL && b->place != NULL && b->bucket != NULL;
}

static uint64_t mix(uint64_t hash, int64_t value) {
    hash = (hash ^ (uint64_t)value) * UINT64_C(0x9ddfea08eb382d69);
    return hash ^ hash >> 32;
}

/* How much of the scores in a part is seen. */
static double seen_of(const cleave_nest *nest, const cleave_part *part) {
    return nest->attention == NULL
               ? 1
               : cleave_attention_seen_share(nest->attention, part->lo, part->hi);
}

/* The bucket of parts that cost what one does; empty where it is the first of them. */
static int32_t *find_bucket(const cleave_node_costs *costs, int32_t nest, const cleave_part *part,
                            const batch *b) {
    const cleave_nest *of = &costs->model->nests[nest];
    uint32_t lies = costs->stuck_out_axes[nest];
    double seen = seen_of(of, part);
    uint64_t hash = mix(0, (int64_t)(0x1p30 * seen));
    for (int a = 0; a < of->n_axes; a++) {
        hash = mix(hash, cleave_part_extent(part, a));
        if ((lies >> a & 1) != 0)
            hash = mix(hash, part->lo[a]);
    }
    int32_t at = (int32_t)(hash & (uint64_t)(b->n_buckets - 1));
    for (; b->bucket[at] >= 0; at = (at + 1) & (b->n_buckets - 1)) {
        const cleave_part *other = &costs->computes.items[b->bucket[at]].part;
        if (cleave_parts_work_alike(of, lies, part, other) && !(seen_of(of, other) < seen) &&
            !(seen_of(of, other) > seen))
            break;
    }
    return &b->bucket[at];
}

/* Adds the passes of a nest, [CLEAVE_N_COMPUTE_PASSES]; the first place is that of its forward. */
static bool add_nest(cleave_node_costs *costs, int32_t nest, const bool *passes, int32_t place,
                     batch *b) {
    const cleave_parts *parts = &costs->parts[nest];
    for (int32_t i = 0; i < b->n_buckets; i++)
        b->bucket[i] = -1;
    for (int32_t p = 0; p < parts->n; p++) {
        const cleave_part *part = &parts->items[p];
        if (part->empty)
            continue;
        int32_t *bucket = find_bucket(costs, nest, part, b);
        bool is_new = *bucket < 0;
        int32_t compute = is_new ? costs->computes.n : *bucket;
        *bucket = compute;
        for (int pass = 0; pass < CLEAVE_N_COMPUTE_PASSES; pass++) {
            if (!passes[pass])
                continue;
            if (is_new &&
                !CLEAVE_LIST_PUSH(
                    &costs->computes,
                    (cleave_compute){.nest = nest, .pass = (cleave_pass)pass, .part = *part}))
                return false;
            b->compute_of[b->n] = compute++;
            b->device[b->n] = part->device;
            b->place[b->n++] = place + pass;
        }
    }
    return true;
}

/* The least price of each compute over the kinds of devices, [computes] picoseconds, by the
   function that prices programs. */
static cleave_status price_computes(cleave_node_costs *costs, int64_t **prices,
                                    cleave_error *error) {
    int32_t n = costs->computes.n;
    cleave_item *items = CLEAVE_ARENA_ARRAY(&costs->scratch, cleave_item, n);
    int64_t *least = CLEAVE_ARENA_ARRAY(&costs->scratch, int64_t, n);
    int64_t *of_kind = CLEAVE_ARENA_ARRAY(&costs->scratch, int64_t, n);
    if (items == NULL || least == NULL || of_kind == NULL)
        return cleave_fail_memory(error, "pricing operators");
    cleave_program program = {.model = costs->model,
                              .n_devices = costs->machine->n_devices,
                              .n_items = n,
                              .items = items,
                              .n_computes = n,
                              .computes = costs->computes.items};
    bool first = true;
    for (int32_t k = 0; k < costs->machine->n_kinds; k++) {
        int32_t device = 0;
        while (device < program.n_devices && costs->machine->device_kind[device] != k)
            device++;
        if (device == program.n_devices)
            continue;
        for (int32_t i = 0; i < n; i++) {
            items[i] = (cleave_item){.kind = CLEAVE_ITEM_COMPUTE, .device = device, .subject = i};
            costs->computes.items[i].part.device = device;
        }
        CLEAVE_TRY(cleave_cost_items(&program, costs->cache, of_kind, error));
        for (int32_t i = 0; i < n; i++)
            if (first || of_kind[i] < least[i])
                least[i] = of_kind[i];
        first = false;
    }
    *prices = least;
    return CLEAVE_OK;
}

static cleave_status derive_parts(cleave_node_costs *costs, int32_t op, const cleave_split *split,
                                  const node_cells *of, cleave_error *error) {
    cleave_split some = *split;
    some.n_parts = of->n;
    some.devices = CLEAVE_ARENA_ARRAY(&costs->scratch, int32_t, of->n);
    if (some.devices == NULL)
        return cleave_fail_memory(error, "pricing operators");
    /* On devices 0, 1, ..., so that times can be added up per part. */
    for (int32_t c = 0; c < of->n; c++)
        some.devices[c] = c;
    return cleave_parts_derive_cells(costs->model, op, &some, of->numbers, of->alone,
                                     &costs->scratch, costs->parts, error);
}

/* Of the cells together; `least` is [n_nests of the operator][CLEAVE_N_COMPUTE_PASSES]. */
static cleave_status price_cells(cleave_node_costs *costs, int32_t op, const cleave_split *split,
                                 const node_cells *some, known_cost *found, cleave_error *error) {
    const cleave_operator *of = &costs->model->operators[op];
    batch b;
    int64_t *prices = NULL;
    CLEAVE_TRY(derive_parts(costs, op, split, some, error));
    int64_t *busy = CLEAVE_ARENA_ARRAY(&costs->scratch, int64_t, some->n);
    if (busy == NULL || !make_batch(&costs->scratch, of, costs->parts, &b))
        return cleave_fail_memory(error, "pricing operators");
    costs->computes.n = 0;
    for (int32_t i = 0; i < of->n_nests; i++) {
        const cleave_nest *nest = &costs->model->nests[of->nests[i]];
        bool passes[CLEAVE_N_COMPUTE_PASSES];
        for (int pass = 0; pass < CLEAVE_N_COMPUTE_PASSES; pass++)
            passes[pass] = has_pass(costs->model, nest, pass);
        if (!add_nest(costs, of->nests[i], passes, i * CLEAVE_N_COMPUTE_PASSES, &b))
            return cleave_fail_memory(error, "pricing operators");
    }
    CLEAVE_TRY(price_computes(costs, &prices, error));
    for (int32_t i = 0; i < of->n_nests * CLEAVE_N_COMPUTE_PASSES; i++)
        found->least[i] = INT64_MAX;
    for (int32_t i = 0; i < b.n; i++) {
        int64_t price = prices[b.compute_of[i]];
        found->total += price;
        busy[b.device[i]] += price;
        if (price < found->least[b.place[i]])
            found->least[b.place[i]] = price;
    }
    for (int32_t c = 0; c < some->n; c++)
        found->largest = busy[c] > found->largest ? busy[c] : found->largest;
    return CLEAVE_OK;
}

/* ---- what is known already ------------------------------------------------------------------- */

/* The entry of a key, or the free one where it would go. */
static known_cost *find_entry(known_cost *entries, int32_t capacity, uint64_t a, uint64_t b) {
    uint64_t mask = (uint64_t)capacity - 1, at = a & mask;
    while (entries[at].least != NULL && (entries[at].a != a || entries[at].b != b))
        at = (at + 1) & mask;
    return &entries[at];
}

static bool make_room(cleave_node_costs *costs) {
    if (2 * (costs->n_known + 1) <= costs->capacity)
        return true;
    int32_t capacity = 2 * costs->capacity;
    known_cost *known = calloc((size_t)capacity, sizeof *known);
    if (known == NULL)
        return false;
    for (int32_t i = 0; i < costs->capacity; i++) {
        const known_cost *old = &costs->known[i];
        if (old->least != NULL)
            *find_entry(known, capacity, old->a, old->b) = *old;
    }
    free(costs->known);
    costs->known = known;
    costs->capacity = capacity;
    return true;
}

static cleave_status know(cleave_node_costs *costs, int32_t op, const cleave_split *split,
                          const node_cells *some, known_cost *known, cleave_error *error) {
    int32_t n_least = costs->model->operators[op].n_nests * CLEAVE_N_COMPUTE_PASSES;
    known_cost found = {.a = some->key.a, .b = some->key.b}, *entry = NULL;
    if (some->has_key && !make_room(costs))
        return cleave_fail_memory(error, "pricing operators");
    if (some->has_key)
        entry = find_entry(costs->known, costs->capacity, found.a, found.b);
    if (entry == NULL || entry->least == NULL) {
        cleave_arena *arena = some->has_key ? &costs->arena : &costs->scratch;
        found.least = CLEAVE_ARENA_ARRAY(arena, int64_t, n_least);
        if (found.least == NULL)
            return cleave_fail_memory(error, "pricing operators");
        CLEAVE_TRY(price_cells(costs, op, split, some, &found, error));
    }
    if (entry != NULL && entry->least == NULL) {
        *entry = found;
        costs->n_known++;
    }
    *known = entry != NULL ? *entry : found;
    return CLEAVE_OK;
}

cleave_status cleave_node_cost_of(cleave_node_costs *costs, int32_t op, const cleave_split *split,
                                  cleave_node_cost *cost, int64_t *least, cleave_error *error) {
    const node_model model = {costs->model, costs->padded_axes};
    node_cell_sets sets;
    cleave_node_cost found = {0};
    int32_t n_least = costs->model->operators[op].n_nests * CLEAVE_N_COMPUTE_PASSES;
    cleave_arena_reset(&costs->scratch);
    if (!node_cells_choose(&model, op, split, &costs->scratch, &sets))
        return cleave_fail_memory(error, "pricing operators");
    for (int32_t s = 0; s < sets.n; s++) {
        known_cost known = {0};
        CLEAVE_TRY(know(costs, op, split, &sets.items[s], &known, error));
        for (int32_t i = 0; i < n_least && least != NULL; i++)
            least[i] = known.least[i] < least[i] ? known.least[i] : least[i];
        found.total += known.total * sets.items[s].n_times;
        found.largest = known.largest > found.largest ? known.largest : found.largest;
    }
    *cost = found;
    return CLEAVE_OK;
}

cleave_status cleave_node_cost_whole(cleave_node_costs *costs, int32_t op, cleave_node_cost *cost,
                                     cleave_error *error) {
    int32_t device = 0;
    cleave_split whole = {.replicas = 1, .n_parts = 1, .devices = &device};
    for (int a = 0; a < CLEAVE_MAX_AXES; a++)
        whole.degree[a] = 1;
    return cleave_node_cost_of(costs, op, &whole, cost, NULL, error);
}

int64_t cleave_node_costs_chores(const cleave_node_costs *costs, int32_t op,
                                 const cleave_split *split) {
    return cleave_least_chores_of(costs->model, &costs->chores, op, split) / costs->micro_batches;
}

/* ---- without looking at parts ---------------------------------------------------------------- */

/* Work of parts adds up to no less than all of it, and no part of a nest leaves out a kernel that
   others have. */
static bool adds_up(const cleave_model *model, const cleave_operator *of) {
    for (int32_t i = 0; i < of->n_nests; i++) {
        const cleave_nest *nest = &model->nests[of->nests[i]];
        if (nest->kind == CLEAVE_NEST_CONVOLUTION || nest->kind == CLEAVE_NEST_POOL ||
            nest->n_turns > 0 || cleave_nest_filled_axis(model, nest) >= 0)
            return false;
    }
    return true;
}

static void note_seen(const cleave_nest *nest, int axis, cleave_node_floor *floor) {
    if (nest->operator_axis[axis] >= 0)
        floor->seen[nest->operator_axis[axis]] = nest->axes[axis].extent;
}

/* Has each part whole grains, or a share of one that is the same for all who have some of it? */
static bool keeps_grains(int64_t extent, int32_t degree) {
    int64_t block = extent / degree;
    return degree == 1 || (extent % CLEAVE_SEEN_GRAIN == 0 && extent % degree == 0 &&
                           (block % CLEAVE_SEEN_GRAIN == 0 || CLEAVE_SEEN_GRAIN % block == 0));
}

/* Does every part of a split have a part of the nest?  Owners may be fewer. */
static bool is_in_all_parts(const cleave_operator *of, const cleave_nest *nest) {
    bool is = nest->derivation == CLEAVE_DERIVE_OPERATOR;
    for (int a = 0; a < nest->n_axes; a++)
        is = is && (nest->operator_axis[a] < 0 ||
                    nest->axes[a].extent == of->axes[nest->operator_axis[a]].extent);
    return is;
}

/* On the kind of device where it is least. */
static void add_floor(const cleave_machine *machine, const cleave_work *work, bool in_all_parts,
                      cleave_node_floor *floor) {
    double together = INFINITY, launch = INFINITY;
    for (int32_t k = 0; k < machine->n_kinds; k++) {
        const cleave_device_kind *kind = &machine->kinds[k];
        double least = cleave_cost_floor(kind, work);
        together = fmin(together, least);
        launch = fmin(launch, in_all_parts && least > 0 ? kind->launch_seconds : 0);
    }
    floor->together += 1e12 * together * (1 - 1e-9);
    floor->each += 1e12 * launch - 1; /* prices are rounded */
}

cleave_node_floor cleave_node_floor_of(const cleave_node_costs *costs, int32_t op) {
    const cleave_operator *of = &costs->model->operators[op];
    cleave_node_floor floor = {0, 0, {0}};
    if (!adds_up(costs->model, of))
        return floor;
    for (int32_t i = 0; i < of->n_nests; i++) {
        const cleave_nest *nest = &costs->model->nests[of->nests[i]];
        const cleave_part whole = cleave_part_whole(nest, 0);
        if (nest->attention != NULL) {
            note_seen(nest, nest->attention->rows, &floor);
            note_seen(nest, nest->attention->keys, &floor);
        }
        for (int pass = 0; pass < CLEAVE_N_COMPUTE_PASSES; pass++) {
            cleave_work work;
            if (!has_pass(costs->model, nest, pass))
                continue;
            cleave_work_measure(costs->model, nest, (cleave_pass)pass, &whole, &work);
            add_floor(costs->machine, &work, is_in_all_parts(of, nest), &floor);
        }
    }
    return floor;
}

double cleave_node_floor_under(const cleave_node_floor *floor, const cleave_split *split) {
    for (int a = 0; a < CLEAVE_MAX_AXES; a++)
        if (floor->seen[a] > 0 && !keeps_grains(floor->seen[a], split->degree[a]))
            return 0;
    return floor->together + floor->each * split->n_parts;
}
