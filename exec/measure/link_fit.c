/* A message of n bytes takes each of its ends o to post; then it takes its link n / b, and
   meanwhile each of its processors g n, one message after the other.  What takes longer counts.  In
   the order of the simulator (simulator/step/link.h) that makes

       post        o
       one way     o + latency + max(n / b, g n)
       both ways   2 o + latency + max(n / b, 2 g n)
       processor   2 (o + g n)

   where messages of many bytes may take a constant longer before their first byte is under way (MPI
   asks first whether the other end is ready for a large one), and the first bytes of a message may
   go at another rate than the rest (those that fit a cache or a buffer).  How many bytes these are
   is tried out.

   Overhead and latency are what the smallest message shows.  The others are those for which the sum
   of |fitted - measured| / sqrt(measured) is least, both ways counted thrice: what takes long
   counts more, since a step spends its time there, and a few odd samples don't count for much. With
   it known of each sample which of the two takes longer, that is a linear program; so all are taken
   to be the link's to begin with, or the processors' in both ways, or in all, and with each fit it
   is looked up again, as long as that changes anything.  The nearest of all these fits counts.

   What large messages take longer hardly shows in those that take long, and is so left to the small
   ones, of which it is looked up size by size at last.  A network that lets a short burst pass at
   more than its rate, as shaped ones do, gets the rate.  Where the processors do all the copying
   (ranks of one machine) little is left for the link, which then gets the twentieth part of the
   time of a large message at least, so that it has a bandwidth. */
#include "exec/measure/link_fit.h"

#include "base/arena.h"
#include "base/least_deviations.h"

#include <math.h>
#include <stdbool.h>

enum { OVERHEAD, PER_BYTE, LATENCY, LINK_PER_BYTE, FIRST_PER_BYTE, LARGE, N_FIGURES };
/* Of every kind: how often each figure is in it, and what only is where the link takes longer. */
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
        .n_agreements = of->large_from_bytes > 0,
        .agreements = {{of->large_from_bytes, x[LARGE] * unit[LARGE]}},
        .first_bytes = of->first_bytes,
        .first_bytes_per_second =
            of->first_bytes > 0 ? 1 / (x[FIRST_PER_BYTE] * unit[FIRST_PER_BYTE]) : 0};
}

static bool has_link(const cleave_link_sample *sample) {
    return parts[sample->kind][LINK_PER_BYTE] > 0;
}

/* How often a figure is in a sample in which the link takes longer, or the processors do. */
static double feature(const shape *of, const cleave_link_sample *sample, int figure, bool link) {
    bool of_link = figure == LINK_PER_BYTE || figure == FIRST_PER_BYTE;
    if (has_link(sample) && ((of_link && !link) || (figure == PER_BYTE && link)))
        return 0;
    return parts[sample->kind][figure] * amount(of, figure, sample->bytes) * unit[figure];
}

static double seconds_of(const shape *of, const cleave_link_sample *sample, const double *x,
                         bool link) {
    double seconds = 0;
    for (int f = 0; f < N_FIGURES; f++)
        seconds += feature(of, sample, f, link) * x[f];
    return seconds;
}

/* The messages of a step mostly go both ways at once. */
static const double weight_of_both_ways = 3;

static double weight_of(const cleave_link_sample *sample) {
    double kind = sample->kind == CLEAVE_LINK_BOTH_WAYS ? weight_of_both_ways : 1;
    return kind * sqrt(sample->seconds / unit[LATENCY]);
}

/* One shape, under way. */
typedef struct fit {
    const cleave_link_sample *samples;
    int32_t n;
    shape of;
    bool *link;                /* [n] takes longer than the processors */
    double *features, *weight; /* [n][N_FIGURES], [n] */
    double lower[N_FIGURES], upper[N_FIGURES];
} fit;

/* With `link` as it is. */
static cleave_status solve(const fit *made, double *x, cleave_error *error) {
    for (int32_t i = 0; i < made->n; i++) {
        const cleave_link_sample *sample = &made->samples[i];
        made->weight[i] = weight_of(sample);
        for (int f = 0; f < N_FIGURES; f++)
            made->features[N_FIGURES * i + f] =
                feature(&made->of, sample, f, made->link[i]) / sample->seconds;
    }
    const cleave_least_deviations problem = {.of = "link",
                                             .n = made->n,
                                             .n_figures = N_FIGURES,
                                             .features = made->features,
                                             .weight = made->weight,
                                             .lower = made->lower,
                                             .upper = made->upper};
    return cleave_least_deviations_solve(&problem, x, NULL, error);
}

/* Looks up which takes longer; returns how far figures are off.  `changed`: it was not as `link`
   had it. */
static double look_up(const fit *made, const double *x, bool *changed) {
    double off = 0;
    *changed = false;
    for (int32_t i = 0; i < made->n; i++) {
        const cleave_link_sample *sample = &made->samples[i];
        double by_link = seconds_of(&made->of, sample, x, true);
        double by_processors = seconds_of(&made->of, sample, x, false);
        bool link = by_link >= by_processors;
        off += weight_of(sample) * fabs(fmax(by_link, by_processors) / sample->seconds - 1);
        *changed = *changed || (has_link(sample) && link != made->link[i]);
        made->link[i] = link;
    }
    return off;
}

