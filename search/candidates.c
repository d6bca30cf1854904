/* Candidates are enumerated as the ways to hand out prime factors.  Equal factors of one level are
   handed out in ascending order of target, since devices of a level are alike: 16 nodes of 4
   devices and six targets give thousands of ways and not 6^6.  A factor that leaves the largest
   block of an axis as large as before is dominated and not handed out.  Node cost depends on the
   degrees alone, so it is worked out once for all the ways that give the same degrees. */
#include "search/candidates.h"

#include "base/list.h"

#include <stdlib.h>
#include <string.h>

enum { N_LEVELS = 2, N_TARGETS = CLEAVE_MAX_AXES + 1, MAX_PRIMES = 32, MAX_DRAFTS = 1 << 15 };

/* Target 0 is replicas, target 1 + a is axis a. */
typedef struct draft {
    int32_t degree[N_LEVELS][N_TARGETS]; /* level 0: within a node; level 1: nodes */
    int32_t total[N_TARGETS], n_parts, index;
    int64_t picoseconds;
} draft;

typedef struct enumeration {
    const cleave_operator *op;
    int n_primes;
    int32_t prime[MAX_PRIMES]; /* innermost level first */
    int level[MAX_PRIMES];
    int target_of[MAX_PRIMES];
    draft current;
    CLEAVE_LIST(draft) drafts;
    bool truncated, failed;
} enumeration;

static void factorize(enumeration *e, int32_t n, int level) {
    for (int32_t p = 2; n > 1; p++)
        for (; n % p == 0; n /= p) {
            e->level[e->n_primes] = level;
            e->prime[e->n_primes++] = p;
        }
}

static int64_t largest_block(int64_t extent, int64_t degree) {
    return (extent + degree - 1) / degree;
}

/* May a target that is split `before` ways be split `after` ways? */
static bool allowed(const cleave_operator *op, int target, int32_t before, int32_t after) {
    if (target == 0)
        return true;
    const cleave_axis *axis = &op->axes[target - 1];
    return !axis->whole && after <= axis->extent &&
           largest_block(axis->extent, after) < largest_block(axis->extent, before);
}

static void add_draft(enumeration *e) {
    if (e->drafts.n == MAX_DRAFTS) {
        e->truncated = true;
        return;
    }
    e->current.index = e->drafts.n;
    e->failed = e->failed || !CLEAVE_LIST_PUSH(&e->drafts, e->current);
}

/* Hands out factor i of the first n. */
static void hand_out(enumeration *e, int i, int n) {
    if (i == n) {
        add_draft(e);
        return;
    }
    int32_t prime = e->prime[i];
    int level = e->level[i], first = 0;
    if (i > 0 && e->prime[i - 1] == prime && e->level[i - 1] == level)
        first = e->target_of[i - 1];
    for (int t = first; t <= e->op->n_axes && !e->truncated && !e->failed; t++) {
        if (!allowed(e->op, t, e->current.total[t], e->current.total[t] * prime))
            continue;
        e->target_of[i] = t;
        e->current.degree[level][t] *= prime;
        e->current.total[t] *= prime;
        hand_out(e, i + 1, n);
        e->current.degree[level][t] /= prime;
        e->current.total[t] /= prime;
    }
}

static void enumerate(enumeration *e, const cleave_machine *machine) {
    int32_t within = machine->devices_per_node;
    if (within < 1 || machine->n_devices % within != 0)
        within = machine->n_devices;
    factorize(e, within, 0);
    factorize(e, machine->n_devices / within, 1);
    for (int t = 0; t < N_TARGETS; t++)
        e->current.total[t] = e->current.degree[0][t] = e->current.degree[1][t] = 1;
    e->current.n_parts = 1;
    for (int n = 0; n <= e->n_primes; n++) {
        if (n > 0)
            e->current.n_parts *= e->prime[n - 1];
        hand_out(e, 0, n);
    }
}

static int by_degrees(const void *a, const void *b) {
    const draft *x = a, *y = b;
    int order = memcmp(x->total, y->total, sizeof x->total);
    return order != 0 ? order : (x->index > y->index) - (x->index < y->index);
}

