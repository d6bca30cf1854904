/* Shares of a step by what its prices rest on, for people and in JSON. */
#include "cli/price_report.h"

#include "simulator/settle.h"

#include <stdio.h>

cleave_status price_report_make(const cleave_program *program, cleave_cost_cache *cache,
                                const cleave_engine_problem *problem,
                                const cleave_timeline *timeline, cleave_arena *arena,
                                price_report *report, cleave_error *error) {
    price_report made = {.basis = CLEAVE_ARENA_ARRAY(arena, cleave_price_basis, program->n_items)};
    if (made.basis == NULL)
        return cleave_fail_memory(error, "looking at prices");
    CLEAVE_TRY(cleave_cost_basis(program, cache, made.basis, error));
    CLEAVE_TRY(cleave_price_shares_find(program, problem, timeline, made.basis,
                                        cleave_cost_n_sources(cache), &made.shares, error));
    *report = made;
    return CLEAVE_OK;
}

cleave_status simulated_step_make(const cleave_program *program, cleave_cost_cache *cache,
                                  cleave_arena *arena, simulated_step *step, cleave_error *error) {
    simulated_step made;
    cleave_settling *settling;
    CLEAVE_TRY(cleave_simulate_prepare(program, cache, arena, &made.problem, error));
    CLEAVE_TRY(cleave_engine_workspace_create(&made.problem, arena, &made.workspace, error));
    CLEAVE_TRY(cleave_engine_timeline_create(&made.problem, arena, &made.timeline, error));
    CLEAVE_TRY(cleave_settling_create(program, cache, &made.problem, arena, &settling, error));
    CLEAVE_TRY(cleave_settling_apply(settling, CLEAVE_RULE_SCAN, &made.problem, made.workspace,
                                     &made.timeline, error));
    CLEAVE_TRY(cleave_simulate_run(&made.problem, CLEAVE_RULE_SCAN, made.workspace, &made.timeline,
                                   error));
    CLEAVE_TRY(price_report_make(program, cache, &made.problem, &made.timeline, arena, &made.prices,
                                 error));
    *step = made;
    return CLEAVE_OK;
}

void price_report_format(const cleave_price_shares *shares, char *text, size_t bytes) {
    char spread[32] = "", links[64] = "";
    if (shares->share[CLEAVE_PROVENANCE_PREDICTED] >= 0.005)
        snprintf(spread, sizeof spread, " (±%.0f %%)", 100 * shares->predicted_spread);
    if (shares->links >= 0.005)
        snprintf(links, sizeof links, "; links are %.0f %% of the step", 100 * shares->links);
    snprintf(text, bytes, "%.0f %% measured, %.0f %% predicted%s, %.0f %% data sheet%s",
             100 * shares->share[CLEAVE_PROVENANCE_MEASURED],
             100 * shares->share[CLEAVE_PROVENANCE_PREDICTED], spread,
             100 * shares->share[CLEAVE_PROVENANCE_DATA_SHEET], links);
}

void price_report_format_step(double seconds, const cleave_price_shares *shares, char *text,
                              size_t bytes) {
    char step[64], spread[64];
    cleave_unit_format(seconds, CLEAVE_UNIT_SECONDS, step, sizeof step);
    cleave_unit_format(shares->step_spread_seconds, CLEAVE_UNIT_SECONDS, spread, sizeof spread);
    if (shares->step_spread_seconds >= 0)
        snprintf(text, bytes, "%s ± %s", step, spread);
    else
        snprintf(text, bytes, "%s", step);
}

void price_report_put(cleave_json_writer *writer, const cleave_price_shares *shares) {
    static const char *const names[CLEAVE_N_PROVENANCES] = {"measured", "predicted", "data_sheet"};
    cleave_json_key(writer, "price_shares");
    cleave_json_begin_object(writer, true);
    for (int p = 0; p < CLEAVE_N_PROVENANCES; p++) {
        cleave_json_key(writer, names[p]);
        cleave_json_put_number(writer, shares->share[p]);
    }
    cleave_json_key(writer, "predicted_spread");
    cleave_json_put_number(writer, shares->predicted_spread);
    cleave_json_key(writer, "links");
    cleave_json_put_number(writer, shares->links);
    cleave_json_end_object(writer);
    cleave_json_key(writer, "step_spread_seconds");
    if (shares->step_spread_seconds >= 0)
        cleave_json_put_number(writer, shares->step_spread_seconds);
    else
        cleave_json_put_null(writer);
}
