/* What is simulated: items with their prices, in order, and the messages and collectives that they
   refer to.  A whole step is one fragment with everything in it; what one family or nest of a
   lowering (graph/lower/fragment.h) does is another, slot by slot.  A step is nothing but fragments
   put side by side, so a change of a layout exchanges some of them and leaves the others as they
   are.  Immutable once made, and without names of its surroundings: messages, collectives and marks
   are numbered within the fragment.

   The global order of fragments side by side is: by slot, then by the rank of a chunk in its slot,
   then by the place of the fragment, then as the chunk has them.  Both posts of a message stand in
   one chunk, and so do all joins of a collective; what waits for them stands later in that chunk or
   in a later one of the same fragment.

   What a last item of a lane is, is known of a whole step alone.  So there SYNC waits for an item;
   in fragments it waits for a mark, which stands where the lane is looked at. */
#ifndef CLEAVE_SIMULATOR_STEP_PRICED_FRAGMENT_H
#define CLEAVE_SIMULATOR_STEP_PRICED_FRAGMENT_H

#include "simulator/step/link.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum cleave_priced_kind {
    CLEAVE_PRICED_WORK, /* takes its duration */
    CLEAVE_PRICED_POST, /* takes its duration, then one end of message `subject` is posted */
    CLEAVE_PRICED_WAIT_ARRIVAL, /* until message `subject` has arrived */
    CLEAVE_PRICED_WAIT_RELEASE, /* until message `subject` has left its first link */
    CLEAVE_PRICED_SYNC, /* until `subject` of the device's other lane has ended: an item, or mark */
    CLEAVE_PRICED_JOIN, /* takes its duration, then joins collective `subject` */
    CLEAVE_PRICED_AWAIT, /* until collective `subject` has ended */
    CLEAVE_PRICED_MARK,  /* no item: mark `subject` is the end of the last item of this queue */
    CLEAVE_PRICED_N_KINDS
} cleave_priced_kind;

static inline bool cleave_priced_waits(uint8_t kind) {
    return kind == CLEAVE_PRICED_WAIT_ARRIVAL || kind == CLEAVE_PRICED_WAIT_RELEASE ||
           kind == CLEAVE_PRICED_SYNC || kind == CLEAVE_PRICED_AWAIT;
}

/* Items of one slot. */
typedef struct cleave_priced_chunk {
    int32_t slot, rank;
    int32_t first_item, n_items;
} cleave_priced_chunk;

typedef struct cleave_priced_fragment {
    int32_t n_items, n_messages, n_collectives;
    int32_t n_chunks, n_marks;   /* of a whole step: 0 */
    cleave_priced_chunk *chunks; /* [n_chunks] ascending by (slot, rank) */
    uint8_t *kind;               /* [n_items] */
    int32_t *queue;              /* [n_items] 2 x device + lane */
    int32_t *subject;            /* [n_items] -1 for work */
    int64_t *duration; /* [n_items] picoseconds, 0 or more; 0 for those that wait and for marks */
    /* Message m crosses hops hop_start[m] .. hop_start[m + 1], one or more. */
    int32_t *hop_start;         /* [n_messages + 1] */
    int32_t *hop_link;          /* [n_hops] */
    int64_t *hop_serialization; /* [n_hops] picoseconds, 1 or more */
    cleave_message_ends *ends;  /* [n_messages] those that post it; null: none asks any */
    /* A collective starts when all have joined and all its links are free, keeps them for `busy`
       picoseconds and has ended `rest` picoseconds later. */
    int32_t *collective_joins;      /* [n_collectives] */
    int64_t *collective_busy;       /* [n_collectives] */
    int64_t *collective_rest;       /* [n_collectives] */
    int32_t *collective_link_start; /* [n_collectives + 1] */
    int32_t *collective_links;      /* distinct within a collective */
} cleave_priced_fragment;

/* Have the ends of a message work with it? */
static inline bool cleave_priced_ends_work(const cleave_priced_fragment *fragment,
                                           int32_t message) {
    return fragment->ends != NULL && fragment->ends[message].work > 0;
}

/* How long after its posts a message sets out. */
static inline int64_t cleave_priced_agreement(const cleave_priced_fragment *fragment,
                                              int32_t message) {
    return fragment->ends != NULL ? fragment->ends[message].agreement : 0;
}

/* One item, for who asks for all of it. */
typedef struct cleave_priced_item {
    int64_t duration;
    int32_t queue, subject;
    uint8_t kind;
} cleave_priced_item;

static inline cleave_priced_item cleave_priced_item_of(const cleave_priced_fragment *fragment,
                                                       int32_t item) {
    return (cleave_priced_item){.duration = fragment->duration[item],
                                .queue = fragment->queue[item],
                                .subject = fragment->subject[item],
                                .kind = fragment->kind[item]};
}

#endif
