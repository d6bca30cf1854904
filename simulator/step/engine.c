/* What the two engines share: the check of a problem, and the memory they run in. */
#include "simulator/step/engine.h"

#include "base/checked.h"
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

/* ---- steps of the scan ----------------------------------------------------------------------- */

typedef struct step_finder {
    cleave_engine_problem *problem;
    int32_t *next;            /* [n_devices] end of the work that was met */
    int32_t *run;             /* [n_devices] of it, where what no step has yet begins */
    int32_t *posted, *joined; /* [n_messages], [n_collectives] so far */
    int32_t *poster;          /* [n_messages] device of the first post */
} step_finder;

static bool is_work_of_main(const cleave_engine_problem *problem, int32_t item) {
    return problem->step.kind[item] == CLEAVE_PRICED_WORK && problem->step.duration[item] > 0 &&
           problem->step.queue[item] % 2 == 0;
}

/* Lists the work of main lanes by devices. */
static cleave_status list_work(step_finder *f, cleave_arena *arena, int32_t *n_work,
                               cleave_error *error) {
    cleave_engine_problem *problem = f->problem;
    size_t n_devices = (size_t)problem->n_queues / 2;
    problem->work_start = CLEAVE_ARENA_ARRAY(arena, int32_t, n_devices + 2);
    f->next = CLEAVE_ARENA_ARRAY(arena, int32_t, n_devices);
    f->run = CLEAVE_ARENA_ARRAY(arena, int32_t, n_devices);
    if (problem->work_start == NULL || f->next == NULL || f->run == NULL)
        return cleave_fail_memory(error, "sorting items for the scan");
    for (int32_t i = 0; i < problem->step.n_items; i++)
        problem->work_start[problem->step.queue[i] / 2 + 2] += is_work_of_main(problem, i);
    for (size_t d = 0; d < n_devices; d++) {
        problem->work_start[d + 2] += problem->work_start[d + 1];
        f->run[d] = f->next[d] = problem->work_start[d + 1];
    }
    *n_work = problem->work_start[n_devices + 1];
    problem->work_items = CLEAVE_ARENA_ARRAY(arena, int32_t, *n_work);
    if (problem->work_items == NULL)
        return cleave_fail_memory(error, "sorting items for the scan");
    for (int32_t i = 0; i < problem->step.n_items; i++)
        if (is_work_of_main(problem, i))
            problem->work_items[problem->work_start[problem->step.queue[i] / 2 + 1]++] = i;
    return CLEAVE_OK;
}

/* Ends a device's run of work here; returns the place that it began at, -1 where there is none. */
static int32_t end_run(step_finder *f, int32_t device) {
    int32_t first = f->run[device];
    if (first == f->next[device])
        return -1;
    f->problem->run_of[first] = 1; /* counted later */
    f->run[device] = f->next[device];
    return first;
}

static cleave_scan_kind scan_kind(step_finder *f, int32_t item) {
    cleave_engine_problem *problem = f->problem;
    int32_t subject = problem->step.subject[item];
    bool is_stuck = false;
    if (problem->step.kind[item] == CLEAVE_PRICED_POST && f->posted[subject] == 0)
        f->poster[subject] = problem->step.queue[item] / 2;
    switch ((cleave_priced_kind)problem->step.kind[item]) {
    case CLEAVE_PRICED_WORK:
        return CLEAVE_SCAN_WORK;
    case CLEAVE_PRICED_POST:
        return cleave_scan_kind_of_post(f->posted[subject]++);
    case CLEAVE_PRICED_JOIN:
        return cleave_scan_kind_of_join(f->joined[subject]++,
                                        problem->step.collective_joins[subject]);
    case CLEAVE_PRICED_WAIT_ARRIVAL:
    case CLEAVE_PRICED_WAIT_RELEASE:
        is_stuck = f->posted[subject] < 2;
        break;
    case CLEAVE_PRICED_AWAIT:
        is_stuck = f->joined[subject] < problem->step.collective_joins[subject];
        break;
    case CLEAVE_PRICED_SYNC:
        return is_work_of_main(problem, subject) ? CLEAVE_SCAN_WAIT_WORK : CLEAVE_SCAN_WAIT;
    default:
        break;
    }
    if (is_stuck && problem->stuck < 0)
        problem->stuck = item;
    return CLEAVE_SCAN_WAIT;
}

