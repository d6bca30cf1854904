/* Why a simulated step takes as long as it does: the chain of items, each of which started when the
   one before ended, from the start of the step to its end. */
#ifndef CLEAVE_SIMULATOR_REPORT_CRITICAL_PATH_H
#define CLEAVE_SIMULATOR_REPORT_CRITICAL_PATH_H

#include "simulator/step/engine.h"
#include "simulator/step/turned.h"

/* Time of the step that is spent in one item; in one that waits for a message, on the links. */
typedef struct cleave_critical_segment {
    int32_t item;        /* of the problem */
    int64_t picoseconds; /* 1 or more */
} cleave_critical_segment;

typedef struct cleave_critical_path {
    int32_t n;
    cleave_critical_segment *segments; /* from the end of the step to its start; the picoseconds add
                                          up to the step */
} cleave_critical_path;

/* Of a timeline that either engine gave for the problem, by the numbers of `turned`, and made of
   its items; segments name items of the problem.  An item of the main lane that the communication
   lane slowed stands beside the items that slowed it.  The path lives in the arena.  Linear in the
   items, with a logarithm for each that is slowed. */
cleave_status cleave_critical_path_find(const cleave_engine_problem *problem,
                                        const cleave_turned *turned,
                                        const cleave_timeline *timeline, cleave_arena *arena,
                                        cleave_critical_path *path, cleave_error *error);

#endif
