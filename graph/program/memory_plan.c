/* Best fit over the free ranges, in the order in which buffers come to life: quick, and often no
   larger than what lives at once, which no plan can be below.  Where it is larger, the device is
   planned again by size, and the smaller plan counts. */
#include "graph/program/memory_plan.h"

#include "base/checked.h"
#include "graph/program/memory_by_size.h"

#include <stdlib.h>
#include <string.h>

/* A life begins or ends.  All that one item uses lives at once, so at its position begins come
   before ends; the lives of either sort ascend.  Events hold what planning asks for: of a deep
   model the lives themselves don't stay in a cache. */
typedef struct event {
    int64_t bytes; /* aligned */
    int32_t device;
    int32_t life; /* that begins; or, where it ends, ~ of it */
} event;

static inline bool starts(const event *of) { return of->life >= 0; }
static inline int32_t life_of(const event *of) { return of->life >= 0 ? of->life : ~of->life; }

typedef struct free_range {
    int64_t offset, bytes;
} free_range;

/* Deep models leave thousands of free ranges, so these are listed in two orders. */
typedef struct planner {
    int64_t *offset;     /* [lives] */
    free_range *free;    /* by offset; room for one per life and one more */
    free_range *by_size; /* the same by bytes, then offset */
    int32_t n_free;
    int64_t top;        /* end of the arena so far */
    int64_t live, most; /* bytes that live now, and at most until now */
    /* [lives], to plan by size: */
    cleave_span *spans, *placed;
    int32_t *span_of;
} planner;

/* Devices with more lives are not planned again: it takes the square of their number.  A little
   that is lost is left. */
enum { MOST_PLANNED_AGAIN = 8192, LOSS_THAT_COUNTS = 32 /* of what lives: the 32nd part */ };

/* The first range by size that is as large and, of those that are no larger, at `offset` or
   beyond. */
