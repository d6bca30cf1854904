/* A fragment made ready to run: checked, with everything that is known before any time is: which
   post of a message is the second, in which slot a wait's time is given, which resources a chunk
   uses, what reaches back to earlier slots. */
#include "simulator/delta/internal.h"
#include "simulator/step/priced_check.h"

#include <stdlib.h>
#include <string.h>

typedef struct placer {
    cleave_delta *delta;
    const cleave_priced_fragment *fragment;
    delta_placed *placed;
    cleave_error *error;
    int32_t place, chunk, item; /* for errors */
    int32_t *met;               /* [n_messages + n_collectives] posts or joins so far */
    int32_t *time_slot;         /* [n_times] the slot that gives it; -1: none yet */
    int32_t *time_chunk;        /* [n_times] and the chunk */
    int32_t *mark_queue;        /* [n_marks] */
    int32_t *wait_slot;         /* [n_items] of the waits of the chunk */
    delta_wait *chunk_waits;    /* [n_items] those that reach back to another slot */
    uint64_t *uses;             /* what goes to the other block, [n_chunks][2][n_words] */
    delta_reach *reaches;       /* [n_items] */
    delta_wait *waits;          /* [n_items] */
    delta_first *firsts;        /* [n_items] */
    delta_work *works;          /* [n_items] */
    int32_t n_times, n_chunk_waits, n_waits, n_reaches, n_firsts, n_works;
    int32_t n_begun; /* messages and collectives that some have met and others have not yet */
} placer;

