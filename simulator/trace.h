/* Chrome trace files, which ui.perfetto.dev and chrome://tracing open. */
#ifndef CLEAVE_SIMULATOR_TRACE_H
#define CLEAVE_SIMULATOR_TRACE_H

#include "costmodel/machine.h"
#include "graph/program.h"
#include "graph/timeline.h"
#include "simulator/engine.h"

/* What is known of the links in a simulated timeline; null for a measured one. */
typedef struct cleave_trace_links {
    const cleave_machine *machine;
    const cleave_engine_problem *problem;
    const int64_t *hop_begin; /* cleave_engine_hop_begin after the run that gave the timeline */
} cleave_trace_links;

/* Writes a timeline of a program: a process per device with a thread per lane, and, where `links`
   is given, one process with a thread per link that was used.  Items of no known time are left out,
   and so are waits that took none. */
cleave_status cleave_trace_write(const char *path, const cleave_program *program,
                                 const cleave_timeline *timeline, const cleave_trace_links *links,
                                 cleave_error *error);

#endif
