/* The step as fragments side by side, and what is kept of it from run to run.  Fragments are made
   ready in place.c; match.c finds which slots differ from the base, the passes over them are in
   pass.c, the jumps over others in jump.c and joint.c, and over stretches of them in stretch.c, the
   state of the base in state.c.

   The idea.  The rule of time is made of sums and comparisons only (scan_rule.h, link.h).  So if
   all that a part of a slot reads - the state of its lanes and links, the times it waits for - is
   what it was at the last accepted run, the base, with one amount added, then all that it writes is
   what it was with that amount added: times are integers, so to the bit.  Parts that have no
   resource in common may be moved by different amounts.  A run starts at the first changed slot
   with the state that the base had there, simulates slot by slot, and whenever every part of a slot
   that is not changed reads nothing but times moved by one amount, notes the amounts instead of
   simulating the slot.

   Parts.  Without messages and collectives a device of a slot is a part: its main lane, and where
   the slot uses them its communication lane and the end of its last idle time.  A chunk that posts
   or joins makes its devices and links one part (DELTA_JOINT), which is coarser than need be, but
   simple; one that waits for another chunk's time of the same slot, on a device that this one does
   not use, all of the slot (DELTA_WHOLE).

   What is kept.  For each slot a record: the state before the slot of the resources that the slot
   uses (main lanes, the ends of their last idle times, communication lanes, links), and one shift
   to be added to it; for each fragment the times that its waits ask for, with the shift of the slot
   that gave them.  While a run is under way a slot may have moved by a vector instead, an amount
   per device; accepting adds that to the record and the times one by one.  A resource that a slot
   does not use is not in its record, so whatever state it carries past the slot is neither kept nor
   wrong there: before slot s its state is what stands in the next record from s on that has it, and
   the record of slot n_slots, the end, has all.

   Processors, in what they do for messages on their way, are links like any other, the last ones,
   which a message reaches behind its own: the source's, and at the same time the destination's.
   Their work charges the main lanes of these two, which are used in the chunk, since both have
   posted there before. What a communication lane has posted may ask for the end of a last idle
   time, too, and counts as using the communication lanes of both.

   Lazy state.  Of a resource that has not been touched since the start, or since it was found
   moved, only the amount is known that its state differs by from the base.  It is looked up when a
   slot uses it that is simulated; also when a changed slot used it in the base, since that is where
   base and run part.

   When a part follows the base (jump.c) is decided on what it can read, `the amount` being that of
   the part:
   - Main lane: its clock and the end of its last item are moved; nothing is pending, or the same
     work, with both its ends moved after each was brought up to the clock.  (An end before the
   clock is not told from the clock itself: the next main item that takes time starts no earlier
   than the clock, so it ends after the begin, and what is left over is none.)
     Of the work, as much is owed for messages.
   - The end of its last idle time, busy_from, is a resource by itself: waits of the main lane may
     set it, work of the communication lane asks for it, and slots in which all devices only compute
     do not touch it, however different it is.  It is moved, or never again asked for in both runs
     (NEVER); or the communication lane begins the slot with a wait for a moved time that is no
     earlier, in both runs, so that nothing asks for it from there on; or the main lane begins the
     slot with one that it idles for, which sets it.
   - Communication lane: its clock is moved; or the lane's first item in the slot is a wait whose
   time is moved and is no earlier, in both runs, than the clock: after it the clock is moved. A
   slot that uses this lane counts as using the main lane too, which it charges.
   - Main lane, likewise: the device's first item in the slot is a main wait for a moved time that
     is later than the clock in both runs, and nothing is pending in either: it sets all there is.
   - Link, in a main lane: the time it is free is moved; or it is free, in both runs, before the
   first transfer of a main lane in the slot reaches it, so that it makes nobody wait.  That
   transfer's head is in the record.  It is itself moved, by induction over the transfers of the
   slot.
   - Link, in communication lanes: all times of it are moved, and the lengths of run and turn are
   what they were; or it has been free for longer than a turn, in both runs, when the first transfer
   of either lane reaches it: then nobody waits, and a new row begins.
   - Waits for a time of an earlier slot: that time is moved; or it is over, in both runs, before
     the slot starts on that lane.
   Messages and collectives begin and end within a chunk, so they carry nothing else from slot to
   slot.  What differs without effect is written into the record where it was met (an exception),
   when the run is accepted: the record is then true of the whole resource, for runs to come that
   put something else there.

   A run keeps records of what it simulates, so that it can be accepted, where runs are accepted
   often; else only who accepts runs again, with records (pass.c).

   Accepting swaps the records of simulated slots and adds to the shifts of the others; rejecting
   only takes back what was put. */
