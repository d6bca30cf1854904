/* Stretches: slots in a row that follow without a look at any state, entry or time, since nothing
   that they read has changed its amount.  Most of what a run jumps over is such.

   As one: all that a slot uses is moved by same_by, and so is all that it reaches back to.  Its
   parts may then act on one another as they like.

   Part by part: every main lane that the slot uses is lazy, what else it uses of a device agrees
   with the main lane, no part has more than one device or any link, and what the slot reaches back
   to has been given since any main lane has got another amount. */
#include "simulator/delta/internal.h"

static int32_t stretch_as_one(cleave_delta *delta, int32_t slot) {
    int64_t by = delta->same_by;
    for (; slot < delta->n_slots && !delta->slot_changed[slot]; slot++) {
        const uint64_t *uses = delta_uses(delta, delta->uses, slot);
        uint64_t other = 0;
        for (int32_t w = 0; w < delta->n_words; w++)
            other |= uses[w] & ~delta->same[w];
        if (other != 0 || delta->slots[slot].reaches_back < delta->uniform_since)
            break;
        delta->view[slot].shift += by;
    }
    return slot;
}

static bool is_steady(const cleave_delta *delta, int32_t slot) {
    const uint64_t *uses = delta_uses(delta, delta->uses, slot);
    int32_t n = delta->n_device_words;
    uint64_t other = 0;
    for (int32_t w = 0; w < n; w++)
        other |= (uses[w] & ~delta->lazy[w]) | (uses[n + w] & ~delta->agreeing[n + w]) |
                 (uses[2 * n + w] & ~delta->agreeing[2 * n + w]);
    return other == 0;
}

static int32_t stretch_by_parts(cleave_delta *delta, int32_t slot) {
    int32_t begin = slot;
    for (; slot < delta->n_slots && !delta->slot_changed[slot]; slot++) {
        const delta_slot *of = &delta->slots[slot];
        if (of->n_coupled > 0 || of->has_strangers || of->reaches_back < delta->steady_since ||
            !is_steady(delta, slot))
            break;
        delta->view[slot].vector = delta_current_vector(delta);
    }
    if (slot > begin)
        delta->uniform_since = slot;
    return slot;
}

int32_t delta_stretch(cleave_delta *delta, int32_t slot) {
    int32_t then = stretch_as_one(delta, slot);
    then = stretch_by_parts(delta, then);
    if (then > slot)
        delta_fetch_entries(delta, then);
    return then;
}
