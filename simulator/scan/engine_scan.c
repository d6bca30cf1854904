/* The scan: one pass over the items in their global order.  A queue's clock is the end of its last
   item; whatever an item waits for stands before it, so its time is known when it is met.  Work of
   main lanes, which is most of a step, is put off until its device does something else, and so is
   added up in runs: item by item where the times of all are wanted, else a run at once. */
#include "simulator/scan/engine_scan.h"
#include "simulator/scan/scan_rule.h"

#include <string.h>

/* Steps of either lane have code of their own, and so have runs and items. */
#define INLINE static inline __attribute__((always_inline))

cleave_scan_memory *cleave_scan_memory_create(const cleave_engine_problem *problem,
                                              const cleave_engine_workspace *workspace,
                                              cleave_arena *arena) {
    cleave_scan_memory *w = CLEAVE_ARENA_ARRAY(arena, cleave_scan_memory, 1);
    size_t n_messages = (size_t)problem->step.n_messages, n_devices = (size_t)problem->n_queues / 2;
    if (w == NULL)
        return NULL;
    *w = (cleave_scan_memory){
        .hop_begin = workspace->hop_begin,
        .end_begin = workspace->end_begin,
        .collective_end = workspace->collective_end,
        .links = CLEAVE_ARENA_ARRAY(arena, cleave_scan_link, problem->n_links),
        .idle_room = CLEAVE_ARENA_ARRAY(arena, cleave_scan_idle, problem->n_links),
        .head = CLEAVE_ARENA_ARRAY(arena, int64_t, n_messages),
        .release = CLEAVE_ARENA_ARRAY(arena, int64_t, n_messages),
        .collective_ready = CLEAVE_ARENA_ARRAY(arena, int64_t, problem->step.n_collectives),
        .processors = CLEAVE_ARENA_ARRAY(arena, cleave_scan_link, n_devices),
        .devices = CLEAVE_ARENA_ARRAY(arena, cleave_scan_device, n_devices)};
    bool taken = w->links != NULL && w->idle_room != NULL && w->head != NULL &&
                 w->release != NULL && w->collective_ready != NULL && w->processors != NULL &&
                 w->devices != NULL;
    return taken ? w : NULL;
}

static void reset(const cleave_engine_problem *problem, cleave_scan_memory *w) {
    memset(w->links, 0, (size_t)problem->n_links * sizeof *w->links);
    memset(w->idle_room, 0, (size_t)problem->n_links * sizeof *w->idle_room);
    w->idle = problem->has_stages ? w->idle_room : NULL;
    if (problem->step.ends != NULL)
        memset(w->processors, 0, (size_t)problem->n_queues / 2 * sizeof *w->processors);
    memset(w->devices, 0, (size_t)problem->n_queues / 2 * sizeof *w->devices);
}

typedef cleave_scan scan;

/* The work of a message's ends; returns when its source is done. */
INLINE int64_t work_at_ends(const cleave_engine_problem *problem, cleave_scan_memory *w,
                            int32_t message, int32_t lane, int64_t head, int64_t *tail) {
    const cleave_message_ends *ends = &problem->step.ends[message];
    int64_t done[2];
    for (int e = 0; e < 2; e++) {
        int32_t device = e == 0 ? ends->source : ends->destination;
        done[e] = cleave_scan_serve_end(&w->processors[device], &w->devices[device], lane,
                                        ends->work, head, tail);
        w->end_begin[2 * message + e] = done[e] - ends->work;
    }
    return done[0];
}

/* A message that both ends have posted at `head`. */
INLINE void transfer(const scan *s, int32_t message, int32_t lane, int64_t head) {
    const cleave_engine_problem *problem = s->problem;
    cleave_scan_memory *w = s->w;
    int64_t delay = problem->polls != NULL ? cleave_poll_delay(problem->polls, message, head) : 0;
    int32_t first = problem->step.hop_start[message], end = problem->step.hop_start[message + 1];
    int64_t tail = 0;
    head += cleave_priced_agreement(&problem->step, message);
    for (int32_t h = first; h < end; h++) {
        int32_t link = problem->step.hop_link[h];
        w->hop_begin[h] = cleave_scan_serve(&w->links[link], cleave_scan_idle_of(w->idle, link),
                                            lane, problem->step.hop_serialization[h],
                                            problem->link_latency[link], &head, &tail);
    }
    int64_t left = w->hop_begin[first] + problem->step.hop_serialization[first];
    if (cleave_priced_ends_work(&problem->step, message))
        left = cleave_later(left, work_at_ends(problem, w, message, lane, head, &tail));
    w->release[message] = left + delay;
    s->arrival[message] = tail + delay;
}

