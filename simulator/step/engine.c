/* What the two engines share: problems made ready for them, and the memory they run in. */
#include "simulator/step/engine.h"

#include "simulator/events/engine_events.h"
#include "simulator/scan/engine_scan.h"
#include "simulator/step/engine_workspace.h"
#include "simulator/step/priced_check.h"

#include <string.h>

/* A lane waits for the other one of its device. */
static cleave_status check_sync(const cleave_priced_fragment *step, int32_t item,
                                cleave_error *error) {
    int32_t queue = step->queue[item], other = step->queue[step->subject[item]];
    return other == (queue ^ 1)
               ? CLEAVE_OK
               : cleave_fail(
                     error, CLEAVE_FAILED,
                     "item %d on queue %d waits for item %d on queue %d, not its other lane", item,
                     queue, step->subject[item], other);
}

/* Messages are posted twice, collectives joined by as many as they say. */
static cleave_status check_counts(const cleave_engine_problem *problem, cleave_arena *arena,
                                  cleave_error *error) {
    int32_t *posts = CLEAVE_ARENA_ARRAY(arena, int32_t, problem->step.n_messages);
    int32_t *joins = CLEAVE_ARENA_ARRAY(arena, int32_t, problem->step.n_collectives);
    if (posts == NULL || joins == NULL)
        return cleave_fail_memory(error, "checking a problem");
    for (int32_t i = 0; i < problem->step.n_items; i++) {
        if (problem->step.kind[i] == CLEAVE_PRICED_POST)
            posts[problem->step.subject[i]]++;
        if (problem->step.kind[i] == CLEAVE_PRICED_JOIN)
            joins[problem->step.subject[i]]++;
    }
    for (int32_t m = 0; m < problem->step.n_messages; m++)
        if (posts[m] != 2)
            return cleave_fail(error, CLEAVE_FAILED, "message %d is posted %d times, not twice", m,
                               posts[m]);
    for (int32_t c = 0; c < problem->step.n_collectives; c++)
        if (joins[c] != problem->step.collective_joins[c])
            return cleave_fail(error, CLEAVE_FAILED, "collective %d is joined %d times of %d", c,
                               joins[c], problem->step.collective_joins[c]);
    return CLEAVE_OK;
}

static cleave_status sort_into_queues(cleave_engine_problem *problem, cleave_arena *arena,
                                      cleave_error *error) {
    int32_t *start = CLEAVE_ARENA_ARRAY(arena, int32_t, (size_t)problem->n_queues + 2);
    cleave_queued_item *items =
        CLEAVE_ARENA_ARRAY(arena, cleave_queued_item, problem->step.n_items);
    if (start == NULL || items == NULL)
        return cleave_fail_memory(error, "sorting items into queues");
    /* Counts two places on, so that filling in leaves the starts in their own places. */
    for (int32_t i = 0; i < problem->step.n_items; i++)
        start[problem->step.queue[i] + 2]++;
    for (int32_t q = 0; q < problem->n_queues; q++)
        start[q + 2] += start[q + 1];
    for (int32_t i = 0; i < problem->step.n_items; i++)
        items[start[problem->step.queue[i] + 1]++] =
            (cleave_queued_item){i, problem->step.subject[i], problem->step.kind[i]};
    problem->queue_start = start;
    problem->queue_items = items;
    return CLEAVE_OK;
}

cleave_status cleave_engine_finish(cleave_engine_problem *problem, cleave_arena *arena,
                                   cleave_error *error) {
    if (problem->n_queues % 2 != 0 || problem->n_queues < 0 ||
        problem->n_queues > INT32_MAX - problem->step.n_messages - problem->step.n_collectives)
        return cleave_fail(error, CLEAVE_FAILED, "%d queues, %d messages and %d collectives",
                           problem->n_queues, problem->step.n_messages,
                           problem->step.n_collectives);
    int64_t total;
    CLEAVE_TRY(cleave_priced_check(&problem->step, problem->n_queues, problem->n_links,
                                   problem->link_latency, &total, error));
    for (int32_t i = 0; i < problem->step.n_items; i++)
        if (problem->step.kind[i] == CLEAVE_PRICED_SYNC)
            CLEAVE_TRY(check_sync(&problem->step, i, error));
    CLEAVE_TRY(check_counts(problem, arena, error));
    CLEAVE_TRY(sort_into_queues(problem, arena, error));
    return cleave_scan_find_steps(problem, arena, error);
}

cleave_status cleave_engine_workspace_create(const cleave_engine_problem *problem,
                                             cleave_arena *arena,
                                             cleave_engine_workspace **workspace,
                                             cleave_error *error) {
    const cleave_priced_fragment *step = &problem->step;
    cleave_engine_workspace *w = CLEAVE_ARENA_ARRAY(arena, cleave_engine_workspace, 1);
    if (w == NULL)
        return cleave_fail_memory(error, "preparing to simulate");
    w->hop_begin = CLEAVE_ARENA_ARRAY(arena, int64_t, step->hop_start[step->n_messages]);
    w->end_begin =
        CLEAVE_ARENA_ARRAY(arena, int64_t, step->ends != NULL ? 2 * (size_t)step->n_messages : 0);
    w->collective_end = CLEAVE_ARENA_ARRAY(arena, int64_t, step->n_collectives);
    w->scan = cleave_scan_memory_create(problem, w, arena);
    w->events = cleave_events_memory_create(problem, w, arena);
    if (w->hop_begin == NULL || w->end_begin == NULL || w->collective_end == NULL ||
        w->scan == NULL || w->events == NULL)
        return cleave_fail_memory(error, "preparing to simulate");
    *workspace = w;
    return CLEAVE_OK;
}

const int64_t *cleave_engine_hop_begin(const cleave_engine_workspace *workspace) {
    return workspace->hop_begin;
}

cleave_status cleave_engine_timeline_create(const cleave_engine_problem *problem,
                                            cleave_arena *arena, cleave_timeline *timeline,
                                            cleave_error *error) {
    cleave_timeline made = {
        .start = CLEAVE_ARENA_ARRAY(arena, int64_t, problem->step.n_items),
        .end = CLEAVE_ARENA_ARRAY(arena, int64_t, problem->step.n_items),
        .arrival = CLEAVE_ARENA_ARRAY(arena, int64_t, problem->step.n_messages),
    };
    if (made.start == NULL || made.end == NULL || made.arrival == NULL)
        return cleave_fail_memory(error, "making a timeline");
    *timeline = made;
    return CLEAVE_OK;
}
