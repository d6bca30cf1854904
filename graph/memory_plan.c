/* Best fit over a list of free ranges, in the order in which buffers come to life. */
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

typedef struct planner {
    cleave_program *program;
    free_range *free; /* by offset; room for one per buffer and one more */
    int32_t n_free;
    int64_t top; /* end of the arena so far */
} planner;

static int64_t take(planner *plan, int64_t bytes) {
    int32_t best = -1;
    for (int32_t i = 0; i < plan->n_free; i++)
        if (plan->free[i].bytes >= bytes &&
            (best < 0 || plan->free[i].bytes < plan->free[best].bytes))
            best = i;
    if (best < 0) {
        /* Grow; a free range at the very end grows with it. */
        int64_t offset = plan->top;
        if (plan->n_free > 0) {
            free_range *last = &plan->free[plan->n_free - 1];
            if (last->offset + last->bytes == plan->top) {
                offset = last->offset;
                plan->n_free--;
            }
        }
        plan->top = offset + bytes;
        return offset;
    }
    int64_t offset = plan->free[best].offset;
    plan->free[best].offset += bytes;
    plan->free[best].bytes -= bytes;
    if (plan->free[best].bytes == 0) {
        memmove(&plan->free[best], &plan->free[best + 1],
                (size_t)(plan->n_free - best - 1) * sizeof *plan->free);
        plan->n_free--;
    }
    return offset;
}

static void give(planner *plan, int64_t offset, int64_t bytes) {
    int32_t lo = 0, hi = plan->n_free;
    while (lo < hi) {
        int32_t middle = (lo + hi) / 2;
        if (plan->free[middle].offset < offset)
            lo = middle + 1;
        else
            hi = middle;
    }
    bool joins_before = lo > 0 && plan->free[lo - 1].offset + plan->free[lo - 1].bytes == offset;
    bool joins_after = lo < plan->n_free && offset + bytes == plan->free[lo].offset;
    if (joins_before && joins_after) {
        plan->free[lo - 1].bytes += bytes + plan->free[lo].bytes;
        memmove(&plan->free[lo], &plan->free[lo + 1],
                (size_t)(plan->n_free - lo - 1) * sizeof *plan->free);
        plan->n_free--;
    } else if (joins_before) {
        plan->free[lo - 1].bytes += bytes;
    } else if (joins_after) {
        plan->free[lo].offset = offset;
        plan->free[lo].bytes += bytes;
    } else {
        memmove(&plan->free[lo + 1], &plan->free[lo],
                (size_t)(plan->n_free - lo) * sizeof *plan->free);
        plan->free[lo] = (free_range){offset, bytes};
        plan->n_free++;
    }
}

/* `events` of one device in order. */
static void plan_device(planner *plan, const event *events, int32_t n_events) {
    plan->n_free = 0;
    plan->top = 0;
    for (int32_t e = 0; e < n_events; e++) {
        cleave_buffer *buffer = &plan->program->buffers[events[e].buffer];
        int64_t bytes = cleave_buffer_aligned(buffer->bytes);
        if (bytes == 0)
            continue;
        if (events[e].start)
            buffer->offset = take(plan, bytes);
        else
            give(plan, buffer->offset, bytes);
    }
}

/* What sorting needs; freed as one. */
typedef struct sorting {
    int32_t *start;  /* [n_devices + 1] of the events of a device */
    int32_t *fill;   /* [n_devices + 1] */
    int32_t *moment; /* [2 x n_items + 3] events before the begins, or the ends, at a position */
    event *by_moment, *events; /* [2 x n_buffers] */
} sorting;

static void free_sorting(sorting *s) {
    free(s->start);
    free(s->fill);
    free(s->moment);
    free(s->by_moment);
    free(s->events);
}

static bool begin_sorting(const cleave_program *program, sorting *s) {
    size_t n_devices = (size_t)program->n_devices, n_events = 2 * (size_t)program->n_buffers + 1;
    *s = (sorting){.start = calloc(n_devices + 1, sizeof *s->start),
                   .fill = calloc(n_devices + 1, sizeof *s->fill),
                   .moment = calloc(2 * (size_t)program->n_items + 3, sizeof *s->moment),
                   .by_moment = malloc(n_events * sizeof *s->by_moment),
                   .events = malloc(n_events * sizeof *s->events)};
    return s->start != NULL && s->fill != NULL && s->moment != NULL && s->by_moment != NULL &&
           s->events != NULL;
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
    for (int32_t e = 0; e < n_events; e++)
        s->events[s->fill[program->buffers[s->by_moment[e].buffer].device]++] = s->by_moment[e];
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
    planner plan = {.program = program, .free = malloc(((size_t)n + 2) * sizeof *plan.free)};
    bool ready = begin_sorting(program, &s) && program->peak_bytes != NULL && plan.free != NULL;
    if (ready)
        sort_events(program, &s);
    for (int32_t d = 0; d < program->n_devices && ready; d++) {
        plan_device(&plan, s.events + s.start[d], s.start[d + 1] - s.start[d]);
        program->peak_bytes[d] = plan.top;
    }
    for (int32_t b = 0; b < n && ready; b++)
        program->buffers[b].offset = program->buffers[program->buffers[b].storage].offset;
    free_sorting(&s);
    free(plan.free);
    return ready ? CLEAVE_OK : cleave_fail_memory(error, "planning memory");
}
