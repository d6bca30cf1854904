/* Candidates are enumerated as the ways to hand out prime factors.  Equal factors of one level are
   handed out in ascending order of target, since devices of a level are alike: 16 nodes of 4
   devices and six targets give thousands of ways and not 6^6.  A factor that leaves the largest
   block of an axis as large as before is dominated and not handed out.  Node cost depends on the
   degrees alone, so it is worked out once for all the ways that give the same degrees. */
#include "search/candidates.h"

#include "base/list.h"
#include "search/bound/candidate_ways.h"

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
    bool splits[CLEAVE_MAX_AXES]; /* axes that may be split */
    bool blocks;                  /* not only the first block of a size */
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
static bool allowed(const enumeration *e, int target, int32_t before, int32_t after) {
    if (target == 0)
        return true;
    const cleave_axis *axis = &e->op->axes[target - 1];
    return e->splits[target - 1] && after <= axis->extent &&
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
        if (!allowed(e, t, e->current.total[t], e->current.total[t] * prime))
            continue;
        e->target_of[i] = t;
        e->current.degree[level][t] *= prime;
        e->current.total[t] *= prime;
        hand_out(e, i + 1, n);
        e->current.degree[level][t] /= prime;
        e->current.total[t] /= prime;
    }
}

static void enumerate(enumeration *e) {
    for (int t = 0; t < N_TARGETS; t++)
        e->current.total[t] = e->current.degree[0][t] = e->current.degree[1][t] = 1;
    e->current.n_parts = 1;
    for (int n = 0; n <= e->n_primes; n++) {
        if (n > 0)
            e->current.n_parts *= e->prime[n - 1];
        hand_out(e, 0, n);
    }
}

/* ---- how many there are, without making them ----

   A way to hand out the first n factors is a way to give each target some factors of each group of
   equal ones, and whether a target may have them does not depend on what the others get.  So they
   are counted by going over the targets, with a state for how many of each group are gone. */

typedef struct groups {
    int n, prime[MAX_PRIMES], most[MAX_PRIMES];
    int32_t n_states; /* mixed radix, the first group lowest */
} groups;

static groups group_factors(const enumeration *e) {
    groups g = {.n_states = 1};
    for (int i = 0; i < e->n_primes; i++) {
        bool more = i > 0 && e->prime[i] == e->prime[i - 1] && e->level[i] == e->level[i - 1];
        if (!more)
            g.prime[g.n++] = e->prime[i];
        g.most[g.n - 1]++;
    }
    for (int k = 0; k < g.n; k++)
        g.n_states *= g.most[k] + 1;
    return g;
}

/* May a target have all that a state says, handed out in order? */
static bool may_have(const enumeration *e, const groups *g, int target, int32_t state) {
    int32_t total = 1;
    for (int k = 0; k < g->n; state /= g->most[k] + 1, k++)
        for (int i = 0; i < state % (g->most[k] + 1); i++) {
            if (!allowed(e, target, total, total * g->prime[k]))
                return false;
            total *= g->prime[k];
        }
    return true;
}

/* Can one state's factors be taken beside those of another? */
static bool has_room(const groups *g, int32_t a, int32_t b) {
    for (int k = 0; k < g->n; k++) {
        int32_t radix = g->most[k] + 1;
        if (a % radix + b % radix >= radix)
            return false;
        a /= radix;
        b /= radix;
    }
    return true;
}

/* ways[state] for all targets; `next` is scratch. */
static void count_ways(const enumeration *e, const groups *g, double *ways, double *next) {
    memset(ways, 0, (size_t)g->n_states * sizeof *ways);
    ways[0] = 1;
    for (int t = 0; t <= e->op->n_axes; t++) {
        memset(next, 0, (size_t)g->n_states * sizeof *next);
        for (int32_t had = 0; had < g->n_states; had++)
            for (int32_t s = 0; may_have(e, g, t, had) && s < g->n_states - had; s++)
                if (ways[s] > 0 && has_room(g, s, had))
                    next[s + had] += ways[s];
        memcpy(ways, next, (size_t)g->n_states * sizeof *ways);
    }
}

static bool count_splits(const enumeration *e, int32_t n_devices, double *n_splits) {
    groups g = group_factors(e);
    double *ways = malloc((size_t)g.n_states * 2 * sizeof *ways), total = 0;
    if (ways == NULL)
        return false;
    count_ways(e, &g, ways, ways + g.n_states);
    int32_t n_parts = 1, state = 0, place = 1;
    for (int k = 0; k < g.n; place *= g.most[k] + 1, k++)
        for (int i = 0; i < g.most[k]; i++) {
            total += ways[state] * (e->blocks ? n_devices / n_parts : 1);
            state += place;
            n_parts *= g.prime[k];
        }
    *n_splits = total + ways[state]; /* all devices: one block */
    free(ways);
    return true;
}

