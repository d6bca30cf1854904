/* The parts of one operator come from the same function as those of a whole model: each operator
   is seen as a model that has its nests and no others. */
#include "search/node_cost.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    int32_t nest; /* -1: free */
    int32_t pass;
    int64_t extent[CLEAVE_MAX_AXES];
    int64_t picoseconds;
} entry;

struct cleave_node_costs {
    const cleave_model *model;
    const cleave_machine *machine;
    cleave_arena arena, scratch; /* scratch is reset by every call */
    cleave_model *alone;         /* [n_operators] the model with the nests of one operator */
    entry *entries;              /* open addressing, at most half full */
    size_t capacity, n;
};

/* `alone->nests` are copies, in order, that follow each other instead of the nests of the model. */
static bool take_operator(cleave_node_costs *costs, int32_t op) {
    const cleave_operator *from = &costs->model->operators[op];
    cleave_model *alone = &costs->alone[op];
    *alone = *costs->model;
    alone->n_nests = from->n_nests;
    alone->nests = CLEAVE_ARENA_ARRAY(&costs->arena, cleave_nest, from->n_nests);
    if (alone->nests == NULL)
        return false;
    for (int32_t i = 0; i < from->n_nests; i++) {
        alone->nests[i] = costs->model->nests[from->nests[i]];
        for (int32_t j = 0; j < i; j++)
            if (alone->nests[i].derivation == CLEAVE_DERIVE_OWNERS &&
                from->nests[j] == costs->model->nests[from->nests[i]].owners_of)
                alone->nests[i].owners_of = j;
    }
    return true;
}

static entry *make_entries(size_t capacity) {
    entry *entries = calloc(capacity, sizeof *entries);
    for (size_t i = 0; entries != NULL && i < capacity; i++)
        entries[i].nest = -1;
    return entries;
}

cleave_status cleave_node_costs_create(const cleave_model *model, const cleave_machine *machine,
                                       cleave_node_costs **costs, cleave_error *error) {
    cleave_node_costs *result = calloc(1, sizeof *result);
    if (result == NULL)
        return cleave_fail_memory(error, "pricing operators");
    result->model = model;
    result->machine = machine;
    result->capacity = 1024;
    result->entries = make_entries(result->capacity);
    result->alone = CLEAVE_ARENA_ARRAY(&result->arena, cleave_model, model->n_operators);
    bool made = result->entries != NULL && result->alone != NULL;
    for (int32_t op = 0; made && op < model->n_operators; op++)
        made = take_operator(result, op);
    if (!made) {
        cleave_node_costs_destroy(result);
        return cleave_fail_memory(error, "pricing operators");
    }
    *costs = result;
    return CLEAVE_OK;
}

void cleave_node_costs_destroy(cleave_node_costs *costs) {
    if (costs == NULL)
        return;
    cleave_arena_free(&costs->arena);
    cleave_arena_free(&costs->scratch);
    free(costs->entries);
    free(costs);
}

/* The entry of a key, or the free one where it belongs. */
static entry *find(entry *entries, size_t capacity, const entry *key) {
    uint64_t hash = cleave_hash_join((uint64_t)key->nest, (uint64_t)key->pass);
    for (int a = 0; a < CLEAVE_MAX_AXES; a++)
        hash = (hash ^ (uint64_t)key->extent[a]) * UINT64_C(0x9e3779b97f4a7c15);
    size_t place = (size_t)(cleave_hash64(hash) & (capacity - 1));
    while (entries[place].nest >= 0 &&
           (entries[place].nest != key->nest || entries[place].pass != key->pass ||
            memcmp(entries[place].extent, key->extent, sizeof key->extent) != 0))
        place = (place + 1) & (capacity - 1);
    return &entries[place];
}

static bool grow(cleave_node_costs *costs) {
    entry *grown = make_entries(2 * costs->capacity);
    if (grown == NULL)
        return false;
    for (size_t i = 0; i < costs->capacity; i++)
        if (costs->entries[i].nest >= 0)
            *find(grown, 2 * costs->capacity, &costs->entries[i]) = costs->entries[i];
    free(costs->entries);
    costs->entries = grown;
    costs->capacity *= 2;
    return true;
}

/* Rounded down, so that sums of these stay bounds from below. */
static int64_t time_of(const cleave_node_costs *costs, const cleave_nest *nest, cleave_pass pass,
                       const cleave_part *part) {
    cleave_work work;
    cleave_work_describe(costs->model, nest, pass, part, &work);
    double least = INFINITY;
    for (int32_t k = 0; k < costs->machine->n_kinds; k++) {
        cleave_provenance provenance;
        double seconds = cleave_cost_compute(&costs->machine->kinds[k], &work, &provenance);
        least = seconds < least ? seconds : least;
    }
    return (int64_t)floor(least * 1e12);
}

