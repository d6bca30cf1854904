/* The timelines of some devices, as the script of a page draws them. */
#ifndef CLEAVE_CLI_REPORT_SPANS_H
#define CLEAVE_CLI_REPORT_SPANS_H

#include "base/json.h"
#include "cli/report/step.h"

enum { REPORT_MOST_ROWS = 8 };

/* The devices that are shown: one of those that are busy alike, in each lane and with as many
   items.  Where there are more sorts than rows, the fullest and the busiest are among them. */
typedef struct report_rows {
    int32_t n, n_sorts;
    int32_t device[REPORT_MOST_ROWS]; /* of the program, ascending */
    int32_t alike[REPORT_MOST_ROWS];  /* so many of the program's, itself among them */
} report_rows;

cleave_status report_rows_choose(const report_step *step, report_rows *rows, cleave_error *error);

/* A member of an open object: {step_seconds, tick_seconds, labels, lanes}; of a lane its `spans`
   are numbers, four for each: ticks since the end of the one before, ticks that it takes, its sort
   (explain_sort, 8 more on the critical path), and its label, or -n where n items are drawn as one.
   `*shortest`: those that are shorter and follow one another are; 0: none. */
cleave_status report_spans_put(cleave_json_writer *writer, const char *key, const report_step *step,
                               const report_rows *rows, int64_t *shortest, cleave_error *error);

#endif
