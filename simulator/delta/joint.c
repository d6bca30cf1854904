/* Whether chunks that join their resources follow, with the links that they meet: delta.c gives the
   reasons. */
#include "simulator/delta/jump.h"

static bool link_is_moved(const cleave_scan_link *now, const cleave_scan_link *then, int32_t lane,
                          int64_t by) {
    return now->free[lane] == then->free[lane] + by &&
           (lane == 0 ||
            (now->since == then->since + by && now->run == then->run && now->turn == then->turn));
}

/* What a link keeps of a lane is moved as the chunk that meets it first is; or it makes nobody wait
   and is forgotten. */
static bool link_follows(const question *q, int32_t resource, int64_t by) {
    cleave_delta *delta = q->delta;
    bool has_met = delta_has(delta->met, resource);
    delta_add(delta->met, resource);
    if (has_met || (delta_has(delta->lazy, resource) && delta->lazy_by[resource] == by))
        return delta->lazy_by[resource] == by;
    delta_make_known(q, resource);
    int32_t lane, l = delta_link_of(delta, resource, &lane);
    const delta_link *then = &q->record->links[l];
    const cleave_scan_link *now = &delta->state.links[l];
    if (link_is_moved(now, &then->state, lane, q->shift + by)) {
        delta_make_lazy(q, resource, by);
        return true;
    }
    int64_t head = then->first_head[lane];
    int64_t pause_then = head - then->state.free[lane];
    int64_t pause_now = head + q->shift + by - now->free[lane];
    return pause_then >= 0 && pause_now >= 0 &&
           (lane == 0 || (pause_then > then->state.turn && pause_now > now->turn)) &&
           delta_settle(q, resource, by);
}

static bool chunk_follows(const question *q, const delta_entry *entry) {
    cleave_delta *delta = q->delta;
    const uint64_t *uses = entry->uses;
    int64_t by = delta->lazy_by[delta_device(entry->items)];
    if (!delta_are_one(delta, entry->coupling == DELTA_WHOLE ? q->uses : uses, by))
        return false;
    for (int32_t w = 3 * delta->n_device_words; w < delta->n_words; w++) {
        uint64_t known = by == delta->same_by ? uses[w] & delta->same[w] & ~delta->met[w] : 0;
        delta->met[w] |= known;
        for (uint64_t left = uses[w] & ~known; left != 0; left &= left - 1)
            if (!link_follows(q, 64 * w + __builtin_ctzll(left), by))
                return false;
    }
    return true;
}

bool delta_chunks_follow(const question *q) {
    cleave_delta *delta = q->delta;
    const delta_slot *slot = &delta->slots[q->slot];
    if (slot->n_coupled == 0)
        return true;
    memset(delta->met, 0, (size_t)delta->n_words * sizeof *delta->met);
    for (int32_t e = 0; e < slot->n_entries; e++)
        if (slot->entries[e].coupling != DELTA_APART && !chunk_follows(q, &slot->entries[e]))
            return false;
    return true;
}
