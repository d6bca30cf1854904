#include "simulator/step/simulated_step.h"

#include "simulator/scan/turns.h"
#include "simulator/step/settle.h"

cleave_status cleave_simulated_step_report(const cleave_program *program, cleave_cost_cache *cache,
                                           cleave_arena *arena, cleave_simulated_step *step,
                                           cleave_error *error) {
    cleave_price_report made = {
        .basis = CLEAVE_ARENA_ARRAY(arena, cleave_price_basis, program->n_items)};
    if (made.basis == NULL)
        return cleave_fail_memory(error, "looking at prices");
    CLEAVE_TRY(cleave_cost_basis(program, cache, made.basis, error));
    CLEAVE_TRY(cleave_price_shares_find(program, &step->problem, &step->turned, &step->timeline,
                                        made.basis, cleave_cost_n_sources(cache), &made.shares,
                                        error));
    step->prices = made;
    return CLEAVE_OK;
}

static cleave_status make_timeline(cleave_simulated_step *step, cleave_arena *arena,
                                   cleave_error *error) {
    int32_t n = step->turned.n_items;
    step->timeline.start = CLEAVE_ARENA_ARRAY(arena, int64_t, n);
    step->timeline.end = CLEAVE_ARENA_ARRAY(arena, int64_t, n);
    step->timeline.arrival = CLEAVE_ARENA_ARRAY(arena, int64_t, step->problem.step.n_messages);
    return step->timeline.start != NULL && step->timeline.end != NULL &&
                   step->timeline.arrival != NULL
               ? CLEAVE_OK
               : cleave_fail_memory(error, "making a timeline");
}

cleave_status cleave_simulated_step_begin(const cleave_program *program, const cleave_turns *turns,
                                          cleave_cost_cache *cache, cleave_arena *arena,
                                          cleave_simulated_step *step, cleave_error *error) {
    cleave_simulated_step made = {0};
    CLEAVE_TRY(cleave_turned_make(program->n_items, turns, arena, &made.turned, error));
    CLEAVE_TRY(turns != NULL
                   ? cleave_simulate_prepare_few(program, turns, cache, arena, &made.problem, error)
                   : cleave_simulate_prepare(program, cache, arena, &made.problem, error));
    CLEAVE_TRY(cleave_engine_workspace_create(&made.problem, arena, &made.workspace, error));
    CLEAVE_TRY(make_timeline(&made, arena, error));
    *step = made;
    return CLEAVE_OK;
}

cleave_status cleave_simulated_step_run_turns(const cleave_program *program,
                                              const cleave_turns *turns,
                                              cleave_simulated_step *step, cleave_error *error) {
    cleave_arena scratch = {0};
    cleave_timeline room;
    cleave_turns_time time;
    const cleave_turns_subject of = {.program = program,
                                     .turns = turns,
                                     .problem = &step->problem,
                                     .workspace = step->workspace,
                                     .timeline = &room,
                                     .each = &step->timeline};
    cleave_status status = cleave_engine_timeline_create(&step->problem, &scratch, &room, error);
    if (status == CLEAVE_OK)
        status = cleave_engine_scan_turns(&of, &scratch, &time, error);
    if (status == CLEAVE_OK)
        step->timeline.step = time.step;
    cleave_arena_free(&scratch);
    return status;
}

static cleave_status run_whole(const cleave_program *program, cleave_cost_cache *cache,
                               cleave_arena *arena, cleave_simulated_step *step,
                               cleave_error *error) {
    cleave_settling *settling;
    CLEAVE_TRY(cleave_settling_create(program, cache, &step->problem, arena, &settling, error));
    CLEAVE_TRY(cleave_settling_apply(settling, CLEAVE_RULE_SCAN, &step->problem, step->workspace,
                                     &step->timeline, error));
    return cleave_simulate_run(&step->problem, CLEAVE_RULE_SCAN, step->workspace, &step->timeline,
                               error);
}

cleave_status cleave_simulated_step_make(const cleave_program *program, const cleave_turns *turns,
                                         cleave_cost_cache *cache, cleave_arena *arena,
                                         cleave_simulated_step *step, cleave_error *error) {
    cleave_simulated_step made;
    CLEAVE_TRY(cleave_simulated_step_begin(program, turns, cache, arena, &made, error));
    CLEAVE_TRY(turns != NULL ? cleave_simulated_step_run_turns(program, turns, &made, error)
                             : run_whole(program, cache, arena, &made, error));
    CLEAVE_TRY(cleave_simulated_step_report(program, cache, arena, &made, error));
    *step = made;
    return CLEAVE_OK;
}
