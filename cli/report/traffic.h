/* What moves between devices in a step, and over which links: of thousands of devices between
   groups of them, and of collectives in closed form what their steps would send. */
#ifndef CLEAVE_CLI_REPORT_TRAFFIC_H
#define CLEAVE_CLI_REPORT_TRAFFIC_H

#include "cli/report/step.h"

enum { REPORT_MOST_CELLS = 64 };

typedef struct report_link {
    int32_t link;
    double bytes, busy_seconds; /* of a step */
} report_link;

typedef struct report_traffic {
    int32_t n_cells, devices_per_cell; /* consecutive devices; the last cell may have fewer */
    double *bytes; /* [n_cells x n_cells] from row to column, within on the diagonal */
    double total_bytes, most_bytes; /* of a cell: the most */
    int32_t n_links;                /* that are used, */
    report_link *links;             /* [n_links] the busiest first */
} report_traffic;

cleave_status report_traffic_find(const report_step *step, cleave_arena *arena,
                                  report_traffic *traffic, cleave_error *error);

#endif
