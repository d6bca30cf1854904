/* The reference: an event queue.  An event is a lane at the end of its current item, a message that
   reaches its next link, or a collective that all have joined; its key is the lane, then the
   message, then the collective.  Everything happens at its own time, so what is recorded about a
   link, a lane or a processor is what holds at that time.

   A lane goes on without the queue while its next item ends before any other event. */
#include "simulator/events/engine_events.h"
#include "simulator/events/event_queue.h"
#include "simulator/step/link.h"

#include <string.h>

/* What is known of a message, side by side since an event touches most of it. */
typedef struct message_state {
    int64_t head, tail; /* see link.h */
    int64_t delay;      /* by polls */
    int64_t left;       /* when it has left without that, as far as is known */
    int64_t release;    /* when it has left; -1: not yet known */
    int64_t arrival;    /* -1: not yet known */
    int32_t hop, end;   /* the next hop, and the end of them, of which the last is both ends' */
    int32_t arrival_waiter, release_waiter; /* first lane of those that wait; -1: none */
    int32_t posted;                         /* ends posted so far */
} message_state;

struct cleave_events_memory {
    int64_t *hop_begin, *end_begin; /* of the workspace, and */
    int64_t *collective_end;        /* [n_collectives] -1: not yet known */
    int64_t *link_free;             /* [n_links] */
    message_state *messages;        /* [n_messages] */
    int32_t *joined;                /* [n_collectives] */
    int32_t *position;              /* [n_queues] of the current item within queue_items */
    bool *begun;                    /* [n_queues] the current item has started */
    int32_t *next_waiter;  /* [n_queues] in the list of those that wait for the same thing */
    int32_t *first_waiter; /* [n_collectives] first lane of those that wait; -1: none */
    /* Devices: how the communication lane charges the main lane. */
    int64_t *processor_free;       /* [n_devices] after its work on messages */
    int64_t *worked, *worked_seen; /* [n_devices] as the next two, of work on messages */
    int64_t *busy_until;           /* [n_devices] when the communication lane's last work ends */
    int64_t *taken;                /* [n_devices] all its work so far */
    int64_t *taken_seen;           /* [n_devices] of it, what the current main item has counted */
    cleave_event_queue events;     /* one event per queue, message and collective at most */
};

cleave_events_memory *cleave_events_memory_create(const cleave_engine_problem *problem,
                                                  const cleave_engine_workspace *workspace,
                                                  cleave_arena *arena) {
    cleave_events_memory *w = CLEAVE_ARENA_ARRAY(arena, cleave_events_memory, 1);
    size_t n_messages = (size_t)problem->step.n_messages, n_queues = (size_t)problem->n_queues;
    size_t n_collectives = (size_t)problem->step.n_collectives, n_devices = n_queues / 2;
    size_t n_events = n_queues + n_messages + n_collectives;
    bool any_failed = false;
    if (w == NULL)
        return NULL;
    w->hop_begin = workspace->hop_begin;
    w->end_begin = workspace->end_begin;
    w->collective_end = workspace->collective_end;
#define TAKE(member, type, count)                                                                  \
    any_failed |= (w->member = CLEAVE_ARENA_ARRAY(arena, type, (count))) == NULL
    TAKE(link_free, int64_t, problem->n_links);
    TAKE(messages, message_state, n_messages);
    TAKE(joined, int32_t, n_collectives);
    TAKE(position, int32_t, n_queues);
    TAKE(begun, bool, n_queues);
    TAKE(next_waiter, int32_t, n_queues);
    TAKE(first_waiter, int32_t, n_collectives);
    TAKE(processor_free, int64_t, n_devices);
    TAKE(worked, int64_t, n_devices);
    TAKE(worked_seen, int64_t, n_devices);
    TAKE(busy_until, int64_t, n_devices);
    TAKE(taken, int64_t, n_devices);
    TAKE(taken_seen, int64_t, n_devices);
    TAKE(events.near, cleave_event, n_events);
    TAKE(events.pool, cleave_event, n_events);
#undef TAKE
    return any_failed ? NULL : w;
}

typedef struct run {
    const cleave_engine_problem *problem;
    cleave_events_memory *w;
    cleave_timeline *timeline;
    int64_t step;
} run;

