/* What a measurement of a link collects. */
#include "exec/measure/link_samples.h"

#include "base/median.h"
#include "base/order.h"

#include <math.h>
#include <stdlib.h>

void cleave_link_samples_add(cleave_link_samples *to, cleave_link_sample_kind kind, int64_t bytes,
                             double seconds) {
    if (seconds > 0 && to->n < CLEAVE_LINK_MOST_SAMPLES)
        to->items[to->n++] = (cleave_link_sample){kind, (double)bytes, seconds};
}

static void insert(cleave_poll_sample *samples, int32_t n, cleave_poll_sample made) {
    for (; n > 0 && samples[n - 1].bytes > made.bytes; n--)
        samples[n] = samples[n - 1];
    samples[n] = made;
}

void cleave_link_polled_add(cleave_link_polled *to, int64_t bytes, const double seconds[3],
                            double piece_seconds) {
    double sent = fmax(0, (seconds[1] - seconds[0]) / piece_seconds);
    double received = fmax(0, (seconds[2] - seconds[0]) / piece_seconds);
    insert(to->sending, to->n, (cleave_poll_sample){(double)bytes, sent});
    insert(to->receiving, to->n, (cleave_poll_sample){(double)bytes, received});
    to->n++;
}

double cleave_link_median(double *values, int n) {
    cleave_sort_doubles(values, n);
    return values[n / 2];
}

double cleave_link_uncertainty(const double *sorted, int n) {
    double median = sorted[n / 2], spread = sorted[3 * n / 4] - sorted[n / 4];
    return median > 0 ? cleave_median_uncertainty(spread / median, n) : 0;
}

int cleave_link_repeats(double budget, double seconds) {
    enum { FEWEST = 3, MOST = 20 };
    double fit = budget / (seconds > 1e-6 ? seconds : 1e-6);
    return fit > MOST ? MOST : fit < FEWEST ? FEWEST : (int)fit;
}

int cleave_link_sizes_left(int i, int n, double took, double budget) {
    static const double most_share = 0.04;
    return took > most_share * budget ? i + 1 : n;
}

bool cleave_link_asks_processors(int64_t bytes) {
    enum { LEAST = 256 << 10, MOST = 4 << 20 };
    bool is_power_of_four = (bytes & INT64_C(0x5555555555555555)) != 0;
    return bytes >= LEAST && bytes <= MOST && is_power_of_four;
}

int cleave_link_pieces(double both_ways, double piece_seconds) {
    return 4 + (int)(2 * both_ways / (piece_seconds > 1e-6 ? piece_seconds : 1e-6));
}
