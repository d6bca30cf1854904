#include "search/solve/link_window.h"

#include "base/order.h"
#include "simulator/step/link.h"

#include <stdlib.h>
#include <string.h>

cleave_status window_create(int32_t n_queues, int32_t n_links, const int64_t *link_latency,
                            window *made, cleave_error *error) {
    window w = {.n_queues = n_queues, .n_links = n_links, .link_latency = link_latency};
    w.clock = calloc((size_t)n_queues + 1, sizeof *w.clock);
    w.link_free = calloc((size_t)n_links + (size_t)n_queues / 2 + 1, sizeof *w.link_free);
    if (w.clock == NULL || w.link_free == NULL) {
        window_destroy(&w);
        return cleave_fail_memory(error, "bounding the step");
    }
    *made = w;
    return CLEAVE_OK;
}

void window_destroy(window *w) {
    CLEAVE_LIST_FREE(&w->entries);
    CLEAVE_LIST_FREE(&w->times);
    CLEAVE_LIST_FREE(&w->counts);
    free(w->clock);
    free(w->link_free);
    w->clock = NULL;
    w->link_free = NULL;
}

void window_clear(window *w) { w->entries.n = w->times.n = w->counts.n = 0; }

/* Times of a fragment: arrival and release of every message, ends of collectives, marks.  Counts:
   posts of messages, joins of collectives. */
static cleave_status make_room(window *w, const cleave_priced_fragment *fragment,
                               cleave_error *error) {
    int32_t n_times = 2 * fragment->n_messages + fragment->n_collectives + fragment->n_marks;
    bool pushed = true;
    for (int32_t i = 0; i < n_times && pushed; i++)
        pushed = CLEAVE_LIST_PUSH(&w->times, 0);
    for (int32_t i = 0; i < fragment->n_messages + fragment->n_collectives && pushed; i++)
        pushed = CLEAVE_LIST_PUSH(&w->counts, 0);
    return pushed ? CLEAVE_OK : cleave_fail_memory(error, "bounding the step");
}

static int64_t key_of(int32_t slot, int32_t rank, int32_t place) {
    return (int64_t)slot << 40 | (int64_t)rank << 32 | place;
}

cleave_status window_add(window *w, int32_t place, const cleave_priced_fragment *fragment,
                         int32_t first_slot, int32_t end_slot, cleave_error *error) {
    int32_t first_time = w->times.n, first_count = w->counts.n;
    bool any = false;
    for (int32_t c = 0; c < fragment->n_chunks; c++) {
        const cleave_priced_chunk *chunk = &fragment->chunks[c];
        if (chunk->slot < first_slot || chunk->slot >= end_slot || chunk->n_items == 0)
            continue;
        any = true;
        if (!CLEAVE_LIST_PUSH(&w->entries,
                              (window_entry){.key = key_of(chunk->slot, chunk->rank, place),
                                             .fragment = fragment,
                                             .chunk = c,
                                             .first_time = first_time,
                                             .first_count = first_count}))
            return cleave_fail_memory(error, "bounding the step");
    }
    return any ? make_room(w, fragment, error) : CLEAVE_OK;
}

static int by_key(const void *a, const void *b) {
    const window_entry *x = a, *y = b;
    CLEAVE_ORDER_BY(x->key, y->key);
    return CLEAVE_ORDER(x->chunk, y->chunk);
}

void window_sort(window *w) { CLEAVE_SORT(w->entries.items, w->entries.n, by_key); }

int32_t window_find(const window *w, int32_t slot, int32_t rank, int32_t place) {
    for (int32_t e = 0; e < w->entries.n; e++)
        if (w->entries.items[e].key == key_of(slot, rank, place))
            return e;
    return -1;
}

int32_t window_n_items(const window *w, int32_t entry) {
    const window_entry *e = &w->entries.items[entry];
    return e->fragment->chunks[e->chunk].n_items;
}

static cleave_priced_item item_of(const window_entry *entry, int32_t item) {
    const cleave_priced_chunk *chunk = &entry->fragment->chunks[entry->chunk];
    return cleave_priced_item_of(entry->fragment, chunk->first_item + item);
}

