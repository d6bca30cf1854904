/* Slots that need not be simulated, since each of their parts reads nothing but times moved by one
   amount: delta.c gives the reasons for each of the conditions here.

   A run keeps for every resource either its state or, where it is lazy, its amount: by how much it
   differs from the base.  A slot that reads what has a state compares it with the slot's record,
   and where it is moved has its amount from there on.  That is for the few slots behind what was
   simulated; the others are gone over in stretches (stretch.c). */
#include "simulator/delta/jump.h"

#include <string.h>

/* --- Amounts -------------------------------------------------------------------------------------
 */

static void set_amount(const question *q, int32_t resource, int64_t by) {
    cleave_delta *delta = q->delta;
    if (delta->lazy_by[resource] == by)
        return;
    delta->lazy_by[resource] = by;
    if (resource >= delta->n_devices)
        return;
    delta->vectors_are_stale = true;
    delta->steady_since = q->slot;
    delta_take(delta->agreeing, delta_lane_resource(delta, resource, 1));
    delta_take(delta->agreeing, delta_idle_resource(delta, resource));
}

void delta_make_lazy(const question *q, int32_t resource, int64_t by) {
    set_amount(q, resource, by);
    delta_add(q->delta->lazy, resource);
}

void delta_make_known(const question *q, int32_t resource) {
    if (delta_has(q->delta->lazy, resource))
        delta_load_one(q->delta, q->slot, resource);
}

bool delta_settle(const question *q, int32_t resource, int64_t by) {
    cleave_delta *delta = q->delta;
    int32_t group = 64 * delta->n_device_words, lane;
    if (delta->n_exceptions == delta->room_exceptions)
        return false;
    delta_exception *made = &delta->exceptions[delta->n_exceptions++];
    made->slot = q->slot;
    made->resource = resource;
    if (resource >= 3 * group)
        made->link = delta->state.links[delta_link_of(delta, resource, &lane)];
    else
        made->device = delta->state.devices[resource % group]; /* seldom */
    set_amount(q, resource, by);
    delta_add(delta->settled, resource);
    delta_take(delta->doubt, resource);
    return true;
}

/* --- Times ---------------------------------------------------------------------------------------
 */

static int64_t time_then(const question *q, const delta_placed *placed, int32_t time,
                         int32_t slot) {
    return delta_time(q->delta, &q->delta->base_view[slot], placed, time);
}

/* By how much a time of a slot has moved; of this very slot if it follows. */
static int64_t amount_of_time(const question *q, const delta_placed *placed, int32_t time,
                              int32_t slot) {
    const cleave_delta *delta = q->delta;
    const delta_view *view = &delta->view[slot], *base = &delta->base_view[slot];
    if (slot == q->slot)
        return delta->lazy_by[placed->giver[time]];
    if (view->ran)
        return delta_time(delta, view, placed, time) - delta_time(delta, base, placed, time);
    return view->vector < 0 ? view->shift - base->shift
                            : delta_amounts(delta, view->vector)[placed->giver[time]];
}

/* Waits of a fragment for times of an earlier slot: each time is moved as the lane that waits, or
   over, in both runs, before the slot. */
static bool waits_follow_in(const question *q, const delta_placed *placed, const delta_wait *waits,
                            int32_t n_waits, int32_t slot) {
    const cleave_delta *delta = q->delta;
    const delta_view *view = &delta->view[slot], *base = &delta->base_view[slot];
    const int64_t *then = placed->times[base->row], *now = placed->times[view->row];
    const int64_t *amounts = view->vector < 0 ? NULL : delta_amounts(delta, view->vector);
    for (int32_t i = 0; i < n_waits; i++) {
        int32_t time = waits[i].time, d = waits[i].queue >> 1;
        int64_t by = delta->lazy_by[d], moved = view->shift - base->shift;
        if (view->ran)
            moved += now[time] - then[time];
        else if (amounts != NULL)
            moved += amounts[placed->giver[time]];
        if (moved == by)
            continue;
        int64_t clock = q->record->devices[d].clock[waits[i].queue & 1] + q->shift;
        int64_t until = then[time] + base->shift;
        if (until > clock || until + moved > clock + by)
            return false;
    }
    return true;
}

/* Every device that both slots use was moved by the same amount in the earlier one. */
static bool is_moved_alike(const question *q, int32_t slot) {
    const cleave_delta *delta = q->delta;
    const delta_view *view = &delta->view[slot];
    if (view->ran)
        return false;
    return view->vector < 0 ? q->is_one && view->shift - delta->base_view[slot].shift == q->by
                            : !delta->vectors_are_stale && view->vector == delta->n_vectors - 1;
}

