/* The passes: over the whole step, and over what a change may move.  delta.c has the idea. */
#include "simulator/delta/checks.h"
#include "simulator/delta/internal.h"

#include <string.h>

/* What a chunk is run with: `links` is null in a pass that keeps no records. */
typedef struct pass {
    const cleave_delta *delta;
    delta_state state;
    const delta_view *view; /* null: every time is in the row of the pass */
    delta_link *links;      /* of the record of this slot */
} pass;

static inline void meet_link(const pass *p, int32_t link, int32_t lane, int64_t head) {
    if (p->links == NULL)
        return;
    int64_t *first = p->links[link].first_head;
    if (first[1] < 0)
        first[1] = head;
    if (lane == 0 && first[0] < 0)
        first[0] = head;
}

static inline void cross_links(const pass *p, const delta_placed *placed, int32_t message,
                               int32_t lane, int64_t head, int64_t *times) {
    const int32_t *start = placed->hop_start + message;
    const delta_hop *first = placed->hops + start[0], *end = placed->hops + start[1];
    int64_t tail = 0, release = 0;
    if (first->link == DELTA_NO_LINK)
        head += (first++)->serialization;
    for (const delta_hop *hop = first; hop < end; hop++) {
        int32_t device = hop->link - p->delta->first_processor;
        meet_link(p, hop->link, lane, head);
        if (device >= 0) { /* the source's, then the destination's */
            int64_t done =
                cleave_scan_serve_end(&p->state.links[hop->link], &p->state.devices[device], lane,
                                      hop->serialization, head, &tail);
            release = hop + 1 < end ? cleave_later(release, done) : release;
            continue;
        }
        int64_t begin =
            cleave_scan_serve(&p->state.links[hop->link], NULL, lane, hop->serialization,
                              p->delta->link_latency[hop->link], &head, &tail);
        if (hop == first)
            release = begin + hop->serialization;
    }
    times[2 * message] = tail;
    times[2 * message + 1] = release;
}

static inline void complete(const pass *p, const delta_placed *placed, int32_t time, int32_t lane,
                            int64_t *times) {
    const delta_collective *of = &placed->collectives[time - placed->first_collective];
    const int32_t *links = placed->links + of->first_link;
    for (int32_t l = 0; l < of->n_links; l++)
        meet_link(p, links[l], lane, times[time]);
    times[time] = cleave_scan_collective(times[time], of->busy, lane, links, of->n_links,
                                         p->state.links, NULL) +
                  of->rest;
}

static inline void join(const pass *p, const delta_placed *placed, const delta_item *item,
                        int64_t now, int64_t *times) {
    cleave_scan_kind kind = delta_kind_of(item);
    int32_t time = item->subject;
    times[time] = cleave_scan_join(kind, times[time], now);
    if (cleave_scan_is_last_join(kind))
        complete(p, placed, time, delta_lane(item), times);
}

static inline void run_wait(const pass *p, const delta_item *item, int64_t until) {
    cleave_scan_wait(&p->state.devices[delta_device(item)], delta_lane(item), until);
}

/* Runs the waits that an item begins, for times of one slot; returns the last one. */
static inline const delta_item *run_waits(const pass *p, const delta_placed *placed,
                                          const delta_item *item, const delta_item *end,
                                          const int64_t *times) {
    int64_t slot = item->amount;
    const delta_view *view = p->view == NULL ? NULL : &p->view[slot];
    if (view != NULL && view->vector >= 0) {
        run_wait(p, item, delta_time(p->delta, view, placed, item->subject));
        return item;
    }
    const int64_t *row = view == NULL ? times : placed->times[view->row];
    int64_t shift = view == NULL ? 0 : view->shift;
    run_wait(p, item, row[item->subject] + shift);
    for (; item + 1 < end && delta_kind_of(item + 1) == CLEAVE_SCAN_WAIT &&
           (view == NULL || item[1].amount == slot);
         item++)
        run_wait(p, item + 1, row[item[1].subject] + shift);
    return item;
}

