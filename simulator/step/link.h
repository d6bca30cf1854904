/* The one rule by which a transfer crosses links; every engine serves through it.

   A link serves whole transfers one at a time.  Over several hops, cut through:

       s_k = max(head_k, free_k)          begins on link k
       free_k = s_k + serialization_k     link k is free again
       head_{k+1} = s_k + latency_k       the first byte reaches the next link
       arrived = max over k of (free_k + the latencies from k on)

   The last line is carried along as tail_{k+1} = max(tail_k, free_k) + latency_k.
   All times are picoseconds.

   The processors at both ends may have work with a message while it is on its way.  Each is served
   as a link without latency behind the last one, which the first byte reaches at the same time for
   both: so messages of a device take its processor one after the other, and what takes longer
   counts, links or processors.  A message has left when both its first link and the processor of
   its source are done with it.

   A large message sets out only when its ends have agreed on it, some time after both have posted
   it. */
#ifndef CLEAVE_SIMULATOR_STEP_LINK_H
#define CLEAVE_SIMULATOR_STEP_LINK_H

#include <stdint.h>

/* What a message asks of the devices at its ends. */
typedef struct cleave_message_ends {
    int64_t work;      /* picoseconds of either processor; 0: none */
    int64_t agreement; /* picoseconds before its first byte, which ask for no link; 0: none */
    int32_t source, destination;
} cleave_message_ends;

static inline int64_t cleave_later(int64_t a, int64_t b) { return a > b ? a : b; }

/* One hop: takes the link from `*free_at`, moves head and tail on; returns s_k. */
static inline int64_t cleave_link_serve(int64_t serialization, int64_t latency, int64_t *free_at,
                                        int64_t *head, int64_t *tail) {
    int64_t begin = cleave_later(*head, *free_at);
    *free_at = begin + serialization;
    *head = begin + latency;
    *tail = cleave_later(*tail, *free_at) + latency;
    return begin;
}

#endif