/* The place of a main lane's work. */
static int32_t find_place(const cleave_engine_problem *problem, int32_t item) {
    int32_t device = problem->step.queue[item] / 2;
    int32_t first = problem->work_start[device], last = problem->work_start[device + 1] - 1;
    while (first < last) {
        int32_t middle = first + (last - first) / 2;
        if (problem->work_items[middle] < item)
            first = middle + 1;
        else
            last = middle;
    }
    return first;
}

/* What is charged for a message depends on how far the main lanes of both its ends have come. */
static void catch_up(step_finder *f, int32_t item) {
    cleave_engine_problem *problem = f->problem;
    int32_t subject = problem->step.subject[item];
    if (problem->step.kind[item] != CLEAVE_PRICED_POST ||
        !cleave_priced_ends_work(&problem->step, subject) || f->posted[subject] != 1)
        return;
    int32_t device = f->poster[subject];
    int32_t work = device == problem->step.queue[item] / 2 ? -1 : end_run(f, device);
    if (work >= 0)
        problem->steps[problem->n_steps++] = (cleave_scan_step){.work = work,
                                                                .item = item,
                                                                .queue = 2 * device,
                                                                .subject = subject,
                                                                .kind = CLEAVE_SCAN_CATCH_UP};
}

static void add_step(step_finder *f, int32_t item) {
    cleave_engine_problem *problem = f->problem;
    catch_up(f, item);
    cleave_scan_step *step = &problem->steps[problem->n_steps++];
    *step = (cleave_scan_step){.work = end_run(f, problem->step.queue[item] / 2),
                               .item = item,
                               .queue = problem->step.queue[item],
                               .subject = problem->step.subject[item],
                               .kind = (uint8_t)scan_kind(f, item),
                               .source = problem->step.kind[item]};
    if (step->kind == CLEAVE_SCAN_WAIT_WORK)
        step->subject = find_place(problem, step->subject);
    if (step->kind == CLEAVE_SCAN_LAST_POST && problem->n_steps > 1 &&
        step[-1].kind == CLEAVE_SCAN_POST && step[-1].subject == step->subject &&
        (step[-1].queue & 1) == (step->queue & 1))
        step[-1].kind = CLEAVE_SCAN_POSTS;
}

/* Numbers the runs, which so far are known by the places that they begin at. */
static cleave_status number_runs(cleave_engine_problem *problem, int32_t n_work,
                                 cleave_arena *arena, cleave_error *error) {
    int32_t n_devices = problem->n_queues / 2, n_runs = 0;
    for (int32_t i = 0; i < n_work; i++)
        n_runs += problem->run_of[i];
    problem->run_start = CLEAVE_ARENA_ARRAY(arena, int32_t, (size_t)n_devices + 1);
    problem->run_first = CLEAVE_ARENA_ARRAY(arena, int32_t, (size_t)n_runs + 1);
    if (problem->run_start == NULL || problem->run_first == NULL)
        return cleave_fail_memory(error, "sorting items for the scan");
    problem->run_first[n_runs] = n_work;
    problem->run_of[n_work] = n_runs;
    n_runs = 0;
    for (int32_t i = 0; i < n_work; i++) {
        if (problem->run_of[i] != 0)
            problem->run_first[n_runs++] = i;
        problem->run_of[i] = n_runs - 1;
    }
    for (int32_t d = 0; d <= n_devices; d++)
        problem->run_start[d] = problem->run_of[problem->work_start[d]];
    for (int32_t s = 0; s < problem->n_steps; s++)
        if (problem->steps[s].work >= 0)
            problem->steps[s].work = problem->run_of[problem->steps[s].work];
    for (int32_t d = 0; d < n_devices; d++)
        if (problem->rest[d] >= 0)
            problem->rest[d] = problem->run_of[problem->rest[d]];
    return CLEAVE_OK;
}

