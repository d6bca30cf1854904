/* Shares of a step by what its prices rest on, for people and in JSON. */
#include "cli/price_report.h"

#include <stdio.h>

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
    cleave_json_open_object(writer, "price_shares", true);
    for (int p = 0; p < CLEAVE_N_PROVENANCES; p++)
        cleave_json_set_number(writer, names[p], shares->share[p]);
    cleave_json_set_number(writer, "predicted_spread", shares->predicted_spread);
    cleave_json_set_number(writer, "links", shares->links);
    cleave_json_end_object(writer);
    cleave_json_set_known(writer, "step_spread_seconds", shares->step_spread_seconds >= 0,
                          shares->step_spread_seconds);
}
