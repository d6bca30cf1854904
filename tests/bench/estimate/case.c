#include "tests/bench/estimate/case.h"
#include "../../support/shipped.h"

#include "search/search.h"
#include "tests/bench/row.h"

#include <stdio.h>
#include <string.h>

enum { BATCH_OF_DEVICE = 64 };

static cleave_status read_case(bench_case *c, cleave_error *error) {
    CLEAVE_TRY(shipped_model(c->name, (int64_t)BATCH_OF_DEVICE * c->n_devices, &c->arena, &c->model,
                             error));
    return shipped_machine(c->machine_name, c->n_devices, &c->arena, &c->machine, error);
}

static cleave_status make_layout(bench_case *c, cleave_error *error) {
    cleave_arena *arena = &c->arena;
    bool applies;
    CLEAVE_TRY(cleave_baseline_layout(&c->model, &c->machine, "data-parallel", 0, arena, &c->layout,
                                      &applies, error));
    CLEAVE_TRY(cleave_node_costs_create(&c->model, &c->machine, &c->costs, error));
    const cleave_layout *given = &c->layout;
    CLEAVE_TRY(cleave_candidates_create(&c->model, &c->machine, c->costs, &given, 1, arena,
                                        &c->candidates, error));
    c->tried.devices = CLEAVE_ARENA_ARRAY(arena, int32_t, c->n_devices);
    for (int32_t op = 0; op < c->model.n_operators; op++) {
        int32_t *devices = CLEAVE_ARENA_ARRAY(arena, int32_t, c->n_devices);
        if (devices == NULL || c->tried.devices == NULL)
            return cleave_fail_memory(error, "preparing a bench");
        cleave_split *split = &c->layout.splits[op];
        memcpy(devices, split->devices, (size_t)split->n_parts * sizeof *devices);
        split->devices = devices;
    }
    return CLEAVE_OK;
}

cleave_status begin_case(bench_case *c, cleave_error *error) {
    CLEAVE_TRY(read_case(c, error));
    CLEAVE_TRY(make_layout(c, error));
    c->options = (cleave_lower_options){
        .training = c->model.loss >= 0, .symbolic_collectives = true, .optimizer_states = 1};
    CLEAVE_TRY(cleave_cost_cache_create(&c->model, &c->machine, &c->cache, error));
    if (c->walk == FOLDS) {
        c->folds.model = &c->model;
        c->folds.options = &c->options;
        c->folds.cache = c->cache;
        return fold_walk_begin(&c->folds, &c->machine, error);
    }
    CLEAVE_TRY(
        cleave_estimate_create(&c->model, &c->layout, &c->options, c->cache, &c->estimate, error));
    CLEAVE_TRY(cleave_estimate_run(c->estimate, &c->step, error));
    c->beta = 500 / (double)c->step; /* as in the search */
    return CLEAVE_OK;
}

void end_case(bench_case *c) {
    fold_walk_end(&c->folds);
    cleave_estimate_destroy(c->estimate);
    if (c->cache != NULL)
        cleave_cost_cache_destroy(c->cache);
    cleave_node_costs_destroy(c->costs);
    cleave_arena_free(&c->scratch);
    cleave_arena_free(&c->arena);
}

cleave_status from_scratch(bench_case *c, cleave_rule rule, int64_t *step, double *lowering,
                           double *running, cleave_error *error) {
    cleave_program program;
    cleave_engine_problem problem;
    cleave_engine_workspace *workspace;
    cleave_timeline timeline;
    cleave_arena_reset(&c->scratch);
    double begun = bench_processor_seconds();
    CLEAVE_TRY(cleave_lower(&c->model, &c->layout, &c->options, &c->scratch, &program, error));
    CLEAVE_TRY(cleave_simulate_prepare(&program, c->cache, &c->scratch, &problem, error));
    CLEAVE_TRY(cleave_engine_workspace_create(&problem, &c->scratch, &workspace, error));
    CLEAVE_TRY(cleave_engine_timeline_create(&problem, &c->scratch, &timeline, error));
    if (lowering != NULL)
        *lowering = bench_processor_seconds() - begun;
    CLEAVE_TRY(cleave_simulate_run(&problem, rule, workspace, &timeline, error));
    if (running != NULL) { /* warm now */
        begun = bench_processor_seconds();
        CLEAVE_TRY(cleave_simulate_run(&problem, rule, workspace, &timeline, error));
        *running = bench_processor_seconds() - begun;
    }
    *step = timeline.step;
    return CLEAVE_OK;
}
