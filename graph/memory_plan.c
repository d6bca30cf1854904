/* Best fit over the free ranges, in the order in which buffers come to life: quick, and often no
   larger than what lives at once, which no plan can be below.  Where it is larger, buffers are
   placed again, the largest first, each as low as it fits among those that live with it.  Small
   ones then go into what the large ones leave, whenever they live; in the order of time, they come
   to lie where a large one wants to be later.  The smaller plan counts. */
#include "graph/memory_plan.h"

#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

/* A buffer's life begins or ends.  All that one item uses lives at once, so at its position begins
   come before ends; the buffers of either sort ascend. */
typedef struct event {
    bool start;
    int32_t buffer;
} event;

typedef struct free_range {
    int64_t offset, bytes;
} free_range;

/* A buffer of a device: it lives between two of the device's events. */
typedef struct life {
    int32_t buffer, begin, end;
    int64_t bytes;
} life;

typedef struct placed_life {
    int64_t offset, end_offset;
    int32_t begin, end;
} placed_life;

/* Deep models leave thousands of free ranges, so these are listed in two orders. */
typedef struct planner {
    cleave_program *program;
    free_range *free;    /* by offset; room for one per buffer and one more */
    free_range *by_size; /* the same by bytes, then offset */
    int32_t n_free;
    int64_t top;         /* end of the arena so far */
    int64_t live, most;  /* bytes that live now, and at most until now */
    life *lives;         /* [n_buffers] */
    placed_life *placed; /* [n_buffers] by offset */
    int64_t *offsets;    /* [n_buffers] of lives */
    int32_t *life_of;    /* [n_buffers] */
} planner;

/* More than so many buffers of a device are not placed again: it takes the square of their number,
   some milliseconds for 4,000.  A little that is lost is left. */
enum { MOST_PLACED_AGAIN = 8192, LOSS_THAT_COUNTS = 64 /* of what lives: the 64th part */ };

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
    erase(plan, at);
    if (best.bytes > bytes)
        insert(plan, at, (free_range){best.offset + bytes, best.bytes - bytes});
    return best.offset;
}

static void give(planner *plan, int64_t offset, int64_t bytes) {
    int32_t at = offset_place(plan, offset);
    free_range range = {offset, bytes};
    if (at < plan->n_free && offset + bytes == plan->free[at].offset) {
        range.bytes += plan->free[at].bytes;
        erase(plan, at);
    }
    if (at > 0 && plan->free[at - 1].offset + plan->free[at - 1].bytes == offset) {
        at--;
        range = (free_range){plan->free[at].offset, plan->free[at].bytes + range.bytes};
        erase(plan, at);
    }
    insert(plan, at, range);
}

/* ---- by size --------------------------------------------------------------------------------- */

static int larger_first(const void *left, const void *right) {
    const life *a = left, *b = right;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return a->begin < b->begin ? -1 : a->begin > b->begin ? 1 : 0;
}

/* The lives of a device by size; returns their number. */
static int32_t list_lives(planner *plan, const event *events, int32_t n_events) {
    int32_t n = 0;
    for (int32_t e = 0; e < n_events; e++) {
        int32_t b = events[e].buffer;
        int64_t bytes = cleave_buffer_aligned(plan->program->buffers[b].bytes);
        if (!events[e].start || bytes == 0)
            continue;
        plan->lives[n] = (life){.buffer = b, .begin = e, .end = n_events, .bytes = bytes};
        plan->life_of[b] = n++;
    }
    for (int32_t e = 0; e < n_events; e++)
        if (!events[e].start && plan->program->buffers[events[e].buffer].bytes > 0)
            plan->lives[plan->life_of[events[e].buffer]].end = e;
    qsort(plan->lives, (size_t)n, sizeof *plan->lives, larger_first);
    return n;
}

/* The lowest offset at which `of` lives with nothing that is placed, and in `*at` where it comes
   among that. */
static int64_t lowest_offset(const planner *plan, int32_t n_placed, const life *of, int32_t *at) {
    int64_t offset = 0;
    int32_t i = 0;
    for (; i < n_placed; i++) {
        const placed_life *other = &plan->placed[i];
        if (other->end < of->begin || of->end < other->begin)
            continue;
        if (other->offset - offset >= of->bytes)
            break;
        if (other->end_offset > offset)
            offset = other->end_offset;
    }
    while (i > 0 && plan->placed[i - 1].offset > offset)
        i--;
    *at = i;
    return offset;
}

