/* The link of a machine that has the figures that were measured: see exec/measure/measure_link.h.
 */
#ifndef CLEAVE_CLI_CALIBRATE_LINK_H
#define CLEAVE_CLI_CALIBRATE_LINK_H

#include "costmodel/machine.h"
#include "exec/measure/measure_link.h"

_Static_assert((int)CLEAVE_LINK_MAX_AGREEMENTS <= (int)CLEAVE_MAX_AGREEMENTS,
               "what is measured has room");

static inline cleave_protocol calibrate_protocol_of(const cleave_link_figures *m) {
    cleave_protocol made = {
        .large_from_bytes = m->receiving.large_from_bytes,
        .n_agreements = m->link.n_agreements,
        .first_bytes = m->link.first_bytes,
        .first_bytes_per_second = m->link.first_bytes_per_second,
        .sending = {m->sending.small, m->sending.large, m->sending.per_byte},
        .receiving = {m->receiving.small, m->receiving.large, m->receiving.per_byte}};
    for (int i = 0; i < made.n_agreements; i++)
        made.agreements[i] =
            (cleave_agreement){m->link.agreements[i].bytes, m->link.agreements[i].seconds};
    return made;
}

static inline cleave_link calibrate_link_of(const cleave_link_figures *m, int32_t from,
                                            int32_t to) {
    return (cleave_link){.from = from,
                         .to = to,
                         .bytes_per_second = m->link.bytes_per_second,
                         .latency_seconds = m->link.latency_seconds,
                         .overhead_seconds = m->link.overhead_seconds,
                         .overhead_seconds_per_byte = m->link.overhead_seconds_per_byte,
                         .protocol = calibrate_protocol_of(m)};
}

#endif
