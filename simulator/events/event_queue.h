/* The event queue: events ordered by (time, key).  Keys are unique among the events that wait at
   one time, so the order is total and does not depend on insertion.

   Most events are not looked at until just before they are due (a ladder queue of one rung, after
   Tang, Goh and Thng, ACM TOMACS 15(3), 2005).  What is due soon, before `near_end`, lies in a
   heap, which so is small.  What comes after lies in buckets of equal width, in no order; when the
   heap is empty the next bucket is put into it.  What comes after the last bucket lies on one list;
   when the buckets are empty, that is spread over new ones.  At worst all is in one bucket, and the
   heap does what a heap does. */
#ifndef CLEAVE_SIMULATOR_EVENTS_EVENT_QUEUE_H
#define CLEAVE_SIMULATOR_EVENTS_EVENT_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

enum { CLEAVE_EVENT_BUCKET_BITS = 10, CLEAVE_EVENT_BUCKETS = 1 << CLEAVE_EVENT_BUCKET_BITS };

typedef struct cleave_event {
    int64_t time; /* picoseconds, 0 .. 2^62 */
    int32_t key;
    int32_t next; /* on a list; -1: none */
} cleave_event;

typedef struct cleave_event_queue {
    /* Both by the owner, with room for all that can wait at once: the queue never allocates. */
    cleave_event *near;             /* a heap of four children a node: what is before near_end */
    cleave_event *pool;             /* what is not, on lists by index */
    int32_t n;                      /* all that wait */
    int32_t n_near, n_pool, unused; /* the pool's first n_pool have been used, `unused` are free */
    int64_t near_end;
    /* Bucket b is from base + (b << shift) on. */
    int64_t base, buckets_end;
    int shift;
    int32_t first_word; /* of `occupied`, that can be other than 0 */
    int32_t bucket[CLEAVE_EVENT_BUCKETS];
    uint64_t occupied[CLEAVE_EVENT_BUCKETS / 64];
    int32_t far, n_far; /* from buckets_end on */
    int64_t far_least, far_most;
} cleave_event_queue;

/* Empties a queue whose `near` and `pool` have been set. */
void cleave_event_queue_reset(cleave_event_queue *queue);

/* Moves the next bucket to the heap; for a queue that is not empty, but whose heap is. */
void cleave_event_queue_refill(cleave_event_queue *queue);

static inline bool cleave_event_before(const cleave_event *a, const cleave_event *b) {
    return a->time < b->time || (a->time == b->time && a->key < b->key);
}

static inline void cleave_event_queue_push_near(cleave_event_queue *queue, int64_t time,
                                                int32_t key) {
    cleave_event event = {.time = time, .key = key};
    int32_t at = queue->n_near++;
    while (at > 0) {
        int32_t parent = (at - 1) / 4;
        if (!cleave_event_before(&event, &queue->near[parent]))
            break;
        queue->near[at] = queue->near[parent];
        at = parent;
    }
    queue->near[at] = event;
}

static inline void cleave_event_queue_put_into_bucket(cleave_event_queue *queue, int32_t event) {
    int64_t b = (queue->pool[event].time - queue->base) >> queue->shift;
    queue->pool[event].next = queue->bucket[b];
    queue->bucket[b] = event;
    queue->occupied[b / 64] |= UINT64_C(1) << (b % 64);
}

static inline void cleave_event_queue_push(cleave_event_queue *queue, int64_t time, int32_t key) {
    queue->n++;
    if (time < queue->near_end) {
        cleave_event_queue_push_near(queue, time, key);
        return;
    }
    int32_t event = queue->unused;
    if (event >= 0)
        queue->unused = queue->pool[event].next;
    else
        event = queue->n_pool++;
    queue->pool[event] = (cleave_event){time, key, queue->far};
    if (time < queue->buckets_end) {
        cleave_event_queue_put_into_bucket(queue, event);
    } else {
        queue->far = event;
        queue->n_far++;
        queue->far_least = time < queue->far_least ? time : queue->far_least;
        queue->far_most = time > queue->far_most ? time : queue->far_most;
    }
}

/* Whether an event waits that is due at `time` or before. */
static inline bool cleave_event_queue_is_due(cleave_event_queue *queue, int64_t time) {
    if (queue->n == 0 || (queue->n_near == 0 && time < queue->near_end))
        return false;
    if (queue->n_near == 0)
        cleave_event_queue_refill(queue);
    return queue->near[0].time <= time;
}

/* Of a queue that is not empty. */
static inline cleave_event cleave_event_queue_pop(cleave_event_queue *queue) {
    if (queue->n_near == 0)
        cleave_event_queue_refill(queue);
    queue->n--;
    cleave_event first = queue->near[0], last = queue->near[--queue->n_near];
    int32_t at = 0;
    for (;;) {
        int64_t child = 4 * (int64_t)at + 1;
        if (child >= queue->n_near)
            break;
        int64_t end = child + 4 < queue->n_near ? child + 4 : queue->n_near;
        int64_t least = child;
        for (int64_t other = child + 1; other < end; other++)
            if (cleave_event_before(&queue->near[other], &queue->near[least]))
                least = other;
        if (!cleave_event_before(&queue->near[least], &last))
            break;
        queue->near[at] = queue->near[least];
        at = (int32_t)least;
    }
    queue->near[at] = last;
    return first;
}

#endif
