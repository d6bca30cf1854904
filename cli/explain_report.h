/* What `cleave explain` found, for people and in JSON. */
#ifndef CLEAVE_CLI_EXPLAIN_REPORT_H
#define CLEAVE_CLI_EXPLAIN_REPORT_H

#include "cli/explain_changes.h"
#include "cli/explain_path.h"

typedef struct explanation {
    const cleave_model *model;
    const cleave_machine *machine;
    const cleave_layout *layout;
    explain_path path;
    int64_t estimated_step;        /* picoseconds, by the estimate that changes are tried with */
    int64_t memory_limit_bytes;    /* of the fullest device */
    int32_t n;                     /* operators to tell about */
    int32_t *order;                /* [n] by their share of the step, the largest first */
    const explain_choice *choices; /* [n_operators] of those */
    int64_t tried, not_tried;      /* splits, of all */
    bool is_whole;                 /* all operators, else one that was asked for by name */
} explanation;

void explain_print(const explanation *e, cleave_arena *arena);
cleave_status explain_print_json(const explanation *e, cleave_error *error);

#endif