/* Of one pass over a part; -1 when memory is short. */
static int64_t part_time(cleave_node_costs *costs, int32_t nest, cleave_pass pass,
                         const cleave_part *part) {
    entry key = {.nest = nest, .pass = (int32_t)pass};
    for (int a = 0; a < costs->model->nests[nest].n_axes; a++)
        key.extent[a] = part->hi[a] - part->lo[a];
    entry *known = find(costs->entries, costs->capacity, &key);
    if (known->nest >= 0)
        return known->picoseconds;
    if (2 * (costs->n + 1) > costs->capacity) {
        if (!grow(costs))
            return -1;
        known = find(costs->entries, costs->capacity, &key);
    }
    key.picoseconds = time_of(costs, &costs->model->nests[nest], pass, part);
    *known = key;
    costs->n++;
    return key.picoseconds;
}

static bool has_pass(const cleave_model *model, const cleave_nest *nest, int pass) {
    if (pass == CLEAVE_PASS_FORWARD)
        return true;
    return model->loss >= 0 && cleave_nest_pass_inputs(model, nest, (cleave_pass)pass) != 0;
}

static bool same_extents(int n_axes, const cleave_part *a, const cleave_part *b) {
    for (int i = 0; i < n_axes; i++)
        if (a->hi[i] - a->lo[i] != b->hi[i] - b->lo[i])
            return false;
    return true;
}

/* Adds one pass of one nest to the total and to what each part's device has to do. */
static bool add_pass(cleave_node_costs *costs, int32_t nest, cleave_pass pass,
                     const cleave_parts *parts, int64_t *busy, int64_t *total, int64_t *least) {
    const cleave_part *last = NULL; /* neighbours mostly have equal extents */
    int64_t picoseconds = 0;
    for (int32_t p = 0; p < parts->n; p++) {
        const cleave_part *part = &parts->items[p];
        if (part->empty)
            continue;
        if (last == NULL || !same_extents(costs->model->nests[nest].n_axes, part, last))
            picoseconds = part_time(costs, nest, pass, part);
        if (picoseconds < 0)
            return false;
        last = part;
        *total += picoseconds;
        busy[part->device] += picoseconds;
        if (least != NULL && picoseconds < *least)
            *least = picoseconds;
    }
    return true;
}

cleave_status cleave_node_cost_of(cleave_node_costs *costs, int32_t op, const cleave_split *split,
                                  cleave_node_cost *cost, int64_t *least, cleave_error *error) {
    const cleave_model *alone = &costs->alone[op];
    cleave_arena_reset(&costs->scratch);
    /* The parts stand on devices 0, 1, ..., so that `busy` is per part. */
    cleave_split *splits = CLEAVE_ARENA_ARRAY(&costs->scratch, cleave_split, alone->n_operators);
    int32_t *devices = CLEAVE_ARENA_ARRAY(&costs->scratch, int32_t, split->n_parts);
    int64_t *busy = CLEAVE_ARENA_ARRAY(&costs->scratch, int64_t, split->n_parts);
    if (splits == NULL || devices == NULL || busy == NULL)
        return cleave_fail_memory(error, "pricing operators");
    for (int32_t p = 0; p < split->n_parts; p++)
        devices[p] = p;
    splits[op] = *split;
    splits[op].devices = devices;
    cleave_layout layout = {.n_devices = split->n_parts, .splits = splits};
    cleave_parts *parts;
    CLEAVE_TRY(cleave_parts_derive(alone, &layout, &costs->scratch, &parts, error));
    cleave_node_cost result = {0};
    for (int32_t i = 0; i < alone->n_nests; i++)
        for (int pass = 0; pass < CLEAVE_N_COMPUTE_PASSES; pass++)
            if (has_pass(costs->model, &alone->nests[i], pass) &&
                !add_pass(costs, costs->model->operators[op].nests[i], (cleave_pass)pass, &parts[i],
                          busy, &result.total,
                          least == NULL ? NULL : &least[i * CLEAVE_N_COMPUTE_PASSES + pass]))
                return cleave_fail_memory(error, "pricing operators");
    for (int32_t p = 0; p < split->n_parts; p++)
        result.largest = busy[p] > result.largest ? busy[p] : result.largest;
    *cost = result;
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