#include "simulator/delta/checks.h"
#include "simulator/delta/internal.h"
#include "simulator/step/priced_check.h"

#include <stdlib.h>
#include <string.h>

cleave_status cleave_delta_run_below(cleave_delta *delta, int64_t below, int64_t *step,
                                     cleave_error *error) {
    (void)error; /* what could be wrong was refused when it was put */
    if (delta->n_changes > 0 && !delta->is_timed)
        delta_run_changes(delta, false, below);
    *step = delta->n_changes > 0 ? delta->step : delta->base_step;
    return CLEAVE_OK;
}

/* --- Changes -----------------------------------------------------------------------------------
 */

static void add_work(cleave_delta *delta, const delta_placed *placed, const delta_chunk *chunk,
                     int64_t sign) {
    int64_t *work = delta->work + (size_t)chunk->slot * (size_t)delta->n_devices;
    for (int32_t i = chunk->first_work; i < chunk->first_work + chunk->n_works; i++)
        work[placed->works[i].device] += sign * placed->works[i].picoseconds;
}

/* Takes the chunks of a fragment out of their slots ... */
static void take_out(cleave_delta *delta, const delta_placed *placed) {
    for (int32_t c = 0; placed != NULL && c < placed->n_chunks; c++) {
        int32_t slot = placed->chunks[c].slot, n = 0;
        delta_slot *of = &delta->slots[slot];
        for (int32_t e = 0; e < of->n_entries; e++)
            if (of->entries[e].placed != placed)
                of->entries[n++] = of->entries[e];
        of->n_entries = n;
        add_work(delta, placed, &placed->chunks[c], -1);
    }
}

/* ... and puts them in, where there is room. */
static void put_in(cleave_delta *delta, int32_t place, delta_placed *placed) {
    for (int32_t c = 0; placed != NULL && c < placed->n_chunks; c++) {
        const delta_chunk *chunk = &placed->chunks[c];
        delta_slot *of = &delta->slots[chunk->slot];
        delta_entry entry = {.key = (int64_t)chunk->rank * INT64_C(0x100000000) + place,
                             .placed = placed,
                             .items = placed->items + chunk->first_item,
                             .uses = delta_uses(delta, placed->uses, 2 * c),
                             .n_items = chunk->n_items,
                             .chunk = chunk,
                             .reaches_back = chunk->n_reaches > 0
                                                 ? placed->reaches[chunk->first_reach].slot
                                                 : chunk->slot,
                             .coupling = chunk->coupling};
        int32_t at = of->n_entries++;
        for (; at > 0 && of->entries[at - 1].key > entry.key; at--)
            of->entries[at] = of->entries[at - 1];
        of->entries[at] = entry;
        add_work(delta, placed, chunk, 1);
    }
}

/* Begins to bring the slots of a fragment into the caches; then their entries. */
static void fetch_slots(const cleave_delta *delta, const delta_placed *placed, bool entries) {
    for (int32_t c = 0; placed != NULL && c < placed->n_chunks; c++) {
        const delta_slot *of = &delta->slots[placed->chunks[c].slot];
        delta_fetch(entries ? (const void *)of->entries : of,
                    entries ? (size_t)of->n_entries * sizeof *of->entries : sizeof *of);
    }
}