cleave_priced_item window_item(const window *w, int32_t entry, int32_t item) {
    return item_of(&w->entries.items[entry], item);
}

/* A transfer of the main lane puts communication back by its own length or by less, but not to
   before its end. */
static void put_back(window *w, int32_t link, int32_t lane) {
    int64_t *free_at = w->link_free[link];
    free_at[1] = cleave_later(free_at[1], free_at[lane]);
}

/* One hop by the rule of links (simulator/step/link.h), in the order of a lane; returns when the
   link is free again. */
static int64_t serve(window *w, int32_t link, int32_t lane, int64_t serialization, int64_t latency,
                     int64_t *head, int64_t *tail) {
    int64_t begin =
        cleave_link_serve(serialization, latency, &w->link_free[link][lane], head, tail);
    put_back(w, link, lane);
    return begin + serialization;
}

/* Returns when the last of it is done; the source's may come after what has `left`. */
static int64_t work_at_ends(window *w, const cleave_message_ends *ends, int32_t lane, int64_t head,
                            int64_t tail, int64_t *left) {
    const int32_t devices[2] = {ends->source, ends->destination};
    for (int e = 0; e < 2; e++) {
        int64_t of_end = head; /* both are reached at once */
        int64_t end = serve(w, w->n_links + devices[e], lane, ends->work, 0, &of_end, &tail);
        *left = e == 0 ? cleave_later(*left, end) : *left;
    }
    return tail;
}

static void post(window *w, const window_entry *entry, int32_t message, int32_t lane, int64_t now) {
    const cleave_priced_fragment *f = entry->fragment;
    int64_t *time = &w->times.items[entry->first_time + 2 * message], tail = WINDOW_LONG_AGO;
    if (w->counts.items[entry->first_count + message]++ == 0) {
        time[0] = now;
        return;
    }
    int64_t head = cleave_later(time[0], now);
    for (int32_t h = f->hop_start[message]; h < f->hop_start[message + 1]; h++) {
        int32_t link = f->hop_link[h];
        int64_t end =
            serve(w, link, lane, f->hop_serialization[h], w->link_latency[link], &head, &tail);
        if (h == f->hop_start[message])
            time[1] = end;
    }
    if (cleave_priced_ends_work(f, message))
        tail = work_at_ends(w, &f->ends[message], lane, head, tail, &time[1]);
    time[0] = tail;
}

static void join(window *w, const window_entry *entry, int32_t collective, int32_t lane,
                 int64_t now) {
    const cleave_priced_fragment *f = entry->fragment;
    int64_t *time = &w->times.items[entry->first_time + 2 * f->n_messages + collective];
    int32_t *joined = &w->counts.items[entry->first_count + f->n_messages + collective];
    *time = *joined == 0 ? now : cleave_later(*time, now);
    if (++*joined < f->collective_joins[collective])
        return;
    int32_t first = f->collective_link_start[collective];
    int32_t end = f->collective_link_start[collective + 1];
    for (int32_t l = first; l < end; l++)
        *time = cleave_later(*time, w->link_free[f->collective_links[l]][lane]);
    *time += f->collective_busy[collective];
    for (int32_t l = first; l < end; l++) {
        w->link_free[f->collective_links[l]][lane] = *time;
        put_back(w, f->collective_links[l], lane);
    }
    *time += f->collective_rest[collective];
}

/* What came before the window was long ago, and so was all that it waits for from there. */
static int64_t time_of_wait(const window *w, const window_entry *entry,
                            const cleave_priced_item *item) {
    const cleave_priced_fragment *f = entry->fragment;
    const int64_t *times = &w->times.items[entry->first_time];
    const int32_t *counts = &w->counts.items[entry->first_count];
    switch ((cleave_priced_kind)item->kind) {
    case CLEAVE_PRICED_WAIT_ARRIVAL:
        return counts[item->subject] < 2 ? WINDOW_LONG_AGO : times[2 * item->subject];
    case CLEAVE_PRICED_WAIT_RELEASE:
        return counts[item->subject] < 2 ? WINDOW_LONG_AGO : times[2 * item->subject + 1];
    case CLEAVE_PRICED_AWAIT:
        return counts[f->n_messages + item->subject] < f->collective_joins[item->subject]
                   ? WINDOW_LONG_AGO
                   : times[2 * f->n_messages + item->subject];
    default: /* SYNC */
        return times[2 * f->n_messages + f->n_collectives + item->subject];
    }
}

