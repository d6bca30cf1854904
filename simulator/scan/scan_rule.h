/* The scan's rule of time, for what runs items in their global order (engine.h says it in words):
   a device with its two lanes, of which communication charges the main lane, and a link, which
   messages and collectives in closed form cross in an order for each lane.

   Every function is made of sums and of comparisons of times, so it is equivariant: all times that
   go in moved by some amount, all that come out are moved by it. */
#ifndef CLEAVE_SIMULATOR_SCAN_SCAN_RULE_H
#define CLEAVE_SIMULATOR_SCAN_SCAN_RULE_H

#include "simulator/step/link.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is to be done at an item, where it is known which post of a message and which join of a
   collective is the last: before any time is. */
typedef enum cleave_scan_kind {
    CLEAVE_SCAN_WORK,
    CLEAVE_SCAN_WAIT,
    CLEAVE_SCAN_POST,       /* the first of the two posts of a message */
    CLEAVE_SCAN_LAST_POST,  /* the second */
    CLEAVE_SCAN_POSTS,      /* the first, and what comes next is the second */
    CLEAVE_SCAN_FIRST_JOIN, /* of a collective of several */
    CLEAVE_SCAN_JOIN,       /* neither the first nor the last */
    CLEAVE_SCAN_LAST_JOIN,
    CLEAVE_SCAN_ONLY_JOIN,
    CLEAVE_SCAN_MARK,      /* of fragments side by side: the end of a lane's last item is noted */
    CLEAVE_SCAN_CATCH_UP,  /* of whole steps: a message charges a device that has work before it */
    CLEAVE_SCAN_WAIT_WORK, /* of whole steps: SYNC with work of the main lane */
} cleave_scan_kind;

/* Of one that comes after so many others. */
static inline cleave_scan_kind cleave_scan_kind_of_post(int32_t posted) {
    return posted == 0 ? CLEAVE_SCAN_POST : CLEAVE_SCAN_LAST_POST;
}
static inline cleave_scan_kind cleave_scan_kind_of_join(int32_t joined, int32_t joins) {
    if (joined == 0)
        return joins == 1 ? CLEAVE_SCAN_ONLY_JOIN : CLEAVE_SCAN_FIRST_JOIN;
    return joined == joins - 1 ? CLEAVE_SCAN_LAST_JOIN : CLEAVE_SCAN_JOIN;
}
static inline bool cleave_scan_is_last_join(cleave_scan_kind kind) {
    return kind == CLEAVE_SCAN_LAST_JOIN || kind == CLEAVE_SCAN_ONLY_JOIN;
}

/* When all have joined of whom one does now, and the others so far at `ready`. */
static inline int64_t cleave_scan_join(cleave_scan_kind kind, int64_t ready, int64_t now) {
    bool is_first = kind == CLEAVE_SCAN_FIRST_JOIN || kind == CLEAVE_SCAN_ONLY_JOIN;
    return is_first ? now : cleave_later(ready, now);
}

/* Earlier than any time, and than any sum of two. */
#define CLEAVE_SCAN_NEVER (INT64_MIN / 4)

/* All times in picoseconds; zeroed, a device before the step. */
typedef struct cleave_scan_device {
    _Alignas(64) int64_t clock[2]; /* of the main and of the communication lane */
    int64_t main_end;              /* of the main lane's last item, without what was charged since;
                                      of the other lane it is the clock */
    int64_t busy_from;             /* end of the main lane's last idle time; 0: it never waited;
                                      NEVER once the communication lane has passed it, which asks
                                      for nothing earlier then */
    int64_t pending;               /* work of the communication lane ahead of the main clock */
    int64_t pending_begin;         /* of it; means nothing where there is none */
    int64_t pending_end;
    int64_t owed; /* of the pending work, that with messages: posts don't wait for it */
} cleave_scan_device;

/* Work that the main lane has to make up for, between `start` and `end`, later. */
static inline void cleave_scan_charge_later(cleave_scan_device *device, int64_t start,
                                            int64_t end) {
    if (device->pending == 0)
        device->pending_begin = start;
    device->pending += end - start;
    device->pending_end = end;
}

/* Has the main lane been passed over `start`?  Then it is charged now. */
static inline bool cleave_scan_charge_now(cleave_scan_device *device, int64_t start, int64_t end) {
    if (start >= device->clock[0])
        return false;
    int64_t from = cleave_later(start, device->busy_from);
    if (end > from)
        device->clock[0] += end - from;
    return true;
}