static int32_t size_place(const planner *plan, int64_t bytes, int64_t offset) {
    int32_t lo = 0, hi = plan->n_free;
    while (lo < hi) {
        int32_t middle = (lo + hi) / 2;
        const free_range *of = &plan->by_size[middle];
        if (of->bytes < bytes || (of->bytes == bytes && of->offset < offset))
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo;
}

/* The first range at `offset` or beyond. */
static int32_t offset_place(const planner *plan, int64_t offset) {
    int32_t lo = 0, hi = plan->n_free;
    while (lo < hi) {
        int32_t middle = (lo + hi) / 2;
        if (plan->free[middle].offset < offset)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo;
}

/* Moves `n` ranges from place `from` on to place `to`. */
static void shift(free_range *ranges, int32_t to, int32_t from, int32_t n) {
    memmove(&ranges[to], &ranges[from], (size_t)n * sizeof *ranges);
}

static void insert(planner *plan, int32_t at, free_range range) {
    int32_t place = size_place(plan, range.bytes, range.offset);
    shift(plan->by_size, place + 1, place, plan->n_free - place);
    shift(plan->free, at + 1, at, plan->n_free - at);
    plan->by_size[place] = plan->free[at] = range;
    plan->n_free++;
}

static void erase(planner *plan, int32_t at) {
    int32_t place = size_place(plan, plan->free[at].bytes, plan->free[at].offset);
    plan->n_free--;
    shift(plan->by_size, place, place + 1, plan->n_free - place);
    shift(plan->free, at, at + 1, plan->n_free - at);
}

/* A range that stays between the same neighbours: only its place by size changes. */
static void replace(planner *plan, int32_t at, free_range range) {
    int32_t from = size_place(plan, plan->free[at].bytes, plan->free[at].offset);
    int32_t to = size_place(plan, range.bytes, range.offset);
    if (to > from) { /* it leaves a place before that */
        to--;
        shift(plan->by_size, from, from + 1, to - from);
    } else {
        shift(plan->by_size, to + 1, to, from - to);
    }
    plan->by_size[to] = plan->free[at] = range;
}

/* Of ranges of one size the first by offset. */
static int64_t take(planner *plan, int64_t bytes) {
    int32_t place = size_place(plan, bytes, -1);
    if (place == plan->n_free) {
        /* Grow; a free range at the very end grows with it. */
        int64_t offset = plan->top;
        if (plan->n_free > 0) {
            const free_range *last = &plan->free[plan->n_free - 1];
            if (last->offset + last->bytes == plan->top) {
                offset = last->offset;
                erase(plan, plan->n_free - 1);
            }
        }
        plan->top = offset + bytes;
        return offset;
    }
    const free_range best = plan->by_size[place];
    int32_t at = offset_place(plan, best.offset);
    if (best.bytes > bytes)
        replace(plan, at, (free_range){best.offset + bytes, best.bytes - bytes});
    else
        erase(plan, at);
    return best.offset;
}

static void give(planner *plan, int64_t offset, int64_t bytes) {
    int32_t at = offset_place(plan, offset);
    const free_range *of = plan->free;
    bool joins_before = at > 0 && of[at - 1].offset + of[at - 1].bytes == offset;
    bool joins_after = at < plan->n_free && offset + bytes == of[at].offset;
    int64_t begin = joins_before ? of[at - 1].offset : offset;
    int64_t end = joins_after ? of[at].offset + of[at].bytes : offset + bytes;
    const free_range range = {begin, end - begin};
    if (joins_before && joins_after)
        erase(plan, at);
    if (joins_before)
        replace(plan, at - 1, range);
    else if (joins_after)
        replace(plan, at, range);
    else
        insert(plan, at, range);
}

/* The lives of a device from event to event; returns their number. */
static int32_t list_spans(planner *plan, const event *events, int32_t n_events) {
    int32_t n = 0;
    for (int32_t e = 0; e < n_events; e++) {
        const event *of = &events[e];
        if (of->bytes == 0)
            continue;
        if (starts(of)) {
            plan->spans[n] =
                (cleave_span){.bytes = of->bytes, .life = of->life, .begin = e, .end = n_events};
            plan->span_of[of->life] = n++;
        } else {
            plan->spans[plan->span_of[life_of(of)]].end = e;
        }
    }
    return n;
}

/* Takes the place of the plan by time if it is smaller. */
static void plan_by_size(planner *plan, const event *events, int32_t n_events) {
    int32_t n = list_spans(plan, events, n_events);
    int64_t top;
    if (!cleave_place_by_size(plan->spans, n, plan->top, plan->placed, &top))
        return;
    for (int32_t i = 0; i < n; i++)
        plan->offset[plan->spans[i].life] = plan->spans[i].offset;
    plan->top = top;
}

/* `events` of one device in order. */
static void plan_device(planner *plan, const event *events, int32_t n_events) {
    plan->n_free = 0;
    plan->top = plan->live = plan->most = 0;
    for (int32_t e = 0; e < n_events; e++) {
        const event *of = &events[e];
        if (of->bytes == 0)
            continue;
        if (starts(of))
            plan->offset[of->life] = take(plan, of->bytes);
        else
            give(plan, plan->offset[life_of(of)], of->bytes);
        plan->live += starts(of) ? of->bytes : -of->bytes;
        plan->most = plan->live > plan->most ? plan->live : plan->most;
    }
    if (plan->top - plan->most > plan->most / LOSS_THAT_COUNTS &&
        n_events <= 2 * MOST_PLANNED_AGAIN)
        plan_by_size(plan, events, n_events);
}

/* What sorting needs; freed as one. */
typedef struct sorting {
    int32_t *start;  /* [n_devices + 1] of the events of a device */
    int32_t *fill;   /* [n_devices + 1] */
    int32_t *moment; /* [2 x n_items + 3] events before the begins, or the ends, at a position */
    int32_t *begin;  /* [lives] which event of its device begins it */
    event *by_moment, *events; /* [2 x lives] */
} sorting;

static void free_sorting(sorting *s) {
    free(s->start);
    free(s->fill);
    free(s->moment);
    free(s->begin);
    free(s->by_moment);
    free(s->events);
}

static bool begin_sorting(const cleave_lives *lives, sorting *s) {
    size_t n_devices = (size_t)lives->n_devices, n_events = 2 * (size_t)lives->n + 1;
    *s = (sorting){.start = calloc(n_devices + 1, sizeof *s->start),
                   .fill = calloc(n_devices + 1, sizeof *s->fill),
                   .moment = calloc(2 * (size_t)lives->n_items + 3, sizeof *s->moment),
                   .begin = malloc(((size_t)lives->n + 1) * sizeof *s->begin),
                   .by_moment = malloc(n_events * sizeof *s->by_moment),
                   .events = malloc(n_events * sizeof *s->events)};
    return s->start != NULL && s->fill != NULL && s->moment != NULL && s->begin != NULL &&
           s->by_moment != NULL && s->events != NULL;
}

/* Of a position from -1 on: a program without items still has what persists. */
static size_t moment_of(int32_t position, bool start) {
    return 2 * ((size_t)position + 1) + (start ? 0 : 1);
}

/* The events of each device in order: by counting, over all devices first by the moments, then by
   device. */
static void sort_events(const cleave_lives *lives, sorting *s) {
    int32_t before = 0;
    size_t n_moments = 2 * (size_t)lives->n_items + 2;
    for (int32_t l = 0; l < lives->n; l++) {
        s->moment[moment_of(lives->items[l].first, true)]++;
        s->moment[moment_of(lives->items[l].last, false)]++;
        s->start[lives->items[l].device + 1] += 2;
    }
    for (size_t m = 0; m < n_moments; m++) {
        int32_t here = s->moment[m];
        s->moment[m] = before;
        before += here;
    }
    for (int32_t l = 0; l < lives->n; l++) {
        const cleave_life *life = &lives->items[l];
        int64_t bytes = cleave_buffer_aligned(life->bytes);
        s->by_moment[s->moment[moment_of(life->first, true)]++] = (event){bytes, life->device, l};
        s->by_moment[s->moment[moment_of(life->last, false)]++] = (event){bytes, life->device, ~l};
    }
    for (int32_t d = 0; d < lives->n_devices; d++)
        s->fill[d + 1] = s->start[d + 1] += s->start[d];
    for (int32_t e = 0; e < 2 * lives->n; e++) {
        const event *of = &s->by_moment[e];
        if (starts(of))
            s->begin[of->life] = s->fill[of->device] - s->start[of->device];
        s->events[s->fill[of->device]++] = *of;
    }
}

/* Events of a device up to the last life that begins: what ends later changes nothing. */
static int32_t count_events(const sorting *s, int32_t d) {
    int32_t n = s->start[d + 1] - s->start[d];
    while (n > 0 && !starts(&s->events[s->start[d] + n - 1]))
        n--;
    return n;
}

/* Devices mostly do the same: is this one like the one before it, event by event? */
static bool is_as_before(const sorting *s, int32_t d, int32_t n) {
    if (d == 0 || count_events(s, d - 1) != n)
        return false;
    const event *x = s->events + s->start[d], *y = s->events + s->start[d - 1];
    for (int32_t e = 0; e < n; e++)
        if (starts(&x[e]) != starts(&y[e]) || x[e].bytes != y[e].bytes ||
            s->begin[life_of(&x[e])] != s->begin[life_of(&y[e])])
            return false;
    return true;
}

/* A device that is as the one before it has everything in the same places. */
static void copy_offsets(const sorting *s, int32_t d, int32_t n, int64_t *offset) {
    const event *x = s->events + s->start[d], *y = s->events + s->start[d - 1];
    for (int32_t e = 0; e < n; e++)
        if (starts(&x[e]))
            offset[x[e].life] = offset[y[e].life];
}

static cleave_status check_total(const cleave_lives *lives, cleave_error *error) {
    int64_t total = 0;
    for (int32_t l = 0; l < lives->n; l++)
        if (!cleave_int64_add(total, cleave_buffer_aligned(lives->items[l].bytes), &total))
            return cleave_fail(error, CLEAVE_FAILED,
                               "the program needs more than 2^63 bytes of memory");
    return lives->n <= INT32_MAX / 2
               ? CLEAVE_OK
               : cleave_fail(error, CLEAVE_FAILED, "the program has more than 2^30 buffers");
}

static void free_planning(planner *plan) {
    free(plan->free);
    free(plan->by_size);
    free(plan->spans);
    free(plan->placed);
    free(plan->span_of);
}

static bool begin_planning(const cleave_lives *lives, int64_t *offset, planner *plan) {
    size_t n = (size_t)lives->n + 2;
    *plan = (planner){.offset = offset,
                      .free = malloc(n * sizeof *plan->free),
                      .by_size = malloc(n * sizeof *plan->by_size),
                      .spans = malloc(n * sizeof *plan->spans),
                      .placed = malloc(n * sizeof *plan->placed),
                      .span_of = malloc(n * sizeof *plan->span_of)};
    return plan->free != NULL && plan->by_size != NULL && plan->spans != NULL &&
           plan->placed != NULL && plan->span_of != NULL;
}

cleave_status cleave_memory_plan_lives(const cleave_lives *lives, int64_t *offset,
                                       int64_t *peak_bytes, cleave_error *error) {
    CLEAVE_TRY(check_total(lives, error));
    sorting s;
    planner plan;
    bool sorts = begin_sorting(lives, &s), plans = begin_planning(lives, offset, &plan);
    bool ready = sorts && plans;
    if (ready)
        sort_events(lives, &s);
    for (int32_t d = 0; d < lives->n_devices && ready; d++) {
        int32_t n_events = count_events(&s, d);
        if (is_as_before(&s, d, n_events))
            copy_offsets(&s, d, n_events, offset);
        else
            plan_device(&plan, s.events + s.start[d], n_events);
        peak_bytes[d] = plan.top;
    }
    free_sorting(&s);
    free_planning(&plan);
    return ready ? CLEAVE_OK : cleave_fail_memory(error, "planning memory");
}

cleave_status cleave_memory_plan(cleave_program *program, cleave_arena *arena,
                                 cleave_error *error) {
    int32_t n = program->n_buffers;
    cleave_life *items = malloc(((size_t)n + 1) * sizeof *items);
    int64_t *offset = calloc((size_t)n + 1, sizeof *offset);
    int32_t *life_of = malloc(((size_t)n + 1) * sizeof *life_of); /* of what lies in itself */
    cleave_lives lives = {.n_devices = program->n_devices, .n_items = program->n_items};
    lives.items = items;
    program->peak_bytes = CLEAVE_ARENA_ARRAY(arena, int64_t, program->n_devices);
    bool ready = items != NULL && offset != NULL && life_of != NULL && program->peak_bytes != NULL;
    for (int32_t b = 0; b < n && ready; b++) {
        const cleave_buffer *of = &program->buffers[b];
        life_of[b] = lives.n;
        if (of->storage == b)
            items[lives.n++] = (cleave_life){of->bytes, of->device, of->first, of->last};
    }
    cleave_status status =
        ready ? cleave_memory_plan_lives(&lives, offset, program->peak_bytes, error)
              : cleave_fail_memory(error, "planning memory");
    for (int32_t b = 0; b < n && status == CLEAVE_OK; b++)
        program->buffers[b].offset = offset[life_of[program->buffers[b].storage]];
    free(life_of);
    free(items);
    free(offset);
    return status;
}