static void run_item(window *w, const window_entry *entry, const cleave_priced_item *item) {
    const cleave_priced_fragment *f = entry->fragment;
    int64_t *clock = &w->clock[item->queue];
    switch ((cleave_priced_kind)item->kind) {
    case CLEAVE_PRICED_WORK:
        *clock += item->duration;
        break;
    case CLEAVE_PRICED_POST:
        *clock += item->duration;
        post(w, entry, item->subject, item->queue % 2, *clock);
        break;
    case CLEAVE_PRICED_JOIN:
        *clock += item->duration;
        join(w, entry, item->subject, item->queue % 2, *clock);
        break;
    case CLEAVE_PRICED_MARK:
        w->times.items[entry->first_time + 2 * f->n_messages + f->n_collectives + item->subject] =
            *clock;
        break;
    default:
        *clock = cleave_later(*clock, time_of_wait(w, entry, item));
    }
}

static void reset(window *w, int64_t start) {
    for (int32_t q = 0; q < w->n_queues; q++)
        w->clock[q] = start;
    for (int32_t l = 0; l < w->n_links + w->n_queues / 2; l++)
        w->link_free[l][0] = w->link_free[l][1] = start;
    for (int32_t t = 0; t < w->times.n; t++)
        w->times.items[t] = WINDOW_LONG_AGO;
    if (w->counts.n > 0)
        memset(w->counts.items, 0, (size_t)w->counts.n * sizeof *w->counts.items);
}

int64_t window_lane(window *w, int32_t queue) {
    reset(w, WINDOW_LONG_AGO);
    w->clock[queue] = 0;
    for (int32_t e = 0; e < w->entries.n; e++) {
        const window_entry *entry = &w->entries.items[e];
        for (int32_t i = 0; i < window_n_items(w, e); i++) {
            cleave_priced_item item = item_of(entry, i);
            run_item(w, entry, &item);
        }
    }
    return w->clock[queue];
}

void window_run(window *w, window_origin origin, int32_t observed, bool observe_end, int32_t last,
                int64_t *times) {
    reset(w, origin.whole ? 0 : WINDOW_LONG_AGO);
    for (int32_t e = 0; e < w->entries.n && (last < 0 || e <= last); e++) {
        const window_entry *entry = &w->entries.items[e];
        for (int32_t i = 0; i < window_n_items(w, e); i++) {
            cleave_priced_item item = item_of(entry, i);
            int64_t *clock = &w->clock[item.queue];
            bool here = e == origin.entry && origin.group_of[i] == origin.group;
            if (here && !origin.end)
                *clock = cleave_later(*clock, origin.time);
            if (e == observed && !observe_end)
                times[i] = *clock;
            run_item(w, entry, &item);
            if (here && origin.end)
                *clock = cleave_later(*clock, origin.time);
            if (e == observed && observe_end)
                times[i] = *clock;
        }
    }
}

void window_after(window *w, const bool *is_origin, const bool *counts, int64_t *sums) {
    reset(w, WINDOW_LONG_AGO);
    for (int32_t e = 0; e < w->entries.n; e++) {
        const window_entry *entry = &w->entries.items[e];
        for (int32_t i = 0; i < window_n_items(w, e); i++) {
            cleave_priced_item item = item_of(entry, i);
            int64_t *clock = &w->clock[item.queue];
            if (is_origin[e])
                *clock = cleave_later(*clock, 0);
            if (counts[e] && *clock >= 0 && item.queue % 2 == 0)
                sums[item.queue / 2] += item.duration;
            run_item(w, entry, &item);
        }
    }
}