/* Waits for times of slots before `since`. */
static bool waits_follow(const question *q, int32_t since) {
    const cleave_delta *delta = q->delta;
    const delta_slot *of = &delta->slots[q->slot];
    for (int32_t e = 0; e < of->n_entries; e++) {
        if (of->entries[e].reaches_back >= since)
            continue;
        const delta_placed *placed = of->entries[e].placed;
        const delta_chunk *chunk = of->entries[e].chunk;
        const delta_reach *reach = placed->reaches + chunk->first_reach;
        for (int32_t r = 0; r < chunk->n_reaches && reach[r].slot < since; r++) {
            if (!chunk->has_strangers && is_moved_alike(q, reach[r].slot))
                continue;
            if (!waits_follow_in(q, placed, placed->waits + reach[r].first_wait, reach[r].n_waits,
                                 reach[r].slot))
                return false;
        }
    }
    return true;
}

/* --- Lanes ---------------------------------------------------------------------------------------
 */

static bool main_is_moved(const question *q, int32_t d, int64_t *by) {
    const cleave_scan_device *now = &q->delta->state.devices[d], *then = &q->record->devices[d];
    *by = now->clock[0] - then->clock[0];
    if (now->main_end != then->main_end + *by || now->pending != then->pending ||
        now->owed != then->owed)
        return false;
    return now->pending == 0 || (cleave_later(now->pending_begin, now->clock[0]) ==
                                     cleave_later(then->pending_begin, then->clock[0]) + *by &&
                                 cleave_later(now->pending_end, now->clock[0]) ==
                                     cleave_later(then->pending_end, then->clock[0]) + *by);
}

/* Amounts of the slot's main lanes; false: one has none, and nothing can settle it. */
static bool find_main_amounts(const question *q, const uint64_t *awaiting) {
    cleave_delta *delta = q->delta;
    for (int32_t w = 0; w < delta->n_device_words; w++) {
        delta->doubt[w] = 0;
        for (uint64_t left = q->uses[w] & ~delta->lazy[w]; left != 0; left &= left - 1) {
            int32_t d = 64 * w + __builtin_ctzll(left);
            int64_t by;
            if (main_is_moved(q, d, &by))
                delta_make_lazy(q, d, by - q->shift);
            else
                delta_add(delta->doubt, d);
        }
        if ((delta->doubt[w] & ~awaiting[w]) != 0)
            return false;
    }
    return true;
}

/* The slot's first item on a main lane is a wait: does it set all there is of the lane? */
static bool settle_main(const question *q, const delta_placed *placed, const delta_first *of) {
    cleave_delta *delta = q->delta;
    int32_t d = of->queue >> 1;
    bool is_doubtful = delta_has(delta->doubt, d), is_here = of->slot == q->slot;
    int32_t giver = placed->giver[of->time];
    if (is_here && (!is_doubtful || giver == d || delta_has(delta->doubt, giver)))
        return !is_doubtful;
    int64_t by = amount_of_time(q, placed, of->time, of->slot);
    if (!is_doubtful) {
        if (!q->unsettles)
            return true;
        delta_wait wait = {of->time, of->queue};
        if (waits_follow_in(q, placed, &wait, 1, of->slot))
            return true;
        delta_make_known(q, d);
    }
    const cleave_scan_device *now = &delta->state.devices[d], *then = &q->record->devices[d];
    int64_t until = time_then(q, placed, of->time, of->slot);
    return until > then->clock[0] + q->shift && until + by > now->clock[0] && now->pending == 0 &&
           then->pending == 0 && delta_settle(q, d, by);
}

/* And on a communication lane, where its amount has to be that of the main lane. */
static bool settle_communication(const question *q, const delta_placed *placed,
                                 const delta_first *of) {
    cleave_delta *delta = q->delta;
    int32_t d = of->queue >> 1;
    int64_t by = delta->lazy_by[d], until = time_then(q, placed, of->time, of->slot);
    return amount_of_time(q, placed, of->time, of->slot) == by &&
           until >= q->record->devices[d].clock[1] + q->shift &&
           until + by >= delta->state.devices[d].clock[1] &&
           delta_settle(q, delta_lane_resource(delta, d, 1), by);
}

/* A wait of the main lane, which follows, sets the end of its last idle time; one of the
   communication lane brings that past it, so that nothing asks for it any more. */
