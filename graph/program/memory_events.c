#include "graph/program/memory_events.h"

#include <stdlib.h>

/* By counting: first over all devices by the moments, then by device. */
typedef struct sorting {
    const cleave_lives *lives;
    cleave_life_order order;
    int32_t *fill;                /* [n_devices + 1] */
    int32_t *moment;              /* [2 x n_items + 3] events before the begins, or the ends, at a
                                     position */
    cleave_life_event *by_moment; /* [2 x lives] */
} sorting;

static bool counts(const sorting *s, const cleave_life *life) {
    return s->order == CLEAVE_LIVES_BY_MAIN_LANE || life->lane_only;
}

/* Of a position from -1 on: a program without items still has what persists. */
static int32_t *moment_of(const sorting *s, const cleave_life *life, bool begin) {
    bool by_lane = s->order == CLEAVE_LIVES_BY_LANE;
    int32_t position =
        begin ? by_lane ? life->lane_first : life->first : (by_lane ? life->lane_last : life->last);
    return &s->moment[2 * ((size_t)position + 1) + (begin ? 0 : 1)];
}

/* Returns the number of events. */
static int32_t sort_by_moment(const sorting *s, int32_t *start) {
    int32_t before = 0;
    size_t n_moments = 2 * (size_t)s->lives->n_items + 2;
    for (int32_t l = 0; l < s->lives->n; l++) {
        const cleave_life *life = &s->lives->items[l];
        if (!counts(s, life))
            continue;
        ++*moment_of(s, life, true);
        ++*moment_of(s, life, false);
        start[life->device + 1] += 2;
    }
    for (size_t m = 0; m < n_moments; m++) {
        int32_t here = s->moment[m];
        s->moment[m] = before;
        before += here;
    }
    for (int32_t l = 0; l < s->lives->n; l++) {
        const cleave_life *life = &s->lives->items[l];
        int64_t bytes = cleave_buffer_aligned(life->bytes);
        if (!counts(s, life))
            continue;
        s->by_moment[(*moment_of(s, life, true))++] = (cleave_life_event){bytes, life->device, l};
        s->by_moment[(*moment_of(s, life, false))++] = (cleave_life_event){bytes, life->device, ~l};
    }
    return before;
}

static void sort_by_device(const sorting *s, int32_t n_events, cleave_life_events *events) {
    for (int32_t d = 0; d < s->lives->n_devices; d++)
        s->fill[d + 1] = events->start[d + 1] += events->start[d];
    for (int32_t e = 0; e < n_events; e++) {
        const cleave_life_event *of = &s->by_moment[e];
        if (cleave_event_begins(of))
            events->begin[of->life] = s->fill[of->device] - events->start[of->device];
        events->items[s->fill[of->device]++] = *of;
    }
}

bool cleave_life_events_create(const cleave_lives *lives, cleave_life_order order,
                               cleave_life_events *events) {
    size_t n_devices = (size_t)lives->n_devices, n_events = 2 * (size_t)lives->n + 1;
    sorting s = {.lives = lives,
                 .order = order,
                 .fill = calloc(n_devices + 1, sizeof *s.fill),
                 .moment = calloc(2 * (size_t)lives->n_items + 3, sizeof *s.moment),
                 .by_moment = malloc(n_events * sizeof *s.by_moment)};
    *events = (cleave_life_events){.start = calloc(n_devices + 1, sizeof *events->start),
                                   .begin = malloc(n_events * sizeof *events->begin),
                                   .items = malloc(n_events * sizeof *events->items)};
    bool ready = s.fill != NULL && s.moment != NULL && s.by_moment != NULL &&
                 events->start != NULL && events->begin != NULL && events->items != NULL;
    if (ready)
        sort_by_device(&s, sort_by_moment(&s, events->start), events);
    free(s.fill);
    free(s.moment);
    free(s.by_moment);
    return ready;
}

void cleave_life_events_free(cleave_life_events *events) {
    free(events->start);
    free(events->begin);
    free(events->items);
}

cleave_event_list cleave_life_events_of(const cleave_life_events *events, int32_t device) {
    const cleave_life_event *items = events->items + events->start[device];
    int32_t n = events->start[device + 1] - events->start[device];
    while (n > 0 && !cleave_event_begins(&items[n - 1]))
        n--;
    return (cleave_event_list){items, n};
}
