/* The knees of a sweep's curves: where more of something is no longer worth it.

   With throughput T(x) over devices, or over any other number that is varied, the knee is the point
   where T^2 / x is largest: the most speed-up for what is used, times its efficiency (D. Eager, J.
   Zahorjan, E. Lazowska, "Speedup versus Efficiency in Parallel Systems", IEEE Transactions on
   Computers 38(3), 1989).  Up to there x per cent more of it bring x / 2 per cent or more; from
   there on they bring less: a further device then gives less than half of its share. */
#ifndef CLEAVE_CLI_SWEEP_KNEE_H
#define CLEAVE_CLI_SWEEP_KNEE_H

#include "cli/sweep/record.h"

typedef struct sweep_knee {
    int32_t axis; /* along which ... */
    int32_t knee; /* ... this point is the knee, */
    int32_t first,
        next;    /* the curve begins, and goes on behind it; next: -1 where it is the last */
    double gain; /* from the knee to the next: what a further share of x brings of its own,
                    ln(T'/T) / ln(x'/x); where there is a next */
} sweep_knee;

/* Of the curve along an axis through a point, which is its first; false where it has no two points
   with a throughput and an x above 0, or its axis has words. */
bool sweep_knee_find(const sweep *of, int32_t axis, int32_t first, sweep_knee *knee);

/* All of them, in the order of axes and points: the next one behind `*knee` (axis below 0: the
   first one); false where there is none. */
bool sweep_knee_next(const sweep *of, sweep_knee *knee);

/* Elements of an open array. */
void sweep_knees_put(const sweep *of, cleave_json_writer *w);
/* A sentence. */
void sweep_knee_describe(const sweep *of, const sweep_knee *knee, char *text, size_t bytes);

#endif