static void end_collective(const cleave_engine_problem *problem, cleave_scan_memory *w,
                           int32_t collective, int32_t lane) {
    int32_t first = problem->step.collective_link_start[collective];
    int32_t n_links = problem->step.collective_link_start[collective + 1] - first;
    w->collective_end[collective] =
        cleave_scan_collective(w->collective_ready[collective],
                               problem->step.collective_busy[collective], lane,
                               problem->step.collective_links + first, n_links, w->links, w->idle) +
        problem->step.collective_rest[collective];
}

static cleave_status fail_stuck(const cleave_engine_problem *problem, cleave_error *error) {
    int32_t item = problem->stuck;
    return cleave_fail(error, CLEAVE_FAILED, "item %d stands before what it waits for, %s %d", item,
                       problem->step.kind[item] == CLEAVE_PRICED_AWAIT ? "collective" : "message",
                       problem->step.subject[item]);
}

/* A run of work of a device's main lane.  Once the communication lane has nothing ahead of it that
   it would be charged for, one begins where the other ends. */
INLINE void run_items(const scan *s, cleave_scan_device *device, int32_t run) {
    const int64_t *duration = s->duration;
    const int32_t *items = s->problem->work_items;
    int64_t *start = s->start, *end = s->end;
    int32_t first = s->problem->run_first[run], last = s->problem->run_first[run + 1];
    for (; first < last && device->pending != 0; first++) {
        start[items[first]] = device->clock[0];
        end[items[first]] = cleave_scan_work(device, 0, duration[items[first]]);
    }
    if (first == last)
        return;
    int64_t now = device->clock[0];
    for (; first < last; first++) {
        start[items[first]] = now;
        now += duration[items[first]];
        end[items[first]] = now;
    }
    device->clock[0] = device->main_end = now;
}

/* The same at once: of the work ahead of it all is charged to the first that ends after it begins.
 */
INLINE void run_sums(const cleave_work_times *times, cleave_scan_device *device, int32_t run) {
    const int64_t *sum = times->sum;
    int32_t first = times->run_first[run], last = times->run_first[run + 1];
    int64_t begin = device->clock[0], by = begin - sum[first], end = sum[last] + by;
    cleave_work_run made = {.begin = begin, .end = end, .before = by, .after = by};
    if (device->pending != 0 && end > device->pending_begin) {
        int32_t longer = cleave_work_find(sum, first, last, device->pending_begin - by);
        int64_t alone = sum[longer + 1] + by;
        made.longer = longer;
        made.after += cleave_scan_end_of_main(device, sum[longer] + by, alone) - alone;
        made.end = sum[last] + made.after;
    }
    times->runs[run] = made;
    device->clock[0] = device->main_end = made.end;
}

/* With `times`, of runs there, else of items in the timeline. */
INLINE void run_work(const scan *s, const cleave_work_times *times, cleave_scan_device *device,
                     int32_t run) {
    if (run < 0)
        return;
    if (times != NULL)
        run_sums(times, device, run);
    else
        run_items(s, device, run);
}

INLINE int64_t end_of_work(const scan *s, const cleave_work_times *times, int32_t place) {
    return times != NULL ? cleave_work_end(times, times->run_of[place], place)
                         : s->end[s->problem->work_items[place]];
}

/* The device of a step, whose main lane has come as far as the step. */
INLINE cleave_scan_device *reach(const scan *s, const cleave_work_times *times,
                                 const cleave_scan_step *step) {
    cleave_scan_device *device = &s->devices[step->queue >> 1];
    run_work(s, times, device, step->work);
    return device;
}

INLINE int64_t run_post(const scan *s, const cleave_work_times *times, const cleave_scan_step *step,
                        int32_t lane) {
    cleave_scan_device *device = reach(s, times, step);
    s->start[step->item] = device->clock[lane];
    return s->end[step->item] = cleave_scan_post(device, lane, s->duration[step->item]);
}

INLINE int64_t run_other(const scan *s, const cleave_work_times *times,
                         const cleave_scan_step *step, int32_t lane) {
    cleave_scan_device *device = reach(s, times, step);
    s->start[step->item] = device->clock[lane];
    return s->end[step->item] = cleave_scan_work(device, lane, s->duration[step->item]);
}

INLINE void run_wait(const scan *s, const cleave_work_times *times, const cleave_scan_step *step,
                     int32_t lane) {
    cleave_scan_device *device = reach(s, times, step);
    s->start[step->item] = device->clock[lane];
    int64_t until = step->kind == CLEAVE_SCAN_WAIT ? s->until[step->source][step->subject]
                                                   : end_of_work(s, times, step->subject);
    s->end[step->item] = cleave_scan_wait(device, lane, until);
}

INLINE void join(const scan *s, const cleave_scan_step *step, int32_t lane, int64_t now) {
    cleave_scan_memory *w = s->w;
    int32_t subject = step->subject;
    cleave_scan_kind kind = (cleave_scan_kind)step->kind;
    w->collective_ready[subject] = cleave_scan_join(kind, w->collective_ready[subject], now);
    if (cleave_scan_is_last_join(kind))
        end_collective(s->problem, w, subject, lane);
}