/* Runs a chunk; the times that it gives go to the row `times` of its fragment. */
static inline __attribute__((always_inline)) void run_chunk(const pass *p, const delta_entry *entry,
                                                            int64_t *times) {
    const delta_placed *placed = entry->placed;
    const delta_item *end = entry->items + entry->n_items;
    for (const delta_item *item = entry->items; item < end; item++) {
        cleave_scan_device *device = &p->state.devices[delta_device(item)];
        int32_t lane = delta_lane(item), subject = item->subject;
        cleave_scan_kind kind = delta_kind_of(item);
        int64_t now;
        switch (kind) {
        case CLEAVE_SCAN_WORK:
            cleave_scan_work(device, lane, item->amount);
            break;
        case CLEAVE_SCAN_WAIT: /* they come in rows */
            item = run_waits(p, placed, item, end, times);
            break;
        case CLEAVE_SCAN_POSTS:
            now = cleave_scan_post(device, lane, item->amount);
            item++;
            now = cleave_later(now, cleave_scan_post(&p->state.devices[delta_device(item)],
                                                     delta_lane(item), item->amount));
            cross_links(p, placed, subject, delta_lane(item), now, times);
            break;
        case CLEAVE_SCAN_POST:
            times[2 * subject] = cleave_scan_post(device, lane, item->amount);
            break;
        case CLEAVE_SCAN_LAST_POST:
            now = cleave_scan_post(device, lane, item->amount);
            cross_links(p, placed, subject, lane, cleave_later(times[2 * subject], now), times);
            break;
        case CLEAVE_SCAN_MARK:
            times[subject] = lane == 0 ? device->main_end : device->clock[1];
            break;
        default:
            now = cleave_scan_work(device, lane, item->amount);
            join(p, placed, item, now, times);
        }
    }
}

static int64_t latest_clock(const cleave_delta *delta, const cleave_scan_device *devices) {
    int64_t step = 0;
    for (int32_t d = 0; d < delta->n_devices; d++)
        step = cleave_later(step, cleave_later(devices[d].clock[0], devices[d].clock[1]));
    return step;
}

static void reset_state(const cleave_delta *delta, const delta_state *state) {
    memset(state->devices, 0, (size_t)delta->n_devices * sizeof *state->devices);
    memset(state->links, 0, (size_t)delta->n_links * sizeof *state->links);
}

/* ---- what is to come --------------------------------------------------------------------------

   A main lane never goes back, and each of its items takes at least its time.  So the step is no
   shorter than the clock of any of them, and what its items take in the slots that are to come.  Of
   most proposals that shows that they are worse long before the end. */

static const int64_t *work_of(const cleave_delta *delta, int32_t slot) {
    return delta->work + (size_t)slot * (size_t)delta->n_devices;
}

static void expect_slots(cleave_delta *delta, int32_t first) {
    memset(delta->left, 0, (size_t)delta->n_devices * sizeof *delta->left);
    for (int32_t s = first; s < delta->n_slots; s++)
        for (int32_t d = 0; d < delta->n_devices; d++)
            delta->left[d] += work_of(delta, s)[d];
}

static void go_past(cleave_delta *delta, int32_t first, int32_t end) {
    for (int32_t s = first; s < end; s++)
        for (int32_t d = 0; d < delta->n_devices; d++)
            delta->left[d] -= work_of(delta, s)[d];
}

/* The longest of main lanes, up to here and what is left of it; where `lazy` is given, of those of
   which the state is known. */
static int64_t least_step(const cleave_delta *delta, const cleave_scan_device *devices,
                          const uint64_t *lazy) {
    int64_t least = 0;
    for (int32_t d = 0; d < delta->n_devices; d++)
        if (lazy == NULL || !delta_has(lazy, d))
            least = cleave_later(least, devices[d].clock[0] + delta->left[d]);
    return least;
}

/* ---- over everything ----------------------------------------------------------------------------
 */

/* Up to the slot `*end`, from which on nothing can make the step shorter than `below`. */
static int64_t pass_below(cleave_delta *delta, int64_t below, int32_t *end) {
    pass p = {.delta = delta, .state = delta->full_state};
    bool asks = below < INT64_MAX;
    reset_state(delta, &p.state);
    if (asks)
        expect_slots(delta, 0);
    for (int32_t s = 0; s < delta->n_slots; s++) {
        for (int32_t e = 0; e < delta->slots[s].n_entries; e++) {
            const delta_entry *entry = &delta->slots[s].entries[e];
            run_chunk(&p, entry, entry->placed->full_times);
        }
        if (!asks)
            continue;
        go_past(delta, s, s + 1);
        int64_t least = least_step(delta, p.state.devices, NULL);
        if (least >= below) {
            *end = s + 1;
            return least;
        }
    }
    *end = delta->n_slots;
    return latest_clock(delta, p.state.devices);
}

int64_t cleave_delta_full(cleave_delta *delta) {
    int32_t end;
    return pass_below(delta, INT64_MAX, &end);
}

/* ---- over what a change may move ----------------------------------------------------------------
 */

/* Records the state before a slot of what it uses. */
static void keep_record(cleave_delta *delta, int32_t slot) {
    const uint64_t *uses = delta_uses(delta, delta->uses, slot);
    delta_record *record = &delta->next[slot];
    for (int32_t w = 0; w < delta->n_device_words; w++)
        for (uint64_t left = uses[w]; left != 0; left &= left - 1) {
            int32_t d = 64 * w + __builtin_ctzll(left);
            record->devices[d] = delta->state.devices[d];
        }
    /* What main lanes use of a link is also used of communication lanes. */
    const uint64_t *links = uses + 3 * delta->n_device_words + delta->n_link_words;
    for (int32_t w = 0; w < delta->n_link_words; w++)
        for (uint64_t left = links[w]; left != 0; left &= left - 1) {
            int32_t l = 64 * w + __builtin_ctzll(left);
            record->links[l] = (delta_link){delta->state.links[l], {-1, -1}};
        }
}