static bool settle_idle(const question *q, const delta_placed *placed, const delta_first *of) {
    cleave_delta *delta = q->delta;
    int32_t d = of->queue >> 1;
    const cleave_scan_device *then = &q->record->devices[d];
    int64_t by = delta->lazy_by[d], until = time_then(q, placed, of->time, of->slot);
    if (amount_of_time(q, placed, of->time, of->slot) != by)
        return true;
    bool has_no_effect = (of->queue & 1) == 0
                             ? until > then->clock[0] + q->shift
                             : until >= delta_move_idle(then->busy_from, q->shift) &&
                                   until + by >= delta->state.devices[d].busy_from;
    return !has_no_effect || delta_settle(q, delta_idle_resource(delta, d), by);
}

static bool settle_lane(const question *q, const delta_placed *placed, const delta_first *of,
                        int32_t lane) {
    cleave_delta *delta = q->delta;
    if (lane == 0)
        return (of->queue & 1) != 0 || settle_main(q, placed, of);
    int32_t d = of->queue >> 1;
    if ((of->queue & 1) != 0 && delta_has(delta->doubt, delta_lane_resource(delta, d, 1)) &&
        !settle_communication(q, placed, of))
        return false;
    return !delta_has(delta->doubt, delta_idle_resource(delta, d)) || settle_idle(q, placed, of);
}

/* Settles what it can by the waits that lanes begin the slot with: of the main lanes, or of the
   rest of the devices' resources.  False: some lane can't be settled. */
static bool settle_lanes(const question *q, const uint64_t *awaiting, int32_t lane) {
    cleave_delta *delta = q->delta;
    const delta_slot *slot = &delta->slots[q->slot];
    memset(delta->met, 0, (size_t)delta->n_words * sizeof *delta->met);
    for (int32_t e = 0; e < slot->n_entries; e++) {
        const delta_placed *placed = slot->entries[e].placed;
        const delta_chunk *chunk = slot->entries[e].chunk;
        for (int32_t f = chunk->first_first; f < chunk->first_first + chunk->n_firsts; f++) {
            const delta_first *of = &placed->firsts[f];
            int32_t resource = delta_lane_resource(delta, of->queue >> 1, of->queue & 1);
            if (!delta_has(awaiting, resource) || delta_has(delta->met, resource))
                continue;
            delta_add(delta->met, resource);
            if (!settle_lane(q, placed, of, lane))
                return false;
        }
    }
    return true;
}

static bool mains_follow(const question *q) {
    cleave_delta *delta = q->delta;
    const uint64_t *awaiting = delta_uses(delta, delta->awaiting, q->slot);
    uint64_t any = q->unsettles;
    if (!find_main_amounts(q, awaiting))
        return false;
    for (int32_t w = 0; w < delta->n_device_words; w++)
        any |= delta->doubt[w];
    if (any == 0)
        return true;
    if (!settle_lanes(q, awaiting, 0))
        return false;
    any = 0;
    for (int32_t w = 0; w < delta->n_device_words; w++)
        any |= delta->doubt[w];
    return any == 0;
}

/* Those of the slot's communication lanes, or ends of idle times, that are moved by no amount or
   another one than the main lane. */
static uint64_t doubtful(const question *q, int32_t group, int32_t word) {
    cleave_delta *delta = q->delta;
    int32_t at = group * delta->n_device_words + word;
    uint64_t found = 0;
    for (uint64_t left = q->uses[at] & ~delta->agreeing[at]; left != 0; left &= left - 1) {
        int32_t d = 64 * word + __builtin_ctzll(left), resource = 64 * at + __builtin_ctzll(left);
        int64_t by = delta->lazy_by[d];
        if (delta_has(delta->lazy, resource) && delta->lazy_by[resource] == by) {
            delta->agreeing[at] |= left & -left;
            continue;
        }
        delta_make_known(q, resource);
        const cleave_scan_device *now = &delta->state.devices[d], *then = &q->record->devices[d];
        if (group == 1 ? now->clock[1] == then->clock[1] + q->shift + by
                       : now->busy_from == delta_move_idle(then->busy_from, q->shift + by))
            delta_make_lazy(q, resource, by), delta->agreeing[at] |= left & -left;
        else
            found |= left & -left;
    }
    return delta->doubt[at] = found;
}