static void reset(const cleave_engine_problem *problem, cleave_events_memory *w,
                  cleave_timeline *timeline) {
    size_t n_messages = (size_t)problem->step.n_messages, n_queues = (size_t)problem->n_queues;
    size_t n_collectives = (size_t)problem->step.n_collectives, n_devices = n_queues / 2;
    memset(w->link_free, 0, (size_t)problem->n_links * sizeof *w->link_free);
    for (size_t m = 0; m < n_messages; m++)
        w->messages[m] = (message_state){.release = -1,
                                         .arrival = -1,
                                         .hop = problem->step.hop_start[m],
                                         .end = problem->step.hop_start[m + 1] +
                                                cleave_priced_ends_work(&problem->step, (int32_t)m),
                                         .arrival_waiter = -1,
                                         .release_waiter = -1};
    memset(timeline->end, -1, (size_t)problem->step.n_items * sizeof *timeline->end);
    memset(w->joined, 0, n_collectives * sizeof *w->joined);
    memset(w->collective_end, -1, n_collectives * sizeof *w->collective_end);
    memset(w->begun, 0, n_queues * sizeof *w->begun);
    memset(w->first_waiter, -1, n_collectives * sizeof *w->first_waiter);
    memset(w->processor_free, 0, n_devices * sizeof *w->processor_free);
    memset(w->worked, 0, n_devices * sizeof *w->worked);
    memset(w->worked_seen, 0, n_devices * sizeof *w->worked_seen);
    memset(w->busy_until, 0, n_devices * sizeof *w->busy_until);
    memset(w->taken, 0, n_devices * sizeof *w->taken);
    memset(w->taken_seen, 0, n_devices * sizeof *w->taken_seen);
    for (int32_t q = 0; q < problem->n_queues; q++)
        w->position[q] = problem->queue_start[q];
    cleave_event_queue_reset(&w->events);
    for (int32_t q = 0; q < problem->n_queues; q++)
        if (problem->queue_start[q] < problem->queue_start[q + 1])
            cleave_event_queue_push(&w->events, 0, q);
}

/* The lanes on a list of waiters all wake at `time`. */
static void wake(run *r, int32_t *first_waiter, int64_t time) {
    for (int32_t q = *first_waiter; q >= 0; q = r->w->next_waiter[q])
        cleave_event_queue_push(&r->w->events, time, q);
    *first_waiter = -1;
}

/* A message reaches a link. */
static void cross_link(run *r, int32_t message, int32_t hop, int64_t now) {
    const cleave_engine_problem *problem = r->problem;
    cleave_events_memory *w = r->w;
    message_state *state = &w->messages[message];
    int32_t link = problem->step.hop_link[hop];
    if (hop == problem->step.hop_start[message] && problem->polls != NULL)
        state->delay = cleave_poll_delay(problem->polls, message,
                                         now - cleave_priced_agreement(&problem->step, message));
    w->hop_begin[hop] =
        cleave_link_serve(problem->step.hop_serialization[hop], problem->link_latency[link],
                          &w->link_free[link], &state->head, &state->tail);
    if (hop == problem->step.hop_start[message])
        state->left = w->link_free[link];
}

/* Or the processors of its ends.  One has worked without a pause for as long as it is not free: so
   its main lane makes no progress until the work that comes now is done, whenever that begins. */
static void work_at_ends(run *r, int32_t message, int64_t now) {
    cleave_events_memory *w = r->w;
    message_state *state = &w->messages[message];
    const cleave_message_ends *ends = &r->problem->step.ends[message];
    const int32_t devices[2] = {ends->source, ends->destination};
    for (int e = 0; e < 2; e++) {
        int64_t head = now, *free_at = &w->processor_free[devices[e]];
        w->end_begin[2 * message + e] =
            cleave_link_serve(ends->work, 0, free_at, &head, &state->tail);
        w->worked[devices[e]] += ends->work;
        if (e == 0)
            state->left = cleave_later(state->left, *free_at);
    }
}

