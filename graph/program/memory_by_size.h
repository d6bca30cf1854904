/* A second way to plan the memory of one device, for where best fit in the order of time loses
   some: the largest first. */
#ifndef CLEAVE_GRAPH_PROGRAM_MEMORY_BY_SIZE_H
#define CLEAVE_GRAPH_PROGRAM_MEMORY_BY_SIZE_H

#include <stdbool.h>
#include <stdint.h>

/* Memory that is in use from one moment to another, both included; what the communication lane
   alone uses meets no more of that sort but by the moments of the lane. */
typedef struct cleave_span {
    int64_t bytes, offset;
    int32_t life; /* which one it is, for the caller */
    int32_t begin, end;
    int32_t lane_begin, lane_end;
    bool lane_only;
} cleave_span;

/* Places in lists that a span has, on average, at most. */
enum { CLEAVE_LISTED_OF_SPAN = 12 };

/* Gives each span the lowest offset at which it meets none that was placed before it in time and
   place, the largest first (of equal ones that which begins first).  Moments are not below 0.
   `lists`, [CLEAVE_LISTED_OF_SPAN * n], is scratch.  `*top` is the end of the last one; returns
   false as soon as one ends at `limit` or beyond.  Takes `n` times as many as live while one does:
   a millisecond for 4,000, and the square of `n` where all live at once. */
bool cleave_place_by_size(cleave_span *spans, int32_t n, int64_t limit, int32_t *lists,
                          int64_t *top);

#endif