/* Takes the place of the plan by time if it is smaller. */
static void plan_by_size(planner *plan, const event *events, int32_t n_events) {
    int32_t n = list_lives(plan, events, n_events), at;
    int64_t top = 0;
    for (int32_t k = 0; k < n; k++) {
        const life *of = &plan->lives[k];
        int64_t offset = lowest_offset(plan, k, of, &at), end = offset + of->bytes;
        if (end >= plan->top)
            return;
        top = end > top ? end : top;
        memmove(&plan->placed[at + 1], &plan->placed[at], (size_t)(k - at) * sizeof *plan->placed);
        plan->placed[at] = (placed_life){offset, end, of->begin, of->end};
        plan->offsets[k] = offset;
    }
    for (int32_t k = 0; k < n; k++)
        plan->program->buffers[plan->lives[k].buffer].offset = plan->offsets[k];
    plan->top = top;
}

/* ---- a device -------------------------------------------------------------------------------- */

/* `events` of one device in order. */
static void plan_device(planner *plan, const event *events, int32_t n_events) {
    plan->n_free = 0;
    plan->top = plan->live = plan->most = 0;
    for (int32_t e = 0; e < n_events; e++) {
        cleave_buffer *buffer = &plan->program->buffers[events[e].buffer];
        int64_t bytes = cleave_buffer_aligned(buffer->bytes);
        if (bytes == 0)
            continue;
        if (events[e].start)
            buffer->offset = take(plan, bytes);
        else
            give(plan, buffer->offset, bytes);
        plan->live += events[e].start ? bytes : -bytes;
        plan->most = plan->live > plan->most ? plan->live : plan->most;
    }
    if (plan->top - plan->most > plan->most / LOSS_THAT_COUNTS && n_events / 2 <= MOST_PLACED_AGAIN)
        plan_by_size(plan, events, n_events);
}

/* What sorting needs; freed as one. */
typedef struct sorting {
    int32_t *start;  /* [n_devices + 1] of the events of a device */
    int32_t *fill;   /* [n_devices + 1] */
    int32_t *moment; /* [2 x n_items + 3] events before the begins, or the ends, at a position */
    int32_t *begin;  /* [n_buffers] which event of its device begins the buffer's life */
    event *by_moment, *events; /* [2 x n_buffers] */
} sorting;

static void free_sorting(sorting *s) {
    free(s->start);
    free(s->fill);
    free(s->moment);
    free(s->begin);
    free(s->by_moment);
    free(s->events);
}

