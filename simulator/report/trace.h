/* Chrome trace files, which ui.perfetto.dev and chrome://tracing open. */
#ifndef CLEAVE_SIMULATOR_REPORT_TRACE_H
#define CLEAVE_SIMULATOR_REPORT_TRACE_H

#include "costmodel/machine.h"
#include "graph/program/program.h"
#include "graph/program/timeline.h"
#include "simulator/step/engine.h"

/* What is known of the links in the predicted timeline. */
typedef struct cleave_trace_links {
    const cleave_machine *machine;
    const cleave_engine_problem *problem;
    const int64_t *hop_begin; /* cleave_engine_hop_begin after the run that gave the timeline */
} cleave_trace_links;

/* Timelines of one program; either may be null. */
typedef struct cleave_trace {
    const cleave_program *program;
    const cleave_timeline *measured, *predicted;
    const cleave_trace_links *links; /* null: not shown */
} cleave_trace;

/* Writes a process "device D measured" and a process "device D predicted" below it for every
   device, each with a thread per lane, and, where `links` is given, one process "links predicted"
   at the end with a thread per link that is used.  All times are since the start of the step. Items
   of no known time are left out, and so are waits that took none.  Memory does not grow with the
   program. */
cleave_status cleave_trace_write(const char *path, const cleave_trace *trace, cleave_error *error);

#endif
