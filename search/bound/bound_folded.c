/* Of the parts of a split that folds only those of the first window are priced: the others are like
   them, so that all have W times their work, and none is quicker. */
#include "search/bound/bound_folded.h"

#include "base/list.h"
#include "search/bound/candidate_ways.h"

#include <stdlib.h>
#include <string.h>

typedef struct known_split {
    int32_t list, replicas;
    int32_t degree[CLEAVE_MAX_AXES];
} known_split;

struct cleave_window_bound {
    const cleave_model *model;
    const cleave_machine *machine;
    cleave_arena arena;
    cleave_node_costs *costs;
    cleave_candidates candidates; /* without items: what the bound looks at are their least costs */
    CLEAVE_LIST(known_split) known; /* what was added */
};

static cleave_status add_split(cleave_window_bound *b, cleave_candidate_list *list,
                               const cleave_split *split, int32_t n_windows, cleave_error *error) {
    cleave_node_cost cost;
    const cleave_way_pricing pricing = {b->costs, &b->arena, n_windows};
    return cleave_candidate_list_add_way(&pricing, split, list, &cost, error);
}

static cleave_status make_list(cleave_window_bound *b, int32_t op, cleave_candidate_list *list,
                               cleave_error *error) {
    int32_t n_least = b->model->operators[op].n_nests * CLEAVE_N_COMPUTE_PASSES;
    *list = (cleave_candidate_list){.op = op, .least_total = INT64_MAX, .n_least = n_least};
    list->least = CLEAVE_ARENA_ARRAY(&b->arena, int64_t, n_least);
    if (list->least == NULL)
        return cleave_fail_memory(error, "bounding the step");
    for (int32_t i = 0; i < n_least; i++)
        list->least[i] = INT64_MAX;
    return CLEAVE_OK;
}

static cleave_status make_lists(cleave_window_bound *b, const int32_t *class_of,
                                cleave_error *error) {
    int32_t n = b->model->n_operators;
    b->candidates.lists = CLEAVE_ARENA_ARRAY(&b->arena, cleave_candidate_list, n);
    b->candidates.list_of = CLEAVE_ARENA_ARRAY(&b->arena, int32_t, n);
    if (b->candidates.lists == NULL || b->candidates.list_of == NULL)
        return cleave_fail_memory(error, "bounding the step");
    for (int32_t op = 0; op < n; op++) { /* classes are numbered as they first occur */
        b->candidates.list_of[op] = class_of[op];
        if (class_of[op] == b->candidates.n_lists)
            CLEAVE_TRY(make_list(b, op, &b->candidates.lists[b->candidates.n_lists++], error));
    }
    return CLEAVE_OK;
}

static cleave_status add_space(cleave_window_bound *b, const cleave_window_space *space,
                               cleave_error *error) {
    int32_t n_windows = space->n_devices / space->window_devices;
    for (int32_t g = 0; g < space->n_groups; g++) {
        const cleave_window_list *list = &space->lists[space->class_of[g]];
        int32_t op = space->first_op[g], l = b->candidates.list_of[op];
        if (op != b->candidates.lists[l].op && space->class_of[g] != g)
            continue; /* the same list as that of the first alike */
        for (int32_t i = 0; i < list->n; i++) {
            cleave_split split = list->items[i];
            split.n_parts = space->window_devices;
            CLEAVE_TRY(add_split(b, &b->candidates.lists[l], &split, n_windows, error));
        }
    }
    return CLEAVE_OK;
}

cleave_status cleave_window_bound_create(const cleave_model *model, const cleave_machine *machine,
                                         const int32_t *class_of, const cleave_window_space *space,
                                         cleave_window_bound **bound, cleave_error *error) {
    cleave_window_bound *b = calloc(1, sizeof *b);
    if (b == NULL)
        return cleave_fail_memory(error, "bounding the step");
    b->model = model;
    b->machine = machine;
    cleave_status status = cleave_node_costs_create(model, machine, &b->costs, error);
    if (status == CLEAVE_OK)
        status = make_lists(b, class_of, error);
    if (status == CLEAVE_OK && space != NULL)
        status = add_space(b, space, error);
    if (status != CLEAVE_OK) {
        cleave_window_bound_destroy(b);
        return status;
    }
    *bound = b;
    return CLEAVE_OK;
}

void cleave_window_bound_destroy(cleave_window_bound *b) {
    if (b == NULL)
        return;
    cleave_node_costs_destroy(b->costs);
    CLEAVE_LIST_FREE(&b->known);
    cleave_arena_free(&b->arena);
    free(b);
}

static bool is_known(const cleave_window_bound *b, const known_split *split) {
    for (int32_t k = 0; k < b->known.n; k++)
        if (memcmp(&b->known.items[k], split, sizeof *split) == 0)
            return true;
    return false;
}

/* Costs do not depend on devices. */
cleave_status cleave_window_bound_add(cleave_window_bound *b, const cleave_layout *layout,
                                      cleave_error *error) {
    for (int32_t op = 0; op < layout->n_operators; op++) {
        const cleave_split *split = &layout->splits[op];
        known_split known = {.list = b->candidates.list_of[op], .replicas = split->replicas};
        memcpy(known.degree, split->degree, sizeof known.degree);
        if (is_known(b, &known))
            continue;
        CLEAVE_TRY(add_split(b, &b->candidates.lists[known.list], split, 1, error));
        if (!CLEAVE_LIST_PUSH(&b->known, known))
            return cleave_fail_memory(error, "bounding the step");
    }
    return CLEAVE_OK;
}

cleave_status cleave_window_bound_find(const cleave_window_bound *b, int optimizer_states,
                                       double *seconds, cleave_error *error) {
    cleave_bound bound;
    CLEAVE_TRY(cleave_lower_bound_of(b->model, b->machine, &b->candidates, optimizer_states,
                                     CLEAVE_BOUND_FOLDED, &bound, error));
    *seconds = bound.seconds;
    return CLEAVE_OK;
}