static bool begin_sorting(const cleave_program *program, sorting *s) {
    size_t n_devices = (size_t)program->n_devices, n_events = 2 * (size_t)program->n_buffers + 1;
    *s = (sorting){.start = calloc(n_devices + 1, sizeof *s->start),
                   .fill = calloc(n_devices + 1, sizeof *s->fill),
                   .moment = calloc(2 * (size_t)program->n_items + 3, sizeof *s->moment),
                   .begin = malloc(((size_t)program->n_buffers + 1) * sizeof *s->begin),
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
static void sort_events(const cleave_program *program, sorting *s) {
    int32_t n = program->n_buffers, n_events = 0, before = 0;
    size_t n_moments = 2 * (size_t)program->n_items + 2;
    for (int32_t b = 0; b < n; b++) {
        const cleave_buffer *buffer = &program->buffers[b];
        if (buffer->storage != b)
            continue;
        s->moment[moment_of(buffer->first, true)]++;
        s->moment[moment_of(buffer->last, false)]++;
        s->start[buffer->device + 1] += 2;
        n_events += 2;
    }
    for (size_t m = 0; m < n_moments; m++) {
        int32_t here = s->moment[m];
        s->moment[m] = before;
        before += here;
    }
    for (int32_t b = 0; b < n; b++) {
        const cleave_buffer *buffer = &program->buffers[b];
        if (buffer->storage != b)
            continue;
        s->by_moment[s->moment[moment_of(buffer->first, true)]++] = (event){true, b};
        s->by_moment[s->moment[moment_of(buffer->last, false)]++] = (event){false, b};
    }
    for (int32_t d = 0; d < program->n_devices; d++)
        s->fill[d + 1] = s->start[d + 1] += s->start[d];
    for (int32_t e = 0; e < n_events; e++) {
        int32_t device = program->buffers[s->by_moment[e].buffer].device;
        if (s->by_moment[e].start)
            s->begin[s->by_moment[e].buffer] = s->fill[device] - s->start[device];
        s->events[s->fill[device]++] = s->by_moment[e];
    }
}

/* Events of a device up to the last life that begins: what ends later changes nothing. */
static int32_t count_events(const sorting *s, int32_t d) {
    int32_t n = s->start[d + 1] - s->start[d];
    while (n > 0 && !s->events[s->start[d] + n - 1].start)
        n--;
    return n;
}

/* Devices mostly do the same: is this one like the one before it, event by event? */
static bool is_as_before(const cleave_program *program, const sorting *s, int32_t d, int32_t n) {
    if (d == 0 || count_events(s, d - 1) != n)
        return false;
    const event *x = s->events + s->start[d], *y = s->events + s->start[d - 1];
    for (int32_t e = 0; e < n; e++) {
        const cleave_buffer *a = &program->buffers[x[e].buffer];
        const cleave_buffer *b = &program->buffers[y[e].buffer];
        if (x[e].start != y[e].start || s->begin[x[e].buffer] != s->begin[y[e].buffer] ||
            cleave_buffer_aligned(a->bytes) != cleave_buffer_aligned(b->bytes))
            return false;
    }
    return true;
}

/* A device that is as the one before it has its buffers in the same places. */
static void copy_offsets(cleave_program *program, const sorting *s, int32_t d, int32_t n) {
    const event *x = s->events + s->start[d], *y = s->events + s->start[d - 1];
    for (int32_t e = 0; e < n; e++)
        program->buffers[x[e].buffer].offset = program->buffers[y[e].buffer].offset;
    program->peak_bytes[d] = program->peak_bytes[d - 1];
}

static void free_planning(planner *plan) {
    free(plan->free);
    free(plan->by_size);
    free(plan->lives);
    free(plan->placed);
    free(plan->offsets);
    free(plan->life_of);
}

static bool begin_planning(cleave_program *program, planner *plan) {
    size_t n = (size_t)program->n_buffers + 2;
    *plan = (planner){.program = program,
                      .free = malloc(n * sizeof *plan->free),
                      .by_size = malloc(n * sizeof *plan->by_size),
                      .lives = malloc(n * sizeof *plan->lives),
                      .placed = malloc(n * sizeof *plan->placed),
                      .offsets = malloc(n * sizeof *plan->offsets),
                      .life_of = malloc(n * sizeof *plan->life_of)};
    return plan->free != NULL && plan->by_size != NULL && plan->lives != NULL &&
           plan->placed != NULL && plan->offsets != NULL && plan->life_of != NULL;
}

static cleave_status check_total(const cleave_program *program, cleave_error *error) {
    int64_t total = 0;
    for (int32_t b = 0; b < program->n_buffers; b++)
        if (!cleave_int64_add(total, cleave_buffer_aligned(program->buffers[b].bytes), &total))
            return cleave_fail(error, CLEAVE_FAILED,
                               "the program needs more than 2^63 bytes of memory");
    return CLEAVE_OK;
}

cleave_status cleave_memory_plan(cleave_program *program, cleave_arena *arena,
                                 cleave_error *error) {
    int32_t n = program->n_buffers;
    CLEAVE_TRY(check_total(program, error));
    program->peak_bytes = CLEAVE_ARENA_ARRAY(arena, int64_t, program->n_devices);
    sorting s;
    planner plan;
    bool sorts = begin_sorting(program, &s), plans = begin_planning(program, &plan);
    bool ready = sorts && plans && program->peak_bytes != NULL;
    if (ready)
        sort_events(program, &s);
    for (int32_t d = 0; d < program->n_devices && ready; d++) {
        int32_t n_events = count_events(&s, d);
        if (is_as_before(program, &s, d, n_events)) {
            copy_offsets(program, &s, d, n_events);
            continue;
        }
        plan_device(&plan, s.events + s.start[d], n_events);
        program->peak_bytes[d] = plan.top;
    }
    for (int32_t b = 0; b < n && ready; b++)
        program->buffers[b].offset = program->buffers[program->buffers[b].storage].offset;
    free_sorting(&s);
    free_planning(&plan);
    return ready ? CLEAVE_OK : cleave_fail_memory(error, "planning memory");
}