/* Room for every chunk beside what is there. */
static cleave_status make_room(cleave_delta *delta, const delta_placed *placed,
                               cleave_error *error) {
    int32_t needed = 0;
    for (int32_t c = 0; placed != NULL && c < placed->n_chunks; c++) {
        bool is_first = c == 0 || placed->chunks[c - 1].slot != placed->chunks[c].slot;
        delta_slot *of = &delta->slots[placed->chunks[c].slot];
        needed = (is_first ? of->n_entries : needed) + 1;
        if (needed <= of->room)
            continue;
        delta_entry *entries = realloc(of->entries, 2 * (size_t)needed * sizeof *entries);
        if (entries == NULL)
            return cleave_fail_memory(error, "putting a fragment");
        of->entries = entries;
        of->room = 2 * needed;
    }
    return CLEAVE_OK;
}

static cleave_status check_place(const cleave_delta *delta, int32_t place, cleave_error *error) {
    return place >= 0 && place < delta->n_places
               ? CLEAVE_OK
               : cleave_fail(error, CLEAVE_FAILED, "place %d of %d", place, delta->n_places);
}

static void count_items(cleave_delta *delta, const delta_placed *placed, int64_t sign) {
    delta->n_items += placed == NULL ? 0 : sign * placed->n_items;
}

cleave_status cleave_delta_make(cleave_delta *delta, int32_t place,
                                const cleave_priced_fragment *fragment, cleave_delta_made **made,
                                cleave_error *error) {
    CLEAVE_TRY(check_place(delta, place, error));
    return delta_place(delta, place, fragment, made, error);
}

cleave_status cleave_delta_put(cleave_delta *delta, int32_t place, cleave_delta_made *placed,
                               cleave_error *error) {
    CLEAVE_TRY(check_place(delta, place, error));
    delta_placed *there = delta->placed[place];
    int64_t total = delta->total - (there == NULL ? 0 : there->total);
    if (placed != NULL && placed->total > INT64_MAX / 4 - total)
        return cleave_fail_too_long(error);
    fetch_slots(delta, there, false);
    fetch_slots(delta, placed, false);
    fetch_slots(delta, there, true);
    fetch_slots(delta, placed, true);
    CLEAVE_TRY(make_room(delta, placed, error));
    take_out(delta, there);
    put_in(delta, place, placed);
    count_items(delta, there, -1);
    count_items(delta, placed, 1);
    if (!delta->is_changed[place])
        delta->changes[delta->n_changes++] = (delta_change){place, there};
    delta->is_changed[place] = true;
    delta->placed[place] = placed;
    delta->total = total + (placed == NULL ? 0 : placed->total);
    delta->is_run = delta->is_timed = false;
    return CLEAVE_OK;
}

size_t cleave_delta_made_bytes(const cleave_delta_made *made) { return made->bytes; }

void cleave_delta_unmake(cleave_delta_made *made) { delta_placed_free(made); }

/* Writes the state in which a resource truly met a slot into the slot's record. */
static void keep_exception(cleave_delta *delta, const delta_exception *of) {
    delta_record *record = &delta->base[of->slot];
    int64_t shift = delta->base_view[of->slot].shift;
    int32_t group = 64 * delta->n_device_words, lane;
    if (of->resource >= 3 * group) {
        int32_t link = delta_link_of(delta, of->resource, &lane);
        delta_move_link(&record->links[link].state, &of->link, lane, -shift);
    } else {
        delta_move_device(&record->devices[of->resource % group], &of->device, of->resource / group,
                          -shift);
    }
}

static void forget_changes(cleave_delta *delta) {
    for (int32_t c = 0; c < delta->n_changes; c++)
        delta->is_changed[delta->changes[c].place] = false;
    delta->n_changes = 0;
    delta->is_run = delta->is_timed = false;
    for (int32_t i = 0; i < delta->n_derived; i++)
        delta->slot_derived[delta->derived[i]] = false;
    delta->n_derived = 0;
}

