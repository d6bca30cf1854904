/* What a sweep prints and writes. */
#ifndef CLEAVE_CLI_SWEEP_REPORT_H
#define CLEAVE_CLI_SWEEP_REPORT_H

#include "cli/sweep/record.h"

/* "8 micro-batches, 2 stages"; "-" of a plan that has nothing of the kind. */
void sweep_describe_schedule(const sweep_record *record, char *text, size_t bytes);

/* A line for each point, and the knees. */
void sweep_print_text(const sweep *of, cleave_arena *arena);
/* A row for each point. */
cleave_status sweep_write_csv(const sweep *of, const char *path, cleave_arena *arena,
                              cleave_error *error);
/* One page with curves, and with a click the plan of each point (cli/sweep/page.c). */
cleave_status sweep_write_page(const sweep *of, const char *path, cleave_arena *arena,
                               cleave_error *error);

#endif
