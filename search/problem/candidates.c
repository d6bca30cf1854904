/* Node cost depends on the degrees alone, so it is worked out once for all the drafts that give the
   same degrees.  Of windows only the first is priced: the others are like it, so that all have as
   many times its work, and none is quicker. */
#include "search/problem/candidates.h"

#include "base/order.h"
#include "search/problem/candidate_ways.h"

#include <string.h>

static int by_degrees(const void *a, const void *b) {
    const draft *x = a, *y = b;
    int order = memcmp(x->total, y->total, sizeof x->total);
    return order != 0 ? order : CLEAVE_ORDER(x->index, y->index);
}

static int by_cost(const void *a, const void *b) {
    const draft *x = a, *y = b;
    CLEAVE_ORDER_BY(x->n_parts, y->n_parts);
    CLEAVE_ORDER_BY(x->picoseconds, y->picoseconds);
    return CLEAVE_ORDER(x->index, y->index);
}

static cleave_status price_drafts(drafts *all, cleave_node_costs *costs, cleave_arena *arena,
                                  cleave_candidate_list *list, cleave_error *error) {
    const cleave_way_pricing pricing = {costs, arena, 1};
    if (all->list.n == 0)
        return CLEAVE_OK;
    CLEAVE_SORT(all->list.items, all->list.n, by_degrees);
    for (int32_t i = 0; i < all->list.n; i++) {
        draft *way = &all->list.items[i];
        if (i > 0 && memcmp(way->total, way[-1].total, sizeof way->total) == 0) {
            way->picoseconds = way[-1].picoseconds;
            continue;
        }
        const cleave_split split = cleave_draft_split(way);
        cleave_node_cost cost;
        CLEAVE_TRY(cleave_candidate_list_add_way(&pricing, &split, list, &cost, error));
        way->picoseconds = cost.largest;
    }
    CLEAVE_SORT(all->list.items, all->list.n, by_cost);
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

static cleave_candidate candidate_of(const draft *d) {
    cleave_candidate candidate = {.replicas = d->total[0],
                                  .n_parts = d->n_parts,
                                  .n_starts = 1,
                                  .picoseconds = d->picoseconds};
    memcpy(candidate.degree, d->total + 1, sizeof candidate.degree);
    return candidate;
}

static bool keep(const drafts *all, const draft *d, bool blocks, cleave_arena *arena,
                 cleave_candidate *candidate) {
    int32_t *offsets = CLEAVE_ARENA_ARRAY(arena, int32_t, d->n_parts);
    if (offsets == NULL)
        return false;
    place_parts(d, all->op->n_axes, offsets);
    *candidate = candidate_of(d);
    candidate->offsets = offsets;
    if (blocks)
        candidate->n_starts = all->n_devices / d->n_parts;
    return true;
}

/* Keeps the best of each size of block; sizes that need less than their share leave it to the
   larger ones. */
static bool keep_best(const drafts *all, bool blocks, cleave_arena *arena,
                      cleave_candidate_list *list) {
    int32_t room = CLEAVE_MAX_CANDIDATES, sizes = all->n_primes + 1;
    for (int32_t i = 0; i < all->list.n; sizes--) {
        int32_t end = i;
        while (end < all->list.n && all->list.items[end].n_parts == all->list.items[i].n_parts)
            end++;
        int32_t share = room / (sizes < 1 ? 1 : sizes);
        int32_t n = end - i < share ? end - i : share;
        list->truncated = list->truncated || n < end - i;
        for (int32_t k = 0; k < n; k++)
            if (!keep(all, &all->list.items[i + k], blocks, arena, &list->items[list->n++]))
                return false;
        room -= n;
        i = end;
    }
    return true;
}

static bool holds(const cleave_candidate_list *list, const cleave_split *split) {
    for (int32_t i = 0; i < list->n; i++)
        if (cleave_candidate_find_start(&list->items[i], split) >= 0)
            return true;
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
    int32_t *offsets = CLEAVE_ARENA_ARRAY(arena, int32_t, split->n_parts);
    if (offsets == NULL)
        return cleave_fail_memory(error, "listing candidates");
    memcpy(offsets, split->devices, (size_t)split->n_parts * sizeof *split->devices);
    c->offsets = offsets;
    list->n++;
    return CLEAVE_OK;
}

/* ---- lists ----------------------------------------------------------------------------------- */

cleave_status cleave_candidates_begin(const cleave_problem *p, cleave_arena *arena,
                                      cleave_candidates *candidates, cleave_error *error) {
    cleave_candidates made = {.n_lists = p->n_classes, .list_of = p->class_of};
    made.lists = CLEAVE_ARENA_ARRAY(arena, cleave_candidate_list, p->n_classes);
    if (made.lists == NULL)
        return cleave_fail_memory(error, "listing candidates");
    for (int32_t op = p->model->n_operators - 1; op >= 0; op--)
        made.lists[p->class_of[op]].op = op;
    for (int32_t l = 0; l < made.n_lists; l++) {
        cleave_candidate_list *list = &made.lists[l];
        list->n_least = p->model->operators[list->op].n_nests * CLEAVE_N_COMPUTE_PASSES;
        list->least = CLEAVE_ARENA_ARRAY(arena, int64_t, list->n_least);
        if (list->least == NULL)
            return cleave_fail_memory(error, "listing candidates");
        for (int32_t i = 0; i < list->n_least; i++)
            list->least[i] = INT64_MAX;
        list->least_total = INT64_MAX;
    }
    *candidates = made;
    return CLEAVE_OK;
}

static cleave_status list_blocks(const cleave_problem *p, cleave_node_costs *costs,
                                 cleave_arena *arena, cleave_candidate_list *list,
                                 cleave_error *error) {
    bool blocks = cleave_constraints_allow_blocks(p->constraints);
    drafts all = cleave_candidate_drafts(p, list->op);
    drafts_take_blocks(&all, p->machine->n_devices, p->machine->devices_per_node);
    bool failed = !drafts_make(&all) || !drafts_count(&all, blocks, &list->n_splits);
    list->truncated = all.truncated;
    cleave_status status = failed ? cleave_fail_memory(error, "listing candidates") : CLEAVE_OK;
    if (status == CLEAVE_OK && costs != NULL) /* else they stand by size already */
        status = price_drafts(&all, costs, arena, list, error);
    if (status == CLEAVE_OK && !keep_best(&all, blocks, arena, list))
        status = cleave_fail_memory(error, "listing candidates");
    CLEAVE_LIST_FREE(&all.list);
    return status;
}

/* Room is for all candidates that are kept and `n_given` more. */
static cleave_status make_list(const cleave_problem *p, cleave_node_costs *costs, int32_t n_given,
                               cleave_arena *arena, cleave_candidate_list *list,
                               cleave_error *error) {
    const cleave_split *fixed = cleave_constraints_fixed_split(p->constraints, list->op);
    list->items = CLEAVE_ARENA_ARRAY(arena, cleave_candidate,
                                     fixed != NULL ? 1 : CLEAVE_MAX_CANDIDATES + n_given);
    if (list->items == NULL)
        return cleave_fail_memory(error, "listing candidates");
    list->n_splits = 1;
    return fixed != NULL ? add_given(costs, fixed, arena, list, error)
                         : list_blocks(p, costs, arena, list, error);
}

cleave_status cleave_candidates_list(const cleave_problem *p, cleave_node_costs *costs,
                                     int32_t n_given, cleave_arena *arena,
                                     cleave_candidates *candidates, cleave_error *error) {
    cleave_candidates made;
    int32_t *likes = CLEAVE_ARENA_ARRAY(arena, int32_t, p->n_classes);
    if (likes == NULL)
        return cleave_fail_memory(error, "listing candidates");
    CLEAVE_TRY(cleave_candidates_begin(p, arena, &made, error));
    for (int32_t op = 0; op < p->model->n_operators; op++)
        likes[p->class_of[op]]++;
    for (int32_t l = 0; l < made.n_lists; l++) {
        CLEAVE_TRY(make_list(p, costs, likes[l] * n_given, arena, &made.lists[l], error));
        made.truncated = made.truncated || made.lists[l].truncated;
    }
    *candidates = made;
    return CLEAVE_OK;
}

cleave_status cleave_candidates_add(const cleave_problem *p, cleave_node_costs *costs,
                                    const cleave_layout *const *given, int32_t n_given,
                                    cleave_arena *arena, cleave_candidates *candidates,
                                    cleave_error *error) {
    for (int32_t g = 0; g < n_given; g++)
        for (int32_t op = 0; op < p->model->n_operators; op++)
            if (cleave_constraints_fixed_split(p->constraints, op) == NULL &&
                cleave_constraints_allow(p->constraints, p->model, op, &given[g]->splits[op]))
                CLEAVE_TRY(add_given(costs, &given[g]->splits[op], arena,
                                     &candidates->lists[p->class_of[op]], error));
    return CLEAVE_OK;
}

cleave_status cleave_candidates_create(const cleave_model *model, const cleave_machine *machine,
                                       cleave_node_costs *costs, const cleave_layout *const *given,
                                       int32_t n_given, cleave_arena *arena,
                                       cleave_candidates *candidates, cleave_error *error) {
    cleave_problem p;
    CLEAVE_TRY(cleave_problem_create(model, machine, NULL, arena, &p, error));
    CLEAVE_TRY(cleave_candidates_list(&p, costs, n_given, arena, candidates, error));
    return cleave_candidates_add(&p, costs, given, n_given, arena, candidates, error);
}

/* ---- windows --------------------------------------------------------------------------------- */

int cleave_outer_axis(const cleave_operator *op) {
    for (int a = 0; a < op->n_axes; a++)
        if (op->roles[a] != NULL && strcmp(op->roles[a], "sample") == 0 && !op->axes[a].whole)
            return a;
    return -1;
}

static cleave_status list_windows(const cleave_problem *p, int32_t window_devices,
                                  const int32_t *devices, cleave_arena *arena,
                                  cleave_candidate_list *list, cleave_error *error) {
    const cleave_operator *op = &p->model->operators[list->op];
    int32_t n_devices = p->machine->n_devices;
    drafts all = cleave_candidate_drafts(p, list->op);
    bool failed = drafts_take_windows(&all, n_devices, window_devices, cleave_outer_axis(op)) &&
                  !drafts_make(&all);
    list->items = CLEAVE_ARENA_ARRAY(arena, cleave_candidate, all.list.n);
    failed = failed || list->items == NULL;
    for (int32_t i = 0; i < all.list.n && !failed; i++) {
        cleave_candidate candidate = candidate_of(&all.list.items[i]);
        candidate.offsets = devices;
        const cleave_split split = cleave_candidate_split(&candidate);
        if (cleave_constraints_allow(p->constraints, p->model, list->op, &split))
            list->items[list->n++] = candidate;
    }
    CLEAVE_LIST_FREE(&all.list);
    if (failed)
        return cleave_fail_memory(error, "listing candidates");
    if (list->n == 0)
        return cleave_fail(error, CLEAVE_NO_LAYOUT,
                           "%s can't be cut into %d equal windows of %d devices", op->name,
                           n_devices / window_devices, window_devices);
    return CLEAVE_OK;
}

cleave_status cleave_candidates_list_windows(const cleave_problem *p, int32_t window_devices,
                                             cleave_arena *arena, cleave_candidates *candidates,
                                             cleave_error *error) {
    cleave_candidates made;
    int32_t *devices = CLEAVE_ARENA_ARRAY(arena, int32_t, p->machine->n_devices);
    if (devices == NULL)
        return cleave_fail_memory(error, "listing candidates");
    for (int32_t d = 0; d < p->machine->n_devices; d++)
        devices[d] = d;
    CLEAVE_TRY(cleave_candidates_begin(p, arena, &made, error));
    for (int32_t l = 0; l < made.n_lists; l++)
        CLEAVE_TRY(list_windows(p, window_devices, devices, arena, &made.lists[l], error));
    *candidates = made;
    return CLEAVE_OK;
}

cleave_status cleave_candidates_price_windows(cleave_node_costs *costs, int32_t window_devices,
                                              cleave_arena *arena, cleave_candidates *candidates,
                                              cleave_error *error) {
    for (int32_t l = 0; l < candidates->n_lists; l++) {
        cleave_candidate_list *list = &candidates->lists[l];
        for (int32_t i = 0; i < list->n; i++) {
            const cleave_way_pricing pricing = {costs, arena,
                                                list->items[i].n_parts / window_devices};
            cleave_split split = cleave_candidate_split(&list->items[i]);
            cleave_node_cost cost;
            split.n_parts = window_devices;
            CLEAVE_TRY(cleave_candidate_list_add_way(&pricing, &split, list, &cost, error));
        }
    }
    return CLEAVE_OK;
}

/* ---- candidates ------------------------------------------------------------------------------ */

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

int32_t cleave_candidate_find_start(const cleave_candidate *c, const cleave_split *split) {
    if (c->n_parts != split->n_parts || c->replicas != split->replicas ||
        memcmp(c->degree, split->degree, sizeof c->degree) != 0)
        return -1;
    int32_t first = split->devices[0] - c->offsets[0];
    for (int32_t p = 1; p < c->n_parts; p++)
        if (split->devices[p] - c->offsets[p] != first)
            return -1;
    bool is_block = first >= 0 && first % c->n_parts == 0 && first / c->n_parts < c->n_starts;
    return is_block ? first / c->n_parts : -1;
}
