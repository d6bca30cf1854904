/* A message of n bytes takes each of its two processors o + g n, and its link latency + n / b.  In
   the order of the simulator, where both ends post before the link begins and a rank posts its
   messages one after the other, that makes

       post        o
       one way     o + g n + latency + n / b
       both ways   2 (o + g n) + latency + n / b
       processor   2 (o + g n)

   where messages of many bytes may take the link by a constant longer (MPI asks first whether the
   other end is ready for a large one), and the first bytes of a message may go at another rate than
   the rest (those that fit a cache or a buffer).  How many bytes these are is tried out.

   Overhead and latency are what the smallest message shows.  The others are those for which the sum
   of |fitted - measured| / sqrt(measured) is least: what takes long counts more, since a step
   spends its time there, and a few odd samples don't count for much.  What large messages take
   longer hardly shows in those that take long, and is so left to the small ones.  A network that
   lets a short burst pass at more than its rate, as shaped ones do, gets the rate.  Where the
   processors do all the copying (ranks of one machine) little is left for the link, which then gets
   the twentieth part of the time of a large message at least, so that it has a bandwidth.

   What does not fit: over TCP processors work on a message while the link carries it.  Of 1 MiB at
   1 Gbit/s both ways take 8.83 ms, one way 8.77, four in a stream 4 x 8.77, and yet they cost a
   rank that computes 1.7 ms; at 10 Gbit/s 1.02, .95, 4 x .92 and 1.28; unshaped .72, .48 and .95.
   All of that is max(n / b, g n) one way and max(n / b, 2 g n) both ways.  With one after the
   other, as the simulator has it, both ways at 10 Gbit/s come out up to 25 % too long, a stream as
   much too short. */
#include "exec/link_fit.h"

#include "base/arena.h"
#include "base/least_deviations.h"

#include <math.h>
#include <stdbool.h>

enum { OVERHEAD, PER_BYTE, LATENCY, LINK_PER_BYTE, FIRST_PER_BYTE, LARGE, N_FIGURES };
/* Of every kind: how often each figure is in it. */
static const double parts[CLEAVE_LINK_N_SAMPLE_KINDS][N_FIGURES] = {
    [CLEAVE_LINK_POST] = {1, 0, 0, 0},
    [CLEAVE_LINK_ONE_WAY] = {1, 1, 1, 1, 1, 1},
    [CLEAVE_LINK_BOTH_WAYS] = {2, 2, 1, 1, 1, 1},
    [CLEAVE_LINK_PROCESSOR] = {2, 2, 0, 0},
};
static const double unit[N_FIGURES] = {1e-6, 1e-9, 1e-6, 1e-9, 1e-9, 1e-6};
static const double least_latency = 1e-9, least_share = 0.05;
/* A fit that tells first bytes from the rest has to be so much nearer.  That large messages take
   longer needs no such proof: the polls have shown that they go in another way. */
static const double worth_a_figure = 0.8;

/* What is tried out. */
typedef struct shape {
    double first_bytes, large_from_bytes; /* 0: none */
} shape;

/* How often a figure is in a message of some bytes. */
static double amount(const shape *of, int figure, double bytes) {
    double first = bytes < of->first_bytes ? bytes : of->first_bytes;
    switch (figure) {
    case PER_BYTE:
        return bytes;
    case LINK_PER_BYTE:
        return bytes - first;
    case FIRST_PER_BYTE:
        return first;
    case LARGE:
        return of->large_from_bytes > 0 && bytes >= of->large_from_bytes;
    default:
        return 1;
    }
}

/* The sample of the smallest or largest message of a kind; null: none. */
static const cleave_link_sample *find_extreme(const cleave_link_sample *samples, int32_t n,
                                              cleave_link_sample_kind kind, bool largest) {
    const cleave_link_sample *found = NULL;
    for (int32_t i = 0; i < n; i++)
        if (samples[i].kind == kind &&
            (found == NULL || (samples[i].bytes > found->bytes) == largest))
            found = &samples[i];
    return found;
}

/* Bounds of the figures; where both are the same, the figure is known. */
static void set_bounds(const cleave_link_sample *samples, int32_t n, double *lower, double *upper) {
    const cleave_link_sample *post = find_extreme(samples, n, CLEAVE_LINK_POST, false),
                             *small = find_extreme(samples, n, CLEAVE_LINK_ONE_WAY, false),
                             *large = find_extreme(samples, n, CLEAVE_LINK_ONE_WAY, true);
    double overhead = post != NULL ? post->seconds : 0;
    double latency = small != NULL ? small->seconds - overhead : 0;
    lower[OVERHEAD] = upper[OVERHEAD] = overhead / unit[OVERHEAD];
    lower[LATENCY] = upper[LATENCY] = fmax(latency, least_latency) / unit[LATENCY];
    lower[LINK_PER_BYTE] =
        large != NULL ? least_share * large->seconds / large->bytes / unit[LINK_PER_BYTE] : 0;
    lower[FIRST_PER_BYTE] = lower[LINK_PER_BYTE] / 4;
}

