/* The engines: what happens when, in integers.

   A problem is a whole step with its prices (priced_fragment.h), the links of the machine, and what
   follows from both before any time is known.  Queue 2 x device is the device's main lane,
   2 x device + 1 its communication lane.  A queue runs its items in order and blocks on the head.

   A message is ready when both of its POST items have ended; links serve it by the rule of link.h,
   and so do the processors of its ends, where they have work with it.  Both ends notice that it has
   left or arrived later by what polls.h says, if the problem has that.

   The engines differ in the order in which a link serves:

   - events: by (readiness at that link, message id).  The reference.
   - scan: in program order within each lane: a message is served, over all its links, when the
   second of its posts is met in the global order, in the lane of that post.  A transfer of the main
   lane that finds a link taken by the communication lane waits for one run of its transfers at
   most, and puts it back by its own.  In a step of stages one of the communication lane may take
   a link while that was idle before a transfer of the main lane (scan_rule.h).  One pass, no queue.

   One processor for two lanes.  Communication comes first: an item of the communication lane is
   never slowed; an item of the main lane makes no progress while the communication lane works, nor,
   unless it is a post, while the device works on messages that are on their way.
   - events: exactly so.  A main item that starts at s with work w ends at the least e with
     e - s - (time the communication lane works within [s, e), and the device on messages) = w.
     Items without work need no processor.
   - scan: the same in one pass.  Work w that the communication lane starts at t is charged once: if
     the main lane has been passed over t already, its clock is put back by w, less what falls into
     the last time it waited; otherwise the first later main item that ends after t is lengthened by
     it, less what was over when that item started.  So is the work on a message, for the lane of
     its second post; that of the main lane never before its clock.  The step is the latest clock,
   so it counts what is charged after a lane's last item. */
#ifndef CLEAVE_SIMULATOR_STEP_ENGINE_H
#define CLEAVE_SIMULATOR_STEP_ENGINE_H

#include "base/arena.h"
#include "base/error.h"
#include "graph/program/timeline.h"
#include "simulator/step/polls.h"
#include "simulator/step/priced_fragment.h"
#include "simulator/step/work_times.h"

#include <stdint.h>

/* An item in the order of its queue, with what the events engine asks of it but for the duration:
   durations may be changed. */
typedef struct cleave_queued_item {
    int32_t item, subject;
    uint8_t kind;
} cleave_queued_item;

/* An item with the work that its device's main lane does since the device's step before; what the
   scan does at it is known before any time is. */
typedef struct cleave_scan_step {
    int32_t work; /* the run of it; -1: none */
    int32_t item, queue, subject;
    uint8_t kind;   /* cleave_scan_kind */
    uint8_t source; /* the item's own kind */
} cleave_scan_step;

typedef struct cleave_engine_problem {
    cleave_priced_fragment step; /* the whole: every item after all that it waits for */
    int32_t n_queues, n_links;
    bool has_stages;       /* which send each other: links keep when they were idle (scan_rule.h) */
    int64_t *link_latency; /* [n_links] picoseconds */
    const cleave_poll_profile *polls; /* by which messages leave and arrive later than their links
                                         say; null: they don't */
    /* The items of each queue in order, for the events engine: by cleave_engine_finish. */
    int32_t *queue_start;            /* [n_queues + 1] */
    cleave_queued_item *queue_items; /* [n_items] */
    /* And for the scan.  Work of a main lane that takes some time concerns nobody but its device,
       so it may wait for the next other item of that: most items lie in runs then.  All other items
       are steps, in the global order; work behind a device's last step is the device's rest. */
    int32_t *work_start; /* [n_queues / 2 + 1] */
    int32_t *work_items; /* those of each device in order: the places of work_times.h */
    int32_t *run_start;  /* [n_queues / 2 + 1] runs of each device, also in order */
    int32_t *run_first;  /* [n_runs + 1] places */
    int32_t *run_of;     /* [places + 1] the run of each; n_runs behind the last one */
    int32_t *rest;       /* [n_queues / 2] the run of it; -1: none */
    int32_t n_steps;
    cleave_scan_step *steps;
    /* Items before which all work so far is behind a step, so that the steps between two of them
       are those of the items between them; and these steps. */
    int32_t n_cuts;
    const int32_t *cuts; /* [n_cuts] ascending; given */
    int32_t *cut_steps;  /* [n_cuts] */
    int32_t stuck; /* the first item that stands before what it waits for; -1: there is none */
} cleave_engine_problem;

/* Derives what is by cleave_engine_finish, and checks all that is written down above; FAILED names
   the item or message, or says that the times add up to more than fits (about 26 days). */
cleave_status cleave_engine_finish(cleave_engine_problem *problem, cleave_arena *arena,
                                   cleave_error *error);

/* What the engines need beside problem and timeline; made for a problem, and good for any problem
   that is no larger in any of its counts. */
typedef struct cleave_engine_workspace cleave_engine_workspace;
cleave_status cleave_engine_workspace_create(const cleave_engine_problem *problem,
                                             cleave_arena *arena,
                                             cleave_engine_workspace **workspace,
                                             cleave_error *error);
/* When each hop of the last run began on its link, [n_hops], picoseconds. */
const int64_t *cleave_engine_hop_begin(const cleave_engine_workspace *workspace);

/* The timeline's arrays, from the arena, for a problem. */
cleave_status cleave_engine_timeline_create(const cleave_engine_problem *problem,
                                            cleave_arena *arena, cleave_timeline *timeline,
                                            cleave_error *error);

/* Run a finished problem; neither allocates.  FAILED, naming an item, where queues wait for one
   another for ever (events), or where an item stands before what it waits for (scan). */
cleave_status cleave_engine_run_events(const cleave_engine_problem *problem,
                                       cleave_engine_workspace *workspace,
                                       cleave_timeline *timeline, cleave_error *error);
cleave_status cleave_engine_run_scan(const cleave_engine_problem *problem,
                                     cleave_engine_workspace *workspace, cleave_timeline *timeline,
                                     cleave_error *error);
/* The same scan, with times of the work of main lanes for `times`, not for the timeline; from the
   sums of `times`, not from the problem's durations.  Takes as long as there are steps, however
   many items they have between them. */
cleave_status cleave_engine_scan_runs(const cleave_engine_problem *problem,
                                      cleave_engine_workspace *workspace,
                                      const cleave_work_times *times, cleave_timeline *timeline,
                                      cleave_error *error);

#endif