static void message_event(run *r, int32_t message, int64_t now) {
    const cleave_engine_problem *problem = r->problem;
    cleave_events_memory *w = r->w;
    message_state *state = &w->messages[message];
    int32_t hop = state->hop++;
    bool is_at_ends = hop == problem->step.hop_start[message + 1];
    state->head = now;
    if (is_at_ends)
        work_at_ends(r, message, now);
    else
        cross_link(r, message, hop, now);
    /* By now all that it has to leave is known. */
    if (state->release < 0 && (is_at_ends || !cleave_priced_ends_work(&problem->step, message))) {
        state->release = state->left + state->delay;
        wake(r, &state->release_waiter, state->release);
    }
    if (state->hop == state->end) {
        state->arrival = r->timeline->arrival[message] = state->tail + state->delay;
        wake(r, &state->arrival_waiter, state->arrival);
    } else {
        cleave_event_queue_push(&w->events, state->head, problem->n_queues + message);
    }
}

static void collective_event(run *r, int32_t collective, int64_t now) {
    const cleave_engine_problem *problem = r->problem;
    int64_t *link_free = r->w->link_free, begin = now;
    int32_t first = problem->step.collective_link_start[collective];
    int32_t last = problem->step.collective_link_start[collective + 1];
    for (int32_t l = first; l < last; l++)
        begin = cleave_later(begin, link_free[problem->step.collective_links[l]]);
    int64_t end = begin + problem->step.collective_busy[collective];
    for (int32_t l = first; l < last; l++)
        link_free[problem->step.collective_links[l]] = end;
    end += problem->step.collective_rest[collective];
    r->w->collective_end[collective] = end;
    wake(r, &r->w->first_waiter[collective], end);
}

/* The current item of a lane has ended now. */
static inline void complete(run *r, int32_t queue, const cleave_queued_item *item, int64_t now) {
    const cleave_engine_problem *problem = r->problem;
    cleave_events_memory *w = r->w;
    int32_t subject = item->subject;
    r->timeline->end[item->item] = now;
    r->step = cleave_later(r->step, now);
    w->position[queue]++;
    w->begun[queue] = false;
    if (item->kind == CLEAVE_PRICED_POST && ++w->messages[subject].posted == 2) {
        cleave_event_queue_push(&w->events, now + cleave_priced_agreement(&problem->step, subject),
                                problem->n_queues + subject);
    } else if (item->kind == CLEAVE_PRICED_JOIN &&
               ++w->joined[subject] == problem->step.collective_joins[subject]) {
        cleave_event_queue_push(&w->events, now,
                                problem->n_queues + problem->step.n_messages + subject);
    }
    int32_t other = queue ^ 1;
    if (w->begun[other]) {
        const cleave_queued_item *head = &problem->queue_items[w->position[other]];
        if (head->kind == CLEAVE_PRICED_SYNC && head->subject == item->item)
            cleave_event_queue_push(&w->events, now, other);
    }
}

/* Starts work on a lane; when it ends as things stand. */
static inline int64_t start_work(run *r, int32_t queue, const cleave_queued_item *item,
                                 int64_t now) {
    cleave_events_memory *w = r->w;
    int32_t device = queue >> 1;
    int64_t duration = r->problem->step.duration[item->item], end = now + duration;
    if (duration == 0)
        return end;
    if (queue & 1) {
        w->busy_until[device] = end;
        w->taken[device] += duration;
        return end;
    }
    w->taken_seen[device] = w->taken[device];
    w->worked_seen[device] = w->worked[device];
    if (item->kind != CLEAVE_PRICED_POST)
        end += cleave_later(0, w->processor_free[device] - now);
    return end + cleave_later(0, w->busy_until[device] - now);
}

/* What the device has done in the meantime, beside an item of its main lane. */
static inline int64_t take_unseen(run *r, int32_t device, const cleave_queued_item *item) {
    cleave_events_memory *w = r->w;
    int64_t unseen = w->taken[device] - w->taken_seen[device];
    if (item->kind != CLEAVE_PRICED_POST)
        unseen += w->worked[device] - w->worked_seen[device];
    w->taken_seen[device] = w->taken[device];
    w->worked_seen[device] = w->worked[device];
    return unseen;
}

/* When a waiting item may end, or -1 when that is not known yet; then the lane is on a list, or
   will be woken by its other lane. */
