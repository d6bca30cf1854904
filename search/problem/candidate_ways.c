/* A list's ways grow one by one, in the order in which splits come. */
#include "search/problem/candidate_ways.h"

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
    way.total = cost->total * pricing->n_windows;
    list->ways[list->n_ways++] = way;
    list->least_total = way.total < list->least_total ? way.total : list->least_total;
    for (int32_t i = 0; i < list->n_least; i++)
        list->least[i] = way.least[i] < list->least[i] ? way.least[i] : list->least[i];
    return CLEAVE_OK;
}
