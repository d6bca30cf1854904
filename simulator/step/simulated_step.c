#include "simulator/step/simulated_step.h"

#include "simulator/step/settle.h"

cleave_status cleave_price_report_make(const cleave_program *program, cleave_cost_cache *cache,
                                       const cleave_engine_problem *problem,
                                       const cleave_timeline *timeline, cleave_arena *arena,
                                       cleave_price_report *report, cleave_error *error) {
    cleave_price_report made = {
        .basis = CLEAVE_ARENA_ARRAY(arena, cleave_price_basis, program->n_items)};
    if (made.basis == NULL)
        return cleave_fail_memory(error, "looking at prices");
    CLEAVE_TRY(cleave_cost_basis(program, cache, made.basis, error));
    CLEAVE_TRY(cleave_price_shares_find(program, problem, timeline, made.basis,
                                        cleave_cost_n_sources(cache), &made.shares, error));
    *report = made;
    return CLEAVE_OK;
}

cleave_status cleave_simulated_step_make(const cleave_program *program, cleave_cost_cache *cache,
                                         cleave_arena *arena, cleave_simulated_step *step,
                                         cleave_error *error) {
    cleave_simulated_step made;
    cleave_settling *settling;
    CLEAVE_TRY(cleave_simulate_prepare(program, cache, arena, &made.problem, error));
    CLEAVE_TRY(cleave_engine_workspace_create(&made.problem, arena, &made.workspace, error));
    CLEAVE_TRY(cleave_engine_timeline_create(&made.problem, arena, &made.timeline, error));
    CLEAVE_TRY(cleave_settling_create(program, cache, &made.problem, arena, &settling, error));
    CLEAVE_TRY(cleave_settling_apply(settling, CLEAVE_RULE_SCAN, &made.problem, made.workspace,
                                     &made.timeline, error));
    CLEAVE_TRY(cleave_simulate_run(&made.problem, CLEAVE_RULE_SCAN, made.workspace, &made.timeline,
                                   error));
    CLEAVE_TRY(cleave_price_report_make(program, cache, &made.problem, &made.timeline, arena,
                                        &made.prices, error));
    *step = made;
    return CLEAVE_OK;
}
