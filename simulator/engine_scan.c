/* The scan: one pass over the items in their global order.  A queue's clock is the end of its last
   item; whatever an item waits for stands before it, so its time is known when it is met.  Work of
   main lanes, which is most of a step, is put off until its device does something else, and so is
   added up in runs: item by item where the times of all are wanted, else a run at once. */
#include "simulator/engine_workspace.h"
#include "simulator/scan_rule.h"

#include <string.h>

static void reset(const cleave_engine_problem *problem, cleave_engine_workspace *w) {
    memset(w->links, 0, (size_t)problem->n_links * sizeof *w->links);
    memset(w->collective_ready, 0, (size_t)problem->n_collectives * sizeof *w->collective_ready);
    if (problem->ends != NULL)
        memset(w->processors, 0, (size_t)problem->n_queues / 2 * sizeof *w->processors);
    memset(w->devices, 0, (size_t)problem->n_queues / 2 * sizeof *w->devices);
}

/* The work of a message's ends; returns when its source is done. */
static inline int64_t work_at_ends(const cleave_engine_problem *problem, cleave_engine_workspace *w,
                                   int32_t message, int32_t lane, int64_t head, int64_t *tail) {
    const cleave_message_ends *ends = &problem->ends[message];
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
static inline void transfer(const cleave_engine_problem *problem, cleave_engine_workspace *w,
                            int32_t message, int32_t lane, int64_t head, int64_t *arrival) {
    int64_t delay = problem->polls != NULL ? cleave_poll_delay(problem->polls, message, head) : 0;
    int32_t first = problem->hop_start[message], end = problem->hop_start[message + 1];
    int64_t tail = 0;
    for (int32_t h = first; h < end; h++) {
        int32_t link = problem->hop_link[h];
        w->hop_begin[h] = cleave_scan_serve(&w->links[link], lane, problem->hop_serialization[h],
                                            problem->link_latency[link], &head, &tail);
    }
    int64_t left = w->hop_begin[first] + problem->hop_serialization[first];
    if (problem->ends != NULL && problem->ends[message].work > 0)
        left = cleave_later(left, work_at_ends(problem, w, message, lane, head, &tail));
    w->release[message] = left + delay;
    *arrival = tail + delay;
}

static void end_collective(const cleave_engine_problem *problem, cleave_engine_workspace *w,
                           int32_t collective, int32_t lane) {
    int32_t first = problem->collective_link_start[collective];
    int32_t n_links = problem->collective_link_start[collective + 1] - first;
    w->collective_end[collective] =
        cleave_scan_collective(w->collective_ready[collective],
                               problem->collective_busy[collective], lane,
                               problem->collective_links + first, n_links, w->links) +
        problem->collective_rest[collective];
}

static cleave_status fail_stuck(const cleave_engine_problem *problem, cleave_error *error) {
    int32_t item = problem->stuck;
    return cleave_fail(error, CLEAVE_FAILED, "item %d stands before what it waits for, %s %d", item,
                       problem->kind[item] == CLEAVE_ENGINE_AWAIT ? "collective" : "message",
                       problem->subject[item]);
}

typedef struct scan {
    const cleave_engine_problem *problem;
    cleave_engine_workspace *w;
    const cleave_work_times *times; /* of runs; null: work gets its times in the timeline */
    cleave_timeline *timeline;
    const int64_t *until[CLEAVE_ENGINE_N_KINDS]; /* what is waited for, by kinds of items */
} scan;

/* A run of work of a device's main lane.  Once the communication lane has nothing ahead of it that
   it would be charged for, one begins where the other ends. */
static inline void run_items(const scan *s, cleave_scan_device *device, int32_t run) {
    const int64_t *duration = s->problem->duration;
    const int32_t *items = s->problem->work_items;
    int64_t *start = s->timeline->start, *end = s->timeline->end;
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
static inline void run_sums(const cleave_work_times *times, cleave_scan_device *device,
                            int32_t run) {
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

static inline void run_work(const scan *s, cleave_scan_device *device, int32_t run) {
    if (run < 0)
        return;
    if (s->times != NULL)
        run_sums(s->times, device, run);
    else
        run_items(s, device, run);
}

/* The step's work, and its item as it takes its duration; returns when that ends. */
static inline int64_t run_item(const scan *s, const cleave_scan_step *step) {
    int32_t lane = step->queue & 1, item = step->item;
    cleave_scan_device *device = &s->w->devices[step->queue >> 1];
    run_work(s, device, step->work);
    s->timeline->start[item] = device->clock[lane];
    int64_t duration = s->problem->duration[item];
    int64_t end = step->source == CLEAVE_ENGINE_POST ? cleave_scan_post(device, lane, duration)
                                                     : cleave_scan_work(device, lane, duration);
    return s->timeline->end[item] = end;
}

static inline int64_t end_of_work(const scan *s, int32_t place) {
    return s->times != NULL ? cleave_work_end(s->times, s->times->run_of[place], place)
                            : s->timeline->end[s->problem->work_items[place]];
}

static inline void run_wait(const scan *s, const cleave_scan_step *step) {
    int32_t lane = step->queue & 1, item = step->item;
    cleave_scan_device *device = &s->w->devices[step->queue >> 1];
    run_work(s, device, step->work);
    s->timeline->start[item] = device->clock[lane];
    int64_t until = step->kind == CLEAVE_SCAN_WAIT_WORK ? end_of_work(s, step->subject)
                                                        : s->until[step->source][step->subject];
    s->timeline->end[item] = cleave_scan_wait(device, lane, until);
}

static void run_steps(const scan *s) {
    cleave_engine_workspace *w = s->w;
    const cleave_scan_step *end = s->problem->steps + s->problem->n_steps;
    for (const cleave_scan_step *step = s->problem->steps; step < end; step++) {
        int32_t subject = step->subject;
        int64_t now;
        if (step->kind >= CLEAVE_SCAN_WAIT) {
            run_wait(s, step);
            continue;
        }
        if (step->kind == CLEAVE_SCAN_CATCH_UP) {
            run_work(s, &w->devices[step->queue >> 1], step->work);
            continue;
        }
        now = run_item(s, step);
        switch ((cleave_scan_kind)step->kind) {
        case CLEAVE_SCAN_POST:
            w->head[subject] = now;
            break;
        case CLEAVE_SCAN_LAST_POST:
            transfer(s->problem, w, subject, step->queue & 1, cleave_later(w->head[subject], now),
                     &s->timeline->arrival[subject]);
            break;
        case CLEAVE_SCAN_POSTS:
            step++;
            now = cleave_later(now, run_item(s, step));
            transfer(s->problem, w, subject, step->queue & 1, now, &s->timeline->arrival[subject]);
            break;
        case CLEAVE_SCAN_JOIN:
        case CLEAVE_SCAN_LAST_JOIN:
            w->collective_ready[subject] = cleave_later(w->collective_ready[subject], now);
            if (step->kind == CLEAVE_SCAN_LAST_JOIN)
                end_collective(s->problem, w, subject, step->queue & 1);
            break;
        default:
            break;
        }
    }
}

static cleave_status run_scan(const cleave_engine_problem *problem, cleave_engine_workspace *w,
                              const cleave_work_times *times, cleave_timeline *timeline,
                              cleave_error *error) {
    const scan s = {problem,
                    w,
                    times,
                    timeline,
                    {[CLEAVE_ENGINE_WAIT_ARRIVAL] = timeline->arrival,
                     [CLEAVE_ENGINE_WAIT_RELEASE] = w->release,
                     [CLEAVE_ENGINE_SYNC] = timeline->end,
                     [CLEAVE_ENGINE_AWAIT] = w->collective_end}};
    if (problem->stuck >= 0)
        return fail_stuck(problem, error);
    reset(problem, w);
    run_steps(&s);
    int64_t step = 0;
    for (int32_t d = 0; d < problem->n_queues / 2; d++) {
        run_work(&s, &w->devices[d], problem->rest[d]);
        step = cleave_later(step, cleave_later(w->devices[d].clock[0], w->devices[d].clock[1]));
    }
    timeline->step = step;
    return CLEAVE_OK;
}

cleave_status cleave_engine_run_scan(const cleave_engine_problem *problem,
                                     cleave_engine_workspace *w, cleave_timeline *timeline,
                                     cleave_error *error) {
    return run_scan(problem, w, NULL, timeline, error);
}

cleave_status cleave_engine_scan_runs(const cleave_engine_problem *problem,
                                      cleave_engine_workspace *w, const cleave_work_times *times,
                                      cleave_timeline *timeline, cleave_error *error) {
    return run_scan(problem, w, times, timeline, error);
}
