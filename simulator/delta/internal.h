/* What the files of the delta simulation share: a fragment made ready to run at its place, and the
   step that is put together of them. */
#ifndef CLEAVE_SIMULATOR_DELTA_INTERNAL_H
#define CLEAVE_SIMULATOR_DELTA_INTERNAL_H

#include "base/arena.h"
#include "simulator/delta/delta.h"
#include "simulator/scan/scan_rule.h"

#include <stdbool.h>
#include <string.h>

/* A fragment has one row of times: arrival and release of message m at 2 m and 2 m + 1, then the
   ends of collectives, then marks. */
typedef struct delta_item {
    int64_t amount;  /* duration; of a wait: the slot whose time it waits for */
    int32_t subject; /* of a wait or a mark: a time; else a message or a collective */
    uint32_t packed; /* device << 5 | lane << 4 | cleave_scan_kind */
} delta_item;

enum { DELTA_NO_LINK = -1 };
typedef struct delta_hop {
    int64_t serialization;
    int32_t link;
} delta_hop;

typedef struct delta_collective {
    int64_t busy, rest;
    int32_t first_link, n_links;
} delta_collective;

/* Waits of a chunk for times of one earlier slot. */
typedef struct delta_reach {
    int32_t slot, first_wait, n_waits;
} delta_reach;

typedef struct delta_wait {
    int32_t time, queue;
} delta_wait;

/* The first item of a chunk on a communication lane, or of a device on its main lane, where it is a
   wait. */
typedef struct delta_first {
    int32_t queue, time, slot; /* the slot whose time it waits for */
} delta_first;

/* What a chunk's items take on the main lane of a device, in all. */
typedef struct delta_work {
    int64_t picoseconds;
    int32_t device;
} delta_work;

/* Which resources of a chunk act on one another: of every device those of its own, or all; or even
   some of another chunk of the slot, which need not have any in common with it. */
typedef enum delta_coupling { DELTA_APART, DELTA_JOINT, DELTA_WHOLE } delta_coupling;

typedef struct delta_chunk {
    delta_coupling coupling;
    bool has_strangers; /* waits of devices that the chunk does not use that gives the time */
    int32_t slot, rank;
    int32_t first_item, n_items;
    int32_t first_reach, n_reaches; /* ascending by slot */
    int32_t first_first, n_firsts;  /* in the order of the items */
    int32_t first_work, n_works;
} delta_chunk;

/* What passes need lies in one block with the head, so that a step of small fragments stays in the
   caches; what jumps need in another. */
typedef struct delta_placed {
    delta_item *items;
    int64_t *times[2];   /* [n_times] see delta_view */
    int64_t *full_times; /* [n_times] of cleave_delta_full */
    int32_t *giver;      /* [n_times] a device of the component that gives it */
    int32_t *origin;     /* [n_times] see match.c */
    delta_hop *hops;
    int32_t *hop_start;            /* [n_messages + 1] */
    delta_collective *collectives; /* of the time at first_collective, and so on */
    int32_t *links;
    int32_t first_collective, n_chunks;
    delta_chunk *chunks;
    int64_t total; /* a bound of what it adds to the step */
    int32_t n_items, n_times;
    size_t bytes; /* of both blocks */
    void *jump_block;
    uint64_t *uses; /* [n_chunks][2][n_words] resources, and the lanes of its `firsts` */
    delta_reach *reaches;
    delta_wait *waits;
    delta_first *firsts;
    delta_work *works;
} delta_placed;

/* A chunk in its slot. */
typedef struct delta_entry {
    int64_t key; /* rank, then place */
    delta_placed *placed;
    const delta_item *items;
    const delta_chunk *chunk;
    const uint64_t *uses; /* [n_words], and the lanes of its `firsts`, [n_words] */
    int32_t n_items;
    int32_t reaches_back; /* the first slot that any of its waits waits for; else its own */
    delta_coupling coupling;
} delta_entry;

typedef struct delta_slot {
    delta_entry *entries; /* ascending by key, then as the fragment has them */
    int32_t n_entries, room;
    int32_t reaches_back; /* the least of its entries' */
    int32_t n_coupled;    /* of its entries, those whose devices are not apart */
    bool has_strangers;   /* any of its chunks */
} delta_slot;

