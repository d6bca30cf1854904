/* A priced fragment: what one fragment of a lowering (graph/lower/fragment.h) does, slot by slot,
   with its prices.  A step is nothing but fragments put side by side, so a change of a layout
   exchanges some of them and leaves the others as they are.  Immutable once made, and without names
   of its surroundings: messages, collectives and marks are numbered within the fragment.

   The global order of a step is: by slot, then by the rank of a chunk in its slot, then by the
   place of the fragment, then as the chunk has them.  Both posts of a message stand in one chunk,
   and so do all joins of a collective; what waits for them stands later in that chunk or in a later
   one of the same fragment. */
#ifndef CLEAVE_SIMULATOR_STEP_PRICED_FRAGMENT_H
#define CLEAVE_SIMULATOR_STEP_PRICED_FRAGMENT_H

#include "simulator/step/link.h"

#include <stdint.h>

typedef enum cleave_priced_kind {
    CLEAVE_PRICED_WORK, /* takes its duration */
    CLEAVE_PRICED_POST, /* takes its duration, then one end of message `subject` is posted */
    CLEAVE_PRICED_WAIT_ARRIVAL, /* until message `subject` has arrived */
    CLEAVE_PRICED_WAIT_RELEASE, /* until message `subject` has left its first link */
    CLEAVE_PRICED_MARK,  /* no item: mark `subject` is the end of the last item of this queue */
    CLEAVE_PRICED_SYNC,  /* until mark `subject`, of the device's other lane */
    CLEAVE_PRICED_JOIN,  /* takes its duration, then joins collective `subject` */
    CLEAVE_PRICED_AWAIT, /* until collective `subject` has ended */
    CLEAVE_PRICED_N_KINDS
} cleave_priced_kind;

typedef struct cleave_priced_item {
    int64_t duration; /* picoseconds, 0 or more; 0 for those that wait and for marks */
    int32_t queue;    /* 2 x device + lane */
    int32_t subject;  /* -1 for work */
    uint8_t kind;
} cleave_priced_item;

/* Items of one slot. */
typedef struct cleave_priced_chunk {
    int32_t slot, rank;
    int32_t first_item, n_items;
} cleave_priced_chunk;

typedef struct cleave_priced_fragment {
    int32_t n_chunks, n_items, n_messages, n_collectives, n_marks;
    cleave_priced_chunk *chunks; /* [n_chunks] ascending by (slot, rank) */
    cleave_priced_item *items;   /* [n_items] */
    /* As in engine.h: */
    int32_t *hop_start;             /* [n_messages + 1] */
    int32_t *hop_link;              /* [n_hops] */
    int64_t *hop_serialization;     /* [n_hops] picoseconds */
    cleave_message_ends *ends;      /* [n_messages]; null: none asks any */
    int32_t *collective_joins;      /* [n_collectives] */
    int64_t *collective_busy;       /* [n_collectives] picoseconds */
    int64_t *collective_rest;       /* [n_collectives] picoseconds */
    int32_t *collective_link_start; /* [n_collectives + 1] */
    int32_t *collective_links;      /* distinct within a collective */
} cleave_priced_fragment;

#endif
