/* How events come nearer: from the far list into buckets, from a bucket into the heap. */
#include "simulator/events/event_queue.h"

#include <string.h>

static void clear_far(cleave_event_queue *queue) {
    queue->far = -1;
    queue->n_far = 0;
    queue->far_least = INT64_MAX;
    queue->far_most = 0;
}

void cleave_event_queue_reset(cleave_event_queue *queue) {
    queue->n = queue->n_near = queue->n_pool = 0;
    queue->unused = -1;
    queue->near_end = queue->base = queue->buckets_end = 0;
    queue->first_word = CLEAVE_EVENT_BUCKETS / 64;
    memset(queue->bucket, -1, sizeof queue->bucket);
    memset(queue->occupied, 0, sizeof queue->occupied);
    clear_far(queue);
}

static int bits_of(uint64_t value) { return value == 0 ? 0 : 64 - __builtin_clzll(value); }

/* Spreads the far list over new buckets, about four for each event, as far as there are. */
static void spread(cleave_event_queue *queue) {
    int64_t range = queue->far_most - queue->far_least;
    int bucket_bits = bits_of((uint64_t)queue->n_far) + 2;
    if (bucket_bits > CLEAVE_EVENT_BUCKET_BITS)
        bucket_bits = CLEAVE_EVENT_BUCKET_BITS;
    int range_bits = bits_of((uint64_t)range);
    queue->shift = range_bits > bucket_bits ? range_bits - bucket_bits : 0;
    queue->base = queue->far_least;
    queue->buckets_end = queue->base + (((range >> queue->shift) + 1) << queue->shift);
    queue->first_word = 0;
    for (int32_t event = queue->far; event >= 0;) {
        int32_t next = queue->pool[event].next;
        cleave_event_queue_put_into_bucket(queue, event);
        event = next;
    }
    clear_far(queue);
}

void cleave_event_queue_refill(cleave_event_queue *queue) {
    int32_t word = queue->first_word;
    while (word < CLEAVE_EVENT_BUCKETS / 64 && queue->occupied[word] == 0)
        word++;
    if (word == CLEAVE_EVENT_BUCKETS / 64) {
        spread(queue);
        for (word = 0; queue->occupied[word] == 0;)
            word++;
    }
    queue->first_word = word;
    int32_t b = word * 64 + __builtin_ctzll(queue->occupied[word]);
    queue->occupied[word] &= queue->occupied[word] - 1;
    int32_t last = -1;
    for (int32_t event = queue->bucket[b]; event >= 0; event = queue->pool[event].next) {
        cleave_event_queue_push_near(queue, queue->pool[event].time, queue->pool[event].key);
        last = event;
    }
    queue->pool[last].next = queue->unused;
    queue->unused = queue->bucket[b];
    queue->bucket[b] = -1;
    queue->near_end = queue->base + (((int64_t)b + 1) << queue->shift);
}