/* From one beginning; keeps what is nearer than `least`. */
static cleave_status fit_from(const fit *made, double *least, cleave_link_measurement *result,
                              cleave_error *error) {
    enum { MOST_ROUNDS = 8 };
    bool changed = true;
    for (int round = 0; round < MOST_ROUNDS && changed; round++) {
        double x[N_FIGURES];
        CLEAVE_TRY(solve(made, x, error));
        double off = look_up(made, x, &changed);
        if (off < *least) {
            set_result(&made->of, x, result);
            *least = off;
        }
    }
    return CLEAVE_OK;
}

/* `off`: how far the fit is off, the sum that is least. */
static cleave_status fit_shape(const cleave_link_sample *samples, int32_t n, const shape *of,
                               double *off, cleave_link_measurement *result, cleave_error *error) {
    enum { N_BEGINNINGS = 3 };
    cleave_arena scratch = {0};
    fit made = {.samples = samples, .n = n, .of = *of};
    cleave_status status = CLEAVE_OK;
    made.link = CLEAVE_ARENA_ARRAY(&scratch, bool, n);
    made.features = CLEAVE_ARENA_ARRAY(&scratch, double, N_FIGURES *(size_t)n);
    made.weight = CLEAVE_ARENA_ARRAY(&scratch, double, n);
    if (made.link == NULL || made.features == NULL || made.weight == NULL) {
        cleave_arena_free(&scratch);
        return cleave_fail_memory(error, "fitting a link");
    }
    for (int f = 0; f < N_FIGURES; f++)
        made.upper[f] = INFINITY;
    set_bounds(samples, n, made.lower, made.upper);
    *off = INFINITY;
    for (int beginning = 0; beginning < N_BEGINNINGS && status == CLEAVE_OK; beginning++) {
        for (int32_t i = 0; i < n; i++)
            made.link[i] =
                beginning == 0 || (beginning == 1 && samples[i].kind != CLEAVE_LINK_BOTH_WAYS);
        status = fit_from(&made, off, result, error);
    }
    cleave_arena_free(&scratch);
    return status;
}

/* What a message takes by the figures, the agreement of its ends left out. */
static double seconds_without_agreement(const cleave_link_measurement *by,
                                        const cleave_link_sample *sample) {
    double first = fmin(sample->bytes, by->first_bytes);
    double link = (sample->bytes - first) / by->bytes_per_second;
    link += first > 0 ? first / by->first_bytes_per_second : 0;
    return by->latency_seconds + parts[sample->kind][OVERHEAD] * by->overhead_seconds +
           fmax(link,
                parts[sample->kind][PER_BYTE] * by->overhead_seconds_per_byte * sample->bytes);
}

/* Of the samples of a size that cross the link, the mean of what the agreement must have taken. */
static double agreement_of(const cleave_link_measurement *by, const cleave_link_sample *samples,
                           int32_t n, double bytes) {
    double sum = 0, weights = 0;
    for (int32_t i = 0; i < n; i++)
        if (has_link(&samples[i]) && samples[i].bytes == bytes) {
            double weight = samples[i].kind == CLEAVE_LINK_BOTH_WAYS ? weight_of_both_ways : 1;
            sum += weight * (samples[i].seconds - seconds_without_agreement(by, &samples[i]));
            weights += weight;
        }
    return weights > 0 ? fmax(0, sum / weights) : 0;
}

/* The least size above some bytes that has been sampled; infinity: there is none. */
static double next_size(const cleave_link_sample *samples, int32_t n, double above) {
    double least = INFINITY;
    for (int32_t i = 0; i < n; i++)
        if (has_link(&samples[i]) && samples[i].bytes > above)
            least = fmin(least, samples[i].bytes);
    return least;
}

/* In longer ones it is less than what their bytes are off. */
static const double least_share_of_agreement = 0.05;

static bool shows_agreement(const cleave_link_measurement *by, double bytes, double seconds) {
    const cleave_link_sample one_way = {.kind = CLEAVE_LINK_ONE_WAY, .bytes = bytes};
    return seconds >= least_share_of_agreement * seconds_without_agreement(by, &one_way);
}

/* What the fit has as one figure of all large messages is, of the smallest of them, looked up size
   by size: how they are sent may change more than once. */
static void tell_agreements_apart(const cleave_link_sample *samples, int32_t n,
                                  cleave_link_measurement *made) {
    double seconds = made->agreements[0].seconds, bytes = made->large_from_bytes;
    int at = 0;
    if (made->n_agreements == 0)
        return;
    bytes = next_size(samples, n, nextafter(bytes, 0));
    for (; at < CLEAVE_LINK_MAX_AGREEMENTS - 1 && isfinite(bytes) &&
           shows_agreement(made, bytes, seconds);
         at++, bytes = next_size(samples, n, bytes)) {
        made->agreements[at].bytes = bytes;
        made->agreements[at].seconds = agreement_of(made, samples, n, bytes);
    }
    if (isfinite(bytes)) {
        made->agreements[at].bytes = bytes;
        made->agreements[at++].seconds = seconds;
    }
    made->n_agreements = at;
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
    tell_agreements_apart(samples, n, &best);
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
