/* What `cleave run` says of a run: its result, and beside it what was predicted. */
#ifndef CLEAVE_CLI_RUN_REPORT_H
#define CLEAVE_CLI_RUN_REPORT_H

#include "cli/price_report.h"
#include "exec/run.h"
#include "simulator/report/timeline_errors.h"
#include "simulator/report/trace.h"

/* The very program that ran, simulated. */
typedef struct run_prediction {
    const cleave_machine *machine;
    cleave_simulated_step step;
    int64_t step_picoseconds;
    cleave_timeline_errors errors; /* against the measured timeline */
} run_prediction;

/* Needs a result with its measured timeline.  Everything lives in the arena; the machine must live
   as long. */
cleave_status run_prediction_make(const cleave_run_result *result, const cleave_model *model,
                                  const cleave_machine *machine, cleave_arena *arena,
                                  run_prediction *prediction, cleave_error *error);

/* Of passes that follow each other: the step that is predicted is what one takes then. */
cleave_status run_prediction_of_stream(run_prediction *prediction, cleave_error *error);

typedef struct run_report {
    const cleave_run_result *result;
    const double *text_entropy;       /* nats per byte; null: not a text */
    const run_prediction *prediction; /* null: no machine was given */
} run_report;

cleave_status run_report_print_json(const run_report *report, cleave_error *error);
void run_report_print_text(const run_report *report, cleave_arena *arena);

/* Measured above predicted; measured alone without a prediction. */
cleave_status run_report_write_trace(const run_report *report, const char *path,
                                     cleave_error *error);

#endif
