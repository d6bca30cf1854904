/* What the scan derives of a problem, and the memory that it runs in. */
#ifndef CLEAVE_SIMULATOR_SCAN_ENGINE_SCAN_H
#define CLEAVE_SIMULATOR_SCAN_ENGINE_SCAN_H

#include "simulator/scan/scan_rule.h"
#include "simulator/step/engine_workspace.h"

/* Of a problem that is checked: its steps, and the runs of work between them. */
cleave_status cleave_scan_find_steps(cleave_engine_problem *problem, cleave_arena *arena,
                                     cleave_error *error);

struct cleave_scan_memory {
    int64_t *hop_begin, *end_begin, *collective_end; /* of the workspace */
    cleave_scan_link *links;                         /* [n_links] */
    cleave_scan_idle *idle_room;                     /* [n_links] */
    cleave_scan_idle *idle;                          /* that; null: the step has no stages */
    int64_t *head;                /* [n_messages] when the first of the two posts ended */
    int64_t *release;             /* [n_messages] when it has left */
    int64_t *collective_ready;    /* [n_collectives] */
    cleave_scan_link *processors; /* [n_devices] */
    cleave_scan_device *devices;  /* [n_devices] */
};

/* A scan under way. */
typedef struct cleave_scan {
    const cleave_engine_problem *problem;
    cleave_scan_memory *w;
    cleave_scan_device *devices;
    const int64_t *duration;
    int64_t *start, *end, *arrival;              /* of the timeline */
    const int64_t *until[CLEAVE_PRICED_N_KINDS]; /* what is waited for, by kinds of items */
} cleave_scan;

/* A scan of a problem that is checked, at its beginning, and some steps of it by items: all of them
   in their order, or, where the problem is cut, others. */
cleave_status cleave_scan_begin(const cleave_engine_problem *problem, cleave_scan_memory *memory,
                                cleave_timeline *timeline, cleave_scan *scan, cleave_error *error);
void cleave_scan_run(const cleave_scan *scan, int32_t first_step, int32_t end_step);
/* When the last lane ends, once all steps are done. */
int64_t cleave_scan_end(const cleave_scan *scan);

/* For a workspace that has its own arrays; null when memory is short. */
cleave_scan_memory *cleave_scan_memory_create(const cleave_engine_problem *problem,
                                              const cleave_engine_workspace *workspace,
                                              cleave_arena *arena);

#endif
