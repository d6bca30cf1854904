/* The simulation of a task graph: every device and every link serves what becomes ready for it by
   (readiness, id).

   An event queue gives that order, and more: a total one over the whole machine, which takes most
   of the time.  So first a guess that needs no queue: tasks are served as a breadth-first walk of
   the graph meets them, and every device and link checks that it is asked in its order.  At the
   first that is not, the guess is dropped and the queue decides.

   A guess in which all were asked in order gives the times of the queue.  Say first that every
   service takes time.  Then what becomes ready at a time follows from what was served before it; or
   it is a transfer over a link without latency, which the queue takes out again at once, so that it
   keeps its place.  By induction over time both know the same tasks, and each server takes them in
   the same order.  Where some service takes no time (`instant`), that still holds if no server is
   asked twice at one time (`tie`); with both, the order depends on what the queue takes out when,
   and the guess is dropped as well.

   With the engines of steps it shares how a transfer crosses a link (link.h) and the queue of
   events; that devices serve by readiness, and nothing takes time from anything else, is its own.
 */
#include "simulator/events/event_queue.h"
#include "simulator/events/tasks.h"
#include "simulator/step/link.h"

typedef struct task_state {
    int64_t ready; /* latest end of what it waited for; of a transfer under way, its head: link.h */
    int32_t before; /* tasks still to end before it */
    int32_t place;  /* of an exec ~device, which is negative; of a comm its next hop */
} task_state;

/* A device or a link. */
typedef struct server {
    int64_t free_at;
    int64_t last_ready; /* of what it served last; -1: nothing yet */
    int32_t last_task;
} server;

typedef struct run {
    const cleave_tasks *tasks;
    cleave_tasks_timeline *timeline; /* until a transfer has arrived its end is its tail: link.h */
    task_state *states;              /* [n_tasks] */
    server *servers;                 /* [n_devices + n_links] devices first */
    int32_t *woken;                  /* [n_tasks + 1] tasks that are ready to be served */
    int32_t *wave;                   /* [n_tasks + 1] of them, those that a guess serves now */
    int32_t n_woken;
    bool instant, tie; /* see above */
} run;

static cleave_status prepare(run *r, cleave_arena *scratch, cleave_arena *arena,
                             cleave_error *error) {
    const cleave_tasks *tasks = r->tasks;
    size_t n = (size_t)tasks->n_tasks;
    r->states = CLEAVE_ARENA_ARRAY(scratch, task_state, n);
    r->servers =
        CLEAVE_ARENA_ARRAY(scratch, server, (size_t)tasks->n_devices + (size_t)tasks->n_links);
    r->woken = CLEAVE_ARENA_ARRAY(scratch, int32_t, n + 1);
    r->wave = CLEAVE_ARENA_ARRAY(scratch, int32_t, n + 1);
    r->timeline->start = CLEAVE_ARENA_ARRAY(arena, int64_t, n);
    r->timeline->end = CLEAVE_ARENA_ARRAY(arena, int64_t, n);
    if (r->states == NULL || r->servers == NULL || r->woken == NULL || r->wave == NULL ||
        r->timeline->start == NULL || r->timeline->end == NULL)
        return cleave_fail_memory(error, "simulating a task graph");
    return CLEAVE_OK;
}

static void reset(run *r) {
    const cleave_tasks *tasks = r->tasks;
    r->timeline->makespan = 0;
    r->instant = r->tie = false;
    for (int32_t s = 0; s < tasks->n_devices + tasks->n_links; s++)
        r->servers[s] = (server){.last_ready = -1};
    for (int32_t t = 0; t < tasks->n_tasks; t++) {
        int32_t device = tasks->device[t];
        r->states[t] = (task_state){.before = tasks->n_before[t],
                                    .place = device >= 0 ? ~device : tasks->hop_start[t]};
    }
    r->n_woken = 0;
    for (int32_t t = 0; t < tasks->n_tasks; t++)
        if (tasks->n_before[t] == 0)
            r->woken[r->n_woken++] = t;
}

/* The end of a task is known: what waits for nothing else any more is woken. */
static inline void finish(run *r, int32_t task, int64_t end) {
    const cleave_tasks *tasks = r->tasks;
    r->timeline->end[task] = end;
    r->timeline->makespan = cleave_later(r->timeline->makespan, end);
    int32_t last = tasks->next_start[task + 1], n_woken = r->n_woken;
    for (int32_t e = tasks->next_start[task]; e < last; e++) {
        int32_t next = tasks->next[e];
        task_state *state = &r->states[next];
        state->ready = cleave_later(state->ready, end);
        r->woken[n_woken] = next; /* no branch: which of several is the last can't be foretold */
        n_woken += --state->before == 0;
    }
    r->n_woken = n_woken;
}

