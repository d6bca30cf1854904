/* Slots that need not be simulated, since all that they read has moved by one amount: delta.c gives
   the reasons for each of the conditions here. */
#include "simulator/delta/internal.h"

#include <string.h>

/* --- State of the base, with something added -----------------------------------------------------
 */

static int64_t move_idle(int64_t busy_from, int64_t by) {
    return busy_from == CLEAVE_SCAN_NEVER ? busy_from : busy_from + by;
}

void delta_move_device(cleave_scan_device *device, const cleave_scan_device *from, int32_t group,
                       int64_t by) {
    switch (group) {
    case 0:
        device->clock[0] = from->clock[0] + by;
        device->main_end = from->main_end + by;
        device->pending = from->pending;
        device->pending_begin = from->pending == 0 ? 0 : from->pending_begin + by;
        device->pending_end = from->pending == 0 ? 0 : from->pending_end + by;
        break;
    case 1:
        device->clock[1] = from->clock[1] + by;
        break;
    default:
        device->busy_from = move_idle(from->busy_from, by);
    }
}

void delta_move_link(cleave_scan_link *link, const cleave_scan_link *from, int32_t lane,
                     int64_t by) {
    link->free[lane] = from->free[lane] + by;
    if (lane == 1) {
        link->since = from->since + by;
        link->run = from->run;
        link->turn = from->turn;
    }
}

/* Takes the state of a resource out of the record of a slot. */
static void load(cleave_delta *delta, int32_t slot, int32_t resource) {
    const delta_record *record = &delta->base[slot];
    int64_t by = delta->base_view[slot].shift + delta->lazy_by[resource];
    int32_t group = 64 * delta->n_device_words;
    delta->lazy[resource >> 6] &= ~((uint64_t)1 << (resource & 63));
    if (resource >= 3 * group) {
        int32_t lane, link = delta_link_of(delta, resource, &lane);
        delta_move_link(&delta->state.links[link], &record->links[link].state, lane, by);
    } else {
        delta_move_device(&delta->state.devices[resource % group],
                          &record->devices[resource % group], resource / group, by);
    }
}

void delta_load(cleave_delta *delta, int32_t slot) {
    const uint64_t *uses = delta_uses(delta, delta->uses, slot);
    const uint64_t *used = delta_uses(delta, delta->base_uses, slot);
    for (int32_t w = 0; w < delta->n_words; w++) {
        uint64_t needed = (uses[w] | used[w]) & delta->lazy[w];
        /* The next record that has it: this one, but for what only the change uses. */
        for (int32_t from = slot; needed != 0; from++) {
            uint64_t here = needed & delta_uses(delta, delta->base_uses, from)[w];
            needed &= ~here;
            for (; here != 0; here &= here - 1)
                load(delta, from, 64 * w + __builtin_ctzll(here));
        }
    }
}

/* --- Does a slot follow the base? ----------------------------------------------------------------
 */

/* A question: does slot `slot`, not changed, follow the base moved by `by`, where all slots from
   `first` on do? */
typedef struct question {
    cleave_delta *delta;
    int32_t first, slot;
    int64_t by;     /* of the run against the base */
    int64_t record; /* of the run against the slot's record: with the shift of the base */
} question;

static bool main_follows(const question *q, int32_t d) {
    const cleave_scan_device *now = &q->delta->state.devices[d];
    const cleave_scan_device *then = &q->delta->base[q->slot].devices[d];
    if (now->clock[0] != then->clock[0] + q->record ||
        now->main_end != then->main_end + q->record || now->pending != then->pending)
        return false;
    return now->pending == 0 ||
           (cleave_later(now->pending_begin, now->clock[0]) ==
                cleave_later(then->pending_begin, then->clock[0]) + q->record &&
            cleave_later(now->pending_end, now->clock[0]) ==
                cleave_later(then->pending_end, then->clock[0]) + q->record);
}

static bool except(const question *q, int32_t resource) {
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
        made->device = delta->state.devices[resource % group];
    return true;
}

static bool is_moved(const cleave_scan_link *now, const cleave_scan_link *then, int32_t lane,
                     int64_t by) {
    return now->free[lane] == then->free[lane] + by &&
           (lane == 0 ||
            (now->since == then->since + by && now->run == then->run && now->turn == then->turn));
}