static cleave_status find_steps(cleave_engine_problem *problem, cleave_arena *arena,
                                cleave_error *error) {
    int32_t n_work = 0;
    step_finder f = {.problem = problem,
                     .posted = CLEAVE_ARENA_ARRAY(arena, int32_t, problem->step.n_messages),
                     .poster = CLEAVE_ARENA_ARRAY(arena, int32_t, problem->step.n_messages),
                     .joined = CLEAVE_ARENA_ARRAY(arena, int32_t, problem->step.n_collectives)};
    CLEAVE_TRY(list_work(&f, arena, &n_work, error));
    int64_t n_steps = (int64_t)problem->step.n_items - n_work;
    n_steps += problem->step.ends != NULL ? problem->step.n_messages : 0;
    problem->steps = CLEAVE_ARENA_ARRAY(arena, cleave_scan_step, n_steps);
    problem->run_of = CLEAVE_ARENA_ARRAY(arena, int32_t, (size_t)n_work + 1);
    problem->rest = CLEAVE_ARENA_ARRAY(arena, int32_t, problem->n_queues / 2);
    if (f.posted == NULL || f.poster == NULL || f.joined == NULL || problem->steps == NULL ||
        problem->run_of == NULL || problem->rest == NULL)
        return cleave_fail_memory(error, "sorting items for the scan");
    problem->n_steps = 0;
    problem->stuck = -1;
    for (int32_t i = 0; i < problem->step.n_items; i++) {
        if (is_work_of_main(problem, i))
            f.next[problem->step.queue[i] / 2]++;
        else
            add_step(&f, i);
    }
    for (int32_t d = 0; d < problem->n_queues / 2; d++)
        problem->rest[d] = end_run(&f, d);
    return number_runs(problem, n_work, arena, error);
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
    return find_steps(problem, arena, error);
}

cleave_status cleave_engine_workspace_create(const cleave_engine_problem *problem,
                                             cleave_arena *arena,
                                             cleave_engine_workspace **workspace,
                                             cleave_error *error) {
    cleave_engine_workspace *w = CLEAVE_ARENA_ARRAY(arena, cleave_engine_workspace, 1);
    if (w == NULL)
        return cleave_fail_memory(error, "preparing to simulate");
    size_t n_messages = (size_t)problem->step.n_messages, n_queues = (size_t)problem->n_queues;
    size_t n_collectives = (size_t)problem->step.n_collectives, n_devices = n_queues / 2;
    size_t n_hops = (size_t)problem->step.hop_start[problem->step.n_messages];
    size_t n_events = n_queues + n_messages + n_collectives;
    bool any_failed = false;
#define TAKE(member, type, count)                                                                  \
    any_failed |= (w->member = CLEAVE_ARENA_ARRAY(arena, type, (count))) == NULL
    TAKE(link_free, int64_t, problem->n_links);
    TAKE(links, cleave_scan_link, problem->n_links);
    TAKE(head, int64_t, n_messages);
    TAKE(release, int64_t, n_messages);
    TAKE(hop_begin, int64_t, n_hops);
    TAKE(end_begin, int64_t, problem->step.ends != NULL ? 2 * n_messages : 0);
    TAKE(processor_free, int64_t, n_devices);
    TAKE(processors, cleave_scan_link, n_devices);
    TAKE(worked, int64_t, n_devices);
    TAKE(worked_seen, int64_t, n_devices);
    TAKE(messages, cleave_message_state, n_messages);
    TAKE(joined, int32_t, n_collectives);
    TAKE(collective_ready, int64_t, n_collectives);
    TAKE(collective_end, int64_t, n_collectives);
    TAKE(clock, int64_t, n_queues);
    TAKE(position, int32_t, n_queues);
    TAKE(begun, bool, n_queues);
    TAKE(next_waiter, int32_t, n_queues);
    TAKE(first_waiter, int32_t, n_collectives);
    TAKE(busy_until, int64_t, n_devices);
    TAKE(taken, int64_t, n_devices);
    TAKE(taken_seen, int64_t, n_devices);
    TAKE(devices, cleave_scan_device, n_devices);
    TAKE(events.near, cleave_event, n_events);
    TAKE(events.pool, cleave_event, n_events);
#undef TAKE
    if (any_failed)
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
