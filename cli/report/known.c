/* The layout among the strategies that are known by name. */
#include "cli/report/panels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BAR = 260 };

typedef struct row {
    const char *name;
    double seconds, peak_bytes, bytes_sent; /* below 0: not known */
    bool is_this;
} row;

static void put_row(cleave_markup *page, const row *of, double this_seconds, double most) {
    cleave_markup_put(page, of->is_this ? "<tr class=\"this\">" : "<tr>");
    cleave_markup_put(
        page,
        "<th scope=\"row\">%s</th><td><svg class=\"bar\" width=\"%d\" height=\"14\" "
        "aria-hidden=\"true\"><rect class=\"%s\" width=\"%.1f\" height=\"14\"/></svg>"
        "</td><td class=\"number\">%s</td><td class=\"number\">%.2f x</td>",
        of->name, (int)BAR, of->is_this ? "own" : "other", fmax(1, BAR * of->seconds / most),
        report_quantity(of->seconds, CLEAVE_UNIT_SECONDS).text, of->seconds / this_seconds);
    cleave_markup_put(page, "<td class=\"number\">%s</td><td class=\"number\">%s</td></tr>\n",
                      report_quantity(of->peak_bytes, CLEAVE_UNIT_BYTES).text,
                      report_quantity(of->bytes_sent, CLEAVE_UNIT_BYTES).text);
}

static void put_missing(cleave_markup *page, const cleave_plan *plan) {
    char why[400];
    if (plan->unpriced != NULL)
        snprintf(why, sizeof why, "not priced: %s", plan->unpriced);
    else if (plan->peak_bytes > 0)
        snprintf(why, sizeof why, "does not fit: it needs %s",
                 report_quantity((double)plan->peak_bytes, CLEAVE_UNIT_BYTES).text);
    else
        snprintf(why, sizeof why, "does not apply to this model on this machine");
    cleave_markup_put(
        page, "<tr><th scope=\"row\">%s</th><td colspan=\"5\" class=\"soft\">%s</td></tr>\n",
        plan->method, why);
}

/* Those that were priced, the quickest first; returns how many. */
static int list_rows(const report *of, row *rows) {
    const cleave_search_result *known = of->known;
    int n = 0;
    rows[n++] = (row){"this layout", 1e-12 * (double)of->step->of.simulated.timeline.step,
                      (double)of->step->path.peak_bytes, of->traffic->total_bytes, true};
    for (int32_t b = 0; b < known->n_baselines; b++) {
        const cleave_plan *plan = &known->baselines[b];
        if (!plan->applies)
            continue;
        int place = n++;
        for (; place > 0 && rows[place - 1].seconds > plan->step_seconds; place--)
            rows[place] = rows[place - 1];
        rows[place] = (row){plan->method, plan->step_seconds, (double)plan->peak_bytes,
                            (double)plan->bytes_sent, false};
    }
    return n;
}

cleave_status report_put_known(cleave_markup *page, const report *of, cleave_error *error) {
    row rows[CLEAVE_N_BASELINES + 1];
    (void)error;
    if (of->known == NULL)
        return CLEAVE_OK;
    int n = list_rows(of, rows);
    double own = 1e-12 * (double)of->step->of.simulated.timeline.step;
    cleave_page_begin_section(page, "known", "Among known strategies");
    cleave_markup_put(page, "<div class=\"scroll\"><table><thead><tr><th>layout</th><th></th><th "
                            "class=\"number\">step</th><th class=\"number\">to this</th><th "
                            "class=\"number\">memory</th><th class=\"number\">sent a step</th></tr>"
                            "</thead><tbody>\n");
    for (int i = 0; i < n; i++)
        put_row(page, &rows[i], own, rows[n - 1].seconds);
    for (int32_t b = 0; b < of->known->n_baselines; b++)
        if (!of->known->baselines[b].applies)
            put_missing(page, &of->known->baselines[b]);
    cleave_markup_put(page, "</tbody></table></div>\n");
    if (report_bound_seconds(of) > 0)
        cleave_markup_put(page,
                          "<p class=\"note\">No layout can take less than %s (%s): this one is "
                          "within %.2f x of that.</p>\n",
                          report_quantity(report_bound_seconds(of), CLEAVE_UNIT_SECONDS).text,
                          of->known->bound_binds != NULL ? of->known->bound_binds : "compute",
                          own / report_bound_seconds(of));
    cleave_page_end_section(page);
    return CLEAVE_OK;
}