static int by_cost(const void *a, const void *b) {
    const draft *x = a, *y = b;
    if (x->n_parts != y->n_parts)
        return x->n_parts < y->n_parts ? -1 : 1;
    if (x->picoseconds != y->picoseconds)
        return x->picoseconds < y->picoseconds ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static void note_cost(cleave_candidate_list *list, const cleave_node_cost *cost) {
    list->least_total = cost->total < list->least_total ? cost->total : list->least_total;
}

static cleave_status price_drafts(enumeration *e, cleave_node_costs *costs,
                                  cleave_candidate_list *list, cleave_error *error) {
    if (e->drafts.n == 0)
        return CLEAVE_OK;
    qsort(e->drafts.items, (size_t)e->drafts.n, sizeof *e->drafts.items, by_degrees);
    for (int32_t i = 0; i < e->drafts.n; i++) {
        draft *d = &e->drafts.items[i];
        if (i > 0 && memcmp(d->total, d[-1].total, sizeof d->total) == 0) {
            d->picoseconds = d[-1].picoseconds;
            continue;
        }
        cleave_split split = {.replicas = d->total[0], .n_parts = d->n_parts};
        memcpy(split.degree, d->total + 1, sizeof split.degree);
        cleave_node_cost cost;
        CLEAVE_TRY(cleave_node_cost_of(costs, list->op, &split, &cost, list->least, error));
        note_cost(list, &cost);
        d->picoseconds = cost.largest;
    }
    qsort(e->drafts.items, (size_t)e->drafts.n, sizeof *e->drafts.items, by_cost);
    return CLEAVE_OK;
}

/* Where the parts stand in a block: within a level the last axis is innermost, as in the order of
   parts, and the nodes' level lies around that of the devices in a node. */
static void place_parts(const draft *d, int n_axes, int32_t *offsets) {
    int32_t stride[N_LEVELS][N_TARGETS], size = 1;
    for (int level = 0; level < N_LEVELS; level++)
        for (int t = n_axes; t >= 0; t--) {
            stride[level][t] = size;
            size *= d->degree[level][t];
        }
    for (int32_t p = 0; p < d->n_parts; p++) {
        int32_t rest = p, offset = 0;
        for (int t = n_axes; t >= 0; t--) {
            int32_t index = rest % d->total[t], within = d->degree[0][t];
            rest /= d->total[t];
            offset += index / within * stride[1][t] + index % within * stride[0][t];
        }
        offsets[p] = offset;
    }
}

static bool keep(const draft *d, const cleave_operator *op, int32_t n_devices, cleave_arena *arena,
                 cleave_candidate *candidate) {
    *candidate = (cleave_candidate){.replicas = d->total[0],
                                    .n_parts = d->n_parts,
                                    .n_starts = n_devices / d->n_parts,
                                    .picoseconds = d->picoseconds};
    memcpy(candidate->degree, d->total + 1, sizeof candidate->degree);
    candidate->offsets = CLEAVE_ARENA_ARRAY(arena, int32_t, d->n_parts);
    if (candidate->offsets == NULL)
        return false;
    place_parts(d, op->n_axes, candidate->offsets);
    return true;
}

/* Keeps the best of each size of block; sizes that need less than their share leave it to the
   larger ones. */
static bool keep_best(const enumeration *e, int32_t n_devices, cleave_arena *arena,
                      cleave_candidate_list *list) {
    int32_t room = CLEAVE_MAX_CANDIDATES, sizes = e->n_primes + 1;
    for (int32_t i = 0; i < e->drafts.n; sizes--) {
        int32_t end = i;
        while (end < e->drafts.n && e->drafts.items[end].n_parts == e->drafts.items[i].n_parts)
            end++;
        int32_t share = room / (sizes < 1 ? 1 : sizes);
        int32_t n = end - i < share ? end - i : share;
        list->truncated = list->truncated || n < end - i;
        for (int32_t k = 0; k < n; k++)
            if (!keep(&e->drafts.items[i + k], e->op, n_devices, arena, &list->items[list->n++]))
                return false;
        room -= n;
        i = end;
    }
    return true;
}

static bool holds(const cleave_candidate_list *list, const cleave_split *split) {
    for (int32_t i = 0; i < list->n; i++) {
        const cleave_candidate *c = &list->items[i];
        if (c->n_parts != split->n_parts || c->replicas != split->replicas ||
            memcmp(c->degree, split->degree, sizeof c->degree) != 0)
            continue;
        int32_t start = split->devices[0] - c->offsets[0], p = 0;
        while (p < c->n_parts && split->devices[p] - c->offsets[p] == start)
            p++;
        if (p == c->n_parts && start % c->n_parts == 0 && start / c->n_parts >= 0 &&
            start / c->n_parts < c->n_starts)
            return true;
    }
    return false;
}

/* Adds a split of a given layout, if it is not among the candidates. */
static cleave_status add_given(cleave_node_costs *costs, const cleave_split *split,
                               cleave_arena *arena, cleave_candidate_list *list,
                               cleave_error *error) {
    if (holds(list, split))
        return CLEAVE_OK;
    cleave_node_cost cost;
    CLEAVE_TRY(cleave_node_cost_of(costs, list->op, split, &cost, list->least, error));
    note_cost(list, &cost);
    cleave_candidate *c = &list->items[list->n];
    *c = (cleave_candidate){.replicas = split->replicas,
                            .n_parts = split->n_parts,
                            .n_starts = 1,
                            .picoseconds = cost.largest};
    memcpy(c->degree, split->degree, sizeof c->degree);
    c->offsets = CLEAVE_ARENA_ARRAY(arena, int32_t, split->n_parts);
    if (c->offsets == NULL)
        return cleave_fail_memory(error, "listing candidates");
    memcpy(c->offsets, split->devices, (size_t)split->n_parts * sizeof *split->devices);
    list->n++;
    return CLEAVE_OK;
}

static cleave_status make_list(const cleave_model *model, const cleave_machine *machine,
                               cleave_node_costs *costs, int32_t op, int32_t n_given,
                               cleave_arena *arena, cleave_candidate_list *list,
                               cleave_error *error) {
    int32_t n_least = model->operators[op].n_nests * CLEAVE_N_COMPUTE_PASSES;
    *list = (cleave_candidate_list){.op = op, .least_total = INT64_MAX};
    list->items = CLEAVE_ARENA_ARRAY(arena, cleave_candidate, CLEAVE_MAX_CANDIDATES + n_given);
    list->least = CLEAVE_ARENA_ARRAY(arena, int64_t, n_least);
    if (list->items == NULL || list->least == NULL)
        return cleave_fail_memory(error, "listing candidates");
    for (int32_t i = 0; i < n_least; i++)
        list->least[i] = INT64_MAX;
    enumeration e = {.op = &model->operators[op]};
    enumerate(&e, machine);
    list->truncated = e.truncated;
    cleave_status status = e.failed ? cleave_fail_memory(error, "listing candidates") : CLEAVE_OK;
    if (status == CLEAVE_OK)
        status = price_drafts(&e, costs, list, error);
    if (status == CLEAVE_OK && !keep_best(&e, machine->n_devices, arena, list))
        status = cleave_fail_memory(error, "listing candidates");
    CLEAVE_LIST_FREE(&e.drafts);
    return status;
}

cleave_status cleave_candidates_create(const cleave_model *model, const cleave_machine *machine,
                                       cleave_node_costs *costs, const cleave_layout *const *given,
                                       int32_t n_given, cleave_arena *arena,
                                       cleave_candidates *candidates, cleave_error *error) {
    cleave_candidates result = {0};
    result.lists = CLEAVE_ARENA_ARRAY(arena, cleave_candidate_list, model->n_operators);
    result.list_of = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_operators);
    int32_t *likes = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_operators);
    if (result.lists == NULL || result.list_of == NULL || likes == NULL)
        return cleave_fail_memory(error, "listing candidates");
    for (int32_t op = 0; op < model->n_operators; op++) {
        int32_t l = 0;
        while (l < result.n_lists && !cleave_operators_alike(model, op, result.lists[l].op))
            l++;
        if (l == result.n_lists)
            result.lists[result.n_lists++].op = op;
        result.list_of[op] = l;
        likes[l]++;
    }
    for (int32_t l = 0; l < result.n_lists; l++)
        CLEAVE_TRY(make_list(model, machine, costs, result.lists[l].op, likes[l] * n_given, arena,
                             &result.lists[l], error));
    for (int32_t g = 0; g < n_given; g++)
        for (int32_t op = 0; op < model->n_operators; op++)
            CLEAVE_TRY(add_given(costs, &given[g]->splits[op], arena,
                                 &result.lists[result.list_of[op]], error));
    for (int32_t l = 0; l < result.n_lists; l++)
        result.truncated = result.truncated || result.lists[l].truncated;
    *candidates = result;
    return CLEAVE_OK;
}

void cleave_candidate_place(const cleave_candidate *candidate, int32_t start, cleave_split *split) {
    split->replicas = candidate->replicas;
    split->n_parts = candidate->n_parts;
    memcpy(split->degree, candidate->degree, sizeof split->degree);
    for (int32_t p = 0; p < candidate->n_parts; p++)
        split->devices[p] = start * candidate->n_parts + candidate->offsets[p];
}