static cleave_status refuse(const placer *p, const char *what) {
    return cleave_fail(p->error, CLEAVE_FAILED, "fragment at place %d, chunk %d, item %d: %s",
                       p->place, p->chunk, p->item, what);
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

static void use_link(const placer *p, uint64_t *uses, int32_t link, int32_t lane) {
    for (int32_t kept = lane; kept < 2; kept++)
        delta_add(uses, delta_link_resource(p->delta, link, kept));
}

/* Those of subject s. */
static void use_links(const placer *p, uint64_t *uses, const int32_t *start, const int32_t *links,
                      int32_t s, int32_t lane) {
    for (int32_t l = start[s]; l < start[s + 1]; l++)
        use_link(p, uses, links[l], lane);
}

/* And what the work at the ends of a message uses: what is charged of their main lanes.  See
   delta.c. */
static void use_ends(const placer *p, uint64_t *uses, const cleave_message_ends *ends,
                     int32_t lane) {
    const cleave_delta *delta = p->delta;
    const int32_t devices[2] = {ends->source, ends->destination};
    for (int e = 0; e < 2; e++) {
        int32_t processor = delta->first_processor + devices[e];
        use_link(p, uses, processor, lane);
        delta_add(uses, delta_lane_resource(delta, devices[e], 0));
        if (lane == 0)
            continue;
        delta_add(uses, delta_lane_resource(delta, devices[e], 1));
        delta_add(uses, delta_idle_resource(delta, devices[e]));
    }
}

static void give(placer *p, const delta_chunk *chunk, int32_t time, int32_t queue) {
    p->time_slot[time] = chunk->slot;
    p->time_chunk[time] = p->chunk;
    p->placed->giver[time] = queue >> 1;
}

/* A post or a join, the one that completes its subject gives its times in this slot. */
static cleave_status place_meeting(placer *p, delta_chunk *chunk, const cleave_priced_item *item,
                                   uint64_t *uses, cleave_scan_kind *kind) {
    const cleave_priced_fragment *fragment = p->fragment;
    if (chunk->coupling == DELTA_APART)
        chunk->coupling = DELTA_JOINT;
    int32_t s = item->subject, time = time_of(fragment, item->kind, s);
    if (item->kind == CLEAVE_PRICED_POST) {
        int32_t met = p->met[s]++;
        if (met > 1)
            return refuse(p, "its message is posted more than twice");
        p->n_begun += met == 0 ? 1 : -1;
        *kind = cleave_scan_kind_of_post(met);
        if (met == 1) {
            give(p, chunk, time, item->queue);
            give(p, chunk, time + 1, item->queue);
            use_links(p, uses, fragment->hop_start, fragment->hop_link, s, item->queue & 1);
            if (cleave_priced_ends_work(fragment, s))
                use_ends(p, uses, &fragment->ends[s], item->queue & 1);
        }
        return CLEAVE_OK;
    }
    int32_t met = p->met[fragment->n_messages + s]++, joins = fragment->collective_joins[s];
    if (met >= joins)
        return refuse(p, "its collective is joined by more than it says");
    p->n_begun += (met == 0) - (met == joins - 1);
    *kind = cleave_scan_kind_of_join(met, joins);
    if (met == joins - 1) {
        give(p, chunk, time, item->queue);
        use_links(p, uses, fragment->collective_link_start, fragment->collective_links, s,
                  item->queue & 1);
    }
    return CLEAVE_OK;
}

static cleave_status place_mark(placer *p, const delta_chunk *chunk,
                                const cleave_priced_item *item) {
    int32_t time = time_of(p->fragment, item->kind, item->subject);
    if (p->time_slot[time] >= 0)
        return refuse(p, "its mark is set twice");
    give(p, chunk, time, item->queue);
    p->mark_queue[item->subject] = item->queue;
    return CLEAVE_OK;
}

static cleave_status place_wait(placer *p, delta_chunk *chunk, const cleave_priced_item *item,
                                delta_item *made) {
    int32_t time = time_of(p->fragment, item->kind, item->subject);
    int32_t slot = p->time_slot[time];
    if (slot < 0)
        return refuse(p, "stands before what it waits for");
    if (item->kind == CLEAVE_PRICED_SYNC && p->mark_queue[item->subject] != (item->queue ^ 1))
        return refuse(p, "waits for a mark that is not of its device's other lane");
    made->subject = time;
    made->amount = slot;
    if (slot < chunk->slot) {
        p->wait_slot[p->n_chunk_waits] = slot;
        p->chunk_waits[p->n_chunk_waits++] = (delta_wait){time, item->queue};
    }
    bool is_stranger = !delta_has(delta_uses(p->delta, p->uses, 2 * p->time_chunk[time]),
                                  delta_lane_resource(p->delta, item->queue >> 1, 0));
    if (is_stranger && p->time_chunk[time] != p->chunk) {
        chunk->has_strangers = true;
        chunk->coupling = slot == chunk->slot ? DELTA_WHOLE : chunk->coupling;
    }
    return CLEAVE_OK;
}

/* What the chunk uses, and with which waits its lanes begin. */
static void use_lane(placer *p, delta_chunk *chunk, int32_t queue, const delta_item *made) {
    cleave_delta *delta = p->delta;
    uint64_t *uses = delta_uses(delta, p->uses, 2 * p->chunk);
    int32_t main_lane = delta_lane_resource(delta, queue >> 1, 0);
    int32_t lane = delta_lane_resource(delta, queue >> 1, queue & 1);
    if ((queue & 1) != 0 || delta_kind_of(made) == CLEAVE_SCAN_WAIT)
        delta_add(uses, delta_idle_resource(delta, queue >> 1));
    if (delta->seen_queue[queue] == delta->n_seen)
        return;
    delta->seen_queue[queue] = delta->n_seen;
    if (delta_kind_of(made) == CLEAVE_SCAN_WAIT && !delta_has(uses, lane)) {
        delta_add(delta_uses(delta, p->uses, 2 * p->chunk + 1), lane);
        p->firsts[p->n_firsts++] = (delta_first){queue, made->subject, (int32_t)made->amount};
        chunk->n_firsts++;
    }
    delta_add(uses, main_lane);
    delta_add(uses, lane);
}

static void add_work(placer *p, delta_chunk *chunk, const cleave_priced_item *item) {
    cleave_delta *delta = p->delta;
    int32_t device = item->queue >> 1;
    if ((item->queue & 1) != 0 || item->duration == 0)
        return;
    if (delta->seen_work[device] != delta->n_seen) {
        delta->seen_work[device] = delta->n_seen;
        delta->work_at[device] = p->n_works;
        p->works[p->n_works++] = (delta_work){.device = device};
        chunk->n_works++;
    }
    p->works[delta->work_at[device]].picoseconds += item->duration;
}

static cleave_status place_item(placer *p, delta_chunk *chunk, delta_item *made) {
    cleave_delta *delta = p->delta;
    const cleave_priced_item priced = cleave_priced_item_of(p->fragment, p->item), *item = &priced;
    uint64_t *uses = delta_uses(delta, p->uses, 2 * p->chunk);
    cleave_scan_kind kind = CLEAVE_SCAN_WORK;
    *made = (delta_item){.amount = item->duration, .subject = item->subject};
    if (item->kind == CLEAVE_PRICED_POST || item->kind == CLEAVE_PRICED_JOIN) {
        CLEAVE_TRY(place_meeting(p, chunk, item, uses, &kind));
        if (item->kind == CLEAVE_PRICED_JOIN)
            made->subject = time_of(p->fragment, item->kind, item->subject);
    } else if (item->kind == CLEAVE_PRICED_MARK) {
        kind = CLEAVE_SCAN_MARK;
        CLEAVE_TRY(place_mark(p, chunk, item));
        made->subject = time_of(p->fragment, item->kind, item->subject);
    } else if (item->kind != CLEAVE_PRICED_WORK) {
        kind = CLEAVE_SCAN_WAIT;
        CLEAVE_TRY(place_wait(p, chunk, item, made));
    }
    made->packed =
        (uint32_t)item->queue >> 1 << 5 | ((uint32_t)item->queue & 1) << 4 | (uint32_t)kind;
    if (kind == CLEAVE_SCAN_LAST_POST && p->item > chunk->first_item &&
        delta_kind_of(made - 1) == CLEAVE_SCAN_POST && made[-1].subject == made->subject)
        made[-1].packed ^= CLEAVE_SCAN_POST ^ CLEAVE_SCAN_POSTS;
    use_lane(p, chunk, item->queue, made);
    add_work(p, chunk, item);
    return CLEAVE_OK;
}

/* The chunk's group of waits for a slot, which is made where there is none; groups ascend. */
static delta_reach *reach_for(placer *p, delta_chunk *chunk, int32_t slot) {
    delta_reach *reaches = p->reaches + chunk->first_reach;
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
    delta_reach *reaches = p->reaches + chunk->first_reach;
    for (int32_t r = 0; r < chunk->n_reaches; r++) {
        reaches[r].first_wait = p->n_waits;
        p->n_waits += reaches[r].n_waits;
        reaches[r].n_waits = 0;
    }
    for (int32_t i = 0; i < p->n_chunk_waits; i++) {
        delta_reach *reach = reach_for(p, chunk, p->wait_slot[i]);
        p->waits[reach->first_wait + reach->n_waits++] = p->chunk_waits[i];
    }
    p->n_chunk_waits = 0;
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
                               .first_first = p->n_firsts,
                               .first_work = p->n_works};
        p->delta->n_seen++;
        for (p->item = given->first_item; p->item < given->first_item + given->n_items; p->item++)
            CLEAVE_TRY(place_item(p, chunk, &p->placed->items[p->item]));
        place_reaches(p, chunk);
        if (p->n_begun > 0)
            return refuse(p, "a message or a collective is not completed in the chunk");
    }
    return CLEAVE_OK;
}