/* Where times given in a slot are found: in which of the two rows of their fragment, and what has
   to be added: `shift`, and where the slot was jumped over part by part, the amount of the time's
   device in the run's vector of that number. */
typedef struct delta_view {
    int64_t shift;
    int32_t vector; /* -1: none; of the base always */
    int16_t row;
    bool ran; /* by the current run */
} delta_view;

/* State before a slot, of what the slot uses; the slot's shift has to be added. */
typedef struct delta_link {
    _Alignas(64) cleave_scan_link state;
    /* The head that met the link first in the slot, of the main lane and of either; -1: none. */
    int64_t first_head[2];
} delta_link;

typedef struct delta_record {
    cleave_scan_device *devices; /* [n_devices] */
    delta_link *links;           /* [n_links] */
} delta_record;

/* A resource that met its slot with a time of its own, yet without effect. */
typedef struct delta_exception {
    int32_t slot, resource;
    cleave_scan_device device;
    cleave_scan_link link;
} delta_exception;

typedef struct delta_state {
    cleave_scan_device *devices; /* [n_devices] */
    cleave_scan_link *links;     /* [n_links] */
} delta_state;

typedef struct delta_change {
    int32_t place;
    delta_placed *before; /* null: nothing */
} delta_change;

/* Resources are main lanes but for the end of their last idle time, communication lanes, these
   ends, and what a link keeps of each of both lanes, every group from a new word on. */
struct cleave_delta {
    cleave_arena arena;
    int32_t n_places, n_slots, n_devices, n_links;
    int32_t first_processor; /* links from here on are what devices do for messages on their way */
    int32_t n_device_words, n_link_words, n_words; /* of a set of resources */
    int64_t *link_latency;
    delta_placed **placed; /* [n_places] */
    int64_t total;         /* of all placed */
    delta_slot *slots;
    /* What was put since the last accept or reject. */
    delta_change *changes; /* [n_places] */
    bool *is_changed;      /* [n_places] */
    int32_t n_changes;
    /* Of the latest run; and slots that any since the last accept or reject has derived anew. */
    bool *slot_changed, *slot_derived; /* [n_slots] */
    int32_t *changed, *derived;        /* [n_slots] the same slots, in no order */
    int32_t n_changed, n_derived;
    bool is_run;     /* since the last put, with records */
    bool is_timed;   /* since the last put: `step` is known */
    int64_t n_items; /* of all placed */
    int32_t share;   /* what runs lately cost against a plain pass, 1024 for as much: see pass.c */
    int32_t whole;   /* and what such passes do, which end where the step is known to be too long */
    int64_t n_compared;           /* items of what the latest run found exchanged */
    int64_t n_asked;              /* slots that it looked at, whether they follow */
    bool is_eager;                /* no plain passes: see checks.h */
    int32_t pause, longest_pause; /* runs until one is no plain pass; after which to begin with */
    int32_t accepted;             /* of the latest runs, 1024 for all */
    int32_t first_run;            /* the slot where that run started */
    int64_t step, base_step;
    /* The base, and what the run makes of it; slot n_slots is the end of the step. */
    delta_record *base, *next;    /* [n_slots + 1] */
    delta_view *base_view, *view; /* [n_slots + 1] */
    uint64_t *base_uses, *uses;   /* [n_slots + 1][n_words] */
    uint64_t *awaiting;           /* [n_slots + 1][n_words] as in the chunks, of the whole slot */
    int64_t *work;                /* [n_slots][n_devices] of main lanes, of what is put */
    int64_t *left;                /* [n_devices] of a pass or run: in the slots that are to come */
    delta_state state, full_state;
    /* Resources whose state is that of the base with something added, and not yet looked up. */
    uint64_t *lazy;   /* [n_words] */
    int64_t *lazy_by; /* [64 n_words] */
    /* See jump.c. */
    uint64_t *same;        /* [n_words] those of `lazy` that are moved by `same_by` */
    int64_t same_by;       /* see uniform_since */
    int32_t uniform_since; /* all slots from here on up to the current one are moved by same_by */
    int32_t steady_since;  /* and these all follow, and no main lane has got another amount since */
    int64_t *vectors;      /* [n_vectors][n_devices] amounts of main lanes */
    int32_t n_vectors;     /* of the run; the latest is not what lanes are now moved by ... */
    bool vectors_are_stale; /* ... if so */
    uint64_t *agreeing; /* [n_words] lazy ones of a device that are moved as its lazy main lane */
    uint64_t *doubt, *settled, *met; /* [n_words] */
    delta_exception *exceptions;
    int32_t n_exceptions, room_exceptions;
    /* Scratch of putting. */
    char *scratch;
    size_t scratch_bytes;
    int64_t *seen_queue; /* [n_queues] the last chunk that used it, counted over all puts */
    int64_t *seen_work;  /* [n_devices] the last that has work there; */
    int32_t *work_at;    /* [n_devices] its place among the chunk's */
    int64_t n_seen;
    cleave_delta_counts counts;
};

