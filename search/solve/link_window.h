/* Windows: the scan's rule of time over some fragments of a step, as a lower bound.

   What is left of the rule (simulator/scan/scan_rule.h) without the communication lane's charge on
   the main lane, and without what a transfer of the main lane waits for one of the communication
   lane, is a clock for each lane and links that serve (simulator/step/link.h) each lane in its
   order: sums and largest values only.  So it is monotone, which the whole rule is not: with items
   left out, or with times set to long ago, everything else happens no later than in the whole
   step.  A window is run
   with nothing known but the time of one item; all that comes out later than "long ago" is then no
   earlier, counted from that item, in any step that has these fragments. */
#ifndef CLEAVE_SEARCH_SOLVE_LINK_WINDOW_H
#define CLEAVE_SEARCH_SOLVE_LINK_WINDOW_H

#include "base/error.h"
#include "base/list.h"
#include "simulator/step/priced_fragment.h"

#include <stdbool.h>

/* Before everything; sums of durations don't bring it near 0. */
static const int64_t WINDOW_LONG_AGO = -(INT64_C(1) << 60);

typedef struct window_entry {
    int64_t key; /* slot, rank, place */
    const cleave_priced_fragment *fragment;
    int32_t chunk, first_time, first_count;
} window_entry;

typedef struct window {
    int32_t n_queues, n_links;
    const int64_t *link_latency; /* [n_links] picoseconds */
    CLEAVE_LIST(window_entry) entries;
    int64_t *clock;          /* [n_queues] after a run */
    int64_t (*link_free)[2]; /* [n_links + n_queues / 2] by lane; those of processors come last */
    CLEAVE_LIST(int64_t) times;
    CLEAVE_LIST(int32_t) counts;
} window;

/* Items of one entry, those of a group, whose start or end is known to be no earlier than `time`.
   All else begins long ago; or, `whole`, at 0, where entry -1 says that nothing else is known. */
typedef struct window_origin {
    int32_t entry, group;
    const int32_t *group_of; /* [items of the entry] */
    bool end, whole;
    int64_t time;
} window_origin;

cleave_status window_create(int32_t n_queues, int32_t n_links, const int64_t *link_latency,
                            window *made, cleave_error *error);
void window_destroy(window *w);

void window_clear(window *w);
/* Adds all chunks of a fragment whose slots lie in [first_slot, end_slot). */
cleave_status window_add(window *w, int32_t place, const cleave_priced_fragment *fragment,
                         int32_t first_slot, int32_t end_slot, cleave_error *error);
void window_sort(window *w);
/* The entry of a place in a slot at a rank, or -1. */
int32_t window_find(const window *w, int32_t slot, int32_t rank, int32_t place);
int32_t window_n_items(const window *w, int32_t entry);
cleave_priced_item window_item(const window *w, int32_t entry, int32_t item);

/* Runs up to and with entry `last` (all where it is -1), and gives the ends, or starts, of the
   items of entry `observed` (-1: none), [its items]. */
void window_run(window *w, window_origin origin, int32_t observed, bool observe_end, int32_t last,
                int64_t *times);

/* Runs from long ago, where the items of entries with `is_origin` begin at 0 or later; adds up, by
   device, the durations in the main lane of those items of entries with `counts` that then begin at
   0 or later.  Both are [entries]. */
void window_after(window *w, const bool *is_origin, const bool *counts, int64_t *sums);

/* The clock of a queue after a run in which it alone starts at 0. */
int64_t window_lane(window *w, int32_t queue);

#endif