/* Its hops go to `at` and on. */
static void place_message(const placer *p, int32_t m, int32_t *at) {
    const cleave_priced_fragment *fragment = p->fragment;
    const cleave_message_ends *ends = fragment->ends == NULL ? NULL : &fragment->ends[m];
    delta_hop *hops = p->placed->hops;
    int32_t processors = p->delta->first_processor;
    p->placed->hop_start[m] = *at;
    if (ends != NULL && ends->agreement != 0)
        hops[(*at)++] = (delta_hop){ends->agreement, DELTA_NO_LINK};
    for (int32_t h = fragment->hop_start[m]; h < fragment->hop_start[m + 1]; h++)
        hops[(*at)++] = (delta_hop){fragment->hop_serialization[h], fragment->hop_link[h]};
    if (ends != NULL && ends->work > 0) {
        hops[(*at)++] = (delta_hop){ends->work, processors + ends->source};
        hops[(*at)++] = (delta_hop){ends->work, processors + ends->destination};
    }
    p->placed->hop_start[m + 1] = *at;
}

static cleave_status place_subjects(placer *p) {
    const cleave_priced_fragment *fragment = p->fragment;
    const cleave_delta *delta = p->delta;
    int32_t at = 0;
    CLEAVE_TRY(cleave_priced_check(fragment, 2 * delta->n_devices, delta->first_processor,
                                   delta->link_latency, &p->placed->total, p->error));
    for (int32_t m = 0; m < fragment->n_messages; m++) {
        if (cleave_priced_ends_work(fragment, m) && delta->first_processor == delta->n_links)
            return refuse(p, "an end of a message is no device whose work is looked at");
        place_message(p, m, &at);
    }
    for (int32_t c = 0; c < fragment->n_collectives; c++) {
        int32_t first = fragment->collective_link_start[c];
        p->placed->collectives[c] =
            (delta_collective){fragment->collective_busy[c], fragment->collective_rest[c], first,
                               fragment->collective_link_start[c + 1] - first};
    }
    return CLEAVE_OK;
}