static void run_slot(cleave_delta *delta, int32_t slot, bool keeps) {
    const delta_slot *of = &delta->slots[slot];
    int16_t row = !delta->base_view[slot].row;
    const pass p = {.delta = delta,
                    .state = delta->state,
                    .view = delta->view,
                    .links = keeps ? delta->next[slot].links : NULL};
    delta_load(delta, slot);
    if (keeps)
        keep_record(delta, slot);
    delta->view[slot] = (delta_view){.vector = -1, .row = row, .ran = true};
    delta->uniform_since = delta->steady_since = slot + 1;
    for (int32_t e = 0; e < of->n_entries; e++) {
        const delta_entry *entry = &of->entries[e];
        run_chunk(&p, entry, entry->placed->times[row]);
        delta->counts.items += entry->n_items;
    }
    delta->counts.slots++;
}

static void derive_slot(cleave_delta *delta, int32_t slot) {
    uint64_t *uses = delta_uses(delta, delta->uses, slot);
    delta_slot *of = &delta->slots[slot];
    uint64_t *awaiting = delta_uses(delta, delta->awaiting, slot);
    memset(uses, 0, (size_t)delta->n_words * sizeof *uses);
    memset(awaiting, 0, (size_t)delta->n_words * sizeof *awaiting);
    of->reaches_back = slot;
    of->n_coupled = 0;
    of->has_strangers = false;
    for (int32_t e = 0; e < of->n_entries; e++) {
        const delta_entry *entry = &of->entries[e];
        const uint64_t *more = entry->uses, *waiting = more + delta->n_words;
        for (int32_t w = 0; w < delta->n_words; w++) {
            awaiting[w] |= waiting[w] & ~uses[w];
            uses[w] |= more[w];
        }
        if (entry->reaches_back < of->reaches_back)
            of->reaches_back = entry->reaches_back;
        of->n_coupled += entry->coupling != DELTA_APART;
        of->has_strangers |= entry->chunk->has_strangers;
    }
}

/* What is asked of entries, and that with which they are run. */
static void fetch_slot(const cleave_delta *delta, int32_t slot) {
    const delta_slot *of = &delta->slots[slot];
    for (int32_t e = 0; e < of->n_entries; e++) {
        const delta_entry *entry = &of->entries[e];
        delta_fetch(entry->uses, 2 * (size_t)delta->n_words * sizeof *entry->uses);
        __builtin_prefetch(entry->items);
    }
}

void delta_derive_slots(cleave_delta *delta) {
    for (int32_t i = 0; i < delta->n_derived; i++)
        fetch_slot(delta, delta->derived[i]);
    for (int32_t i = 0; i < delta->n_derived; i++)
        derive_slot(delta, delta->derived[i]);
}

/* What a run costs is counted, never measured: the same proposals, the same passes.

   A run costs about as much as a pass over so many items: those that it simulates and a quarter
   more, another third where it keeps records; half of those that were exchanged, for comparing
   them; and by itself, and for each slot that it simulates, looks at or jumps over, what learn_cost
   says, fitted to what runs of recurrent and other models took.  To look at a slot of many devices
   is dear: it asks for the state and the waits of each, and caches hold the less of these the more
   devices there are.  Where the latest runs cost more than a pass from the first slot would, which
   ends where they do, the next ones are that.  Then now and then one tries all the same, ever less
   often while that fails.

   Who accepts a run without records runs it again with them: they are kept where more than a
   quarter of the latest runs were accepted.  A slot that turns out not to follow has cost a part of
   what simulating it costs; so the more of them come in a row, the more are simulated unasked. */
enum { WHOLE = 1024, KEEPING = WHOLE / 4, LONGEST_REST = 6 };
enum { COST_OF_RUN = 400, COST_OF_JUMPED = 1 };
enum { FIRST_PAUSE = 8, LONGEST_PAUSE = 1024 };

static bool is_worth_while(cleave_delta *delta) {
    if (delta->is_eager || delta->share <= delta->whole)
        return true;
    if (--delta->pause > 0)
        return false;
    delta->longest_pause *= delta->longest_pause < LONGEST_PAUSE ? 2 : 1;
    delta->pause = delta->longest_pause;
    return true;
}

static void move_towards(int32_t *average, int64_t value) {
    *average += (int32_t)((value > 2 * WHOLE ? 2 * WHOLE : value) - *average) / 4;
}

void delta_learn(cleave_delta *delta, bool accepted) {
    move_towards(&delta->accepted, accepted ? WHOLE : 0);
}

