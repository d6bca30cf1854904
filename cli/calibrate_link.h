/* The link of a machine that has the figures that were measured: see exec/measure_link.h. */
#ifndef CLEAVE_CLI_CALIBRATE_LINK_H
#define CLEAVE_CLI_CALIBRATE_LINK_H

#include "costmodel/machine.h"
#include "exec/measure_link.h"

static inline cleave_link calibrate_link_of(const cleave_link_figures *m, int32_t from,
                                            int32_t to) {
    return (cleave_link){
        .from = from,
        .to = to,
        .bytes_per_second = m->link.bytes_per_second,
        .latency_seconds = m->link.latency_seconds,
        .overhead_seconds = m->link.overhead_seconds,
        .overhead_seconds_per_byte = m->link.overhead_seconds_per_byte,
        .protocol = {.large_from_bytes = m->receiving.large_from_bytes,
                     .large_seconds = m->link.large_seconds,
                     .first_bytes = m->link.first_bytes,
                     .first_bytes_per_second = m->link.first_bytes_per_second,
                     .sending = {m->sending.small, m->sending.large, m->sending.per_byte},
                     .receiving = {m->receiving.small, m->receiving.large, m->receiving.per_byte}}};
}

#endif