static bool rest_of_devices_follows(const question *q) {
    cleave_delta *delta = q->delta;
    const uint64_t *awaiting = delta_uses(delta, delta->awaiting, q->slot);
    int32_t n = delta->n_device_words;
    uint64_t any = 0;
    for (int32_t w = 0; w < n; w++) {
        uint64_t lanes = doubtful(q, 1, w);
        if ((lanes & ~awaiting[n + w]) != 0)
            return false;
        uint64_t ends = doubtful(q, 2, w);
        if ((ends & ~(awaiting[n + w] | awaiting[w])) != 0)
            return false;
        any |= lanes | ends;
    }
    if (any == 0)
        return true;
    if (!settle_lanes(q, awaiting, 1))
        return false;
    for (any = 0; n < 3 * delta->n_device_words; n++)
        any |= delta->doubt[n];
    return any == 0;
}

/* --- Jumps ---------------------------------------------------------------------------------------
 */

bool delta_are_one(const cleave_delta *delta, const uint64_t *uses, int64_t by) {
    for (int32_t w = 0; w < delta->n_device_words; w++)
        for (uint64_t left = uses[w]; left != 0; left &= left - 1)
            if (delta->lazy_by[64 * w + __builtin_ctzll(left)] != by)
                return false;
    return true;
}

static void follow_as_one(const question *q) { q->delta->view[q->slot].shift += q->delta->same_by; }

/* All parts follow: as one, where they have one amount. */
static void follow(const question *q) {
    cleave_delta *delta = q->delta;
    for (int32_t w = 0; w < delta->n_words; w++)
        delta->lazy[w] |= delta->settled[w];
    if (q->is_one) {
        if (q->by != delta->same_by) {
            delta->same_by = q->by;
            delta->uniform_since = q->slot;
            memset(delta->same, 0, (size_t)delta->n_words * sizeof *delta->same);
        }
        for (int32_t w = 0; w < delta->n_words; w++)
            delta->same[w] |= q->uses[w];
        follow_as_one(q);
        return;
    }
    delta->view[q->slot].vector = delta_current_vector(delta);
    delta->uniform_since = q->slot + 1;
}

static void find_if_one(question *q) {
    const cleave_delta *delta = q->delta;
    int32_t d = 0;
    for (int32_t w = delta->n_device_words - 1; w >= 0; w--)
        d = q->uses[w] != 0 ? 64 * w + __builtin_ctzll(q->uses[w]) : d;
    q->by = delta->lazy_by[d];
    q->is_one = delta_are_one(delta, q->uses, q->by);
}

/* Some main lane begins the slot with a wait. */
static bool mains_await(const question *q) {
    const uint64_t *awaiting = delta_uses(q->delta, q->delta->awaiting, q->slot);
    uint64_t any = 0;
    for (int32_t w = 0; w < q->delta->n_device_words; w++)
        any |= awaiting[w];
    return any != 0;
}

static bool parts_follow(question *q) {
    cleave_delta *delta = q->delta;
    int32_t n_exceptions = delta->n_exceptions;
    memset(delta->settled, 0, (size_t)delta->n_words * sizeof *delta->settled);
    if (mains_follow(q) && rest_of_devices_follows(q) && delta_chunks_follow(q)) {
        find_if_one(q);
        if (waits_follow(q, q->slot)) {
            follow(q);
            return true;
        }
        delta->n_exceptions = n_exceptions;
        if (!q->unsettles && mains_await(q)) {
            q->unsettles = true;
            return parts_follow(q);
        }
    }
    delta->n_exceptions = n_exceptions;
    return false;
}

static bool slot_follows(cleave_delta *delta, int32_t slot) {
    question q = {.delta = delta,
                  .slot = slot,
                  .shift = delta->base_view[slot].shift,
                  .record = &delta->base[slot],
                  .uses = delta_uses(delta, delta->uses, slot),
                  .is_one = true,
                  .by = delta->same_by};
    uint64_t other = 0;
    for (int32_t w = 0; w < delta->n_words; w++)
        other |= q.uses[w] & ~delta->same[w];
    if (other == 0 && (delta->slots[slot].reaches_back >= delta->uniform_since ||
                       waits_follow(&q, delta->uniform_since))) {
        follow_as_one(&q);
        return true;
    }
    delta->n_asked++;
    delta_fetch_record(delta, slot, q.uses, false);
    return parts_follow(&q);
}

int32_t delta_jump(cleave_delta *delta, int32_t slot) {
    int32_t then = delta_stretch(delta, slot);
    while (then < delta->n_slots && !delta->slot_changed[then] && slot_follows(delta, then)) {
        delta_fetch_entries(delta, ++then);
        then = delta_stretch(delta, then);
    }
    if (then > slot) {
        delta->counts.jumps++;
        delta->counts.slots_jumped += then - slot;
    }
    return then;
}
