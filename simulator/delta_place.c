/* A fragment made ready to run: checked, with everything that is known before any time is: which
   post of a message is the second, in which slot a wait's time is given, which resources a chunk
   uses, what reaches back to earlier slots. */
#include "simulator/delta_internal.h"

#include <limits.h>
#include <stdlib.h>

typedef struct placer {
    cleave_delta *delta;
    const cleave_priced_fragment *fragment;
    delta_placed *placed;
    cleave_error *error;
    int32_t place, chunk, item; /* for errors */
    int32_t *met;               /* [n_messages + n_collectives] posts or joins so far */
    int32_t *wait_slot;         /* [n_items] of the waits of the chunk */
    delta_wait *chunk_waits;    /* [n_items] those that reach back to another slot */
    int32_t n_chunk_waits, n_waits, n_reaches, n_firsts;
} placer;

static cleave_status refuse(const placer *p, const char *what) {
    return cleave_fail(p->error, CLEAVE_FAILED, "fragment at place %d, chunk %d, item %d: %s",
                       p->place, p->chunk, p->item, what);
}

static bool is_wait(uint8_t kind) {
    return kind == CLEAVE_PRICED_WAIT_ARRIVAL || kind == CLEAVE_PRICED_WAIT_RELEASE ||
           kind == CLEAVE_PRICED_SYNC || kind == CLEAVE_PRICED_AWAIT;
}

static int32_t subject_limit(const cleave_priced_fragment *fragment, uint8_t kind) {
    switch ((cleave_priced_kind)kind) {
    case CLEAVE_PRICED_POST:
    case CLEAVE_PRICED_WAIT_ARRIVAL:
    case CLEAVE_PRICED_WAIT_RELEASE:
        return fragment->n_messages;
    case CLEAVE_PRICED_MARK:
    case CLEAVE_PRICED_SYNC:
        return fragment->n_marks;
    case CLEAVE_PRICED_JOIN:
    case CLEAVE_PRICED_AWAIT:
        return fragment->n_collectives;
    default:
        return INT32_MAX;
    }
}

/* Where the time of a subject stands in the row of times. */
static int32_t time_of(const cleave_priced_fragment *fragment, uint8_t kind, int32_t subject) {
    switch ((cleave_priced_kind)kind) {
    case CLEAVE_PRICED_WAIT_RELEASE:
        return 2 * subject + 1;
    case CLEAVE_PRICED_MARK:
    case CLEAVE_PRICED_SYNC:
        return 2 * fragment->n_messages + fragment->n_collectives + subject;
    case CLEAVE_PRICED_JOIN:
    case CLEAVE_PRICED_AWAIT:
        return 2 * fragment->n_messages + subject;
    default:
        return 2 * subject;
    }
}

static cleave_status check_item(const placer *p, const cleave_priced_item *item) {
    if (item->kind >= CLEAVE_PRICED_N_KINDS)
        return refuse(p, "of no known kind");
    if (item->queue < 0 || item->queue >= 2 * p->delta->n_devices)
        return refuse(p, "on no queue of the step");
    if (item->kind != CLEAVE_PRICED_WORK &&
        (item->subject < 0 || item->subject >= subject_limit(p->fragment, item->kind)))
        return refuse(p, "its subject is not in the fragment");
    if (item->duration < 0 ||
        (item->duration > 0 && (is_wait(item->kind) || item->kind == CLEAVE_PRICED_MARK)))
        return refuse(p, "its duration is not one of its kind");
    return CLEAVE_OK;
}

static void use_links(const placer *p, uint64_t *uses, const int32_t *links, int32_t n) {
    for (int32_t l = 0; l < n; l++)
        delta_add(uses, delta_link_resource(p->delta, links[l]));
}