/* Work on the communication lane from `start` to `end`: charge the main lane, now or later. */
static inline void cleave_scan_charge_main(cleave_scan_device *device, int64_t start, int64_t end) {
    if (!cleave_scan_charge_now(device, start, end))
        cleave_scan_charge_later(device, start, end);
}

/* The same of work with a message of a lane.  What the main lane has posted it makes up for from
   its clock on: its waits, and so its last idle time, come after the post. */
static inline void cleave_scan_charge_message(cleave_scan_device *device, int32_t lane,
                                              int64_t start, int64_t end) {
    if (lane != 0 && cleave_scan_charge_now(device, start, end))
        return;
    int64_t from = cleave_later(start, device->clock[0]), work = end - start;
    cleave_scan_charge_later(device, from, from + work);
    device->owed += work;
}

/* End of main-lane work that would by itself last from `start` to `end`. */
static inline int64_t cleave_scan_end_of_main(cleave_scan_device *device, int64_t start,
                                              int64_t end) {
    if (device->pending == 0 || end <= device->pending_begin)
        return end;
    int64_t left = device->pending_end - start;
    int64_t charge = left < device->pending ? left : device->pending;
    device->pending = device->owed = 0;
    return charge > 0 ? end + charge : end;
}

/* And of a post, which work with messages does not hold up: that of a device's messages goes on
   side by side. */
static inline int64_t cleave_scan_end_of_post(cleave_scan_device *device, int64_t start,
                                              int64_t end) {
    int64_t asked = device->pending - device->owed;
    if (asked == 0 || end <= device->pending_begin)
        return end;
    int64_t left = device->pending_end - start, charge = left < asked ? left : asked;
    device->pending = device->owed;
    return charge > 0 ? end + charge : end;
}

/* The communication lane has come to a time. */
static inline int64_t cleave_scan_pass(cleave_scan_device *device, int64_t time) {
    device->busy_from = device->busy_from <= time ? CLEAVE_SCAN_NEVER : device->busy_from;
    return device->clock[1] = time;
}

/* An item that takes `duration` on a lane; returns its end. */
static inline int64_t cleave_scan_work(cleave_scan_device *device, int32_t lane, int64_t duration) {
    int64_t start = device->clock[lane], end = start + duration;
    if (lane != 0) {
        if (duration != 0)
            cleave_scan_charge_main(device, start, end);
        return cleave_scan_pass(device, end);
    }
    if (duration != 0)
        end = cleave_scan_end_of_main(device, start, end);
    return device->clock[0] = device->main_end = end;
}

/* A post that takes `duration` on a lane; returns its end. */
static inline int64_t cleave_scan_post(cleave_scan_device *device, int32_t lane, int64_t duration) {
    if (lane != 0)
        return cleave_scan_work(device, lane, duration);
    int64_t start = device->clock[0], end = start + duration;
    if (duration != 0)
        end = cleave_scan_end_of_post(device, start, end);
    return device->clock[0] = device->main_end = end;
}

/* An item that waits on a lane until `until`; returns its end.  Of work that is over by then
   nothing is left to make up for. */
static inline int64_t cleave_scan_wait(cleave_scan_device *device, int32_t lane, int64_t until) {
    int64_t start = device->clock[lane], end = cleave_later(start, until);
    if (lane != 0)
        return cleave_scan_pass(device, end);
    if (until > start) {
        device->busy_from = until;
        if (device->pending_end <= until)
            device->pending = device->owed = 0;
    }
    return device->clock[0] = device->main_end = end;
}

/* A link serves each lane in program order.  A communication lane that is behind with its work has
   taken the link until far into the future when a transfer of the main lane comes, which follows in
   the program but is ready long before.  By readiness that would wait for what is on its way or
   queues up already, and go before all that comes later.  So here it waits for no more than one run
   of the other lane's transfers at a time, for none where it is ready before they begin, and the
   communication lane gets the link later by what this took from it. */
typedef struct cleave_scan_link {
    int64_t free[2]; /* after the transfers of the main and of the communication lane */
    int64_t since;   /* the communication lane has used the link, with short pauses, from here on */
    /* No times but durations: of its latest transfers without a pause, and of the longest such run
       of them since then. */
    int64_t run, turn;
} cleave_scan_link;

/* Where a step has stages, program order tells even less of when transfers are ready: what one
   stage sends another stands before all that this one does with it, and may set out long after
   what its communication lane sends meanwhile.  So the last time is kept that a link was idle
   before a transfer of the main lane, and the communication lane may use it. */
typedef struct cleave_scan_idle {
    int64_t from, until;
} cleave_scan_idle;