/* ---- their costs ---- */

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

static cleave_status price_drafts(enumeration *e, cleave_node_costs *costs, cleave_arena *arena,
                                  cleave_candidate_list *list, cleave_error *error) {
    const cleave_way_pricing pricing = {costs, arena, 1};
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
        CLEAVE_TRY(cleave_candidate_list_add_way(&pricing, &split, list, &cost, error));
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

static bool keep(const enumeration *e, const draft *d, int32_t n_devices, cleave_arena *arena,
                 cleave_candidate *candidate) {
    *candidate = (cleave_candidate){.replicas = d->total[0],
                                    .n_parts = d->n_parts,
                                    .n_starts = e->blocks ? n_devices / d->n_parts : 1,
                                    .picoseconds = d->picoseconds};
    memcpy(candidate->degree, d->total + 1, sizeof candidate->degree);
    candidate->offsets = CLEAVE_ARENA_ARRAY(arena, int32_t, d->n_parts);
    if (candidate->offsets == NULL)
        return false;
    place_parts(d, e->op->n_axes, candidate->offsets);
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
            if (!keep(e, &e->drafts.items[i + k], n_devices, arena, &list->items[list->n++]))
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
    const cleave_way_pricing pricing = {costs, arena, 1};
    if (holds(list, split))
        return CLEAVE_OK;
    cleave_node_cost cost;
    CLEAVE_TRY(cleave_candidate_list_add_way(&pricing, split, list, &cost, error));
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

typedef struct maker {
    const cleave_model *model;
    const cleave_machine *machine;
    cleave_node_costs *costs;
    const cleave_constraints *constraints;
    cleave_arena *arena;
} maker;

static enumeration begin_enumeration(const maker *m, int32_t op) {
    const cleave_machine *machine = m->machine;
    enumeration e = {.op = &m->model->operators[op],
                     .blocks = cleave_constraints_allow_blocks(m->constraints)};
    for (int a = 0; a < e.op->n_axes; a++)
        e.splits[a] = !e.op->axes[a].whole && cleave_constraints_allow_axis(m->constraints, op, a);
    int32_t within = machine->devices_per_node;
    if (within < 1 || machine->n_devices % within != 0)
        within = machine->n_devices;
    factorize(&e, within, 0);
    factorize(&e, machine->n_devices / within, 1);
    return e;
}

static cleave_status list_drafts(const maker *m, cleave_candidate_list *list, cleave_error *error) {
    enumeration e = begin_enumeration(m, list->op);
    enumerate(&e);
    list->truncated = e.truncated;
    bool failed = e.failed || !count_splits(&e, m->machine->n_devices, &list->n_splits);
    cleave_status status = failed ? cleave_fail_memory(error, "listing candidates") : CLEAVE_OK;
    if (status == CLEAVE_OK && m->costs != NULL) /* else they stand by size already */
        status = price_drafts(&e, m->costs, m->arena, list, error);
    if (status == CLEAVE_OK && !keep_best(&e, m->machine->n_devices, m->arena, list))
        status = cleave_fail_memory(error, "listing candidates");
    CLEAVE_LIST_FREE(&e.drafts);
    return status;
}

static const cleave_split *fixed_split(const maker *m, int32_t op) {
    const cleave_constraints *c = m->constraints;
    return c != NULL && c->n_fixed > 0 && c->is_fixed[op] ? &c->fixed->splits[op] : NULL;
}

/* Room is for all candidates that are kept and `n_given` more. */
static cleave_status make_list(const maker *m, int32_t n_given, cleave_candidate_list *list,
                               cleave_error *error) {
    const cleave_split *fixed = fixed_split(m, list->op);
    int32_t n_least = m->model->operators[list->op].n_nests * CLEAVE_N_COMPUTE_PASSES;
    *list = (cleave_candidate_list){.op = list->op, .least_total = INT64_MAX, .n_least = n_least};
    list->items = CLEAVE_ARENA_ARRAY(m->arena, cleave_candidate,
                                     fixed != NULL ? 1 : CLEAVE_MAX_CANDIDATES + n_given);
    list->least = CLEAVE_ARENA_ARRAY(m->arena, int64_t, n_least);
    if (list->items == NULL || list->least == NULL)
        return cleave_fail_memory(error, "listing candidates");
    for (int32_t i = 0; i < n_least; i++)
        list->least[i] = INT64_MAX;
    list->n_splits = 1;
    return fixed != NULL ? add_given(m->costs, fixed, m->arena, list, error)
                         : list_drafts(m, list, error);
}

/* May two operators share a list? */
static bool share(const maker *m, int32_t a, int32_t b) {
    const cleave_split *x = fixed_split(m, a), *y = fixed_split(m, b);
    if ((x == NULL) != (y == NULL) || !cleave_operators_alike(m->model, a, b))
        return false;
    for (int axis = 0; axis < m->model->operators[a].n_axes; axis++)
        if (cleave_constraints_allow_axis(m->constraints, a, axis) !=
            cleave_constraints_allow_axis(m->constraints, b, axis))
            return false;
    return x == NULL ||
           (x->replicas == y->replicas && x->n_parts == y->n_parts &&
            memcmp(x->degree, y->degree, sizeof x->degree) == 0 &&
            memcmp(x->devices, y->devices, (size_t)x->n_parts * sizeof *x->devices) == 0);
}

cleave_status cleave_candidates_list(const cleave_model *model, const cleave_machine *machine,
                                     cleave_node_costs *costs, const cleave_candidate_space *space,
                                     cleave_arena *arena, cleave_candidates *candidates,
                                     cleave_error *error) {
    maker m = {.model = model,
               .machine = machine,
               .costs = costs,
               .constraints = space->constraints,
               .arena = arena};
    cleave_candidates result = {0};
    result.lists = CLEAVE_ARENA_ARRAY(arena, cleave_candidate_list, model->n_operators);
    result.list_of = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_operators);
    int32_t *likes = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_operators);
    if (result.lists == NULL || result.list_of == NULL || likes == NULL)
        return cleave_fail_memory(error, "listing candidates");
    for (int32_t op = 0; op < model->n_operators; op++) {
        int32_t l = 0;
        while (l < result.n_lists && !share(&m, op, result.lists[l].op))
            l++;
        if (l == result.n_lists)
            result.lists[result.n_lists++].op = op;
        result.list_of[op] = l;
        likes[l]++;
    }
    for (int32_t l = 0; l < result.n_lists; l++) {
        CLEAVE_TRY(make_list(&m, likes[l] * space->n_given, &result.lists[l], error));
        result.truncated = result.truncated || result.lists[l].truncated;
    }
    *candidates = result;
    return CLEAVE_OK;
}

