/* What panels have in common. */
#include "cli/report/panels.h"

#include <stdio.h>

void report_put_patterns(cleave_markup *page) {
    static const struct {
        const char *id, *line;
    } patterns[] = {{"hatch-3", "M1.5 0V6M4.5 0V6"},
                    {"hatch-4", "M-1 7L7 -1M-1 1L1 -1M5 7L7 5"},
                    {"hatch-5", "M-1 -1L7 7M-1 5L1 7M5 -1L7 1"},
                    {"hatch-6", "M3 3h1"},
                    {"hatch-7", "M0 3H6"},
                    {"hatch-8", "M3 0V6"}};
    cleave_markup_put(page,
                      "<svg class=\"patterns\" width=\"0\" height=\"0\" aria-hidden=\"true\">");
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++)
        cleave_markup_put(page,
                          "<pattern id=\"%s\" width=\"6\" height=\"6\" "
                          "patternUnits=\"userSpaceOnUse\"><rect width=\"6\" height=\"6\"/><path "
                          "d=\"%s\"/></pattern>",
                          patterns[i].id, patterns[i].line);
    cleave_markup_put(page, "</svg>\n");
}

void report_put_legend(cleave_markup *page) {
    cleave_markup_put(page, "<ul class=\"legend\">");
    for (int i = 0; i < EXPLAIN_N_SORTS; i++)
        cleave_markup_put(page,
                          "<li><svg width=\"14\" height=\"14\" aria-hidden=\"true\"><rect "
                          "class=\"s%d\" width=\"14\" height=\"14\"/></svg>%s</li>",
                          i, explain_sort_names[i]);
    cleave_markup_put(page, "</ul>\n");
}

double report_bound_seconds(const report *of) {
    return of->known != NULL && cleave_layout_is_plain(of->step->layout)
               ? of->known->lower_bound_seconds
               : 0;
}

report_text report_quantity(double value, cleave_unit unit) {
    report_text made;
    cleave_unit_format(value, unit, made.text, sizeof made.text);
    return made;
}
