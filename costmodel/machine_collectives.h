/* What a library of collectives was measured to do on a machine, as nccl-tests have it.

   Such a library takes other ways than steps of ours: it streams pieces over many channels, adds up
   as they pass, and asks no processor.  Where a machine file says what it does, every collective is
   priced by that, with

       seconds = latency + its share of the vector / bus bandwidth

   of all of them or of each collective, where each device sends 2 (n - 1) / n of the vector of an
   all-reduce, (n - 1) / n of others. Between nodes it is no quicker than a share of what their
   devices' ways out carry together. The latency there is what the library's own tables say
   (costmodel/collective_library.h), or so much for every further node to walk around.

   Where a framework's processor starts them, as Python does, and its threads carry them on, a part
   of these seconds is its own: whatever it computes meanwhile is so much later. */
#ifndef CLEAVE_COSTMODEL_MACHINE_COLLECTIVES_H
#define CLEAVE_COSTMODEL_MACHINE_COLLECTIVES_H

#include "costmodel/collective_library.h"

enum { CLEAVE_MOST_COLLECTIVE_SPANS = 64 };

/* Among so many devices of a node. */
typedef struct cleave_collective_span {
    int32_t kind;       /* of devices; -1: all that have none of their own */
    int32_t collective; /* cleave_collective_kind; -1: all that have none of their own */
    int32_t n_devices;
    double bytes_per_second, latency_seconds;
    /* Of these seconds, those of each device's processor; the second by its share of the vector. */
    double overhead_seconds, overhead_seconds_per_byte;
} cleave_collective_span;

typedef struct cleave_machine_collectives {
    const char *source;     /* null: nothing is known */
    int32_t least_devices;  /* of a collective: fewer exchange messages;
                               0: CLEAVE_LEAST_COLLECTIVE */
    int64_t together_bytes; /* of gradients that are all-reduced together, all else being sent
                               alone; 0: as the framework does (costmodel/sent_together.h) */
    int32_t n_spans;
    cleave_collective_span spans[CLEAVE_MOST_COLLECTIVE_SPANS]; /* of a kind and a collective side
                                                                   by side, by devices, ascending */
    double between_share;                     /* of the links between nodes, in (0, 1] */
    const cleave_collective_library *library; /* null: by the latency that follows, */
    double between_latency_seconds;           /* of each node after the first */
} cleave_machine_collectives;

/* A collective (cleave_collective_kind) of so many devices of one node, of which the first is of
   this kind: linear between those that are known, and as the nearest outside. */
cleave_collective_span cleave_machine_collectives_within(const cleave_machine_collectives *known,
                                                         int32_t kind, int32_t collective,
                                                         int32_t n_devices);

/* Are both of one kind and one collective? */
bool cleave_collective_spans_alike(const cleave_collective_span *a,
                                   const cleave_collective_span *b);

#endif
