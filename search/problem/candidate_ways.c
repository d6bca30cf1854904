/* A list's ways grow one by one, in the order in which splits come. */
#include "search/problem/candidate_ways.h"

#include "base/order.h"

#include <string.h>

/* Room for one more way: it is doubled at powers of two. */
static bool grow(cleave_candidate_list *list, cleave_arena *arena) {
    int32_t n = list->n_ways;
    if (n > 0 && (n & (n - 1)) != 0)
        return true;
    cleave_candidate_way *ways =
        CLEAVE_ARENA_ARRAY(arena, cleave_candidate_way, 2 * (int64_t)n + 1);
    if (ways != NULL && n > 0)
        memcpy(ways, list->ways, (size_t)n * sizeof *ways);
    list->ways = ways;
    return ways != NULL;
}

cleave_status cleave_candidate_list_add_way(const cleave_way_pricing *pricing,
                                            const cleave_split *split, cleave_candidate_list *list,
                                            cleave_node_cost *cost, cleave_error *error) {
    cleave_candidate_way way = {.replicas = split->replicas, .n_parts = split->n_parts};
    memcpy(way.degree, split->degree, sizeof way.degree);
    way.least = CLEAVE_ARENA_ARRAY(pricing->arena, int64_t, list->n_least);
    if (way.least == NULL || !grow(list, pricing->arena))
        return cleave_fail_memory(error, "listing candidates");
    for (int32_t i = 0; i < list->n_least; i++)
        way.least[i] = INT64_MAX;
    CLEAVE_TRY(cleave_node_cost_of(pricing->costs, list->op, split, cost, way.least, error));
    way.total = cost->total * pricing->n_windows +
                cleave_node_costs_chores(pricing->costs, list->op, split);
    list->ways[list->n_ways++] = way;
    list->least_total = way.total < list->least_total ? way.total : list->least_total;
    for (int32_t i = 0; i < list->n_least; i++)
        list->least[i] = way.least[i] < list->least[i] ? way.least[i] : list->least[i];
    return CLEAVE_OK;
}

drafts cleave_candidate_drafts(const cleave_problem *p, int32_t op) {
    drafts d = {.op = &p->model->operators[op],
                .all_devices = cleave_constraints_take_all_for(p->constraints, op)};
    for (int a = 0; a < d.op->n_axes; a++) {
        d.splits[a] = !d.op->axes[a].whole && cleave_constraints_allow_axis(p->constraints, op, a);
        if (cleave_constraints_have_target(p->constraints))
            d.even_targets |= UINT32_C(1) << (a + 1);
    }
    return d;
}

static bool knows_way(const cleave_candidate_list *list, const cleave_split *split) {
    for (int32_t w = 0; w < list->n_ways; w++)
        if (list->ways[w].replicas == split->replicas && list->ways[w].n_parts == split->n_parts &&
            memcmp(list->ways[w].degree, split->degree, sizeof split->degree) == 0)
            return true;
    return false;
}

cleave_status cleave_candidates_add_ways(cleave_node_costs *costs, const cleave_layout *layout,
                                         cleave_arena *arena, cleave_candidates *candidates,
                                         cleave_error *error) {
    const cleave_way_pricing pricing = {costs, arena, 1};
    for (int32_t op = 0; op < layout->n_operators; op++) {
        cleave_candidate_list *list = &candidates->lists[candidates->list_of[op]];
        cleave_node_cost cost;
        if (!knows_way(list, &layout->splits[op]))
            CLEAVE_TRY(
                cleave_candidate_list_add_way(&pricing, &layout->splits[op], list, &cost, error));
    }
    return CLEAVE_OK;
}

/* ---- without candidates ---- */

/* What is cut into fewer parts launches fewer kernels, and comes first; with as many for each axis,
   fewer replicas do. */
static int by_axes(const void *a, const void *b) {
    const draft *x = a, *y = b;
    int32_t cut_x = x->n_parts / x->total[0], cut_y = y->n_parts / y->total[0];
    if (cut_x != cut_y)
        return cut_x < cut_y ? -1 : 1;
    int order = memcmp(x->total + 1, y->total + 1, sizeof x->total - sizeof x->total[0]);
    return order != 0 ? order : (x->total[0] > y->total[0]) - (x->total[0] < y->total[0]);
}

static cleave_status list_ways(const cleave_problem *p, const cleave_way_pricing *pricing, bool all,
                               cleave_candidate_list *list, cleave_error *error) {
    const cleave_node_floor floor = cleave_node_floor_of(pricing->costs, list->op);
    const cleave_split *fixed = cleave_constraints_fixed_split(p->constraints, list->op);
    cleave_node_cost cost;
    if (fixed != NULL)
        return cleave_candidate_list_add_way(pricing, fixed, list, &cost, error);
    drafts made = cleave_candidate_drafts(p, list->op);
    drafts_take_degrees(&made, p->machine->n_devices, p->machine->devices_per_node);
    cleave_status status =
        drafts_make(&made) ? CLEAVE_OK : cleave_fail_memory(error, "listing candidates");
    const draft *items = made.list.items;
    CLEAVE_SORT(made.list.items, made.list.n, by_axes);
    for (int32_t i = 0; i < made.list.n && status == CLEAVE_OK; i++) {
        const cleave_split split = cleave_draft_split(&items[i]);
        bool is_least = all || cleave_node_floor_under(&floor, &split) <= (double)list->least_total;
        if (is_least &&
            (i == 0 || memcmp(split.degree, items[i - 1].total + 1, sizeof split.degree) != 0))
            status = cleave_candidate_list_add_way(pricing, &split, list, &cost, error);
    }
    CLEAVE_LIST_FREE(&made.list);
    return status;
}

cleave_status cleave_candidates_list_ways(const cleave_problem *p, cleave_node_costs *costs,
                                          const int64_t *known, cleave_arena *arena,
                                          cleave_candidates *candidates, cleave_error *error) {
    const cleave_way_pricing pricing = {costs, arena, 1};
    cleave_candidates made;
    CLEAVE_TRY(cleave_candidates_begin(p, arena, &made, error));
    for (int32_t l = 0; l < made.n_lists; l++) {
        cleave_candidate_list *list = &made.lists[l];
        list->least_total = known != NULL ? known[list->op] : INT64_MAX;
        CLEAVE_TRY(list_ways(p, &pricing, known == NULL, list, error));
    }
    *candidates = made;
    return CLEAVE_OK;
}