static void set_result(const shape *of, const double *x, cleave_link_measurement *result) {
    *result = (cleave_link_measurement){
        .latency_seconds = x[LATENCY] * unit[LATENCY],
        .bytes_per_second = 1 / (x[LINK_PER_BYTE] * unit[LINK_PER_BYTE]),
        .overhead_seconds = x[OVERHEAD] * unit[OVERHEAD],
        .overhead_seconds_per_byte = x[PER_BYTE] * unit[PER_BYTE],
        .large_from_bytes = of->large_from_bytes,
        .large_seconds = of->large_from_bytes > 0 ? x[LARGE] * unit[LARGE] : 0,
        .first_bytes = of->first_bytes,
        .first_bytes_per_second =
            of->first_bytes > 0 ? 1 / (x[FIRST_PER_BYTE] * unit[FIRST_PER_BYTE]) : 0};
}

/* `off`: how far the fit is off, the sum that is least. */
static cleave_status fit_shape(const cleave_link_sample *samples, int32_t n, const shape *of,
                               double *off, cleave_link_measurement *result, cleave_error *error) {
    cleave_arena scratch = {0};
    double *features = CLEAVE_ARENA_ARRAY(&scratch, double, N_FIGURES *(size_t)n);
    double *weight = CLEAVE_ARENA_ARRAY(&scratch, double, n);
    double lower[N_FIGURES] = {0}, upper[N_FIGURES], x[N_FIGURES];
    if (features == NULL || weight == NULL) {
        cleave_arena_free(&scratch);
        return cleave_fail_memory(error, "fitting a link");
    }
    for (int f = 0; f < N_FIGURES; f++)
        upper[f] = INFINITY;
    set_bounds(samples, n, lower, upper);
    for (int32_t i = 0; i < n; i++) {
        weight[i] = sqrt(samples[i].seconds / unit[LATENCY]);
        for (int f = 0; f < N_FIGURES; f++)
            features[N_FIGURES * i + f] = parts[samples[i].kind][f] *
                                          amount(of, f, samples[i].bytes) * unit[f] /
                                          samples[i].seconds;
    }
    const cleave_least_deviations fit = {.of = "link",
                                         .n = n,
                                         .n_figures = N_FIGURES,
                                         .features = features,
                                         .weight = weight,
                                         .lower = lower,
                                         .upper = upper};
    cleave_status status = cleave_least_deviations_solve(&fit, x, off, error);
    if (status == CLEAVE_OK)
        set_result(of, x, result);
    cleave_arena_free(&scratch);
    return status;
}

cleave_status cleave_link_fit(const cleave_link_sample *samples, int32_t n, double large_from_bytes,
                              cleave_link_measurement *result, cleave_error *error) {
    static const double first_bytes[] = {0, 1 << 18, 1 << 20, 1 << 22, 1 << 24};
    double least = INFINITY;
    cleave_link_measurement best = {0};
    for (size_t f = 0; f < sizeof first_bytes / sizeof *first_bytes; f++) {
        const shape of = {first_bytes[f], large_from_bytes};
        cleave_link_measurement made = {0};
        double off = 0;
        CLEAVE_TRY(fit_shape(samples, n, &of, &off, &made, error));
        off /= f > 0 ? worth_a_figure : 1;
        if (off < least) {
            best = made;
            least = off;
        }
    }
    *result = best;
    return CLEAVE_OK;
}

/* The least squares of `large + per_byte x bytes`, the slope 0 or more; how far it is off. */
static double fit_line(const cleave_poll_sample *samples, int32_t n, cleave_poll_figures *figures) {
    double bytes = 0, polls = 0, squares = 0, products = 0, off = 0;
    for (int32_t i = 0; i < n; i++) {
        bytes += samples[i].bytes / n;
        polls += samples[i].polls / n;
    }
    for (int32_t i = 0; i < n; i++) {
        squares += (samples[i].bytes - bytes) * (samples[i].bytes - bytes);
        products += (samples[i].bytes - bytes) * (samples[i].polls - polls);
    }
    figures->per_byte = squares > 0 ? fmax(0, products / squares) : 0;
    figures->large = fmax(0, polls - figures->per_byte * bytes);
    for (int32_t i = 0; i < n; i++) {
        double difference =
            samples[i].polls - figures->large - figures->per_byte * samples[i].bytes;
        off += difference * difference;
    }
    return off;
}

void cleave_link_fit_polls(const cleave_poll_sample *samples, int32_t n, double large_from_bytes,
                           cleave_poll_figures *figures) {
    double least = INFINITY;
    for (int32_t n_small = 1; n_small < n; n_small++) {
        cleave_poll_figures made = {.large_from_bytes = samples[n_small].bytes};
        if (large_from_bytes > 0 && made.large_from_bytes != large_from_bytes)
            continue;
        for (int32_t i = 0; i < n_small; i++)
            made.small += fmax(0, samples[i].polls) / n_small;
        double off = fit_line(samples + n_small, n - n_small, &made);
        for (int32_t i = 0; i < n_small; i++)
            off += (samples[i].polls - made.small) * (samples[i].polls - made.small);
        if (off < least) {
            *figures = made;
            least = off;
        }
    }
}

int64_t cleave_link_next_polled(const cleave_poll_sample *samples, int32_t n) {
    static const double near_enough = 1.5, kib = 1024;
    cleave_poll_figures found = {0};
    cleave_link_fit_polls(samples, n, 0, &found);
    for (int32_t i = 1; i < n; i++)
        if (samples[i].bytes == found.large_from_bytes) {
            double least = samples[i - 1].bytes, between = sqrt(least * samples[i].bytes);
            between = kib * round(between / kib);
            bool is_between = between > least && between < samples[i].bytes;
            return samples[i].bytes > near_enough * least && is_between ? (int64_t)between : 0;
        }
    return 0;
}