void cleave_delta_accept(cleave_delta *delta) {
    if (delta->n_changes == 0)
        return;
    if (!delta->is_run)
        delta_run_changes(delta, true, INT64_MAX);
    delta_learn(delta, true);
    for (int32_t s = delta->first_run; s <= delta->n_slots; s++) {
        if (s == delta->n_slots || delta->view[s].ran) {
            delta_record kept = delta->base[s];
            delta->base[s] = delta->next[s];
            delta->next[s] = kept;
        }
        if (s == delta->n_slots)
            break;
        if (delta->view[s].vector >= 0)
            delta_move_slot(delta, s);
        delta->base_view[s] = delta->view[s];
        delta->base_view[s].vector = -1;
        delta->base_view[s].ran = false;
        if (delta->slot_changed[s])
            memcpy(delta_uses(delta, delta->base_uses, s), delta_uses(delta, delta->uses, s),
                   (size_t)delta->n_words * sizeof *delta->uses);
    }
    for (int32_t e = 0; e < delta->n_exceptions; e++)
        keep_exception(delta, &delta->exceptions[e]);
    delta->base_step = delta->step;
    forget_changes(delta);
}

void cleave_delta_reject(cleave_delta *delta) {
    if (delta->n_changes > 0)
        delta_learn(delta, false);
    for (int32_t c = 0; c < delta->n_changes; c++) {
        int32_t place = delta->changes[c].place;
        delta_placed *placed = delta->placed[place], *before = delta->changes[c].before;
        take_out(delta, placed);
        delta->total += (before == NULL ? 0 : before->total) - (placed == NULL ? 0 : placed->total);
        count_items(delta, placed, -1);
        count_items(delta, before, 1);
        delta->placed[place] = NULL;
    }
    for (int32_t c = 0; c < delta->n_changes; c++) {
        int32_t place = delta->changes[c].place;
        delta->placed[place] = delta->changes[c].before;
        put_in(delta, place, delta->placed[place]);
    }
    delta_derive_slots(delta);
    forget_changes(delta);
}

/* --- Life --------------------------------------------------------------------------------------
 */

static bool take_records(cleave_delta *delta, delta_record **records) {
    size_t n = (size_t)delta->n_slots + 1, n_devices = (size_t)delta->n_devices;
    size_t n_links = (size_t)delta->n_links;
    *records = CLEAVE_ARENA_ARRAY(&delta->arena, delta_record, n);
    cleave_scan_device *devices =
        CLEAVE_ARENA_ARRAY(&delta->arena, cleave_scan_device, n * n_devices);
    delta_link *links = CLEAVE_ARENA_ARRAY(&delta->arena, delta_link, n * n_links);
    if (*records == NULL || devices == NULL || links == NULL)
        return false;
    for (size_t s = 0; s < n; s++)
        (*records)[s] = (delta_record){devices + s * n_devices, links + s * n_links};
    return true;
}

static bool take_memory(cleave_delta *delta) {
    cleave_arena *arena = &delta->arena;
    size_t n_slots = (size_t)delta->n_slots + 1, n_words = (size_t)delta->n_words;
    bool all = true;
#define TAKE(member, type, count) all &= (member = CLEAVE_ARENA_ARRAY(arena, type, (count))) != NULL
    TAKE(delta->link_latency, int64_t, delta->n_links);
    TAKE(delta->placed, delta_placed *, delta->n_places);
    TAKE(delta->slots, delta_slot, delta->n_slots);
    TAKE(delta->changes, delta_change, delta->n_places);
    TAKE(delta->is_changed, bool, delta->n_places);
    TAKE(delta->slot_changed, bool, delta->n_slots);
    TAKE(delta->slot_derived, bool, delta->n_slots);
    TAKE(delta->changed, int32_t, delta->n_slots);
    TAKE(delta->derived, int32_t, delta->n_slots);
    TAKE(delta->base_view, delta_view, n_slots);
    TAKE(delta->view, delta_view, n_slots);
    TAKE(delta->base_uses, uint64_t, n_slots * n_words);
    TAKE(delta->uses, uint64_t, n_slots * n_words);
    TAKE(delta->awaiting, uint64_t, n_slots * n_words);
    TAKE(delta->work, int64_t, n_slots * (size_t)delta->n_devices);
    TAKE(delta->left, int64_t, delta->n_devices);
    TAKE(delta->state.devices, cleave_scan_device, delta->n_devices);
    TAKE(delta->state.links, cleave_scan_link, delta->n_links);
    TAKE(delta->full_state.devices, cleave_scan_device, delta->n_devices);
    TAKE(delta->full_state.links, cleave_scan_link, delta->n_links);
    TAKE(delta->lazy, uint64_t, n_words);
    TAKE(delta->lazy_by, int64_t, 64 * n_words);
    TAKE(delta->same, uint64_t, n_words);
    TAKE(delta->agreeing, uint64_t, n_words);
    TAKE(delta->vectors, int64_t, n_slots * (size_t)delta->n_devices);
    TAKE(delta->doubt, uint64_t, n_words);
    TAKE(delta->settled, uint64_t, n_words);
    TAKE(delta->met, uint64_t, n_words);
    TAKE(delta->exceptions, delta_exception, delta->room_exceptions);
    TAKE(delta->seen_queue, int64_t, 2 * (size_t)delta->n_devices);
    TAKE(delta->seen_work, int64_t, delta->n_devices);
    TAKE(delta->work_at, int32_t, delta->n_devices);
#undef TAKE
    return all && take_records(delta, &delta->base) && take_records(delta, &delta->next);
}