static inline server *server_of(const run *r, int32_t task) {
    int32_t place = r->states[task].place;
    return &r->servers[place < 0 ? ~place : r->tasks->n_devices + r->tasks->hop_link[place]];
}

static inline void serve_exec(run *r, server *device, int32_t task) {
    int64_t start = cleave_later(r->states[task].ready, device->free_at);
    int64_t duration = r->tasks->duration[task];
    r->timeline->start[task] = start;
    device->free_at = start + duration;
    r->instant |= duration == 0;
    finish(r, task, device->free_at);
}

static inline void serve_comm(run *r, server *link, int32_t task) {
    const cleave_tasks *tasks = r->tasks;
    task_state *state = &r->states[task];
    int32_t hop = state->place;
    bool is_first = hop == tasks->hop_start[task];
    int64_t serialization = tasks->hop_serialization[hop];
    int64_t latency = tasks->link_latency[tasks->hop_link[hop]];
    int64_t tail = is_first ? 0 : r->timeline->end[task];
    int64_t begin = cleave_link_serve(serialization, latency, &link->free_at, &state->ready, &tail);
    r->instant |= serialization == 0;
    if (is_first)
        r->timeline->start[task] = begin;
    if (hop + 1 < tasks->hop_start[task + 1]) {
        r->timeline->end[task] = tail;
        state->place++;
        r->woken[r->n_woken++] = task;
    } else {
        finish(r, task, tail);
    }
}

static inline void serve(run *r, server *by, int32_t task) {
    if (r->states[task].place < 0)
        serve_exec(r, by, task);
    else
        serve_comm(r, by, task);
}

/* Whether a server may serve a task after what it has served.  What became ready when the server
   was free again comes after all that, unless some of it took no time. */
static inline bool is_in_order(run *r, server *by, int32_t task) {
    int64_t ready = r->states[task].ready;
    if (ready < by->free_at || r->instant) {
        if (ready < by->last_ready || (ready == by->last_ready && task < by->last_task))
            return false;
        r->tie |= ready == by->last_ready;
    }
    by->last_ready = ready;
    by->last_task = task;
    return true;
}

/* Wave by wave: what a wave wakes is the next one.  False: the order is not that of the queue. */
static bool guess(run *r) {
    while (r->n_woken > 0) {
        int32_t *wave = r->woken, n = r->n_woken;
        r->woken = r->wave;
        r->wave = wave;
        r->n_woken = 0;
        for (int32_t k = 0; k < n; k++) {
            server *by = server_of(r, wave[k]);
            if (!is_in_order(r, by, wave[k]))
                return false;
            serve(r, by, wave[k]);
        }
        if (r->tie && r->instant)
            return false;
    }
    return true;
}

static void push_woken(run *r, cleave_event_queue *events) {
    for (int32_t k = 0; k < r->n_woken; k++)
        cleave_event_queue_push(events, r->states[r->woken[k]].ready, r->woken[k]);
    r->n_woken = 0;
}

static cleave_status run_events(run *r, cleave_arena *scratch, cleave_error *error) {
    cleave_event_queue *events = CLEAVE_ARENA_ARRAY(scratch, cleave_event_queue, 1);
    if (events != NULL) {
        events->near = CLEAVE_ARENA_ARRAY(scratch, cleave_event, r->tasks->n_tasks);
        events->pool = CLEAVE_ARENA_ARRAY(scratch, cleave_event, r->tasks->n_tasks);
    }
    if (events == NULL || events->near == NULL || events->pool == NULL)
        return cleave_fail_memory(error, "simulating a task graph");
    cleave_event_queue_reset(events);
    push_woken(r, events);
    while (events->n > 0) {
        int32_t task = cleave_event_queue_pop(events).key;
        serve(r, server_of(r, task), task);
        push_woken(r, events);
    }
    return CLEAVE_OK;
}

static cleave_status simulate(run *r, cleave_arena *scratch, cleave_arena *arena,
                              cleave_error *error) {
    CLEAVE_TRY(prepare(r, scratch, arena, error));
    reset(r);
    if (guess(r))
        return CLEAVE_OK;
    reset(r);
    return run_events(r, scratch, error);
}

cleave_status cleave_tasks_simulate(const cleave_tasks *tasks, cleave_arena *arena,
                                    cleave_tasks_timeline *timeline, cleave_error *error) {
    cleave_tasks_timeline made = {0};
    cleave_arena scratch = {0};
    run r = {.tasks = tasks, .timeline = &made};
    cleave_status status = simulate(&r, &scratch, arena, error);
    cleave_arena_free(&scratch);
    if (status == CLEAVE_OK)
        *timeline = made;
    return status;
}