/* A post or a join, the one that completes its subject gives its times in this slot. */
static cleave_status place_meeting(placer *p, const delta_chunk *chunk,
                                   const cleave_priced_item *item, uint64_t *uses,
                                   delta_kind *kind) {
    const cleave_priced_fragment *fragment = p->fragment;
    int32_t s = item->subject, time = time_of(fragment, item->kind, s);
    int32_t *time_slot = p->placed->time_slot;
    if (item->kind == CLEAVE_PRICED_POST) {
        int32_t met = p->met[s]++;
        if (met > 1)
            return refuse(p, "its message is posted more than twice");
        *kind = met == 0 ? DELTA_POST_FIRST : DELTA_POST_SECOND;
        if (met == 1) {
            time_slot[time] = time_slot[time + 1] = chunk->slot;
            use_links(p, uses, fragment->hop_link + fragment->hop_start[s],
                      fragment->hop_start[s + 1] - fragment->hop_start[s]);
        }
        return CLEAVE_OK;
    }
    int32_t met = p->met[fragment->n_messages + s]++, joins = fragment->collective_joins[s];
    if (met >= joins)
        return refuse(p, "its collective is joined by more than it says");
    *kind = met == 0           ? (joins == 1 ? DELTA_JOIN_ONLY : DELTA_JOIN_FIRST)
            : met == joins - 1 ? DELTA_JOIN_LAST
                               : DELTA_JOIN_NEXT;
    if (met == joins - 1) {
        time_slot[time] = chunk->slot;
        use_links(p, uses, fragment->collective_links + fragment->collective_link_start[s],
                  fragment->collective_link_start[s + 1] - fragment->collective_link_start[s]);
    }
    return CLEAVE_OK;
}

/* The queue of a mark is kept where its time will stand until the fragment is placed. */
static cleave_status place_mark(placer *p, const delta_chunk *chunk,
                                const cleave_priced_item *item) {
    int32_t time = time_of(p->fragment, item->kind, item->subject);
    if (p->placed->time_slot[time] >= 0)
        return refuse(p, "its mark is set twice");
    p->placed->time_slot[time] = chunk->slot;
    p->placed->full_times[time] = item->queue;
    return CLEAVE_OK;
}

static cleave_status place_wait(placer *p, const delta_chunk *chunk, const cleave_priced_item *item,
                                delta_item *made) {
    int32_t time = time_of(p->fragment, item->kind, item->subject);
    int32_t slot = p->placed->time_slot[time];
    if (slot < 0)
        return refuse(p, "stands before what it waits for");
    if (item->kind == CLEAVE_PRICED_SYNC && p->placed->full_times[time] != (item->queue ^ 1))
        return refuse(p, "waits for a mark that is not of its device's other lane");
    made->subject = time;
    made->amount = slot;
    if (slot < chunk->slot) {
        p->wait_slot[p->n_chunk_waits] = slot;
        p->chunk_waits[p->n_chunk_waits++] = (delta_wait){time, item->queue};
    }
    return CLEAVE_OK;
}

static cleave_status place_item(placer *p, delta_chunk *chunk, const cleave_priced_item *item,
                                delta_item *made) {
    cleave_delta *delta = p->delta;
    uint64_t *uses = delta_uses(delta, p->placed->uses, p->chunk);
    CLEAVE_TRY(check_item(p, item));
    delta_kind kind = DELTA_WORK;
    *made = (delta_item){.amount = item->duration, .subject = item->subject};
    if (item->kind == CLEAVE_PRICED_POST || item->kind == CLEAVE_PRICED_JOIN) {
        CLEAVE_TRY(place_meeting(p, chunk, item, uses, &kind));
        if (item->kind == CLEAVE_PRICED_POST)
            made->subject = item->subject;
    } else if (item->kind == CLEAVE_PRICED_MARK) {
        kind = DELTA_MARK;
        CLEAVE_TRY(place_mark(p, chunk, item));
        made->subject = time_of(p->fragment, item->kind, item->subject);
    } else if (item->kind != CLEAVE_PRICED_WORK) {
        kind = DELTA_WAIT;
        CLEAVE_TRY(place_wait(p, chunk, item, made));
    }
    made->packed =
        (uint32_t)item->queue >> 1 << 5 | ((uint32_t)item->queue & 1) << 4 | (uint32_t)kind;
    if (delta->seen_queue[item->queue] != delta->n_seen) {
        delta->seen_queue[item->queue] = delta->n_seen;
        delta_add(uses, item->queue >> 1);
        delta_add(uses, delta_lane_resource(delta, item->queue >> 1, item->queue & 1));
        bool waits = kind == DELTA_WAIT;
        p->placed->firsts[p->n_firsts++] = (delta_first){
            item->queue, waits ? made->subject : -1, waits ? (int32_t)made->amount : chunk->slot};
        chunk->n_firsts++;
    }
    return CLEAVE_OK;
}

