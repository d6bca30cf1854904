/* Best fit over a list of free ranges, in the order in which buffers come to life. */
#include "graph/memory_plan.h"

#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

typedef struct event {
    int32_t position; /* of the item; a buffer ends before others start at a later item */
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

static int compare_events(const void *a, const void *b) {
    const event *x = a, *y = b;
    if (x->position != y->position)
        return (x->position > y->position) - (x->position < y->position);
    if (x->start != y->start)
        return x->start ? -1 : 1; /* all that one item uses lives at once */
    return (x->buffer > y->buffer) - (x->buffer < y->buffer);
}

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

cleave_status cleave_memory_plan(cleave_program *program, cleave_arena *arena,
                                 cleave_error *error) {
    int32_t n = program->n_buffers;
    program->peak_bytes = CLEAVE_ARENA_ARRAY(arena, int64_t, program->n_devices);
    int32_t *start = CLEAVE_ARENA_ARRAY(arena, int32_t, program->n_devices + 1);
    int32_t *fill = CLEAVE_ARENA_ARRAY(arena, int32_t, program->n_devices + 1);
    event *events = malloc((2 * (size_t)n + 1) * sizeof *events);
    planner plan = {.program = program, .free = malloc(((size_t)n + 2) * sizeof *plan.free)};
    cleave_status status = CLEAVE_OK;
    if (program->peak_bytes == NULL || start == NULL || fill == NULL || events == NULL ||
        plan.free == NULL) {
        status = cleave_fail_memory(error, "planning memory");
        goto done;
    }
    int64_t total = 0;
    for (int32_t b = 0; b < n; b++) {
        if (program->buffers[b].storage == b)
            start[program->buffers[b].device + 1] += 2;
        if (!cleave_int64_add(total, cleave_buffer_aligned(program->buffers[b].bytes), &total)) {
            status = cleave_fail(error, CLEAVE_FAILED,
                                 "the program needs more than 2^63 bytes of memory");
            goto done;
        }
    }
    for (int32_t d = 0; d < program->n_devices; d++)
        fill[d + 1] = start[d + 1] += start[d];
    for (int32_t b = 0; b < n; b++) {
        const cleave_buffer *buffer = &program->buffers[b];
        if (buffer->storage != b)
            continue;
        events[fill[buffer->device]++] = (event){buffer->first, true, b};
        events[fill[buffer->device]++] = (event){buffer->last, false, b};
    }
    for (int32_t d = 0; d < program->n_devices; d++) {
        event *own = &events[start[d]];
        int32_t n_own = start[d + 1] - start[d];
        qsort(own, (size_t)n_own, sizeof *own, compare_events);
        plan_device(&plan, own, n_own);
        program->peak_bytes[d] = plan.top;
    }
    for (int32_t b = 0; b < n; b++)
        program->buffers[b].offset = program->buffers[program->buffers[b].storage].offset;
done:
    free(events);
    free(plan.free);
    return status;
}
