/* Task graphs: a plain text format for anything that computes and transfers, and its simulation by
   the rules of the events engine.  One record a line, `#` begins a comment:

       node N                          compute devices 0..N-1; higher ids are switches
       link A B BW LAT                 one directed link, bytes per second, seconds
       exec ID DEV SECONDS             compute task
       comm ID SRC DST BYTES [VIA...]  transfer, with the nodes between if the route is not obvious
       dep A B                         A ends before B starts

   Ids are 0..T-1 over exec and comm, in any order; the records too are in any order.  A comm
   without VIA takes the direct link, else the two links over the one switch that joins its ends.  A
   file without `node` has the devices up to the largest that a task names.  A device runs one exec
   at a time, by (readiness, id). */
#ifndef CLEAVE_SIMULATOR_EVENTS_TASKS_H
#define CLEAVE_SIMULATOR_EVENTS_TASKS_H

#include "costmodel/machine.h"
#include "graph/program/program.h"
#include "graph/program/timeline.h"
#include "simulator/step/engine.h"

enum { CLEAVE_MAX_TASK_VERTICES = 1 << 20 };

typedef struct cleave_tasks {
    int32_t n_tasks, n_devices, n_links;
    int32_t *device;            /* [n_tasks] of an exec; -1: a comm */
    int64_t *duration;          /* [n_tasks] picoseconds, of an exec */
    int64_t *bytes;             /* [n_tasks] of a comm */
    int32_t *hop_start;         /* [n_tasks + 1] none for an exec */
    int32_t *hop_link;          /* [hop_start[n_tasks]] */
    int64_t *hop_serialization; /* [hop_start[n_tasks]] picoseconds */
    int64_t *link_latency;      /* [n_links] picoseconds */
    int32_t *next_start;        /* [n_tasks + 1] */
    int32_t *next;              /* tasks that wait for this one */
    int32_t *n_before;          /* [n_tasks] how many it waits for */
} cleave_tasks;

/* BAD_INPUT names file, line and value: a record that is not one of the above, an id that is
   missing or there twice, a device out of range, a link that does not exist or is there twice, no
   route or several, a cycle, times that add up to more than 26 days. */
cleave_status cleave_tasks_read(const char *path, cleave_arena *arena, cleave_tasks *tasks,
                                cleave_error *error);
cleave_status cleave_tasks_parse(const char *text, size_t bytes, const char *name,
                                 cleave_arena *arena, cleave_tasks *tasks, cleave_error *error);

/* Start and end of every task, picoseconds; `end` of the last is the makespan. */
typedef struct cleave_tasks_timeline {
    int64_t *start, *end; /* [n_tasks] */
    int64_t makespan;
} cleave_tasks_timeline;
cleave_status cleave_tasks_simulate(const cleave_tasks *tasks, cleave_arena *arena,
                                    cleave_tasks_timeline *timeline, cleave_error *error);

/* Writes an expanded program with the prices of a timeline by events as a task graph whose makespan
   is the timeline's step.  Item i is exec i, message m is comm n_items + m.  The communication lane
   of device d is device n_devices + d.  An exec takes as long as its item took, so what one lane
   took from the other is in it; waits for arrivals and for the other lane are deps and take 0; a
   sender's wait, for which there is no dep, takes what it took.  Where a message arrives later than
   by its links (`hop_begin`: cleave_engine_hop_begin), since processors take longer, an exec
   on a device of its own takes the rest; these come after the messages. */
cleave_status cleave_tasks_write(const char *path, const cleave_program *program,
                                 const cleave_machine *machine,
                                 const cleave_engine_problem *problem,
                                 const cleave_timeline *timeline, const int64_t *hop_begin,
                                 cleave_error *error);

#endif
