/* The scan: one pass over the items in their global order.  A queue's clock is the end of its last
   item; whatever an item waits for stands before it, so its time is known when it is met. */
#include "simulator/engine_workspace.h"
#include "simulator/scan_rule.h"

#include <string.h>

static void reset(const cleave_engine_problem *problem, cleave_engine_workspace *w) {
    memset(w->links, 0, (size_t)problem->n_links * sizeof *w->links);
    memset(w->posted, 0, (size_t)problem->n_messages * sizeof *w->posted);
    memset(w->joined, 0, (size_t)problem->n_collectives * sizeof *w->joined);
    memset(w->collective_ready, 0, (size_t)problem->n_collectives * sizeof *w->collective_ready);
    memset(w->devices, 0, (size_t)problem->n_queues / 2 * sizeof *w->devices);
}

static inline void post(const cleave_engine_problem *problem, cleave_engine_workspace *w,
                        int32_t message, int32_t lane, int64_t now, int64_t *arrival) {
    if (w->posted[message]++ == 0) {
        w->head[message] = now;
        return;
    }
    int64_t head = cleave_later(w->head[message], now), tail = 0;
    int64_t delay = problem->polls != NULL ? cleave_poll_delay(problem->polls, message, head) : 0;
    int32_t first = problem->hop_start[message], end = problem->hop_start[message + 1];
    for (int32_t h = first; h < end; h++) {
        int32_t link = problem->hop_link[h];
        w->hop_begin[h] = cleave_scan_serve(&w->links[link], lane, problem->hop_serialization[h],
                                            problem->link_latency[link], &head, &tail);
    }
    w->release[message] = w->hop_begin[first] + problem->hop_serialization[first] + delay;
    *arrival = tail + delay;
}

static void join(const cleave_engine_problem *problem, cleave_engine_workspace *w,
                 int32_t collective, int32_t lane, int64_t now) {
    int64_t ready = cleave_later(w->collective_ready[collective], now);
    w->collective_ready[collective] = ready;
    if (++w->joined[collective] < problem->collective_joins[collective])
        return;
    int32_t first = problem->collective_link_start[collective];
    int32_t n_links = problem->collective_link_start[collective + 1] - first;
    w->collective_end[collective] =
        cleave_scan_collective(ready, problem->collective_busy[collective], lane,
                               problem->collective_links + first, n_links, w->links) +
        problem->collective_rest[collective];
}

static cleave_status stands_before(int32_t item, const char *what, int32_t subject,
                                   cleave_error *error) {
    return cleave_fail(error, CLEAVE_FAILED, "item %d stands before what it waits for, %s %d", item,
                       what, subject);
}

cleave_status cleave_engine_run_scan(const cleave_engine_problem *problem,
                                     cleave_engine_workspace *w, cleave_timeline *timeline,
                                     cleave_error *error) {
    reset(problem, w);
    int64_t step = 0;
    for (int32_t i = 0; i < problem->n_items; i++) {
        int32_t lane = problem->queue[i] & 1, subject = problem->subject[i];
        cleave_scan_device *device = &w->devices[problem->queue[i] >> 1];
        int64_t until;
        timeline->start[i] = device->clock[lane];
        switch ((cleave_engine_kind)problem->kind[i]) {
        case CLEAVE_ENGINE_WORK:
            timeline->end[i] = cleave_scan_work(device, lane, problem->duration[i]);
            continue;
        case CLEAVE_ENGINE_POST:
            timeline->end[i] = cleave_scan_work(device, lane, problem->duration[i]);
            post(problem, w, subject, lane, timeline->end[i], &timeline->arrival[subject]);
            continue;
        case CLEAVE_ENGINE_JOIN:
            timeline->end[i] = cleave_scan_work(device, lane, problem->duration[i]);
            join(problem, w, subject, lane, timeline->end[i]);
            continue;
        case CLEAVE_ENGINE_WAIT_ARRIVAL:
            if (w->posted[subject] < 2)
                return stands_before(i, "message", subject, error);
            until = timeline->arrival[subject];
            break;
        case CLEAVE_ENGINE_WAIT_RELEASE:
            if (w->posted[subject] < 2)
                return stands_before(i, "message", subject, error);
            until = w->release[subject];
            break;
        case CLEAVE_ENGINE_SYNC:
            until = timeline->end[subject];
            break;
        default: /* AWAIT */
            if (w->joined[subject] < problem->collective_joins[subject])
                return stands_before(i, "collective", subject, error);
            until = w->collective_end[subject];
        }
        timeline->end[i] = cleave_scan_wait(device, lane, until);
    }
    for (int32_t d = 0; d < problem->n_queues / 2; d++)
        step = cleave_later(step, cleave_later(w->devices[d].clock[0], w->devices[d].clock[1]));
    timeline->step = step;
    return CLEAVE_OK;
}
