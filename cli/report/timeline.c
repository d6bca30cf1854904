/* When each item happens.  The script draws it, from data that is as fine as its zoom goes. */
#include "cli/report/panels.h"

static void put_about(cleave_markup *page, const report_step *step, const report_rows *rows,
                      int64_t shortest) {
    int32_t n = step->layout->n_devices;
    cleave_markup_put(page, "%d of %d device%s shown", rows->n, n, n == 1 ? "" : "s");
    if (rows->n < n)
        cleave_markup_put(page, ": of each sort that does as much work one, of %d sort%s",
                          rows->n_sorts, rows->n_sorts == 1 ? "" : "s");
    cleave_markup_put(page, ".");
    if (shortest > 0)
        cleave_markup_put(page,
                          " Items shorter than %s that follow one another are drawn as one, in the "
                          "colour of what takes most of it.",
                          report_quantity(1e-12 * (double)shortest, CLEAVE_UNIT_SECONDS).text);
    cleave_markup_put(page, "</p>\n");
}

cleave_status report_put_timeline(cleave_markup *page, const report_step *const *steps, int n_steps,
                                  cleave_error *error) {
    cleave_json_writer w = {0};
    cleave_markup notes = {0};
    cleave_status status = CLEAVE_OK;
    cleave_json_begin_object(&w, true);
    for (int i = 0; i < n_steps && status == CLEAVE_OK; i++) {
        report_rows rows;
        int64_t shortest = 0;
        char key[2] = {(char)('a' + i), '\0'};
        status = report_rows_choose(steps[i], &rows, error);
        if (status == CLEAVE_OK)
            status = report_spans_put(&w, key, steps[i], &rows, &shortest, error);
        cleave_markup_put(&notes, n_steps > 1 ? "<p class=\"note\">%s: " : "<p class=\"note\">",
                          i == 0 ? "A" : "B");
        if (status == CLEAVE_OK)
            put_about(&notes, steps[i], &rows, shortest);
    }
    cleave_json_end_object(&w);
    if (status == CLEAVE_OK) {
        cleave_page_begin_section(page, "timeline", "The step over time");
        report_put_legend(page);
        cleave_markup_put(page, "<div class=\"timeline\" tabindex=\"0\" role=\"application\" "
                                "aria-label=\"Timeline\"></div>\n<p class=\"readout\" "
                                "role=\"status\"></p>\n<noscript><p>The timeline is drawn by the "
                                "page's script.</p></noscript>\n");
        cleave_markup_put_asset(page, notes.text != NULL ? notes.text : "");
        page->failed |= notes.failed;
        cleave_markup_put_data(page, "timeline-data", &w);
        cleave_page_end_section(page);
    } else {
        cleave_json_writer_free(&w);
    }
    cleave_markup_free(&notes);
    return status;
}