/* The chunk's group of waits for a slot, which is made where there is none; groups ascend. */
static delta_reach *reach_for(placer *p, delta_chunk *chunk, int32_t slot) {
    delta_reach *reaches = p->placed->reaches + chunk->first_reach;
    int32_t at = chunk->n_reaches;
    while (at > 0 && reaches[at - 1].slot > slot)
        at--;
    if (at > 0 && reaches[at - 1].slot == slot)
        return &reaches[at - 1];
    for (int32_t r = chunk->n_reaches++; r > at; r--)
        reaches[r] = reaches[r - 1];
    p->n_reaches++;
    reaches[at] = (delta_reach){.slot = slot};
    return &reaches[at];
}

/* Waits that reach back, sorted by the slot they reach to. */
static void place_reaches(placer *p, delta_chunk *chunk) {
    chunk->first_reach = p->n_reaches;
    for (int32_t i = 0; i < p->n_chunk_waits; i++)
        reach_for(p, chunk, p->wait_slot[i])->n_waits++;
    delta_reach *reaches = p->placed->reaches + chunk->first_reach;
    for (int32_t r = 0; r < chunk->n_reaches; r++) {
        reaches[r].first_wait = p->n_waits;
        p->n_waits += reaches[r].n_waits;
        reaches[r].n_waits = 0;
    }
    for (int32_t i = 0; i < p->n_chunk_waits; i++) {
        delta_reach *reach = reach_for(p, chunk, p->wait_slot[i]);
        p->placed->waits[reach->first_wait + reach->n_waits++] = p->chunk_waits[i];
    }
    p->n_chunk_waits = 0;
}

static bool all_met_here(placer *p) {
    const cleave_priced_fragment *fragment = p->fragment;
    for (int32_t m = 0; m < fragment->n_messages; m++)
        if (p->met[m] == 1)
            return false;
    for (int32_t c = 0; c < fragment->n_collectives; c++) {
        int32_t met = p->met[fragment->n_messages + c];
        if (met > 0 && met < fragment->collective_joins[c])
            return false;
    }
    return true;
}

static cleave_status place_chunks(placer *p) {
    const cleave_priced_fragment *fragment = p->fragment;
    for (int32_t c = 0; c < fragment->n_chunks; c++) {
        const cleave_priced_chunk *given = &fragment->chunks[c];
        delta_chunk *chunk = &p->placed->chunks[c];
        p->chunk = c;
        p->item = given->first_item;
        if (given->slot < 0 || given->slot >= p->delta->n_slots || given->n_items < 0 ||
            given->first_item < 0 || given->first_item > fragment->n_items - given->n_items)
            return refuse(p, "the chunk is not within the step and the fragment");
        if (c > 0 && (given[-1].slot > given->slot ||
                      (given[-1].slot == given->slot && given[-1].rank > given->rank)))
            return refuse(p, "the chunk stands before its place in the order");
        *chunk = (delta_chunk){.slot = given->slot,
                               .rank = given->rank,
                               .first_item = given->first_item,
                               .n_items = given->n_items,
                               .first_first = p->n_firsts};
        p->delta->n_seen++;
        for (p->item = given->first_item; p->item < given->first_item + given->n_items; p->item++)
            CLEAVE_TRY(place_item(p, chunk, &fragment->items[p->item], &p->placed->items[p->item]));
        place_reaches(p, chunk);
        if (!all_met_here(p))
            return refuse(p, "a message or a collective is not completed in the chunk");
    }
    return CLEAVE_OK;
}

/* No time can exceed the sum of all durations, with work counted twice for what it takes from the
   other lane. */
