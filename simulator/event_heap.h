/* The event queue: a heap of four children a node, ordered by (time, key).  Keys are unique among
   the events that wait at one time, so the order is total and does not depend on insertion. */
#ifndef CLEAVE_SIMULATOR_EVENT_HEAP_H
#define CLEAVE_SIMULATOR_EVENT_HEAP_H

#include <stdbool.h>
#include <stdint.h>

typedef struct cleave_event {
    int64_t time; /* picoseconds */
    int32_t key;
} cleave_event;

typedef struct cleave_event_heap {
    cleave_event *events; /* room for all that can wait at once: the heap never allocates */
    int32_t n;
} cleave_event_heap;

static inline bool cleave_event_before(const cleave_event *a, const cleave_event *b) {
    return a->time < b->time || (a->time == b->time && a->key < b->key);
}

static inline void cleave_event_heap_push(cleave_event_heap *heap, int64_t time, int32_t key) {
    cleave_event event = {time, key};
    int32_t at = heap->n++;
    while (at > 0) {
        int32_t parent = (at - 1) / 4;
        if (!cleave_event_before(&event, &heap->events[parent]))
            break;
        heap->events[at] = heap->events[parent];
        at = parent;
    }
    heap->events[at] = event;
}

/* Of a heap that is not empty. */
static inline cleave_event cleave_event_heap_pop(cleave_event_heap *heap) {
    cleave_event first = heap->events[0], last = heap->events[--heap->n];
    int32_t at = 0;
    for (;;) {
        int64_t child = 4 * (int64_t)at + 1;
        if (child >= heap->n)
            break;
        int64_t end = child + 4 < heap->n ? child + 4 : heap->n;
        int64_t least = child;
        for (int64_t other = child + 1; other < end; other++)
            if (cleave_event_before(&heap->events[other], &heap->events[least]))
                least = other;
        if (!cleave_event_before(&heap->events[least], &last))
            break;
        heap->events[at] = heap->events[least];
        at = (int32_t)least;
    }
    heap->events[at] = last;
    return first;
}

#endif