/* What a link keeps of a lane is moved; or it makes nobody wait and is forgotten. */
static bool link_follows(const question *q, int32_t resource) {
    int32_t lane, l = delta_link_of(q->delta, resource, &lane);
    const delta_link *then = &q->delta->base[q->slot].links[l];
    const cleave_scan_link *now = &q->delta->state.links[l];
    if (is_moved(now, &then->state, lane, q->record))
        return true;
    int64_t head = then->first_head[lane];
    int64_t pause_then = head - then->state.free[lane];
    int64_t pause_now = head + q->record - now->free[lane];
    return pause_then >= 0 && pause_now >= 0 &&
           (lane == 0 || (pause_then > then->state.turn && pause_now > now->turn)) &&
           except(q, resource);
}

/* Those of the slot's resources in a word that are not known to follow; lazy ones that follow need
   no look at their state. */
static uint64_t unknown(const question *q, int32_t word, const uint64_t *uses) {
    cleave_delta *delta = q->delta;
    uint64_t left = uses[word] & ~delta->clean[word], found = left;
    for (uint64_t lazy = left & delta->lazy[word]; lazy != 0; lazy &= lazy - 1) {
        int32_t resource = 64 * word + __builtin_ctzll(lazy);
        if (delta->lazy_by[resource] == q->by)
            found &= ~(lazy & -lazy);
        else
            load(delta, q->slot, resource);
    }
    return found;
}

/* The time that a wait meets, in the base and now. */
static int64_t time_then(const question *q, const delta_placed *placed, int32_t time,
                         int32_t slot) {
    const delta_view *view = &q->delta->base_view[slot];
    return placed->times[view->row][time] + view->shift;
}
static int64_t time_now(const question *q, const delta_placed *placed, int32_t time, int32_t slot) {
    const delta_view *view = &q->delta->view[slot];
    return slot >= q->first ? time_then(q, placed, time, slot) + q->by
                            : placed->times[view->row][time] + view->shift;
}

/* Whether a lane in doubt is set right by its first item of the slot. */
static bool wait_settles(const question *q, const delta_placed *placed, const delta_first *of) {
    const cleave_scan_device *now = &q->delta->state.devices[of->queue >> 1];
    const cleave_scan_device *then = &q->delta->base[q->slot].devices[of->queue >> 1];
    int32_t lane = of->queue & 1;
    int64_t until = time_then(q, placed, of->time, of->slot);
    if (time_now(q, placed, of->time, of->slot) != until + q->by)
        return false;
    int64_t clock = then->clock[lane] + q->delta->base_view[q->slot].shift;
    if (lane == 1)
        return until >= clock && until + q->by >= now->clock[1];
    return until > clock && until + q->by > now->clock[0] && now->pending == 0 &&
           then->pending == 0;
}

/* Whether the device's first item in the slot, a wait of the main lane, which follows, sets the end
   of its last idle time; or one of the communication lane's brings that past it, so that nothing
   asks for it any more. */
static bool wait_settles_idle(const question *q, const delta_placed *placed,
                              const delta_first *of) {
    const cleave_scan_device *now = &q->delta->state.devices[of->queue >> 1];
    const cleave_scan_device *then = &q->delta->base[q->slot].devices[of->queue >> 1];
    int64_t until = time_then(q, placed, of->time, of->slot);
    int64_t recorded = until - q->delta->base_view[q->slot].shift;
    if (time_now(q, placed, of->time, of->slot) != until + q->by)
        return false;
    return (of->queue & 1) == 0 ? recorded > then->clock[0]
                                : recorded >= then->busy_from && until + q->by >= now->busy_from;
}

static bool take_doubt(const question *q, int32_t resource) {
    q->delta->doubt[resource >> 6] &= ~((uint64_t)1 << (resource & 63));
    return except(q, resource);
}

/* Settles what is in doubt of a lane that begins the slot with a wait; false: it can't be. */
static bool settle_first(const question *q, const delta_placed *placed, const delta_first *of) {
    cleave_delta *delta = q->delta;
    int32_t device = of->queue >> 1, idle = delta_idle_resource(delta, device);
    int32_t lane = delta_lane_resource(delta, device, of->queue & 1);
    if (!delta_has(delta_uses(delta, delta->awaiting, q->slot), lane))
        return true;
    if (delta_has(delta->doubt, lane) && (!wait_settles(q, placed, of) || !take_doubt(q, lane)))
        return false;
    return !delta_has(delta->doubt, idle) || !wait_settles_idle(q, placed, of) ||
           take_doubt(q, idle);
}

