#include "cli/delta_check.h"

#include "base/progress.h"
#include "base/units.h"
#include "search/problem/candidates.h"
#include "simulator/step/estimate.h"

#include <stdio.h>

typedef struct checker {
    cleave_estimate *estimate;
    const cleave_candidates *candidates;
    cleave_random random;
    cleave_split tried; /* with room for all devices */
    int32_t n_operators;
} checker;

static void draw(checker *c, int32_t *op) {
    const cleave_candidates *all = c->candidates;
    *op = (int32_t)cleave_random_below(&c->random, c->n_operators);
    const cleave_candidate_list *list = &all->lists[all->list_of[*op]];
    const cleave_candidate *candidate = &list->items[cleave_random_below(&c->random, list->n)];
    int32_t start = (int32_t)cleave_random_below(&c->random, candidate->n_starts);
    cleave_candidate_place(candidate, start, &c->tried);
}

static cleave_status check_one(checker *c, delta_check *result, cleave_error *error) {
    int64_t step, full;
    int32_t op;
    draw(c, &op);
    double begin = cleave_clock_seconds();
    CLEAVE_TRY(cleave_estimate_change(c->estimate, op, &c->tried, error));
    CLEAVE_TRY(cleave_estimate_run(c->estimate, &step, error));
    double middle = cleave_clock_seconds();
    CLEAVE_TRY(cleave_estimate_full(c->estimate, &full, error));
    result->delta_seconds += middle - begin;
    result->full_seconds += cleave_clock_seconds() - middle;
    result->checks++;
    result->mismatches += step != full;
    return cleave_random_below(&c->random, 2) == 0 ? cleave_estimate_accept(c->estimate, error)
                                                   : cleave_estimate_reject(c->estimate, error);
}

static cleave_status check_all(checker *c, int64_t n, delta_check *result, cleave_error *error) {
    cleave_progress progress;
    cleave_progress_begin(&progress, "checking", false);
    cleave_status status = CLEAVE_OK;
    for (int64_t i = 0; i < n && status == CLEAVE_OK; i++) {
        status = check_one(c, result, error);
        if (i % 256 == 0)
            cleave_progress_update(&progress, (double)i / (double)n, NULL);
    }
    cleave_progress_end(&progress, NULL);
    return status;
}

cleave_status delta_check_run(const cleave_model *model, const cleave_machine *machine,
                              const cleave_layout *layout, int optimizer_states, int64_t n,
                              uint64_t seed, cleave_arena *arena, delta_check *result,
                              cleave_error *error) {
    const cleave_lower_options options = {.training = model->loss >= 0,
                                          .symbolic_collectives = true,
                                          .optimizer_states = optimizer_states};
    const cleave_layout *given[] = {layout};
    cleave_node_costs *costs = NULL;
    cleave_cost_cache *cache = NULL;
    cleave_candidates candidates;
    checker c = {
        .candidates = &candidates, .random = {.key = seed}, .n_operators = model->n_operators};
    c.tried.devices = CLEAVE_ARENA_ARRAY(arena, int32_t, machine->n_devices);
    if (c.tried.devices == NULL)
        return cleave_fail_memory(error, "checking changes");
    *result = (delta_check){0};
    cleave_status status = cleave_node_costs_create(model, machine, &costs, error);
    if (status == CLEAVE_OK)
        status =
            cleave_candidates_create(model, machine, costs, given, 1, arena, &candidates, error);
    if (status == CLEAVE_OK)
        status = cleave_cost_cache_create(model, machine, &cache, error);
    if (status == CLEAVE_OK)
        status = cleave_estimate_create(model, layout, &options, cache, &c.estimate, error);
    if (status == CLEAVE_OK)
        status = check_all(&c, n, result, error);
    cleave_estimate_destroy(c.estimate);
    if (cache != NULL)
        cleave_cost_cache_destroy(cache);
    cleave_node_costs_destroy(costs);
    return status;
}

void delta_check_put(cleave_json_writer *writer, const delta_check *check) {
    cleave_json_key(writer, "delta_checks");
    cleave_json_put_integer(writer, check->checks);
    cleave_json_key(writer, "mismatches");
    cleave_json_put_integer(writer, check->mismatches);
    cleave_json_key(writer, "full_seconds");
    cleave_json_put_number(writer, check->full_seconds);
    cleave_json_key(writer, "delta_seconds");
    cleave_json_put_number(writer, check->delta_seconds);
}

void delta_check_format(const delta_check *check, char *text, size_t size) {
    char delta[32], full[32];
    cleave_unit_format(check->delta_seconds / (double)check->checks, CLEAVE_UNIT_SECONDS, delta,
                       sizeof delta);
    cleave_unit_format(check->full_seconds / (double)check->checks, CLEAVE_UNIT_SECONDS, full,
                       sizeof full);
    snprintf(text, size,
             "%lld changes, %lld of them wrong; %s a change with its lowering, %s a whole pass",
             (long long)check->checks, (long long)check->mismatches, delta, full);
}