/* One step, or two where the second post of a message follows the first; returns the last. */
INLINE const cleave_scan_step *run_step(const scan *s, const cleave_work_times *times,
                                        const cleave_scan_step *step, int32_t lane) {
    int32_t subject = step->subject;
    int64_t now;
    switch ((cleave_scan_kind)step->kind) {
    case CLEAVE_SCAN_WORK:
        run_other(s, times, step, lane);
        break;
    case CLEAVE_SCAN_POST:
        s->w->head[subject] = run_post(s, times, step, lane);
        break;
    case CLEAVE_SCAN_LAST_POST:
        now = run_post(s, times, step, lane);
        transfer(s, subject, lane, cleave_later(s->w->head[subject], now));
        break;
    case CLEAVE_SCAN_POSTS:
        now = run_post(s, times, step, lane);
        now = cleave_later(now, run_post(s, times, ++step, lane));
        transfer(s, subject, lane, now);
        break;
    case CLEAVE_SCAN_FIRST_JOIN:
    case CLEAVE_SCAN_JOIN:
    case CLEAVE_SCAN_LAST_JOIN:
    case CLEAVE_SCAN_ONLY_JOIN:
        join(s, step, lane, run_other(s, times, step, lane));
        break;
    case CLEAVE_SCAN_CATCH_UP:
        reach(s, times, step);
        break;
    case CLEAVE_SCAN_WAIT:
    case CLEAVE_SCAN_WAIT_WORK:
        run_wait(s, times, step, lane);
        break;
    case CLEAVE_SCAN_MARK: /* of fragments only */
        break;
    }
    return step;
}

INLINE void run_steps(const scan *s, const cleave_work_times *times, int32_t first_step,
                      int32_t end_step) {
    const cleave_scan_step *end = s->problem->steps + end_step;
    for (const cleave_scan_step *step = s->problem->steps + first_step; step < end; step++)
        step = step->queue & 1 ? run_step(s, times, step, 1) : run_step(s, times, step, 0);
}

/* Returns when the last lane ends. */
INLINE int64_t run_rest(const scan *s, const cleave_work_times *times) {
    int64_t last = 0;
    for (int32_t d = 0; d < s->problem->n_queues / 2; d++) {
        cleave_scan_device *device = &s->devices[d];
        run_work(s, times, device, s->problem->rest[d]);
        last = cleave_later(last, cleave_later(device->clock[0], device->clock[1]));
    }
    return last;
}

void cleave_scan_run(const scan *s, int32_t first_step, int32_t end_step) {
    run_steps(s, NULL, first_step, end_step);
}

int64_t cleave_scan_end(const scan *s) { return run_rest(s, NULL); }

static int64_t run_by_items(const scan *s) {
    run_steps(s, NULL, 0, s->problem->n_steps);
    return run_rest(s, NULL);
}
static int64_t run_by_runs(const scan *s, const cleave_work_times *times) {
    run_steps(s, times, 0, s->problem->n_steps);
    return run_rest(s, times);
}

cleave_status cleave_scan_begin(const cleave_engine_problem *problem, cleave_scan_memory *w,
                                cleave_timeline *timeline, scan *begun, cleave_error *error) {
    *begun = (scan){.problem = problem,
                    .w = w,
                    .devices = w->devices,
                    .duration = problem->step.duration,
                    .start = timeline->start,
                    .end = timeline->end,
                    .arrival = timeline->arrival,
                    .until = {[CLEAVE_PRICED_WAIT_ARRIVAL] = timeline->arrival,
                              [CLEAVE_PRICED_WAIT_RELEASE] = w->release,
                              [CLEAVE_PRICED_SYNC] = timeline->end,
                              [CLEAVE_PRICED_AWAIT] = w->collective_end}};
    if (problem->stuck >= 0)
        return fail_stuck(problem, error);
    reset(problem, w);
    return CLEAVE_OK;
}

static cleave_status run_scan(const cleave_engine_problem *problem, cleave_scan_memory *w,
                              const cleave_work_times *times, cleave_timeline *timeline,
                              cleave_error *error) {
    scan s;
    CLEAVE_TRY(cleave_scan_begin(problem, w, timeline, &s, error));
    timeline->step = times != NULL ? run_by_runs(&s, times) : run_by_items(&s);
    return CLEAVE_OK;
}

cleave_status cleave_engine_run_scan(const cleave_engine_problem *problem,
                                     cleave_engine_workspace *w, cleave_timeline *timeline,
                                     cleave_error *error) {
    return run_scan(problem, w->scan, NULL, timeline, error);
}

cleave_status cleave_engine_scan_runs(const cleave_engine_problem *problem,
                                      cleave_engine_workspace *w, const cleave_work_times *times,
                                      cleave_timeline *timeline, cleave_error *error) {
    return run_scan(problem, w->scan, times, timeline, error);
}
