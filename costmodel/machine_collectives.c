#include "costmodel/machine_collectives.h"

/* The first span of a kind, or that is of all. */
static int32_t find_first(const cleave_machine_collectives *known, int32_t kind) {
    int32_t of_all = 0;
    for (int32_t i = known->n_spans - 1; i >= 0; i--) {
        if (known->spans[i].kind == kind && (i == 0 || known->spans[i - 1].kind != kind))
            return i;
        of_all = known->spans[i].kind < 0 ? i : of_all;
    }
    return of_all;
}

static double between(double a, double b, double share) { return a + share * (b - a); }

cleave_collective_span cleave_machine_collectives_within(const cleave_machine_collectives *known,
                                                         int32_t kind, int32_t n_devices) {
    int32_t i = find_first(known, kind), end = i + 1;
    while (end < known->n_spans && known->spans[end].kind == known->spans[i].kind)
        end++;
    while (i + 1 < end && n_devices > known->spans[i + 1].n_devices)
        i++;
    const cleave_collective_span *at = &known->spans[i];
    if (i + 1 == end || n_devices <= at->n_devices)
        return *at;
    double share = (double)(n_devices - at->n_devices) / (at[1].n_devices - at->n_devices);
    return (cleave_collective_span){
        .kind = at->kind,
        .n_devices = n_devices,
        .bytes_per_second = between(at->bytes_per_second, at[1].bytes_per_second, share),
        .latency_seconds = between(at->latency_seconds, at[1].latency_seconds, share),
        .overhead_seconds = between(at->overhead_seconds, at[1].overhead_seconds, share),
        .overhead_seconds_per_byte =
            between(at->overhead_seconds_per_byte, at[1].overhead_seconds_per_byte, share)};
}
