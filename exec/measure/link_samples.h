/* What a measurement of a link collects, apart from clock and transport (measure_link.c): which
   sizes it looks at and how often, in the time that it has, and what becomes of the seconds. */
#ifndef CLEAVE_EXEC_MEASURE_LINK_SAMPLES_H
#define CLEAVE_EXEC_MEASURE_LINK_SAMPLES_H

#include "exec/measure/link_fit.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    CLEAVE_LINK_LEAST_BYTES = 1 << 10, /* sizes are these and every power of two up to */
    CLEAVE_LINK_MOST_BYTES = 64 << 20, /* since a message may go in another way from any of them */
    CLEAVE_LINK_N_SIZES = 17,          /* on */
    CLEAVE_LINK_MOST_SAMPLES = 64,
    CLEAVE_LINK_MOST_POLLED = 16
};

typedef struct cleave_link_samples {
    int32_t n;
    cleave_link_sample items[CLEAVE_LINK_MOST_SAMPLES];
} cleave_link_samples;

/* Nothing is added where the seconds, a difference maybe, are not above 0. */
void cleave_link_samples_add(cleave_link_samples *to, cleave_link_sample_kind kind, int64_t bytes,
                             double seconds);

/* By how many pieces of computation messages are late: by size, ascending. */
typedef struct cleave_link_polled {
    int32_t n;
    cleave_poll_sample sending[CLEAVE_LINK_MOST_POLLED], receiving[CLEAVE_LINK_MOST_POLLED];
} cleave_link_polled;

/* A size that there is room for: the seconds of a message where both ends only wait, where its
   sender computes in pieces of so many seconds, and where its receiver does. */
void cleave_link_polled_add(cleave_link_polled *to, int64_t bytes, const double seconds[3],
                            double piece_seconds);

/* The upper one of an even number; sorts the values, 1 or more. */
double cleave_link_median(double *values, int n);
/* How well that is known, of values that are sorted: see base/median.h. */
double cleave_link_uncertainty(const double *sorted, int n);

/* How often to repeat what takes some seconds, for a budget: 3 to 20 times, few, since on a machine
   that others use as well a message now and then takes milliseconds. */
int cleave_link_repeats(double budget, double seconds);

/* How many sizes are left of the first `n`, where number `i` has taken so long once: a large one
   that takes too much of the budget is the last. */
int cleave_link_sizes_left(int i, int n, double took, double budget);

/* Is it measured what messages of these bytes take from ranks that compute?  Of every fourth size,
   above which it takes long, and below which it is lost in the noise. */
bool cleave_link_asks_processors(int64_t bytes);

/* In how many pieces of so many seconds to compute beside messages that take `both_ways`: there is
   still something to compute when they have gone. */
int cleave_link_pieces(double both_ways, double piece_seconds);

#endif