/* At the end everything is used; before the first run it is all at 0, and nobody has waited. */
static void begin_base(cleave_delta *delta) {
    uint64_t *uses = delta_uses(delta, delta->uses, delta->n_slots);
    for (int32_t d = 0; d < delta->n_devices; d++) {
        delta_add(uses, delta_lane_resource(delta, d, 0));
        delta_add(uses, delta_lane_resource(delta, d, 1));
        delta_add(uses, delta_idle_resource(delta, d));
        delta->base[delta->n_slots].devices[d].busy_from = CLEAVE_SCAN_NEVER;
    }
    for (int32_t l = 0; l < delta->n_links; l++)
        for (int32_t lane = 0; lane < 2; lane++)
            delta_add(uses, delta_link_resource(delta, l, lane));
    memcpy(delta_uses(delta, delta->base_uses, delta->n_slots), uses,
           (size_t)delta->n_words * sizeof *uses);
    for (int32_t s = 0; s < delta->n_slots; s++) {
        delta->slots[s].reaches_back = s;
        delta->base_view[s].vector = -1;
    }
}

cleave_status cleave_delta_create(const cleave_delta_shape *shape, cleave_delta **made,
                                  cleave_error *error) {
    cleave_delta *delta = calloc(1, sizeof *delta);
    if (delta == NULL)
        return cleave_fail_memory(error, "preparing delta simulation");
    delta->n_places = shape->n_places;
    delta->n_slots = shape->n_slots;
    delta->n_devices = shape->n_devices;
    delta->first_processor = shape->n_links;
    delta->n_links = shape->n_links + (shape->ends_work ? delta->n_devices : 0);
    delta->n_device_words = (delta->n_devices + 63) / 64;
    delta->n_link_words = (delta->n_links + 63) / 64;
    delta->n_words = 3 * delta->n_device_words + 2 * delta->n_link_words;
    delta->room_exceptions = 4 * (4 * delta->n_devices + 2 * delta->n_links) + 64;
    if (!take_memory(delta)) {
        cleave_delta_destroy(delta);
        return cleave_fail_memory(error, "preparing delta simulation");
    }
    if (shape->n_links > 0)
        memcpy(delta->link_latency, shape->link_latency,
               (size_t)shape->n_links * sizeof *shape->link_latency);
    delta->whole = 1024; /* to begin with, all of it */
    begin_base(delta);
    *made = delta;
    return CLEAVE_OK;
}

void cleave_delta_destroy(cleave_delta *delta) {
    if (delta == NULL)
        return;
    for (int32_t s = 0; delta->slots != NULL && s < delta->n_slots; s++)
        free(delta->slots[s].entries);
    free(delta->scratch);
    cleave_arena_free(&delta->arena);
    free(delta);
}

void cleave_delta_be_eager(cleave_delta *delta) { delta->is_eager = true; }

cleave_delta_counts cleave_delta_count(const cleave_delta *delta) { return delta->counts; }
