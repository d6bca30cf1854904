/* Node cost depends on the degrees alone, so it is worked out once for all the drafts that give the
   same degrees. */
#include "search/problem/candidates.h"

#include "search/bound/candidate_ways.h"
#include "search/drafts.h"

#include <stdlib.h>
#include <string.h>

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

static cleave_status price_drafts(drafts *all, cleave_node_costs *costs, cleave_arena *arena,
                                  cleave_candidate_list *list, cleave_error *error) {
    const cleave_way_pricing pricing = {costs, arena, 1};
    if (all->list.n == 0)
        return CLEAVE_OK;
    qsort(all->list.items, (size_t)all->list.n, sizeof *all->list.items, by_degrees);
    for (int32_t i = 0; i < all->list.n; i++) {
        draft *way = &all->list.items[i];
        if (i > 0 && memcmp(way->total, way[-1].total, sizeof way->total) == 0) {
            way->picoseconds = way[-1].picoseconds;
            continue;
        }
        cleave_split split = {.replicas = way->total[0], .n_parts = way->n_parts};
        memcpy(split.degree, way->total + 1, sizeof split.degree);
        cleave_node_cost cost;
        CLEAVE_TRY(cleave_candidate_list_add_way(&pricing, &split, list, &cost, error));
        way->picoseconds = cost.largest;
    }
    qsort(all->list.items, (size_t)all->list.n, sizeof *all->list.items, by_cost);
    return CLEAVE_OK;
}

/* Where the parts stand in a block: within a level the last axis is innermost, as in the order of
   parts, and the nodes' level lies around that of the devices in a node. */
static void place_parts(const draft *d, int n_axes, int32_t *offsets) {
    int32_t stride[DRAFT_LEVELS][DRAFT_TARGETS], size = 1;
    for (int level = 0; level < DRAFT_LEVELS; level++)
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

static bool keep(const drafts *all, const draft *d, cleave_arena *arena,
                 cleave_candidate *candidate) {
    *candidate = (cleave_candidate){.replicas = d->total[0],
                                    .n_parts = d->n_parts,
                                    .n_starts = all->blocks ? all->n_devices / d->n_parts : 1,
                                    .picoseconds = d->picoseconds};
    memcpy(candidate->degree, d->total + 1, sizeof candidate->degree);
    candidate->offsets = CLEAVE_ARENA_ARRAY(arena, int32_t, d->n_parts);
    if (candidate->offsets == NULL)
        return false;
    place_parts(d, all->op->n_axes, candidate->offsets);
    return true;
}

/* Keeps the best of each size of block; sizes that need less than their share leave it to the
   larger ones. */
static bool keep_best(const drafts *all, cleave_arena *arena, cleave_candidate_list *list) {
    int32_t room = CLEAVE_MAX_CANDIDATES, sizes = all->n_primes + 1;
    for (int32_t i = 0; i < all->list.n; sizes--) {
        int32_t end = i;
        while (end < all->list.n && all->list.items[end].n_parts == all->list.items[i].n_parts)
            end++;
        int32_t share = room / (sizes < 1 ? 1 : sizes);
        int32_t n = end - i < share ? end - i : share;
        list->truncated = list->truncated || n < end - i;
        for (int32_t k = 0; k < n; k++)
            if (!keep(all, &all->list.items[i + k], arena, &list->items[list->n++]))
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

static drafts begin_drafts(const maker *m, int32_t op) {
    drafts d = {.op = &m->model->operators[op],
                .blocks = cleave_constraints_allow_blocks(m->constraints)};
    for (int a = 0; a < d.op->n_axes; a++)
        d.splits[a] = !d.op->axes[a].whole && cleave_constraints_allow_axis(m->constraints, op, a);
    drafts_take_devices(&d, m->machine->n_devices, m->machine->devices_per_node);
    return d;
}

static cleave_status list_drafts(const maker *m, cleave_candidate_list *list, cleave_error *error) {
    drafts all = begin_drafts(m, list->op);
    bool failed = !drafts_make(&all) || !drafts_count(&all, &list->n_splits);
    list->truncated = all.truncated;
    cleave_status status = failed ? cleave_fail_memory(error, "listing candidates") : CLEAVE_OK;
    if (status == CLEAVE_OK && m->costs != NULL) /* else they stand by size already */
        status = price_drafts(&all, m->costs, m->arena, list, error);
    if (status == CLEAVE_OK && !keep_best(&all, m->arena, list))
        status = cleave_fail_memory(error, "listing candidates");
    CLEAVE_LIST_FREE(&all.list);
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