/* Cuts `count` elements off the block at `*at`. */
static void *cut(char **at, size_t count, size_t size) {
    void *array = *at;
    *at += count * size;
    return array;
}

/* Scratch is kept from put to put, and nothing is in it but what is cleared here. */
static cleave_status take_scratch(placer *p) {
    const cleave_priced_fragment *f = p->fragment;
    cleave_delta *delta = p->delta;
    size_t n_uses = 2 * (size_t)f->n_chunks * (size_t)delta->n_words, n_items = (size_t)f->n_items;
    size_t n_met = (size_t)f->n_messages + (size_t)f->n_collectives;
    size_t bytes =
        2 * n_uses * sizeof(uint64_t) +
        (n_met + 2 * (size_t)p->n_times + (size_t)f->n_marks + n_items) * sizeof(int32_t) +
        n_items * (2 * sizeof(delta_wait) + sizeof(delta_reach) + sizeof(delta_first) +
                   sizeof(delta_work));
    if (bytes >= delta->scratch_bytes) {
        free(delta->scratch);
        delta->scratch_bytes = 2 * bytes + 1;
        delta->scratch = malloc(delta->scratch_bytes);
    }
    char *at = delta->scratch;
    if (at == NULL) {
        delta->scratch_bytes = 0;
        return cleave_fail_memory(p->error, "placing a fragment");
    }
    p->works = cut(&at, n_items, sizeof *p->works);
    p->uses = cut(&at, n_uses, sizeof *p->uses);
    p->met = cut(&at, n_met, sizeof *p->met);
    memset(p->uses, 0, (size_t)(at - (char *)p->uses));
    p->time_slot = cut(&at, (size_t)p->n_times, sizeof *p->time_slot);
    memset(p->time_slot, -1, (size_t)p->n_times * sizeof *p->time_slot);
    p->time_chunk = cut(&at, (size_t)p->n_times, sizeof *p->time_chunk);
    p->mark_queue = cut(&at, (size_t)f->n_marks, sizeof *p->mark_queue);
    p->wait_slot = cut(&at, n_items, sizeof *p->wait_slot);
    p->chunk_waits = cut(&at, n_items, sizeof *p->chunk_waits);
    p->waits = cut(&at, n_items, sizeof *p->waits);
    p->reaches = cut(&at, n_items, sizeof *p->reaches);
    p->firsts = cut(&at, n_items, sizeof *p->firsts);
    return CLEAVE_OK;
}

