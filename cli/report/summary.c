/* Figures at a glance. */
#include "cli/report/panels.h"

#include "cli/explain/report.h"
#include "cli/inputs.h"
#include "cli/price_report.h"

#include <stdio.h>

static void put_tile(cleave_markup *page, const char *name, const char *value, const char *more) {
    cleave_markup_put(page, "<div><dt>%s</dt><dd>%s <small>%s</small></dd></div>\n", name, value,
                      more);
}

static double step_seconds(const report *of) {
    return 1e-12 * (double)of->step->of.simulated.timeline.step;
}

/* Measured beside predicted; or what it cannot be below; or what it rests on. */
static void put_step(cleave_markup *page, const report *of) {
    char value[160], more[160] = "predicted";
    price_report_format_step(step_seconds(of), &of->step->of.simulated.prices.shares, value,
                             sizeof value);
    if (of->step->measured.start != NULL)
        snprintf(
            more, sizeof more, "predicted, %+.1f %% from the measured %s",
            100 * (step_seconds(of) / (1e-12 * (double)of->step->measured.step) - 1),
            report_quantity(1e-12 * (double)of->step->measured.step, CLEAVE_UNIT_SECONDS).text);
    else if (report_bound_seconds(of) > 0)
        snprintf(more, sizeof more, "predicted; no layout can take less than %s",
                 report_quantity(report_bound_seconds(of), CLEAVE_UNIT_SECONDS).text);
    put_tile(page, "Step", value, more);
}

static void put_work(cleave_markup *page, const report *of) {
    const explain_path *path = &of->step->path;
    char value[64], more[160];
    double step = (double)path->step;
    snprintf(value, sizeof value, "%.0f %% computing",
             100 * (double)explain_computing(path->picoseconds) / step);
    snprintf(more, sizeof more,
             "exchange %.0f %%, sync %.0f %%, waiting %.0f %% of the critical path",
             100 * (double)path->picoseconds[EXPLAIN_EXCHANGE] / step,
             100 * (double)path->picoseconds[EXPLAIN_SYNC] / step,
             100 * (double)path->picoseconds[EXPLAIN_WAITING] / step);
    put_tile(page, "Time", value, more);
}

static void put_tiles(cleave_markup *page, const report *of) {
    const explain_path *path = &of->step->path;
    const cleave_price_shares *shares = &of->step->of.simulated.prices.shares;
    char value[256], more[160];
    put_step(page, of);
    put_work(page, of);
    snprintf(more, sizeof more, "on the fullest device, %.0f %% of %s",
             100 * (double)path->peak_bytes / (double)of->why->memory_limit_bytes,
             report_quantity((double)of->why->memory_limit_bytes, CLEAVE_UNIT_BYTES).text);
    put_tile(page, "Memory", report_quantity((double)path->peak_bytes, CLEAVE_UNIT_BYTES).text,
             more);
    put_tile(page, "Sent a step", report_quantity(of->traffic->total_bytes, CLEAVE_UNIT_BYTES).text,
             of->step->of.priced.program.symbolic
                 ? "by all devices; collectives as their steps would"
                 : "by all devices");
    snprintf(value, sizeof value, "%.0f %% idle", 100 * shares->idle);
    put_tile(page, "Devices", value, "of the step nothing runs in the main lane, on average");
}

/* The figures of `simulate --json` and `explain --json`, under their names. */
static void put_figures(cleave_markup *page, const report *of) {
    cleave_json_writer w = {0};
    const explain_path *path = &of->step->path;
    cleave_json_begin_object(&w, false);
    cleave_json_set_number(&w, "step_seconds", step_seconds(of));
    if (of->step->measured.start != NULL)
        cleave_json_set_number(&w, "measured_step_seconds",
                               1e-12 * (double)of->step->measured.step);
    price_report_put(&w, &of->step->of.simulated.prices.shares);
    cleave_json_set_integer(
        &w, "tasks", (int64_t)of->step->of.priced.program.n_items * report_step_windows(of->step));
    cleave_json_set_number(&w, "bytes_sent", of->traffic->total_bytes);
    cleave_json_set_integer(&w, "peak_bytes", path->peak_bytes);
    cleave_json_set_truth(&w, "closed_form", of->step->of.priced.is_folded);
    explain_put_critical(&w, path);
    if (report_bound_seconds(of) > 0)
        cleave_json_set_number(&w, "lower_bound_seconds", report_bound_seconds(of));
    cleave_json_end_object(&w);
    cleave_markup_put_data(page, "figures", &w);
}

cleave_status report_put_summary(cleave_markup *page, const report *of, cleave_error *error) {
    char prices[256];
    (void)error;
    cleave_page_begin_section(page, "summary", "At a glance");
    cleave_markup_put(page, "<dl class=\"tiles\">\n");
    put_tiles(page, of);
    cleave_markup_put(page, "</dl>\n");
    price_report_format(&of->step->of.simulated.prices.shares, prices, sizeof prices);
    cleave_markup_put(page, "<p class=\"note\">Prices of the step: %s. %s</p>\n", prices,
                      inputs_provenance_note(of->step->machine));
    if (of->step->of.priced.is_folded)
        cleave_markup_put(
            page,
            "<p class=\"note\">So many devices are not lowered one by one: %d devices are "
            "simulated "
            "for all %d, which do the same %d at a time, and a collective is one item, by its "
            "closed "
            "form, as `cleave simulate` has them. Totals are of all "
            "devices.</p>\n",
            of->step->of.priced.program.n_devices, of->step->layout->n_devices,
            of->step->of.priced.program.n_devices);
    put_figures(page, of);
    cleave_page_end_section(page);
    return CLEAVE_OK;
}
