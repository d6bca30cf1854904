/* A layout's step as a page shows it: simulated, with where its time goes, and, where there is a
   trace of a run, when each item was measured. */
#ifndef CLEAVE_CLI_REPORT_STEP_H
#define CLEAVE_CLI_REPORT_STEP_H

#include "search/explain/path.h"
#include "simulator/report/critical_path.h"
#include "simulator/step/layout_step.h"

typedef struct report_step {
    const cleave_model *imported;
    cleave_model model; /* with attention as the layout has it */
    const cleave_machine *machine;
    const cleave_layout *layout;
    cleave_layout_step of;
    cleave_critical_path critical;
    explain_path path;
    cleave_timeline measured; /* start: null without a run */
} report_step;

/* Simulates the layout of the model as imported; both have to live as long.  All devices are
   lowered where a search lowers them one by one; more are folded, where the layout folds: one
   window stands for all.  Destroy it, also after a failure. */
cleave_status report_step_make(const cleave_pricing *of, cleave_arena *arena, report_step *step,
                               cleave_error *error);
void report_step_destroy(report_step *step);

/* Reads when items were measured from a trace of `cleave run`.  BAD_INPUT where the file is none,
   or is one of another program. */
cleave_status report_step_measure(report_step *step, const char *trace, cleave_arena *arena,
                                  cleave_error *error);

/* How many devices of all do what the program's device does. */
static inline int32_t report_step_windows(const report_step *step) {
    return step->of.priced.program.n_windows > 1 ? step->of.priced.program.n_windows : 1;
}

#endif
