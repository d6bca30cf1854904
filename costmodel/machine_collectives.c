#include "costmodel/machine_collectives.h"

bool cleave_collective_spans_alike(const cleave_collective_span *a,
                                   const cleave_collective_span *b) {
    return a->kind == b->kind && a->collective == b->collective;
}

/* 0: is not of these; the more the closer, where a kind of devices counts for more than what they
   do. */
static int closeness_of(const cleave_collective_span *span, int32_t kind, int32_t collective) {
    if ((span->kind >= 0 && span->kind != kind) ||
        (span->collective >= 0 && span->collective != collective))
        return 0;
    return 1 + 2 * (span->kind >= 0) + (span->collective >= 0);
}

/* The first of the closest spans; of others where there is none. */
static int32_t find_first(const cleave_machine_collectives *known, int32_t kind,
                          int32_t collective) {
    int32_t first = 0;
    int closest = 0;
    for (int32_t i = 0; i < known->n_spans; i++)
        if (closeness_of(&known->spans[i], kind, collective) > closest) {
            closest = closeness_of(&known->spans[i], kind, collective);
            first = i;
        }
    return first;
}

static double between(double a, double b, double share) { return a + share * (b - a); }

cleave_collective_span cleave_machine_collectives_within(const cleave_machine_collectives *known,
                                                         int32_t kind, int32_t collective,
                                                         int32_t n_devices) {
    int32_t i = find_first(known, kind, collective), end = i + 1;
    while (end < known->n_spans &&
           cleave_collective_spans_alike(&known->spans[end], &known->spans[i]))
        end++;
    while (i + 1 < end && n_devices > known->spans[i + 1].n_devices)
        i++;
    const cleave_collective_span *at = &known->spans[i];
    if (i + 1 == end || n_devices <= at->n_devices)
        return *at;
    double share = (double)(n_devices - at->n_devices) / (at[1].n_devices - at->n_devices);
    return (cleave_collective_span){
        .kind = at->kind,
        .collective = at->collective,
        .n_devices = n_devices,
        .bytes_per_second = between(at->bytes_per_second, at[1].bytes_per_second, share),
        .latency_seconds = between(at->latency_seconds, at[1].latency_seconds, share),
        .overhead_seconds = between(at->overhead_seconds, at[1].overhead_seconds, share),
        .overhead_seconds_per_byte =
            between(at->overhead_seconds_per_byte, at[1].overhead_seconds_per_byte, share)};
}
