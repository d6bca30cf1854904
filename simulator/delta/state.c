/* State of the base with something added: of resources that are looked up, and of slots that were
   jumped over part by part and are accepted. */
#include "simulator/delta/internal.h"

#include <string.h>

void delta_fetch_record(const cleave_delta *delta, int32_t slot, const uint64_t *uses,
                        bool are_lazy) {
    const delta_record *record = &delta->base[slot];
    uint64_t flip = are_lazy ? 0 : ~(uint64_t)0;
    int32_t n = delta->n_device_words, n_links = delta->n_link_words;
    for (int32_t w = 0; w < n; w++)
        for (uint64_t left = uses[w] & (delta->lazy[w] ^ flip); left != 0; left &= left - 1)
            __builtin_prefetch(&record->devices[64 * w + __builtin_ctzll(left)]);
    for (int32_t w = 0; w < n_links; w++) {
        int32_t at = 3 * n + n_links + w;
        for (uint64_t left = uses[at] & (delta->lazy[at] ^ flip); left != 0; left &= left - 1)
            __builtin_prefetch(&record->links[64 * w + __builtin_ctzll(left)]);
    }
}

static inline void forget_lazy(cleave_delta *delta, int32_t word, uint64_t which) {
    delta->lazy[word] &= ~which;
    delta->same[word] &= ~which;
    delta->agreeing[word] &= ~which;
}

/* Takes the state of lazy resources, of a word, out of the record of a slot. */
static void load(cleave_delta *delta, int32_t slot, int32_t word, uint64_t which) {
    const delta_record *record = &delta->base[slot];
    const int64_t *by = delta->lazy_by + 64 * (size_t)word;
    int64_t shift = delta->base_view[slot].shift;
    int32_t n = delta->n_device_words, n_links = delta->n_link_words, group = 0;
    forget_lazy(delta, word, which);
    for (; group < 3 && word >= n; group++)
        word -= n;
    if (group == 3) {
        int32_t lane = word >= n_links;
        word -= lane * n_links;
        for (; which != 0; which &= which - 1) {
            int32_t at = __builtin_ctzll(which), link = 64 * word + at;
            delta_move_link(&delta->state.links[link], &record->links[link].state, lane,
                            shift + by[at]);
        }
        return;
    }
    for (; which != 0; which &= which - 1) {
        int32_t at = __builtin_ctzll(which), d = 64 * word + at;
        delta_move_device(&delta->state.devices[d], &record->devices[d], group, shift + by[at]);
    }
}

void delta_load_one(cleave_delta *delta, int32_t slot, int32_t resource) {
    load(delta, slot, resource >> 6, (uint64_t)1 << (resource & 63));
}

void delta_load(cleave_delta *delta, int32_t slot) {
    const uint64_t *uses = delta_uses(delta, delta->uses, slot);
    const uint64_t *used = delta_uses(delta, delta->base_uses, slot);
    delta_fetch_record(delta, slot, used, true);
    for (int32_t w = 0; w < delta->n_words; w++) {
        uint64_t needed = (uses[w] | used[w]) & delta->lazy[w];
        /* The next record that has it: this one, but for what only the change uses. */
        for (int32_t from = slot; needed != 0; from++) {
            uint64_t here = needed & delta_uses(delta, delta->base_uses, from)[w];
            needed &= ~here;
            if (here != 0)
                load(delta, from, w, here);
        }
    }
}

/* --- Accepting -----------------------------------------------------------------------------------
 */

/* Every link of a chunk in one component moves by the amount of any device in it. */
static void move_links(cleave_delta *delta, int32_t slot, const delta_entry *entry, int64_t by) {
    const uint64_t *uses = entry->uses;
    for (int32_t w = 3 * delta->n_device_words; w < delta->n_words; w++) {
        uint64_t left = uses[w] & ~delta->met[w];
        delta->met[w] |= left;
        for (; left != 0; left &= left - 1) {
            int32_t lane, link = delta_link_of(delta, 64 * w + __builtin_ctzll(left), &lane);
            delta_link *of = &delta->base[slot].links[link];
            delta_move_link(&of->state, &of->state, lane, by);
            of->first_head[lane] += by;
        }
    }
}

static void move_times(const delta_entry *entry, int32_t row, const int64_t *by) {
    const delta_placed *placed = entry->placed;
    int64_t *times = placed->times[row];
    for (int32_t i = 0; i < entry->n_items; i++) {
        const delta_item *item = &entry->items[i];
        cleave_scan_kind kind = delta_kind_of(item);
        int32_t subject = item->subject;
        if (kind == CLEAVE_SCAN_POSTS || kind == CLEAVE_SCAN_LAST_POST) {
            times[2 * subject] += by[placed->giver[2 * subject]];
            times[2 * subject + 1] += by[placed->giver[2 * subject]];
            i += kind == CLEAVE_SCAN_POSTS;
        } else if (kind == CLEAVE_SCAN_MARK || cleave_scan_is_last_join(kind)) {
            times[subject] += by[placed->giver[subject]];
        }
    }
}

void delta_move_slot(cleave_delta *delta, int32_t slot) {
    const uint64_t *uses = delta_uses(delta, delta->uses, slot);
    const delta_slot *of = &delta->slots[slot];
    const int64_t *by = delta_amounts(delta, delta->view[slot].vector);
    for (int32_t w = 0; w < delta->n_device_words; w++)
        for (uint64_t left = uses[w]; left != 0; left &= left - 1) {
            int32_t d = 64 * w + __builtin_ctzll(left);
            cleave_scan_device *device = &delta->base[slot].devices[d];
            for (int32_t group = 0; group < 3; group++)
                delta_move_device(device, device, group, by[d]);
        }
    memset(delta->met, 0, (size_t)delta->n_words * sizeof *delta->met);
    for (int32_t e = 0; e < of->n_entries; e++) {
        const delta_entry *entry = &of->entries[e];
        move_times(entry, delta->base_view[slot].row, by);
        if (entry->coupling != DELTA_APART)
            move_links(delta, slot, entry, by[entry->items[0].packed >> 5]);
    }
}
