/* The scan: one pass over the items in their global order.  A queue's clock is the end of its last
   item; whatever an item waits for stands before it, so its time is known when it is met. */
#include "simulator/engine_workspace.h"
#include "simulator/link.h"

#include <string.h>

static void reset(const cleave_engine_problem *problem, cleave_engine_workspace *w) {
    size_t n_devices = (size_t)problem->n_queues / 2;
    memset(w->link_free, 0, (size_t)problem->n_links * sizeof *w->link_free);
    memset(w->posted, 0, (size_t)problem->n_messages * sizeof *w->posted);
    memset(w->joined, 0, (size_t)problem->n_collectives * sizeof *w->joined);
    memset(w->collective_ready, 0, (size_t)problem->n_collectives * sizeof *w->collective_ready);
    memset(w->clock, 0, (size_t)problem->n_queues * sizeof *w->clock);
    memset(w->busy_from, 0, n_devices * sizeof *w->busy_from);
    memset(w->pending, 0, n_devices * sizeof *w->pending);
}

/* Work on the communication lane from `start` to `end`: charge the main lane, now or later. */
static inline void charge_main(cleave_engine_workspace *w, int32_t queue, int64_t start,
                               int64_t end) {
    int32_t device = queue >> 1;
    int64_t *main_clock = &w->clock[queue - 1];
    if (start < *main_clock) {
        int64_t from = cleave_later(start, w->busy_from[device]);
        if (end > from)
            *main_clock += end - from;
        return;
    }
    if (w->pending[device] == 0)
        w->pending_begin[device] = start;
    w->pending[device] += end - start;
    w->pending_end[device] = end;
}

/* End of main-lane work that would by itself last from `start` to `end`. */
static inline int64_t end_of_main(cleave_engine_workspace *w, int32_t device, int64_t start,
                                  int64_t end) {
    if (w->pending[device] == 0 || end <= w->pending_begin[device])
        return end;
    int64_t left = w->pending_end[device] - start;
    int64_t charge = left < w->pending[device] ? left : w->pending[device];
    w->pending[device] = 0;
    return charge > 0 ? end + charge : end;
}

static inline int64_t do_work(const cleave_engine_problem *problem, cleave_engine_workspace *w,
                              int32_t item, int64_t start) {
    int32_t queue = problem->queue[item];
    int64_t end = start + problem->duration[item];
    if (end == start)
        return end;
    if (queue & 1) {
        charge_main(w, queue, start, end);
        return end;
    }
    return end_of_main(w, queue >> 1, start, end);
}

static inline void post(const cleave_engine_problem *problem, cleave_engine_workspace *w,
                        int32_t message, int64_t now, int64_t *arrival) {
    if (w->posted[message]++ == 0) {
        w->head[message] = now;
        return;
    }
    int64_t head = cleave_later(w->head[message], now), tail = 0;
    int32_t first = problem->hop_start[message], end = problem->hop_start[message + 1];
    for (int32_t h = first; h < end; h++) {
        int32_t link = problem->hop_link[h];
        w->hop_begin[h] =
            cleave_link_serve(problem->hop_serialization[h], problem->link_latency[link],
                              &w->link_free[link], &head, &tail);
    }
    w->release[message] = w->hop_begin[first] + problem->hop_serialization[first];
    *arrival = tail;
}

static void join(const cleave_engine_problem *problem, cleave_engine_workspace *w,
                 int32_t collective, int64_t now) {
    int64_t begin = cleave_later(w->collective_ready[collective], now);
    w->collective_ready[collective] = begin;
    if (++w->joined[collective] < problem->collective_joins[collective])
        return;
    int32_t first = problem->collective_link_start[collective];
    int32_t last = problem->collective_link_start[collective + 1];
    for (int32_t l = first; l < last; l++)
        begin = cleave_later(begin, w->link_free[problem->collective_links[l]]);
    int64_t end = begin + problem->collective_busy[collective];
    for (int32_t l = first; l < last; l++)
        w->link_free[problem->collective_links[l]] = end;
    w->collective_end[collective] = end + problem->collective_rest[collective];
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
        int32_t queue = problem->queue[i], subject = problem->subject[i];
        int64_t start = w->clock[queue], until;
        timeline->start[i] = start;
        switch ((cleave_engine_kind)problem->kind[i]) {
        case CLEAVE_ENGINE_WORK:
            w->clock[queue] = timeline->end[i] = do_work(problem, w, i, start);
            continue;
        case CLEAVE_ENGINE_POST:
            w->clock[queue] = timeline->end[i] = do_work(problem, w, i, start);
            post(problem, w, subject, timeline->end[i], &timeline->arrival[subject]);
            continue;
        case CLEAVE_ENGINE_JOIN:
            w->clock[queue] = timeline->end[i] = do_work(problem, w, i, start);
            join(problem, w, subject, timeline->end[i]);
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
        if (until > start) {
            w->clock[queue] = until;
            if (!(queue & 1))
                w->busy_from[queue >> 1] = until;
        }
        timeline->end[i] = cleave_later(until, start);
    }
    for (int32_t q = 0; q < problem->n_queues; q++)
        step = cleave_later(step, w->clock[q]);
    timeline->step = step;
    return CLEAVE_OK;
}
