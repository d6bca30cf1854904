/* The scan's rule of time, for what runs items in their global order (engine.h says it in words):
   a device with its two lanes, of which communication charges the main lane, and collectives in
   closed form.  Messages are served by link.h.

   Every function is made of sums and of comparisons of times, so it is equivariant: all times that
   go in moved by some amount, all that come out are moved by it. */
#ifndef CLEAVE_SIMULATOR_SCAN_RULE_H
#define CLEAVE_SIMULATOR_SCAN_RULE_H

#include "simulator/link.h"

#include <stdint.h>

/* All times in picoseconds; zeroed, a device before the step. */
typedef struct cleave_scan_device {
    _Alignas(64) int64_t clock[2]; /* of the main and of the communication lane */
    int64_t main_end;              /* of the main lane's last item, without what was charged since;
                                      of the other lane it is the clock */
    int64_t busy_from;             /* end of the main lane's last idle time; 0: it never waited */
    int64_t pending;               /* work of the communication lane ahead of the main clock */
    int64_t pending_begin;         /* of it; means nothing where there is none */
    int64_t pending_end;
} cleave_scan_device;

/* Work on the communication lane from `start` to `end`: charge the main lane, now or later. */
static inline void cleave_scan_charge_main(cleave_scan_device *device, int64_t start, int64_t end) {
    if (start < device->clock[0]) {
        int64_t from = cleave_later(start, device->busy_from);
        if (end > from)
            device->clock[0] += end - from;
        return;
    }
    if (device->pending == 0)
        device->pending_begin = start;
    device->pending += end - start;
    device->pending_end = end;
}

/* End of main-lane work that would by itself last from `start` to `end`. */
static inline int64_t cleave_scan_end_of_main(cleave_scan_device *device, int64_t start,
                                              int64_t end) {
    if (device->pending == 0 || end <= device->pending_begin)
        return end;
    int64_t left = device->pending_end - start;
    int64_t charge = left < device->pending ? left : device->pending;
    device->pending = 0;
    return charge > 0 ? end + charge : end;
}

/* An item that takes `duration` on a lane; returns its end. */
static inline int64_t cleave_scan_work(cleave_scan_device *device, int32_t lane, int64_t duration) {
    int64_t start = device->clock[lane], end = start + duration;
    if (lane != 0) {
        if (duration != 0)
            cleave_scan_charge_main(device, start, end);
        return device->clock[1] = end;
    }
    if (duration != 0)
        end = cleave_scan_end_of_main(device, start, end);
    return device->clock[0] = device->main_end = end;
}

/* An item that waits on a lane until `until`; returns its end. */
static inline int64_t cleave_scan_wait(cleave_scan_device *device, int32_t lane, int64_t until) {
    int64_t start = device->clock[lane], end = cleave_later(start, until);
    device->clock[lane] = end;
    if (lane == 0) {
        device->busy_from = until > start ? until : device->busy_from;
        device->main_end = end;
    }
    return end;
}

/* When the links of a collective are free again, whose last join was at `ready`. */
static inline int64_t cleave_scan_collective(int64_t ready, int64_t busy, const int32_t *links,
                                             int32_t n_links, int64_t *link_free) {
    int64_t end = ready;
    for (int32_t l = 0; l < n_links; l++)
        end = cleave_later(end, link_free[links[l]]);
    end += busy;
    for (int32_t l = 0; l < n_links; l++)
        link_free[links[l]] = end;
    return end;
}

#endif
