/* Which slots a run has to take as changed.  A fragment that is exchanged often is in most of its
   slots what it was before: of an operator that is repeated in time, and shares its weights, one
   step's split changes little of what all other steps do.  So chunks are compared, and a slot is
   changed only where one differs.

   Chunks are alike when their items are, one by one: kind, queue, duration, the links of a message
   or a collective, the slot of what is waited for; and when what was one message, collective or
   time is one, whatever its number.  A time of the new fragment then stands for one of the old (its
   origin), whose value in the base it gets: both for slots that are not simulated, which give it,
   and for waits of slots that are, which ask how it has moved.  So chunks of slots of which another
   chunk has changed are not compared: they are simulated, and who waits for their times in another
   slot takes the old one's value by itself. */
#include "simulator/delta/internal.h"

#include <string.h>

/* Two fragments of a place, and the chunks that are looked at. */
typedef struct matching {
    const cleave_delta *delta;
    const delta_placed *then;
    delta_placed *now;
} matching;

/* The new time stands for the old one and for no other. */
static bool stands_for(const matching *m, int32_t now, int32_t then) {
    if (m->now->origin[now] < 0)
        m->now->origin[now] = then;
    return m->now->origin[now] == then;
}

/* And has its value in the base, where `slot` gives both. */
static void take_value(const matching *m, int32_t now, int32_t then, int64_t slot) {
    int32_t row = m->delta->base_view[slot].row;
    m->now->times[row][now] = m->then->times[row][then];
}

static bool messages_are_alike(const matching *m, int32_t now, int32_t then) {
    const delta_placed *new = m->now, *old = m->then;
    const delta_hop *hop = new->hops + new->hop_start[now];
    const delta_hop *other = old->hops + old->hop_start[then];
    int32_t n = new->hop_start[now + 1] - new->hop_start[now];
    if (old->hop_start[then + 1] - old->hop_start[then] != n)
        return false;
    for (int32_t h = 0; h < n; h++)
        if (hop[h].serialization != other[h].serialization || hop[h].link != other[h].link)
            return false;
    return true;
}

static bool collectives_are_alike(const matching *m, int32_t now, int32_t then) {
    const delta_collective *new = &m->now->collectives[now - m->now->first_collective];
    const delta_collective *old = &m->then->collectives[then - m->then->first_collective];
    return new->busy == old->busy &&new->rest == old->rest &&new->n_links ==
           old->n_links &&memcmp(m->now->links + new->first_link, m->then->links + old->first_link,
                                 (size_t) new->n_links * sizeof *m->now->links) == 0;
}

static bool posts_are_alike(const matching *m, int32_t now, int32_t then, bool completes,
                            int32_t slot) {
    if (!stands_for(m, 2 * now, 2 * then))
        return false;
    if (!completes)
        return true;
    if (!messages_are_alike(m, now, then) || !stands_for(m, 2 * now + 1, 2 * then + 1))
        return false;
    take_value(m, 2 * now, 2 * then, slot);
    take_value(m, 2 * now + 1, 2 * then + 1, slot);
    return true;
}

static bool items_are_alike(const matching *m, const delta_item *now, const delta_item *then,
                            int32_t slot) {
    if (now->amount != then->amount || now->packed != then->packed)
        return false;
    cleave_scan_kind kind = delta_kind_of(now);
    switch (kind) {
    case CLEAVE_SCAN_WORK:
        return true;
    case CLEAVE_SCAN_POSTS: /* and the next item says the same once more */
    case CLEAVE_SCAN_POST:
        return posts_are_alike(m, now->subject, then->subject, false, slot);
    case CLEAVE_SCAN_LAST_POST:
        return posts_are_alike(m, now->subject, then->subject, true, slot);
    case CLEAVE_SCAN_FIRST_JOIN:
    case CLEAVE_SCAN_JOIN:
        return stands_for(m, now->subject, then->subject);
    case CLEAVE_SCAN_LAST_JOIN:
    case CLEAVE_SCAN_ONLY_JOIN:
        if (!collectives_are_alike(m, now->subject, then->subject))
            return false;
        break;
    case CLEAVE_SCAN_WAIT:
        slot = (int32_t)now->amount;
        break;
    default: /* MARK */
        break;
    }
    if (!stands_for(m, now->subject, then->subject))
        return false;
    take_value(m, now->subject, then->subject, slot);
    return true;
}

static bool chunks_are_alike(const matching *m, const delta_chunk *now, const delta_chunk *then) {
    const delta_item *item = m->now->items + now->first_item;
    const delta_item *other = m->then->items + then->first_item;
    if (now->n_items != then->n_items || now->coupling != then->coupling)
        return false;
    for (int32_t i = 0; i < now->n_items; i++)
        if (!items_are_alike(m, &item[i], &other[i], now->slot))
            return false;
    return true;
}

static void mark_slot(cleave_delta *delta, int32_t slot) {
    if (delta->slot_changed[slot])
        return;
    delta->slot_changed[slot] = true;
    delta->changed[delta->n_changed++] = slot;
}

static bool is_before(const delta_chunk *a, const delta_chunk *b) {
    return a->slot != b->slot ? a->slot < b->slot : a->rank < b->rank;
}

static void mark(cleave_delta *delta, const delta_placed *then, delta_placed *now) {
    matching m = {delta, then, now};
    const delta_chunk *old = then == NULL ? NULL : then->chunks;
    const delta_chunk *end_old = then == NULL ? NULL : old + then->n_chunks;
    const delta_chunk *new = now == NULL ? NULL : now->chunks;
    const delta_chunk *end_new = now == NULL ? NULL : new + now->n_chunks;
    if (now != NULL && then != NULL)
        memset(now->origin, -1, (size_t)now->n_times * sizeof *now->origin);
    while (old < end_old || new < end_new) {
        if (new == end_new || (old < end_old && is_before(old, new)))
            mark_slot(delta, old++->slot);
        else if (old == end_old || is_before(new, old))
            mark_slot(delta, new ++->slot);
        else {
            if (!delta->slot_changed[new->slot] && !chunks_are_alike(&m, new, old))
                mark_slot(delta, new->slot);
            old++;
            new ++;
        }
    }
}

/* Begins to bring what is compared of a fragment into the caches. */
static void fetch(const delta_placed *placed) {
    if (placed == NULL)
        return;
    delta_fetch(placed->chunks, (size_t)placed->n_chunks * sizeof *placed->chunks);
    delta_fetch(placed->items, (size_t)placed->n_items * sizeof *placed->items);
}

void delta_mark_changes(cleave_delta *delta) {
    for (int32_t i = 0; i < delta->n_changed; i++)
        delta->slot_changed[delta->changed[i]] = false;
    delta->n_changed = 0;
    delta->n_compared = 0;
    for (int32_t c = 0; c < delta->n_changes; c++) {
        fetch(delta->changes[c].before);
        fetch(delta->placed[delta->changes[c].place]);
    }
    for (int32_t c = 0; c < delta->n_changes; c++) {
        delta_placed *now = delta->placed[delta->changes[c].place];
        delta->n_compared += now == NULL ? 0 : now->n_items;
        if (now != delta->changes[c].before)
            mark(delta, delta->changes[c].before, now);
    }
}