/* Allocates the head and what passes need, widest elements first; null when memory is short. */
static delta_placed *create(const cleave_priced_fragment *f, size_t n_times) {
    size_t n_items = (size_t)f->n_items, n_chunks = (size_t)f->n_chunks;
    size_t n_messages = (size_t)f->n_messages, n_collectives = (size_t)f->n_collectives;
    size_t n_hops = n_messages > 0 ? (size_t)f->hop_start[n_messages] : 0;
    n_hops += f->ends != NULL ? 3 * n_messages : 0; /* an agreement and two processors */
    size_t n_links = n_collectives > 0 ? (size_t)f->collective_link_start[n_collectives] : 0;
    size_t bytes =
        sizeof(delta_placed) + n_items * sizeof(delta_item) + 3 * n_times * sizeof(int64_t) +
        n_hops * sizeof(delta_hop) + n_collectives * sizeof(delta_collective) +
        (2 * n_times + n_messages + 1 + n_links) * sizeof(int32_t) + n_chunks * sizeof(delta_chunk);
    char *at = malloc(bytes);
    delta_placed *placed = cut(&at, 1, sizeof *placed);
    if (placed == NULL)
        return NULL;
    *placed = (delta_placed){.n_chunks = f->n_chunks,
                             .first_collective = 2 * f->n_messages,
                             .n_items = f->n_items,
                             .n_times = (int32_t)n_times,
                             .bytes = bytes};
    placed->items = cut(&at, n_items, sizeof(delta_item));
    placed->times[0] = cut(&at, n_times, sizeof(int64_t));
    placed->times[1] = cut(&at, n_times, sizeof(int64_t));
    placed->full_times = cut(&at, n_times, sizeof(int64_t));
    placed->hops = cut(&at, n_hops, sizeof(delta_hop));
    placed->collectives = cut(&at, n_collectives, sizeof(delta_collective));
    placed->hop_start = cut(&at, n_messages + 1, sizeof(int32_t));
    placed->links = cut(&at, n_links, sizeof(int32_t));
    placed->giver = cut(&at, n_times, sizeof(int32_t));
    placed->origin = cut(&at, n_times, sizeof(int32_t));
    placed->chunks = cut(&at, n_chunks, sizeof(delta_chunk));
    if (n_links > 0)
        memcpy(placed->links, f->collective_links, n_links * sizeof(int32_t));
    return placed;
}

static void *copy(char **at, const void *from, size_t n, size_t size) {
    void *to = cut(at, n, size);
    if (n > 0)
        memcpy(to, from, n * size);
    return to;
}

static cleave_status keep_for_jumps(placer *p) {
    delta_placed *placed = p->placed;
    size_t n_uses = 2 * (size_t)p->fragment->n_chunks * (size_t)p->delta->n_words;
    size_t bytes = n_uses * sizeof *p->uses + (size_t)p->n_reaches * sizeof *p->reaches +
                   (size_t)p->n_waits * sizeof *p->waits + (size_t)p->n_firsts * sizeof *p->firsts +
                   (size_t)p->n_works * sizeof *p->works + 1;
    char *at = malloc(bytes);
    if (at == NULL)
        return cleave_fail_memory(p->error, "placing a fragment");
    placed->jump_block = at;
    placed->bytes += bytes;
    placed->uses = copy(&at, p->uses, n_uses, sizeof *p->uses);
    placed->works = copy(&at, p->works, (size_t)p->n_works, sizeof *p->works);
    placed->reaches = copy(&at, p->reaches, (size_t)p->n_reaches, sizeof *p->reaches);
    placed->waits = copy(&at, p->waits, (size_t)p->n_waits, sizeof *p->waits);
    placed->firsts = copy(&at, p->firsts, (size_t)p->n_firsts, sizeof *p->firsts);
    return CLEAVE_OK;
}

void delta_placed_free(delta_placed *placed) {
    if (placed != NULL)
        free(placed->jump_block);
    free(placed);
}

static cleave_status place_all(placer *p) {
    CLEAVE_TRY(take_scratch(p));
    CLEAVE_TRY(place_subjects(p));
    CLEAVE_TRY(place_chunks(p));
    return keep_for_jumps(p);
}

cleave_status delta_place(cleave_delta *delta, int32_t place,
                          const cleave_priced_fragment *fragment, delta_placed **made,
                          cleave_error *error) {
    placer p = {.delta = delta, .fragment = fragment, .error = error, .place = place};
    int64_t n_times =
        2 * (int64_t)fragment->n_messages + fragment->n_collectives + fragment->n_marks;
    if (n_times > INT32_MAX)
        return refuse(&p, "more times than fit");
    p.n_times = (int32_t)n_times;
    p.placed = create(fragment, (size_t)n_times);
    if (p.placed == NULL)
        return cleave_fail_memory(error, "placing a fragment");
    cleave_status status = place_all(&p);
    if (status != CLEAVE_OK)
        delta_placed_free(p.placed);
    else
        *made = p.placed;
    return status;
}
