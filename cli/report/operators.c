/* The critical path by operator, and why each is split as it is.  Operators that are alike are one
   row. */
#include "cli/report/panels.h"

#include "cli/explain/report.h"
#include "cli/split_text.h"

enum { MOST_ROWS = 60, BAR = 240 };

/* Computing in its passes, moving and waiting, one behind the other: all bars by one measure. */
static void put_bar(cleave_markup *page, const explain_operator *of, int64_t most) {
    double at = 0;
    cleave_markup_put(page,
                      "<svg class=\"bar\" width=\"%d\" height=\"14\" role=\"img\" "
                      "aria-label=\"",
                      (int)BAR);
    for (int s = 0; s < EXPLAIN_N_SORTS; s++)
        if (of->picoseconds[s] > 0)
            cleave_markup_put(
                page, "%s %s; ", explain_sort_names[s],
                report_quantity(1e-12 * (double)of->picoseconds[s], CLEAVE_UNIT_SECONDS).text);
    cleave_markup_put(page, "\">");
    for (int s = 0; s < EXPLAIN_N_SORTS; s++) {
        double width = most > 0 ? BAR * (double)of->picoseconds[s] / (double)most : 0;
        if (width > 0)
            cleave_markup_put(
                page,
                "<rect class=\"s%d\" x=\"%.2f\" width=\"%.2f\" height=\"14\"><title>"
                "%s %s</title></rect>",
                s, at, width, explain_sort_names[s],
                report_quantity(1e-12 * (double)of->picoseconds[s], CLEAVE_UNIT_SECONDS).text);
        at += width;
    }
    cleave_markup_put(page, "</svg>");
}

static double ratio(int64_t part, int64_t whole) {
    return whole > 0 ? (double)part / (double)whole : 0;
}

static void put_next_best(cleave_markup *page, const explanation *e, const explain_told *of) {
    char text[256];
    if (of->best < 0) {
        cleave_markup_put(page, "<td class=\"number\">-</td><td>%s</td>",
                          explain_why_no_other(e, of));
        return;
    }
    const explain_alternative *next = &e->choices[of->best].best[0];
    char devices[24];
    split_text_degrees(&e->model->operators[of->best], &next->split, text, sizeof text);
    split_text_devices(&next->split, devices, sizeof devices);
    cleave_markup_put(page, "<td class=\"number\">%+.2f %%</td><td>%s on %s</td>",
                      100 * (ratio(next->step, e->estimated_step) - 1), text, devices);
}

static void put_row(cleave_markup *page, const report *of, const explain_told *told, int64_t most) {
    const explanation *e = of->why;
    char split[256], binds[192];
    split_text_degrees(&e->model->operators[told->first], &e->layout->splits[told->first], split,
                       sizeof split);
    explain_binds(e, told->first, binds, sizeof binds);
    cleave_markup_put(
        page,
        "<tr><th scope=\"row\" class=\"name\">%s</th><td class=\"number\">%d</td><td>%s"
        "</td><td class=\"number\">%.1f %%</td><td>",
        told->name, told->count, split, 100 * ratio(told->sum.total, e->path.step));
    put_bar(page, &told->sum, most);
    cleave_markup_put(
        page, "</td><td class=\"number\">%s</td><td class=\"number\">%s</td><td>%s</td>",
        report_quantity(1e-12 * (double)told->sum.total, CLEAVE_UNIT_SECONDS).text,
        report_quantity((double)told->sum.memory_bytes, CLEAVE_UNIT_BYTES).text, binds);
    if (!of->step->of.priced.is_folded && cleave_layout_is_plain(e->layout))
        put_next_best(page, e, told);
    cleave_markup_put(page, "</tr>\n");
}

/* What each decision of the schedule is worth. */
static void put_schedules(cleave_markup *page, const explanation *e) {
    if (e->schedules.n == 0)
        return;
    cleave_markup_put(page,
                      "<h3>The schedule otherwise</h3><div class=\"scroll\"><table><thead><tr>"
                      "<th>decision</th><th class=\"number\">step</th><th "
                      "class=\"number\">change</th><th class=\"number\">memory</th></tr>"
                      "</thead><tbody>\n");
    for (int32_t i = 0; i < e->schedules.n; i++) {
        const explain_schedule *other = &e->schedules.items[i];
        double change = ratio(other->price.step, e->schedules.price.step);
        bool fits = other->price.excess_bytes == 0 && e->schedules.price.excess_bytes == 0;
        cleave_markup_put(page, "<tr><th scope=\"row\">%s</th>", other->decision);
        if (fits)
            cleave_markup_put(
                page, "<td class=\"number\">%s</td><td class=\"number\">%+.2f %%</td>",
                report_quantity(1e-12 * (double)e->path.step * change, CLEAVE_UNIT_SECONDS).text,
                100 * (change - 1));
        else
            cleave_markup_put(page, "<td class=\"number\">does not fit</td><td "
                                    "class=\"number\">-</td>");
        cleave_markup_put(page, "<td class=\"number\">%s</td></tr>\n",
                          report_quantity((double)other->price.peak_bytes, CLEAVE_UNIT_BYTES).text);
    }
    cleave_markup_put(page, "</tbody></table></div>\n");
}

static void put_rest(cleave_markup *page, const report *of, const explain_told *told, int32_t n) {
    int64_t rest = 0;
    for (int32_t i = MOST_ROWS; i < n; i++)
        rest += told[i].sum.total;
    if (n > MOST_ROWS)
        cleave_markup_put(page, "<p class=\"note\">And %d more, with %.1f %% of the step.</p>\n",
                          n - MOST_ROWS, 100 * ratio(rest, of->why->path.step));
}

cleave_status report_put_operators(cleave_markup *page, const report *of, cleave_error *error) {
    const explanation *e = of->why;
    int32_t n = 0;
    bool tries = !of->step->of.priced.is_folded && cleave_layout_is_plain(e->layout);
    const explain_told *told = explain_tell(e, of->arena, &n);
    if (told == NULL)
        return cleave_fail_memory(error, "listing operators");
    cleave_page_begin_section(page, "operators", "Critical path by operator, and why");
    report_put_legend(page);
    cleave_markup_put(
        page,
        "<div class=\"scroll\"><table class=\"operators\"><thead><tr><th>operator</th>"
        "<th class=\"number\">times</th><th>split</th><th class=\"number\">of step</th><th>on the "
        "critical path</th><th class=\"number\">time</th><th class=\"number\">memory"
        "</th><th>bound by</th>");
    cleave_markup_put(page,
                      tries ? "<th class=\"number\">change</th><th>with the next best</th>" : "");
    cleave_markup_put(page, "</tr></thead><tbody>\n");
    for (int32_t i = 0; i < n && i < MOST_ROWS; i++)
        put_row(page, of, &told[i], told[0].sum.total);
    cleave_markup_put(page, "</tbody></table></div>\n");
    put_rest(page, of, told, n);
    put_schedules(page, e);
    cleave_page_put_note(
        page, tries
                  ? "Times along the critical path: together they are the step. The last columns "
                    "say what the step becomes where this operator alone has its next best split, "
                    "as `cleave explain` estimates it."
                  : "Times along the critical path: together they are the step. Of a layout in "
                    "stages or micro-batches, or of many devices, no other splits are tried.");
    cleave_page_end_section(page);
    return CLEAVE_OK;
}