/* Does a transfer take a link while it was idle?  `idle` null: none is kept. */
static inline bool cleave_scan_is_idle(const cleave_scan_idle *idle, int32_t lane, int64_t begin,
                                       int64_t duration) {
    return idle != NULL && lane != 0 && begin >= idle->from && begin + duration <= idle->until;
}

/* When a transfer that reaches a link at `head` begins on it. */
static inline int64_t cleave_scan_turn(const cleave_scan_link *link, const cleave_scan_idle *idle,
                                       int32_t lane, int64_t head, int64_t duration) {
    int64_t early = idle != NULL ? cleave_later(head, idle->from) : head;
    if (cleave_scan_is_idle(idle, lane, early, duration))
        return early;
    int64_t begin = cleave_later(head, link->free[lane]), ahead = link->free[1] - begin;
    if (ahead <= 0 || begin < link->since)
        return begin;
    return begin + (ahead < link->turn ? ahead : link->turn);
}

/* A transfer of the main lane takes a link. */
static inline void cleave_scan_take_main(cleave_scan_link *link, int64_t begin, int64_t duration) {
    int64_t end = begin + duration;
    link->free[0] = end;
    if (link->free[1] <= begin) {
        link->free[1] = end;
        link->since = begin;
        link->run = link->turn = 0;
    } else if (end > link->since) {
        link->free[1] += end - cleave_later(begin, link->since);
    }
}

/* And one of the communication lane.  A pause longer than a turn is one in which nobody waits. */
static inline void cleave_scan_take_communication(cleave_scan_link *link, int64_t begin,
                                                  int64_t duration) {
    int64_t pause = begin - link->free[1];
    link->run = pause == 0 ? link->run + duration : duration;
    if (pause > link->turn) {
        link->since = begin;
        link->turn = duration;
    } else {
        link->turn = cleave_later(link->turn, link->run);
    }
    link->free[1] = begin + duration;
}

static inline void cleave_scan_take(cleave_scan_link *link, cleave_scan_idle *idle, int32_t lane,
                                    int64_t begin, int64_t duration) {
    if (cleave_scan_is_idle(idle, lane, begin, duration)) {
        idle->from = begin + duration;
        return;
    }
    if (idle != NULL && lane == 0 && link->free[1] < begin)
        *idle = (cleave_scan_idle){link->free[1], begin};
    if (lane == 0)
        cleave_scan_take_main(link, begin, duration);
    else
        cleave_scan_take_communication(link, begin, duration);
}

/* One hop, as cleave_link_serve. */
static inline int64_t cleave_scan_serve(cleave_scan_link *link, cleave_scan_idle *idle,
                                        int32_t lane, int64_t serialization, int64_t latency,
                                        int64_t *head, int64_t *tail) {
    int64_t begin = cleave_scan_turn(link, idle, lane, *head, serialization);
    cleave_scan_take(link, idle, lane, begin, serialization);
    *head = begin + latency;
    *tail = cleave_later(*tail, begin + serialization) + latency;
    return begin;
}

/* The processor at one end of a message, which its first byte reaches at `head`; returns when it is
   done. */
static inline int64_t cleave_scan_serve_end(cleave_scan_link *processor, cleave_scan_device *device,
                                            int32_t lane, int64_t work, int64_t head,
                                            int64_t *tail) {
    int64_t begin = cleave_scan_serve(processor, NULL, lane, work, 0, &head, tail);
    cleave_scan_charge_message(device, lane, begin, begin + work);
    return begin + work;
}

static inline cleave_scan_idle *cleave_scan_idle_of(cleave_scan_idle *idle, int32_t link) {
    return idle != NULL ? &idle[link] : NULL;
}

/* When the links of a collective are free again, whose last join, in that lane, was at `ready`.
   It takes all of them at once: where it is put off by one, the others are asked again. */
static inline int64_t cleave_scan_collective(int64_t ready, int64_t busy, int32_t lane,
                                             const int32_t *links, int32_t n_links,
                                             cleave_scan_link *states, cleave_scan_idle *idle) {
    int64_t begin = ready, asked;
    do {
        asked = begin;
        for (int32_t l = 0; l < n_links; l++)
            begin = cleave_later(begin, cleave_scan_turn(&states[links[l]],
                                                         cleave_scan_idle_of(idle, links[l]), lane,
                                                         asked, busy));
    } while (idle != NULL && begin != asked);
    for (int32_t l = 0; l < n_links; l++)
        cleave_scan_take(&states[links[l]], cleave_scan_idle_of(idle, links[l]), lane, begin, busy);
    return begin + busy;
}

#endif
