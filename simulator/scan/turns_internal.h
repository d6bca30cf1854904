/* What the files of turns.h share. */
#ifndef CLEAVE_SIMULATOR_SCAN_TURNS_INTERNAL_H
#define CLEAVE_SIMULATOR_SCAN_TURNS_INTERNAL_H

#include "simulator/scan/engine_scan.h"
#include "simulator/scan/turns.h"

/* What a block of the micro-batch in between leaves for others of it: a message that is sent there,
   or a collective that is joined there. */
typedef struct turns_crossing {
    bool is_collective;
    int32_t subject;
    int32_t maker; /* block */
} turns_crossing;

typedef struct turns_crossings {
    int32_t n;
    turns_crossing *items;
    int32_t *first_made;        /* [n_blocks + 1] those that a block makes stand in a row */
    int32_t *first_read, *read; /* [n_blocks + 1]; crossings that a block reads */
} turns_crossings;

/* Also checks that blocks depend on nothing else. */
cleave_status turns_find_crossings(const cleave_turns_subject *of, cleave_arena *arena,
                                   turns_crossings *crossings, cleave_error *error);

/* Turns first .. first + count x length - 1: in each period but the first the same blocks as in the
   one before, of a micro-batch `shift` later. */
typedef struct turns_stretch {
    int32_t first, length, count, shift;
} turns_stretch;

typedef struct turns_run {
    const cleave_turns_subject *of;
    cleave_arena *arena;
    turns_crossings crossings;
    cleave_scan scan;
    int32_t ring;   /* more than micro-batches are under way at any turn */
    int64_t *store; /* [crossings][ring][2] when it is there for its reader, and for its sender */
    int32_t taken;
    int64_t n_items; /* of these turns */
} turns_run;

void turns_take(turns_run *run, int32_t turn);

static inline int64_t *turns_stored(const turns_run *run, int32_t crossing, int32_t micro_batch) {
    return &run->store[((int64_t)crossing * run->ring + micro_batch % run->ring) * 2];
}

/* Takes all turns of a stretch, or as many as have to be. */
cleave_status turns_take_stretch(turns_run *run, const turns_stretch *stretch, cleave_error *error);

#endif