static cleave_status place_total(placer *p) {
    const cleave_priced_fragment *fragment = p->fragment;
    unsigned __int128 total = 0;
    int32_t n_hops = fragment->n_messages > 0 ? fragment->hop_start[fragment->n_messages] : 0;
    for (int32_t i = 0; i < fragment->n_items; i++)
        total += 2 * (unsigned __int128)fragment->items[i].duration;
    for (int32_t h = 0; h < n_hops; h++) {
        int32_t link = fragment->hop_link[h];
        if (link < 0 || link >= p->delta->n_links || fragment->hop_serialization[h] < 1)
            return refuse(p, "a hop is on no link of the step, or takes no time");
        p->placed->hops[h] = (delta_hop){fragment->hop_serialization[h], link};
        total += (unsigned __int128)fragment->hop_serialization[h] +
                 (unsigned __int128)p->delta->link_latency[link];
    }
    for (int32_t m = 0; m < fragment->n_messages; m++)
        if (fragment->hop_start[m] >= fragment->hop_start[m + 1])
            return refuse(p, "a message crosses no link");
    for (int32_t c = 0; c < fragment->n_collectives; c++) {
        if (fragment->collective_busy[c] < 0 || fragment->collective_rest[c] < 0)
            return refuse(p, "a collective takes a negative time");
        total += (unsigned __int128)fragment->collective_busy[c] +
                 (unsigned __int128)fragment->collective_rest[c];
        for (int32_t l = fragment->collective_link_start[c];
             l < fragment->collective_link_start[c + 1]; l++)
            if (fragment->collective_links[l] < 0 ||
                fragment->collective_links[l] >= p->delta->n_links)
                return refuse(p, "a collective is on no link of the step");
    }
    if (total > INT64_MAX / 4)
        return refuse(p, "the times of the fragment add up to more than 26 days");
    p->placed->total = (int64_t)total;
    return CLEAVE_OK;
}

static cleave_status allocate(placer *p) {
    const cleave_priced_fragment *f = p->fragment;
    delta_placed *placed = p->placed;
    cleave_arena *arena = &placed->arena;
    int64_t n_times = 2 * (int64_t)f->n_messages + f->n_collectives + f->n_marks;
    int32_t n_hops = f->n_messages > 0 ? f->hop_start[f->n_messages] : 0;
    if (n_times > INT32_MAX)
        return refuse(p, "more times than fit");
    bool any_failed = false;
#define TAKE(member, type, count)                                                                  \
    any_failed |= (member = CLEAVE_ARENA_ARRAY(arena, type, (count))) == NULL
    TAKE(placed->chunks, delta_chunk, f->n_chunks);
    TAKE(placed->items, delta_item, f->n_items);
    TAKE(placed->hops, delta_hop, n_hops);
    TAKE(placed->reaches, delta_reach, f->n_items);
    TAKE(placed->waits, delta_wait, f->n_items);
    TAKE(placed->firsts, delta_first, f->n_items);
    TAKE(placed->uses, uint64_t, (size_t)f->n_chunks * (size_t)p->delta->n_words);
    TAKE(placed->times[0], int64_t, n_times);
    TAKE(placed->times[1], int64_t, n_times);
    TAKE(placed->full_times, int64_t, n_times);
    TAKE(placed->time_slot, int32_t, n_times);
    TAKE(p->met, int32_t, f->n_messages + f->n_collectives);
    TAKE(p->wait_slot, int32_t, f->n_items);
    TAKE(p->chunk_waits, delta_wait, f->n_items);
#undef TAKE
    if (any_failed)
        return cleave_fail_memory(p->error, "placing a fragment");
    placed->n_chunks = f->n_chunks;
    placed->n_times = (int32_t)n_times;
    for (int32_t t = 0; t < placed->n_times; t++)
        placed->time_slot[t] = -1;
    return CLEAVE_OK;
}

void delta_release(cleave_delta *delta, delta_placed *placed) {
    if (placed == NULL)
        return;
    cleave_arena_reset(&placed->arena);
    placed->next = delta->free_placed;
    delta->free_placed = placed;
}

cleave_status delta_place(cleave_delta *delta, int32_t place,
                          const cleave_priced_fragment *fragment, delta_placed **made,
                          cleave_error *error) {
    delta_placed *placed = delta->free_placed;
    if (placed != NULL)
        delta->free_placed = placed->next;
    else if ((placed = calloc(1, sizeof *placed)) == NULL)
        return cleave_fail_memory(error, "placing a fragment");
    placed->fragment = fragment;
    placer p = {
        .delta = delta, .fragment = fragment, .placed = placed, .error = error, .place = place};
    cleave_status status = allocate(&p);
    if (status == CLEAVE_OK)
        status = place_total(&p);
    if (status == CLEAVE_OK)
        status = place_chunks(&p);
    if (status != CLEAVE_OK) {
        delta_release(delta, placed);
        return status;
    }
    *made = placed;
    return CLEAVE_OK;
}