/* Settles all that is in doubt, by the waits that lanes begin the slot with; or false. */
static bool settle_doubts(const question *q) {
    cleave_delta *delta = q->delta;
    const delta_slot *of = &delta->slots[q->slot];
    uint64_t any = 0;
    for (int32_t e = 0; e < of->n_entries; e++) {
        const delta_placed *placed = of->entries[e].placed;
        const delta_chunk *chunk = &placed->chunks[of->entries[e].chunk];
        for (int32_t f = chunk->first_first; f < chunk->first_first + chunk->n_firsts; f++)
            if (!settle_first(q, placed, &placed->firsts[f]))
                return false;
    }
    for (int32_t w = 0; w < 3 * delta->n_device_words; w++)
        any |= delta->doubt[w];
    return any == 0;
}

/* Those of the slot's communication lanes in a word that are in doubt. */
static uint64_t doubtful_communication(const question *q, int32_t word, const uint64_t *uses) {
    const cleave_delta *delta = q->delta;
    uint64_t found = 0;
    for (uint64_t left = unknown(q, word, uses); left != 0; left &= left - 1) {
        int32_t d = 64 * (word - delta->n_device_words) + __builtin_ctzll(left);
        if (delta->state.devices[d].clock[1] !=
            delta->base[q->slot].devices[d].clock[1] + q->record)
            found |= left & -left;
    }
    return found;
}

/* And of its main lanes; ends with the first that nothing can settle. */
static uint64_t doubtful_main(const question *q, int32_t word, const uint64_t *uses,
                              uint64_t awaiting) {
    uint64_t found = 0;
    for (uint64_t left = unknown(q, word, uses); left != 0; left &= left - 1) {
        uint64_t lane = left & -left;
        if (!main_follows(q, 64 * word + __builtin_ctzll(left)))
            found |= lane;
        if ((found & ~awaiting) != 0)
            break;
    }
    return found;
}

/* And of the ends of their last idle times, which either lane may settle. */
static uint64_t doubtful_idle(const question *q, int32_t word, const uint64_t *uses) {
    const cleave_delta *delta = q->delta;
    uint64_t found = 0;
    for (uint64_t left = unknown(q, word, uses); left != 0; left &= left - 1) {
        int32_t d = 64 * (word - 2 * delta->n_device_words) + __builtin_ctzll(left);
        if (delta->state.devices[d].busy_from !=
            move_idle(delta->base[q->slot].devices[d].busy_from, q->record))
            found |= left & -left;
    }
    return found;
}

/* Where more than a quarter of the main lanes are in doubt they are hardly all settled, and it
   costs as much to see that as to simulate the slot. */
static bool lanes_follow(const question *q, const uint64_t *uses) {
    cleave_delta *delta = q->delta;
    const uint64_t *awaiting = delta_uses(delta, delta->awaiting, q->slot);
    int32_t n = delta->n_device_words, n_main = 0, n_doubtful = 0;
    uint64_t any = 0;
    for (int32_t w = 2 * n - 1; w >= 0; w--) {
        bool is_main = w < n;
        delta->doubt[w] =
            is_main ? doubtful_main(q, w, uses, awaiting[w]) : doubtful_communication(q, w, uses);
        any |= delta->doubt[w];
        if ((delta->doubt[w] & ~awaiting[w]) != 0)
            return false;
        n_main += is_main ? __builtin_popcountll(uses[w]) : 0;
        n_doubtful += is_main ? __builtin_popcountll(delta->doubt[w]) : 0;
    }
    for (int32_t w = 2 * n; w < 3 * n; w++) {
        delta->doubt[w] = doubtful_idle(q, w, uses);
        any |= delta->doubt[w];
        if ((delta->doubt[w] & ~(awaiting[w - n] | awaiting[w - 2 * n])) != 0)
            return false;
    }
    return any == 0 || (4 * n_doubtful <= n_main && settle_doubts(q));
}

static bool links_follow(const question *q, const uint64_t *uses) {
    for (int32_t w = 3 * q->delta->n_device_words; w < q->delta->n_words; w++)
        for (uint64_t left = unknown(q, w, uses); left != 0; left &= left - 1)
            if (!link_follows(q, 64 * w + __builtin_ctzll(left)))
                return false;
    return true;
}

static bool wait_follows(const question *q, const delta_placed *placed, const delta_wait *wait,
                         int32_t slot) {
    int64_t then = time_then(q, placed, wait->time, slot);
    int64_t now = time_now(q, placed, wait->time, slot);
    if (now == then + q->by)
        return true;
    int64_t clock = q->delta->base[q->slot].devices[wait->queue >> 1].clock[wait->queue & 1] +
                    q->delta->base_view[q->slot].shift;
    return then <= clock && now <= clock + q->by;
}

