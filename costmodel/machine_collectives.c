#include "costmodel/machine_collectives.h"

cleave_collective_span cleave_machine_collectives_within(const cleave_machine_collectives *known,
                                                         int32_t n_devices) {
    int32_t i = 0;
    while (i + 1 < known->n_spans && n_devices > known->spans[i + 1].n_devices)
        i++;
    const cleave_collective_span *at = &known->spans[i];
    if (i + 1 == known->n_spans || n_devices <= at->n_devices)
        return *at;
    double share = (double)(n_devices - at->n_devices) / (at[1].n_devices - at->n_devices);
    return (cleave_collective_span){
        .n_devices = n_devices,
        .bytes_per_second =
            at->bytes_per_second + share * (at[1].bytes_per_second - at->bytes_per_second),
        .latency_seconds =
            at->latency_seconds + share * (at[1].latency_seconds - at->latency_seconds)};
}