static inline int32_t delta_device(const delta_item *item) { return (int32_t)(item->packed >> 5); }
static inline int32_t delta_lane(const delta_item *item) {
    return (int32_t)(item->packed >> 4 & 1);
}
static inline cleave_scan_kind delta_kind_of(const delta_item *item) {
    return (cleave_scan_kind)(item->packed & 15);
}

/* Resources of a device, and of a link.  What uses a communication lane of a device uses its main
   lane, too; what uses a link in a main lane uses it as the communication lane, too. */
static inline int32_t delta_lane_resource(const cleave_delta *delta, int32_t device, int32_t lane) {
    return lane * 64 * delta->n_device_words + device;
}
static inline int32_t delta_idle_resource(const cleave_delta *delta, int32_t device) {
    return 128 * delta->n_device_words + device;
}
static inline int32_t delta_link_resource(const cleave_delta *delta, int32_t link, int32_t lane) {
    return 192 * delta->n_device_words + lane * 64 * delta->n_link_words + link;
}
/* The link of a resource that is none of a device, and its lane. */
static inline int32_t delta_link_of(const cleave_delta *delta, int32_t resource, int32_t *lane) {
    int32_t link = resource - 192 * delta->n_device_words, group = 64 * delta->n_link_words;
    *lane = link >= group;
    return link - *lane * group;
}
static inline bool delta_has(const uint64_t *set, int32_t resource) {
    return set[resource >> 6] >> (resource & 63) & 1;
}
static inline void delta_add(uint64_t *set, int32_t resource) {
    set[resource >> 6] |= (uint64_t)1 << (resource & 63);
}
static inline void delta_take(uint64_t *set, int32_t resource) {
    set[resource >> 6] &= ~((uint64_t)1 << (resource & 63));
}
/* [n_devices] of a vector of the run. */
static inline int64_t *delta_amounts(const cleave_delta *delta, int32_t vector) {
    return delta->vectors + (size_t)vector * (size_t)delta->n_devices;
}
/* A time as the run has it, of a slot before the current one. */
static inline int64_t delta_time(const cleave_delta *delta, const delta_view *view,
                                 const delta_placed *placed, int32_t time) {
    int64_t found = placed->times[view->row][time] + view->shift;
    return view->vector < 0 ? found
                            : found + delta_amounts(delta, view->vector)[placed->giver[time]];
}
/* Begins to bring what begins at an address into the caches, up to so many lines of it: what is far
   longer is fetched ahead by who reads it in a row. */
static inline void delta_fetch(const void *from, size_t bytes) {
    enum { LINE = 64, MOST = 8 * LINE };
    for (size_t at = 0; at < bytes && at < MOST; at += LINE)
        __builtin_prefetch((const char *)from + at);
}
static inline uint64_t *delta_uses(const cleave_delta *delta, uint64_t *uses, int32_t slot) {
    return uses + (size_t)slot * (size_t)delta->n_words;
}

/* State with `by` added to its times. */
static inline int64_t delta_move_idle(int64_t busy_from, int64_t by) {
    return busy_from == CLEAVE_SCAN_NEVER ? busy_from : busy_from + by;
}
static inline void delta_move_main(cleave_scan_device *device, const cleave_scan_device *from,
                                   int64_t by) {
    device->clock[0] = from->clock[0] + by;
    device->main_end = from->main_end + by;
    device->pending = from->pending;
    device->owed = from->owed;
    device->pending_begin = from->pending_begin + by;
    device->pending_end = from->pending_end + by;
}
/* Gives a device the main lane, the communication lane or the end of the last idle time of another
   one: `group` of the resources, 0 to 2. */