/* Waits of the slot for times of slots before the jump. */
static bool waits_follow(const question *q) {
    const cleave_delta *delta = q->delta;
    const delta_slot *of = &delta->slots[q->slot];
    for (int32_t e = 0; of->reaches_back < q->first && e < of->n_entries; e++) {
        if (of->entries[e].reaches_back >= q->first)
            continue;
        const delta_placed *placed = of->entries[e].placed;
        const delta_chunk *chunk = &placed->chunks[of->entries[e].chunk];
        const delta_reach *reach = placed->reaches + chunk->first_reach;
        for (int32_t r = 0; r < chunk->n_reaches && reach[r].slot < q->first; r++) {
            const delta_view *view = &delta->view[reach[r].slot];
            if (!view->ran && view->shift == delta->base_view[reach[r].slot].shift + q->by)
                continue;
            for (int32_t i = 0; i < reach[r].n_waits; i++)
                if (!wait_follows(q, placed, &placed->waits[reach[r].first_wait + i],
                                  reach[r].slot))
                    return false;
        }
    }
    return true;
}

static bool slot_follows(const question *q) {
    cleave_delta *delta = q->delta;
    const uint64_t *uses = delta_uses(delta, delta->uses, q->slot);
    int32_t n_exceptions = delta->n_exceptions;
    uint64_t unclean = 0;
    for (int32_t w = 0; w < delta->n_words; w++)
        unclean |= uses[w] & ~delta->clean[w];
    if (unclean == 0)
        return waits_follow(q);
    if (!lanes_follow(q, uses) || !links_follow(q, uses) || !waits_follow(q)) {
        delta->n_exceptions = n_exceptions;
        return false;
    }
    for (int32_t w = 0; w < delta->n_words; w++)
        delta->clean[w] |= uses[w];
    return true;
}

/* --- Jumps ---------------------------------------------------------------------------------------
 */

/* By how much a main lane has moved that the slot uses. */
static int64_t amount_of(const cleave_delta *delta, int32_t slot, int32_t d) {
    if (delta_has(delta->lazy, d))
        return delta->lazy_by[d];
    return delta->state.devices[d].clock[0] -
           (delta->base[slot].devices[d].clock[0] + delta->base_view[slot].shift);
}

/* By how much the first main lane has moved; false: the slot uses none. */
static bool first_amount(const cleave_delta *delta, int32_t slot, int64_t *by) {
    const uint64_t *uses = delta_uses(delta, delta->uses, slot);
    for (int32_t w = 0; w < delta->n_device_words; w++)
        if (uses[w] != 0) {
            *by = amount_of(delta, slot, 64 * w + __builtin_ctzll(uses[w]));
            return true;
        }
    return false;
}

/* A quick look at a few of the main lanes: it spares looking at all where they clearly differ. */
static bool looks_moved(const cleave_delta *delta, int32_t slot, int64_t by) {
    const uint64_t *uses = delta_uses(delta, delta->uses, slot);
    int n_different = 0;
    for (int k = 1; k <= 4; k++) {
        int32_t d = (int32_t)((int64_t)delta->n_devices * k / 4) - 1;
        if (d >= 0 && delta_has(uses, d))
            n_different += amount_of(delta, slot, d) != by;
    }
    return n_different < 2;
}

int32_t delta_jump(cleave_delta *delta, int32_t slot) {
    question q = {.delta = delta, .first = slot, .slot = slot};
    bool is_known = false;
    memset(delta->clean, 0, (size_t)delta->n_words * sizeof *delta->clean);
    for (; q.slot < delta->n_slots && !delta->slot_changed[q.slot]; q.slot++) {
        if (!is_known) {
            is_known = first_amount(delta, q.slot, &q.by);
            if (is_known && !looks_moved(delta, q.slot, q.by))
                break;
        }
        q.record = q.by + delta->base_view[q.slot].shift;
        if (is_known && !slot_follows(&q))
            break;
    }
    if (q.slot == slot)
        return slot;
    for (int32_t s = slot; s < q.slot; s++)
        delta->view[s].shift += q.by;
    for (int32_t w = 0; w < delta->n_words; w++) {
        delta->lazy[w] |= delta->clean[w];
        for (uint64_t left = delta->clean[w]; left != 0; left &= left - 1)
            delta->lazy_by[64 * w + __builtin_ctzll(left)] = q.by;
    }
    delta->counts.jumps++;
    delta->counts.slots_jumped += q.slot - slot;
    return q.slot;
}
