/* What the two engines share: the check of a problem, and the memory they run in. */
#include "simulator/step/engine.h"

#include "base/checked.h"
#include "simulator/events/engine_events.h"
#include "simulator/scan/engine_scan.h"
#include "simulator/step/engine_workspace.h"

#include <string.h>

/* How many subjects an item of this kind chooses from. */
static int32_t subject_limit(const cleave_engine_problem *problem, int32_t item) {
    switch (problem->step.kind[item]) {
    case CLEAVE_PRICED_POST:
    case CLEAVE_PRICED_WAIT_ARRIVAL:
    case CLEAVE_PRICED_WAIT_RELEASE:
        return problem->step.n_messages;
    case CLEAVE_PRICED_SYNC:
        return item;
    case CLEAVE_PRICED_JOIN:
    case CLEAVE_PRICED_AWAIT:
        return problem->step.n_collectives;
    default:
        return 0;
    }
}

static cleave_status check_item(const cleave_engine_problem *problem, int32_t item,
                                cleave_error *error) {
    uint8_t kind = problem->step.kind[item];
    int32_t queue = problem->step.queue[item], subject = problem->step.subject[item];
    if (kind >= CLEAVE_PRICED_N_KINDS || kind == CLEAVE_PRICED_MARK)
        return cleave_fail(error, CLEAVE_FAILED, "item %d is of no known kind %d", item, kind);
    if (queue < 0 || queue >= problem->n_queues)
        return cleave_fail(error, CLEAVE_FAILED, "item %d is on queue %d of %d", item, queue,
                           problem->n_queues);
    if (problem->step.duration[item] < 0 ||
        (cleave_priced_waits(kind) && problem->step.duration[item] != 0))
        return cleave_fail(error, CLEAVE_FAILED, "item %d has a duration of %lld ps", item,
                           (long long)problem->step.duration[item]);
    if (kind != CLEAVE_PRICED_WORK && (subject < 0 || subject >= subject_limit(problem, item)))
        return cleave_fail(error, CLEAVE_FAILED, "item %d has subject %d of %d", item, subject,
                           subject_limit(problem, item));
    if (kind == CLEAVE_PRICED_SYNC && problem->step.queue[subject] != (queue ^ 1))
        return cleave_fail(error, CLEAVE_FAILED,
                           "item %d on queue %d waits for item %d on queue %d, not its other lane",
                           item, queue, subject, problem->step.queue[subject]);
    return CLEAVE_OK;
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

/* Those that post a message are its ends. */
static cleave_status check_ends(const cleave_engine_problem *problem, cleave_error *error) {
    if (problem->step.ends == NULL)
        return CLEAVE_OK;
    for (int32_t m = 0; m < problem->step.n_messages; m++)
        if (problem->step.ends[m].work < 0 || problem->step.ends[m].agreement < 0)
            return cleave_fail(error, CLEAVE_FAILED,
                               "message %d has its ends work for %lld ps and agree for %lld", m,
                               (long long)problem->step.ends[m].work,
                               (long long)problem->step.ends[m].agreement);
    for (int32_t i = 0; i < problem->step.n_items; i++) {
        if (problem->step.kind[i] != CLEAVE_PRICED_POST)
            continue;
        const cleave_message_ends *ends = &problem->step.ends[problem->step.subject[i]];
        if (ends->source != problem->step.queue[i] / 2 &&
            ends->destination != problem->step.queue[i] / 2)
            return cleave_fail(error, CLEAVE_FAILED,
                               "item %d posts message %d, from device %d to %d, on queue %d", i,
                               problem->step.subject[i], ends->source, ends->destination,
                               problem->step.queue[i]);
    }
    return CLEAVE_OK;
}

static cleave_status check_hops(const cleave_engine_problem *problem, cleave_error *error) {
    for (int32_t m = 0; m < problem->step.n_messages; m++) {
        if (problem->step.hop_start[m] >= problem->step.hop_start[m + 1])
            return cleave_fail(error, CLEAVE_FAILED, "message %d crosses no link", m);
        for (int32_t h = problem->step.hop_start[m]; h < problem->step.hop_start[m + 1]; h++)
            if (problem->step.hop_link[h] < 0 || problem->step.hop_link[h] >= problem->n_links ||
                problem->step.hop_serialization[h] < 1)
                return cleave_fail(error, CLEAVE_FAILED,
                                   "message %d takes %lld ps on link %d of %d", m,
                                   (long long)problem->step.hop_serialization[h],
                                   problem->step.hop_link[h], problem->n_links);
    }
    for (int32_t c = 0; c < problem->step.n_collectives; c++)
        for (int32_t l = problem->step.collective_link_start[c];
             l < problem->step.collective_link_start[c + 1]; l++)
            if (problem->step.collective_links[l] < 0 ||
                problem->step.collective_links[l] >= problem->n_links)
                return cleave_fail(error, CLEAVE_FAILED, "collective %d uses link %d of %d", c,
                                   problem->step.collective_links[l], problem->n_links);
    return CLEAVE_OK;
}

/* No time can exceed the sum of all durations, with work counted twice for what it takes from the
   other lane, or a main lane; a quarter of the range leaves room for any sum of two of them. */
static cleave_status check_range(const cleave_engine_problem *problem, cleave_error *error) {
    unsigned __int128 total = 0;
    for (int32_t i = 0; i < problem->step.n_items; i++)
        total += 2 * (unsigned __int128)problem->step.duration[i];
    int32_t n_hops = problem->step.hop_start[problem->step.n_messages];
    for (int32_t h = 0; h < n_hops; h++) {
        int64_t latency = problem->link_latency[problem->step.hop_link[h]];
        if (latency < 0)
            return cleave_fail(error, CLEAVE_FAILED, "link %d has a latency of %lld ps",
                               problem->step.hop_link[h], (long long)latency);
        total += (unsigned __int128)problem->step.hop_serialization[h] + (unsigned __int128)latency;
    }
    for (int32_t m = 0; m < problem->step.n_messages && problem->step.ends != NULL; m++)
        total += 4 * (unsigned __int128)problem->step.ends[m].work +
                 (unsigned __int128)problem->step.ends[m].agreement;
    for (int32_t c = 0; c < problem->step.n_collectives; c++) {
        if (problem->step.collective_busy[c] < 0 || problem->step.collective_rest[c] < 0)
            return cleave_fail(error, CLEAVE_FAILED, "collective %d takes a negative time", c);
        total += (unsigned __int128)problem->step.collective_busy[c] +
                 (unsigned __int128)problem->step.collective_rest[c];
    }
    if (total > INT64_MAX / 4)
        return cleave_fail(error, CLEAVE_FAILED,
                           "the times of the step add up to more than 26 days: too long to "
                           "simulate in picoseconds");
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
    for (int32_t i = 0; i < problem->step.n_items; i++)
        CLEAVE_TRY(check_item(problem, i, error));
    CLEAVE_TRY(check_hops(problem, error));
    CLEAVE_TRY(check_counts(problem, arena, error));
    CLEAVE_TRY(check_ends(problem, error));
    CLEAVE_TRY(check_range(problem, error));
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