cleave_status cleave_candidates_add(const cleave_model *model, cleave_node_costs *costs,
                                    const cleave_candidate_space *space, cleave_arena *arena,
                                    cleave_candidates *candidates, cleave_error *error) {
    const maker m = {.model = model, .constraints = space->constraints};
    for (int32_t g = 0; g < space->n_given; g++)
        for (int32_t op = 0; op < model->n_operators; op++)
            if (fixed_split(&m, op) == NULL &&
                cleave_constraints_allow(space->constraints, op, &space->given[g]->splits[op]))
                CLEAVE_TRY(add_given(costs, &space->given[g]->splits[op], arena,
                                     &candidates->lists[candidates->list_of[op]], error));
    return CLEAVE_OK;
}

cleave_status cleave_candidates_create_within(const cleave_model *model,
                                              const cleave_machine *machine,
                                              cleave_node_costs *costs,
                                              const cleave_candidate_space *space,
                                              cleave_arena *arena, cleave_candidates *candidates,
                                              cleave_error *error) {
    CLEAVE_TRY(cleave_candidates_list(model, machine, costs, space, arena, candidates, error));
    return cleave_candidates_add(model, costs, space, arena, candidates, error);
}

cleave_status cleave_candidates_create(const cleave_model *model, const cleave_machine *machine,
                                       cleave_node_costs *costs, const cleave_layout *const *given,
                                       int32_t n_given, cleave_arena *arena,
                                       cleave_candidates *candidates, cleave_error *error) {
    const cleave_candidate_space space = {.given = given, .n_given = n_given};
    return cleave_candidates_create_within(model, machine, costs, &space, arena, candidates, error);
}

int64_t cleave_candidates_count(const cleave_candidate_list *list) {
    int64_t count = 0;
    for (int32_t i = 0; i < list->n; i++)
        count += list->items[i].n_starts;
    return count;
}

void cleave_candidate_place(const cleave_candidate *candidate, int32_t start, cleave_split *split) {
    split->replicas = candidate->replicas;
    split->n_parts = candidate->n_parts;
    memcpy(split->degree, candidate->degree, sizeof split->degree);
    for (int32_t p = 0; p < candidate->n_parts; p++)
        split->devices[p] = start * candidate->n_parts + candidate->offsets[p];
}
