/* Delta simulation: the time of a step by the scan's rule (engine.h), of fragments that are
   exchanged one by one.  What a change leaves as it was, or moves by one amount, is not simulated
   again; the result is that of the whole pass, bit for bit.  delta.c says how. */
#ifndef CLEAVE_SIMULATOR_DELTA_DELTA_H
#define CLEAVE_SIMULATOR_DELTA_DELTA_H

#include "base/error.h"
#include "simulator/step/priced_fragment.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct cleave_delta cleave_delta;
/* A fragment made ready for one place of one delta. */
typedef struct delta_placed cleave_delta_made;

/* What happened since creation, for benches and for the curious. */
typedef struct cleave_delta_counts {
    int64_t runs, items;  /* passes of cleave_delta_run_below, and the items they simulated */
    int64_t slots, jumps; /* slots they simulated, and how often they jumped over some */
    int64_t slots_jumped; /* slots jumped over */
    int64_t passes;       /* of the runs, those that were plain passes over everything */
} cleave_delta_counts;

typedef struct cleave_delta_shape {
    int32_t n_places, n_slots, n_devices, n_links; /* places: of fragments */
    const int64_t *link_latency;                   /* [n_links] picoseconds */
    bool ends_work;                                /* the ends of messages may have work */
} cleave_delta_shape;

/* A step of that shape without fragments yet.  FAILED when memory is short. */
cleave_status cleave_delta_create(const cleave_delta_shape *shape, cleave_delta **delta,
                                  cleave_error *error);
void cleave_delta_destroy(cleave_delta *delta); /* null: nothing */

/* A fragment is made ready for a place once and put there again and again.  What is made does not
   need the fragment any more, stands at its place or nowhere, and belongs to the caller; it must
   outlive its use: until what replaces it is accepted, or it is itself rejected, or the delta is
   destroyed.  FAILED where the fragment breaks a rule of priced_fragment.h.  Costs about as much as
   simulating it. */
cleave_status cleave_delta_make(cleave_delta *delta, int32_t place,
                                const cleave_priced_fragment *fragment, cleave_delta_made **made,
                                cleave_error *error);
/* Puts it at its place instead of what is there; null: nothing.  FAILED, with what is there left
   there, where the times of the step add up to more than fits (about 26 days). */
cleave_status cleave_delta_put(cleave_delta *delta, int32_t place, cleave_delta_made *made,
                               cleave_error *error);
size_t cleave_delta_made_bytes(const cleave_delta_made *made);
void cleave_delta_unmake(cleave_delta_made *made); /* null: nothing */

/* The time of a step of what is now put, in picoseconds, where only one below `below` is of
   interest: one that is not may be given as any that is not either, as soon as that is known.
   Either way what was put may be accepted. */
cleave_status cleave_delta_run_below(cleave_delta *delta, int64_t below, int64_t *step,
                                     cleave_error *error);

/* What was put since the last accept or reject stays, with its times as what the next run starts
   from (it runs first where nobody has) ... */
void cleave_delta_accept(cleave_delta *delta);
/* ... or goes, and everything is as it was. */
void cleave_delta_reject(cleave_delta *delta);

cleave_delta_counts cleave_delta_count(const cleave_delta *delta);

#endif