static void learn_whole(cleave_delta *delta, int32_t end) {
    move_towards(&delta->whole, WHOLE * (int64_t)end / (delta->n_slots > 0 ? delta->n_slots : 1));
}

static void pass_over_all(cleave_delta *delta, int64_t below) {
    int32_t end;
    delta->step = pass_below(delta, below, &end);
    learn_whole(delta, end);
    delta->is_run = false;
    delta->is_timed = below == INT64_MAX || delta->step < below;
    delta->counts.runs++;
    delta->counts.passes++;
}

/* Everything is as in the base, up to the first slot that is changed. */
static void begin_run(cleave_delta *delta) {
    size_t n_words = (size_t)delta->n_words;
    delta_mark_changes(delta);
    delta->first_run = delta->n_slots;
    for (int32_t i = 0; i < delta->n_changed; i++) {
        int32_t slot = delta->changed[i];
        delta->first_run = slot < delta->first_run ? slot : delta->first_run;
        if (!delta->slot_derived[slot])
            delta->derived[delta->n_derived++] = slot;
        delta->slot_derived[slot] = true;
    }
    delta_derive_slots(delta);
    memcpy(delta->view, delta->base_view, (size_t)delta->n_slots * sizeof *delta->view);
    memset(delta->lazy, 0xff, n_words * sizeof *delta->lazy);
    memset(delta->same, 0xff, n_words * sizeof *delta->same);
    memset(delta->agreeing, 0xff, n_words * sizeof *delta->agreeing);
    memset(delta->lazy_by, 0, 64 * n_words * sizeof *delta->lazy_by);
    delta->same_by = 0;
    delta->uniform_since = delta->steady_since = delta->n_vectors = 0;
    delta->vectors_are_stale = true;
    delta->n_exceptions = 0;
    delta->n_asked = 0;
}

/* Up to the slot that is returned: see pass_below. */
static int32_t run_slots(cleave_delta *delta, bool keeps, int64_t below) {
    int32_t n_failures = 0, rest = 0;
    bool asks_for_end = below < INT64_MAX;
    if (asks_for_end)
        expect_slots(delta, delta->first_run);
    for (int32_t slot = delta->first_run, then; slot < delta->n_slots; slot = then) {
        bool asks = rest == 0 && !delta->slot_changed[slot];
        delta_fetch_entries(delta, slot);
        then = asks ? delta_jump(delta, slot) : slot;
        if (then > slot) {
            n_failures = 0;
            if (asks_for_end)
                go_past(delta, slot, then);
            continue;
        }
        n_failures += asks;
        rest = asks ? (n_failures < LONGEST_REST ? n_failures : LONGEST_REST) : rest - (rest > 0);
        run_slot(delta, then++, keeps);
        if (!asks_for_end)
            continue;
        go_past(delta, slot, then);
        delta->step = least_step(delta, delta->state.devices, delta->lazy);
        if (delta->step >= below)
            return then;
    }
    return delta->n_slots;
}

static void learn_cost(cleave_delta *delta, const cleave_delta_counts *before, bool keeps) {
    const cleave_delta_counts *now = &delta->counts;
    int64_t n_items = now->items - before->items, n_slots = now->slots - before->slots;
    int64_t n_devices = delta->n_devices;
    int64_t cost_of_simulated = 8 + n_devices / 2, cost_of_asked = 6 + n_devices * n_devices / 16;
    int64_t cost = COST_OF_RUN + delta->n_compared / 2 + n_items * 5 / 4 +
                   (keeps ? n_items / 3 : 0) + n_slots * cost_of_simulated +
                   delta->n_asked * cost_of_asked +
                   (now->slots_jumped - before->slots_jumped) * COST_OF_JUMPED;
    move_towards(&delta->share, WHOLE * cost / (delta->n_items > 0 ? delta->n_items : 1));
    if (delta->share <= delta->whole)
        delta->pause = delta->longest_pause = FIRST_PAUSE;
}

void delta_run_changes(cleave_delta *delta, bool must_keep, int64_t below) {
    if (!must_keep && !is_worth_while(delta)) {
        pass_over_all(delta, below);
        return;
    }
    bool keeps = must_keep || delta->accepted > KEEPING;
    cleave_delta_counts before = delta->counts;
    begin_run(delta);
    int32_t end = run_slots(delta, keeps, below);
    bool is_whole = end == delta->n_slots;
    if (is_whole) {
        delta_load(delta, delta->n_slots);
        if (keeps)
            keep_record(delta, delta->n_slots);
        delta->step = latest_clock(delta, delta->state.devices);
    }
    learn_whole(delta, end);
    learn_cost(delta, &before, keeps);
    delta->is_run = keeps && is_whole;
    delta->is_timed = is_whole;
    delta->counts.runs++;
}
