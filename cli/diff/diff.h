/* Two layouts of a model, and in what they differ: what `cleave diff` finds, prints and shows. */
#ifndef CLEAVE_CLI_DIFF_DIFF_H
#define CLEAVE_CLI_DIFF_DIFF_H

#include "cli/report/step.h"

/* One of the two layouts. */
typedef struct diff_side {
    const char *file;
    cleave_layout layout;
    int32_t n_devices;       /* as its file says */
    const char *collectives; /* its rules as text */
    const char *schedule;    /* likewise */
    double step_seconds;     /* 0: not predicted */
    int64_t peak_bytes, bytes_sent;
    report_step step; /* where it is predicted */
} diff_side;

typedef struct diff_one {
    int32_t id;          /* of the operator, or the parameter */
    double step_seconds; /* of A with B's split or update of this alone; 0: not asked for */
} diff_one;

typedef struct diff_comparison {
    cleave_model model;
    diff_side sides[2];
    int32_t n_operators, n_updates;
    diff_one *operators; /* [n_operators] */
    diff_one *updates;   /* [n_updates] */
    bool collectives, schedule, attention, is_predicted;
    bool is_tried; /* what each difference is worth is known */
} diff_comparison;

/* How a side updates a parameter, in words. */
const char *diff_update_name(const diff_side *side, int32_t tensor);

/* Writes a page with both timelines under each other, of layouts that are predicted. */
cleave_status diff_write_page(const char *path, const diff_comparison *c, cleave_arena *arena,
                              cleave_error *error);

#endif