static inline int64_t end_of_wait(run *r, int32_t queue, const cleave_queued_item *item) {
    cleave_events_memory *w = r->w;
    int32_t subject = item->subject, *first_waiter;
    int64_t known;
    switch ((cleave_priced_kind)item->kind) {
    case CLEAVE_PRICED_WAIT_ARRIVAL:
        known = w->messages[subject].arrival;
        first_waiter = &w->messages[subject].arrival_waiter;
        break;
    case CLEAVE_PRICED_WAIT_RELEASE:
        known = w->messages[subject].release;
        first_waiter = &w->messages[subject].release_waiter;
        break;
    case CLEAVE_PRICED_AWAIT:
        known = w->collective_end[subject];
        first_waiter = &w->first_waiter[subject];
        break;
    default: /* SYNC */
        return r->timeline->end[subject];
    }
    if (known < 0) {
        w->next_waiter[queue] = *first_waiter;
        *first_waiter = queue;
    }
    return known;
}

/* Runs a lane from `now` until it has to wait for an event. */
static void advance(run *r, int32_t queue, int64_t now) {
    const cleave_engine_problem *problem = r->problem;
    cleave_events_memory *w = r->w;
    int32_t last = problem->queue_start[queue + 1];
    while (w->position[queue] < last) {
        const cleave_queued_item *item = &problem->queue_items[w->position[queue]];
        uint8_t kind = item->kind;
        bool works =
            kind == CLEAVE_PRICED_WORK || kind == CLEAVE_PRICED_POST || kind == CLEAVE_PRICED_JOIN;
        r->timeline->start[item->item] = now;
        w->begun[queue] = true;
        int64_t end = works ? start_work(r, queue, item, now) : end_of_wait(r, queue, item);
        if (end < 0)
            return;
        end = cleave_later(end, now);
        if (end > now && cleave_event_queue_is_due(&w->events, end)) {
            cleave_event_queue_push(&w->events, end, queue);
            return;
        }
        now = end;
        complete(r, queue, item, now);
        if (cleave_event_queue_is_due(&w->events, now) && w->position[queue] < last) {
            /* Something else happens now as well: take turns by key. */
            cleave_event_queue_push(&w->events, now, queue);
            return;
        }
    }
}

static void lane_event(run *r, int32_t queue, int64_t now) {
    cleave_events_memory *w = r->w;
    if (w->begun[queue]) {
        const cleave_queued_item *item = &r->problem->queue_items[w->position[queue]];
        bool is_slowed = r->problem->step.duration[item->item] > 0 && !(queue & 1);
        int64_t unseen = is_slowed ? take_unseen(r, queue >> 1, item) : 0;
        if (unseen > 0) {
            cleave_event_queue_push(&w->events, now + unseen, queue);
            return;
        }
        complete(r, queue, item, now);
    }
    advance(r, queue, now);
}

static cleave_status check_done(const run *r, cleave_error *error) {
    for (int32_t q = 0; q < r->problem->n_queues; q++)
        if (r->w->position[q] < r->problem->queue_start[q + 1]) {
            const cleave_queued_item *item = &r->problem->queue_items[r->w->position[q]];
            return cleave_fail(error, CLEAVE_FAILED,
                               "item %d of device %d waits for %d for ever: the order of the "
                               "program is not one that can be run",
                               item->item, q / 2, item->subject);
        }
    return CLEAVE_OK;
}

cleave_status cleave_engine_run_events(const cleave_engine_problem *problem,
                                       cleave_engine_workspace *workspace,
                                       cleave_timeline *timeline, cleave_error *error) {
    run r = {.problem = problem, .w = workspace->events, .timeline = timeline};
    reset(problem, r.w, timeline);
    while (r.w->events.n > 0) {
        cleave_event event = cleave_event_queue_pop(&r.w->events);
        if (event.key < problem->n_queues)
            lane_event(&r, event.key, event.time);
        else if (event.key < problem->n_queues + problem->step.n_messages)
            message_event(&r, event.key - problem->n_queues, event.time);
        else
            collective_event(&r, event.key - problem->n_queues - problem->step.n_messages,
                             event.time);
    }
    CLEAVE_TRY(check_done(&r, error));
    timeline->step = r.step;
    return CLEAVE_OK;
}