static inline void delta_move_device(cleave_scan_device *device, const cleave_scan_device *from,
                                     int32_t group, int64_t by) {
    if (group == 0)
        delta_move_main(device, from, by);
    else if (group == 1)
        device->clock[1] = from->clock[1] + by;
    else
        device->busy_from = delta_move_idle(from->busy_from, by);
}
/* Gives a link what another one keeps of a lane. */
static inline void delta_move_link(cleave_scan_link *link, const cleave_scan_link *from,
                                   int32_t lane, int64_t by) {
    link->free[lane] = from->free[lane] + by;
    if (lane == 1) {
        link->since = from->since + by;
        link->run = from->run;
        link->turn = from->turn;
    }
}

/* place.c: a fragment made ready to run; FAILED where it breaks a rule. */
cleave_status delta_place(cleave_delta *delta, int32_t place,
                          const cleave_priced_fragment *fragment, delta_placed **placed,
                          cleave_error *error);
void delta_placed_free(delta_placed *placed); /* null: nothing */

/* match.c: finds the slots that differ from the base. */
void delta_mark_changes(cleave_delta *delta);

/* pass.c */
/* Simulates what has changed since the base, and sets `step`.  Keeps records, so that it may be
   accepted; or, where that is not worth while, does not.  Ends where the step is known not to be
   below `below`, with some such step and no records. */
void delta_run_changes(cleave_delta *delta, bool must_keep, int64_t below);
/* Takes note of what became of a run. */
void delta_learn(cleave_delta *delta, bool accepted);
/* Derives what slots use and reach back to from their chunks: of all slots of which that may have
   changed since the last accept or reject. */
void delta_derive_slots(cleave_delta *delta);

/* state.c */
/* Begins to bring those of a slot's resources into the caches whose bits are the same in `lazy` as
   `are_lazy` says: records are far more than caches hold. */
void delta_fetch_record(const cleave_delta *delta, int32_t slot, const uint64_t *uses,
                        bool are_lazy);
/* And what is asked of the entries of the next slot, and the entries of the one after it. */
static inline void delta_fetch_entries(const cleave_delta *delta, int32_t slot) {
    if (slot + 2 >= delta->n_slots)
        return;
    const delta_slot *next = &delta->slots[slot + 1], *then = &delta->slots[slot + 2];
    for (int32_t e = 0; e < then->n_entries; e++)
        __builtin_prefetch(&then->entries[e]);
    for (int32_t e = 0; e < next->n_entries; e++)
        if (next->entries[e].reaches_back < slot) {
            __builtin_prefetch(next->entries[e].chunk);
            __builtin_prefetch(next->entries[e].placed);
        }
}
/* Loads the state of a lazy resource from the record of a slot. */
void delta_load_one(cleave_delta *delta, int32_t slot, int32_t resource);
/* Loads the state of those of the slot's resources that are lazy. */
void delta_load(cleave_delta *delta, int32_t slot);
/* Adds to the record and the times of a slot what it was moved by, part by part. */
void delta_move_slot(cleave_delta *delta, int32_t slot);

/* The vector of what main lanes are moved by now. */
static inline int32_t delta_current_vector(cleave_delta *delta) {
    if (delta->vectors_are_stale)
        memcpy(delta_amounts(delta, delta->n_vectors++), delta->lazy_by,
               (size_t)delta->n_devices * sizeof *delta->vectors);
    delta->vectors_are_stale = false;
    return delta->n_vectors - 1;
}

/* stretch.c: jumps over the slots from `slot` on that follow without being looked at; returns the
   next one. */
int32_t delta_stretch(cleave_delta *delta, int32_t slot);

/* jump.c: the slot to simulate next where `slot` comes next in the order: itself, or a later one
   with all between them settled. */
int32_t delta_jump(cleave_delta *delta, int32_t slot);

#endif
