/* The panels of a page, one file each.  All of them show the same structures that `--json` prints.
 */
#ifndef CLEAVE_CLI_REPORT_PANELS_H
#define CLEAVE_CLI_REPORT_PANELS_H

#include "cli/report/spans.h"
#include "cli/report/traffic.h"
#include "page/page.h"
#include "search/explain/explain.h"
#include "search/search.h"

typedef struct report {
    const report_step *step;
    const explanation *why;
    const cleave_search_result *known; /* strategies known by name; null: none could be priced */
    const report_traffic *traffic;
    const char *sweep; /* a file of `cleave sweep` that varies the memory limit; null: none */
    cleave_arena *arena;
} report;

/* Figures at a glance, and the exact ones as data, "figures". */
cleave_status report_put_summary(cleave_markup *page, const report *of, cleave_error *error);
/* Blocks, their splits, and a picture of the devices that shows the one that is chosen: "model". */
cleave_status report_put_model(cleave_markup *page, const report *of, cleave_error *error);
/* When each item happens: "timeline".  Of several steps one below the other, by one clock. */
cleave_status report_put_timeline(cleave_markup *page, const report_step *const *steps, int n_steps,
                                  cleave_error *error);
/* What fills the memory of the fullest device. */
cleave_status report_put_memory(cleave_markup *page, const report *of, cleave_error *error);
cleave_status report_put_traffic(cleave_markup *page, const report *of, cleave_error *error);
/* The step over the memory limit, where there is a sweep of that. */
cleave_status report_put_limits(cleave_markup *page, const report *of, cleave_error *error);
cleave_status report_put_known(cleave_markup *page, const report *of, cleave_error *error);
/* The critical path by operator, what binds each, and its next best split. */
cleave_status report_put_operators(cleave_markup *page, const report *of, cleave_error *error);

/* ---- what they have in common ---- */

/* What no layout of its sort can be below, seconds; 0: not known.  Of a layout that takes the whole
   batch at once the bound is one of all that do. */
double report_bound_seconds(const report *of);

/* Patterns that tell sorts of time and of memory apart without colour; once in a page. */
void report_put_patterns(cleave_markup *page);
/* What the classes of a drawing, s0, s1 .., mean: sorts of time. */
void report_put_legend(cleave_markup *page);

typedef struct report_text {
    char text[64];
} report_text;
report_text report_quantity(double value, cleave_unit unit);

#endif
