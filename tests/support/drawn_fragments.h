/* Random priced fragments that obey the rules of simulator/step/priced_fragment.h: several devices
   with both lanes, shared links, collectives, gradients, marks, waits over many slots, empty
   chunks, ties and work that takes no time; some differ from another one in little. */
#ifndef CLEAVE_TESTS_SUPPORT_DRAWN_FRAGMENTS_H
#define CLEAVE_TESTS_SUPPORT_DRAWN_FRAGMENTS_H

#include "base/random.h"
#include "simulator/step/priced_fragment.h"

#include <stdbool.h>

enum { MAX_CHUNKS = 8, MAX_ITEMS = 96, MAX_MESSAGES = 24, MAX_COLLECTIVES = 6, MAX_MARKS = 24 };
enum { MAX_HOPS = 3, MAX_DEVICES = 6, MAX_LINKS = 7, MAX_SLOTS = 40, POOL = 48 };

/* A fragment with its arrays, and what its generation knows of it. */
typedef struct drawn_fragment {
    cleave_priced_fragment fragment;
    cleave_priced_chunk chunks[MAX_CHUNKS];
    uint8_t kind[MAX_ITEMS];
    int32_t queue[MAX_ITEMS], subject[MAX_ITEMS];
    int64_t duration[MAX_ITEMS];
    int32_t hop_start[MAX_MESSAGES + 1], hop_link[MAX_MESSAGES * MAX_HOPS];
    int64_t hop_serialization[MAX_MESSAGES * MAX_HOPS];
    cleave_message_ends work[MAX_MESSAGES];
    int32_t joins[MAX_COLLECTIVES], link_start[MAX_COLLECTIVES + 1];
    int32_t links[MAX_COLLECTIVES * MAX_LINKS];
    int64_t busy[MAX_COLLECTIVES], rest[MAX_COLLECTIVES];
    int32_t ends[MAX_MESSAGES][2]; /* queues */
    int32_t joined_by[MAX_COLLECTIVES][MAX_DEVICES];
    int32_t mark_queue[MAX_MARKS];
} drawn_fragment;

/* What all fragments of a step are like, and a pool of them; drawn once. */
typedef struct drawn_fragments {
    cleave_random random;
    int32_t n_devices, n_links, n_slots;
    int64_t latency[MAX_LINKS];
    int64_t longest;                              /* durations; small ones make ties */
    int zeros, communication, waits, rows, reach; /* per cent, or slots */
    int strangers;                                /* per cent of waits for messages of others */
    int works;                                    /* per cent of messages whose ends have work */
    int events;                                   /* of a chunk, below */
    int meetings;                                 /* per cent of chunks */
    drawn_fragment pool[POOL];
} drawn_fragments;

/* `of` is zeroed and has its key.  It must stay where it is: fragments point into it. */
void draw_fragments(drawn_fragments *of);

static inline int32_t draw_below(drawn_fragments *of, int64_t n) {
    return (int32_t)cleave_random_below(&of->random, n);
}
static inline bool draw_chance(drawn_fragments *of, int per_cent) {
    return draw_below(of, 100) < per_cent;
}

#endif
