/* Delta simulation gives the times of the whole pass, bit for bit, whatever is exchanged, accepted
   and rejected; and both give those of the scan engine, to which the same items are handed as one
   problem.  The fragments are random: several devices with both lanes, shared links, collectives,
   gradients, marks, waits over many slots, empty chunks, ties and work that takes no time.
     CLEAVE_DELTA_CHANGES: how many changes instead of 100,000. */
#include "base/random.h"
#include "simulator/delta/delta.h"
#include "simulator/engine.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CHUNKS = 8, MAX_ITEMS = 96, MAX_MESSAGES = 24, MAX_COLLECTIVES = 6, MAX_MARKS = 24 };
enum { MAX_HOPS = 3, MAX_DEVICES = 6, MAX_LINKS = 7, MAX_PLACES = 12, MAX_SLOTS = 40 };
enum { POOL = 48, ROUNDS = 250 };

/* A fragment with its arrays, and what its generation knows of it. */
typedef struct drawn {
    cleave_priced_fragment fragment;
    cleave_priced_chunk chunks[MAX_CHUNKS];
    cleave_priced_item items[MAX_ITEMS];
    int32_t hop_start[MAX_MESSAGES + 1], hop_link[MAX_MESSAGES * MAX_HOPS];
    int64_t hop_serialization[MAX_MESSAGES * MAX_HOPS];
    cleave_message_ends work[MAX_MESSAGES];
    int32_t joins[MAX_COLLECTIVES], link_start[MAX_COLLECTIVES + 1];
    int32_t links[MAX_COLLECTIVES * MAX_LINKS];
    int64_t busy[MAX_COLLECTIVES], rest[MAX_COLLECTIVES];
    int32_t ends[MAX_MESSAGES][2]; /* queues */
    int32_t joined_by[MAX_COLLECTIVES][MAX_DEVICES];
    int32_t mark_queue[MAX_MARKS];
} drawn;

/* What a world is like; drawn once. */
typedef struct world {
    cleave_random random;
    int32_t n_devices, n_links, n_slots, n_places;
    int64_t latency[MAX_LINKS];
    int64_t longest;                              /* durations; small ones make ties */
    int zeros, communication, waits, rows, reach; /* per cent, or slots */
    int strangers;                                /* per cent of waits for messages of others */
    int works;                                    /* per cent of messages whose ends have work */
    int events;                                   /* of a chunk, below */
    int meetings;                                 /* per cent of chunks */
    drawn pool[POOL];
    int32_t at[MAX_PLACES], base[MAX_PLACES]; /* -1: nothing */
    cleave_delta *delta;
    cleave_arena arena;
} world;

static int32_t below(world *w, int64_t n) { return (int32_t)cleave_random_below(&w->random, n); }
static bool chance(world *w, int per_cent) { return below(w, 100) < per_cent; }
static int64_t duration(world *w) {
    return chance(w, w->zeros) ? 0 : cleave_random_below(&w->random, w->longest + 1);
}
static int32_t some_queue(world *w) {
    return 2 * below(w, w->n_devices) + chance(w, w->communication);
}

static void add(drawn *d, int kind, int32_t queue, int32_t subject, int64_t takes) {
    cleave_priced_fragment *f = &d->fragment;
    cr_assert_lt(f->n_items, MAX_ITEMS);
    d->items[f->n_items++] = (cleave_priced_item){
        .duration = takes, .queue = queue, .subject = subject, .kind = (uint8_t)kind};
    d->chunks[f->n_chunks - 1].n_items++;
}

/* What its ends do, from either of them to the other. */
static void draw_work(world *w, drawn *d, int32_t m) {
    bool back = chance(w, 50);
    d->work[m] = (cleave_message_ends){
        chance(w, w->works) ? 1 + cleave_random_below(&w->random, w->longest) : 0,
        d->ends[m][back] / 2, d->ends[m][!back] / 2};
}

/* A message without its posts yet. */
static int32_t draw_message(world *w, drawn *d) {
    cleave_priced_fragment *f = &d->fragment;
    int32_t m = f->n_messages++, at = d->hop_start[m], n = 1 + below(w, MAX_HOPS);
    for (int32_t h = 0; h < n; h++) {
        d->hop_link[at] = below(w, w->n_links);
        d->hop_serialization[at++] = 1 + cleave_random_below(&w->random, w->longest);
    }
    d->hop_start[m + 1] = at;
    d->ends[m][0] = some_queue(w);
    d->ends[m][1] = some_queue(w);
    draw_work(w, d, m);
    return m;
}

/* One message, or two with their posts in turns; at times with work between. */
static void add_messages(world *w, drawn *d) {
    int32_t n = chance(w, 20) ? 2 : 1, messages[2], first = below(w, 2);
    if (d->fragment.n_messages > MAX_MESSAGES - 2)
        return;
    for (int32_t k = 0; k < n; k++)
        messages[k] = draw_message(w, d);
    for (int32_t post = 0; post < 2; post++) {
        for (int32_t k = 0; k < n; k++)
            add(d, CLEAVE_PRICED_POST, d->ends[messages[k]][first ^ post], messages[k],
                duration(w));
        if (post == 0 && chance(w, 30))
            add(d, CLEAVE_PRICED_WORK, some_queue(w), -1, duration(w));
    }
}

/* Messages of two communication lanes over one link, each after the one before has arrived, and at
   times one of two main lanes among them. */
static void add_row(world *w, drawn *d) {
    cleave_priced_fragment *f = &d->fragment;
    int32_t ends[2] = {below(w, w->n_devices), below(w, w->n_devices)}, link = below(w, w->n_links);
    for (int32_t k = 2 + below(w, 3); k > 0; k--) {
        if (f->n_messages == MAX_MESSAGES || f->n_items > MAX_ITEMS - 8)
            return;
        int32_t m = draw_message(w, d), lane = !chance(w, 30);
        d->hop_link[d->hop_start[m]] = link;
        for (int32_t e = 0; e < 2; e++)
            d->ends[m][e] = 2 * ends[e] + lane;
        draw_work(w, d, m);
        for (int32_t e = 0; e < 2; e++)
            add(d, CLEAVE_PRICED_POST, d->ends[m][e], m, 0);
        for (int32_t e = 0; e < 2; e++)
            add(d, CLEAVE_PRICED_WAIT_ARRIVAL, d->ends[m][e], m, 0);
    }
}

/* A lane follows the other one of its device. */
static void add_follower(world *w, drawn *d) {
    cleave_priced_fragment *f = &d->fragment;
    int32_t queue = some_queue(w);
    if (f->n_marks == MAX_MARKS)
        return;
    d->mark_queue[f->n_marks] = queue ^ 1;
    add(d, CLEAVE_PRICED_MARK, queue ^ 1, f->n_marks, 0);
    add(d, CLEAVE_PRICED_SYNC, queue, f->n_marks++, 0);
    add(d, CLEAVE_PRICED_WORK, queue, -1, duration(w));
}

static void work_everywhere(world *w, drawn *d) {
    for (int32_t device = 0; device < w->n_devices; device++)
        add(d, CLEAVE_PRICED_WORK, 2 * device, -1, duration(w));
}

static void add_collective(world *w, drawn *d) {
    cleave_priced_fragment *f = &d->fragment;
    if (f->n_collectives == MAX_COLLECTIVES || f->n_items > MAX_ITEMS - 20)
        return;
    int32_t c = f->n_collectives++, n = 1 + below(w, w->n_devices), at = d->link_start[c];
    int32_t from = below(w, w->n_devices), lane = chance(w, w->communication);
    for (int32_t i = 0; i < n; i++) {
        d->joined_by[c][i] = 2 * ((from + i) % w->n_devices) + lane;
        add(d, CLEAVE_PRICED_JOIN, d->joined_by[c][i], c, duration(w));
    }
    for (int32_t l = 0; l < w->n_links; l++)
        if (chance(w, 40))
            d->links[at++] = l;
    d->joins[c] = n;
    d->busy[c] = duration(w);
    d->rest[c] = duration(w);
    d->link_start[c + 1] = at;
}

/* Gradients: communication lanes follow the main lanes, join a collective and wait for it. */
static void add_meeting(world *w, drawn *d) {
    cleave_priced_fragment *f = &d->fragment;
    int32_t c = f->n_collectives, n = 1 + below(w, w->n_devices), at = d->link_start[c];
    int32_t first = f->n_marks, from = below(w, w->n_devices);
    if (c == MAX_COLLECTIVES || f->n_items > MAX_ITEMS - 48 || first > MAX_MARKS - 2 * n)
        return;
    f->n_collectives++;
    f->n_marks += 2 * n;
    for (int32_t i = 0; i < n; i++) {
        d->joined_by[c][i] = 2 * ((from + i) % w->n_devices) + 1;
        d->mark_queue[first + i] = d->joined_by[c][i] - 1;
        d->mark_queue[first + n + i] = d->joined_by[c][i];
        add(d, CLEAVE_PRICED_MARK, d->joined_by[c][i] - 1, first + i, 0);
        if (chance(w, 80))
            add(d, CLEAVE_PRICED_SYNC, d->joined_by[c][i], first + i, 0);
    }
    for (int32_t i = 0; i < n; i++)
        add(d, CLEAVE_PRICED_JOIN, d->joined_by[c][i], c, duration(w));
    bool has_own_links = chance(w, 30); /* else as many as possible meet again and again */
    for (int32_t l = 0; l < w->n_links; l++)
        if (!has_own_links || chance(w, 40))
            d->links[at++] = l;
    d->joins[c] = n;
    d->busy[c] = duration(w) * (1 + below(w, 8));
    d->rest[c] = duration(w);
    d->link_start[c + 1] = at;
    for (int32_t i = 0; i < n; i++)
        if (chance(w, 98))
            add(d, CLEAVE_PRICED_AWAIT, d->joined_by[c][i], c, 0);
    for (int32_t i = 0; i < n; i++)
        add(d, CLEAVE_PRICED_MARK, d->joined_by[c][i], first + n + i, 0);
    if (chance(w, 10))
        add(d, CLEAVE_PRICED_SYNC, d->joined_by[c][0] - 1, first + n, 0);
}

static void add_wait(world *w, drawn *d) {
    const cleave_priced_fragment *f = &d->fragment;
    int32_t what = below(w, 4), s;
    if (what < 2 && f->n_messages > 0) {
        s = below(w, f->n_messages);
        add(d, what == 0 ? CLEAVE_PRICED_WAIT_RELEASE : CLEAVE_PRICED_WAIT_ARRIVAL,
            chance(w, w->strangers) ? some_queue(w) : d->ends[s][what], s, 0);
    } else if (what == 2 && f->n_collectives > 0) {
        s = below(w, f->n_collectives);
        add(d, CLEAVE_PRICED_AWAIT, d->joined_by[s][below(w, d->joins[s])], s, 0);
    } else if (what == 3 && f->n_marks > 0) {
        s = below(w, f->n_marks);
        add(d, CLEAVE_PRICED_SYNC, d->mark_queue[s] ^ 1, s, 0);
    }
}

static void add_event(world *w, drawn *d) {
    cleave_priced_fragment *f = &d->fragment;
    int32_t what = below(w, 100);
    if (f->n_items > MAX_ITEMS - 8)
        return;
    if (what < w->waits) {
        add_wait(w, d);
    } else if (what < w->waits + 20) {
        add_messages(w, d);
    } else if (what < w->waits + 24) {
        add_collective(w, d);
    } else if (what < w->waits + 32 && f->n_marks < MAX_MARKS) {
        d->mark_queue[f->n_marks] = some_queue(w);
        add(d, CLEAVE_PRICED_MARK, d->mark_queue[f->n_marks], f->n_marks, 0);
        f->n_marks++;
    } else if (what < w->waits + 35) {
        add_follower(w, d);
    } else if (what < w->waits + 38) {
        work_everywhere(w, d);
    } else if (what < w->waits + 38 + w->rows) {
        add_row(w, d);
    } else {
        add(d, CLEAVE_PRICED_WORK, some_queue(w), -1, duration(w));
    }
}

static void point_at_arrays(drawn *d, bool works) {
    cleave_priced_fragment *f = &d->fragment;
    f->chunks = d->chunks;
    f->items = d->items;
    f->hop_start = d->hop_start;
    f->hop_link = d->hop_link;
    f->hop_serialization = d->hop_serialization;
    f->ends = works ? d->work : NULL;
    f->collective_joins = d->joins;
    f->collective_busy = d->busy;
    f->collective_rest = d->rest;
    f->collective_link_start = d->link_start;
    f->collective_links = d->links;
}

static void draw_fragment(world *w, drawn *d) {
    memset(d, 0, sizeof *d);
    point_at_arrays(d, w->works > 0);
    int32_t slot = below(w, w->n_slots), rank = 0;
    int32_t n = 1 + below(w, MAX_CHUNKS);
    for (int32_t c = 0; c < n; c++) {
        int32_t then = slot + (c == 0 ? 0 : below(w, w->reach));
        if (then >= w->n_slots)
            break;
        rank = then == slot ? rank + below(w, 2) : below(w, 3);
        slot = then;
        d->chunks[d->fragment.n_chunks++] =
            (cleave_priced_chunk){.slot = slot, .rank = rank, .first_item = d->fragment.n_items};
        if (chance(w, w->meetings))
            add_meeting(w, d);
        else
            for (int32_t k = below(w, w->events); k > 0; k--)
                add_event(w, d);
    }
}

/* Two messages change their numbers, and two marks, so that chunks may be alike that number what
   they do in another way. */
static void renumber(world *w, drawn *d) {
    cleave_priced_fragment *f = &d->fragment;
    int32_t a = below(w, f->n_messages + 1) - 1, b = below(w, f->n_messages + 1) - 1, at = 0;
    int32_t j = below(w, f->n_marks + 1) - 1, k = below(w, f->n_marks + 1) - 1;
    drawn was = *d;
    for (int32_t m = 0; m < f->n_messages && a >= 0 && b >= 0; m++) {
        int32_t from = m == a ? b : m == b ? a : m;
        memcpy(d->ends[m], was.ends[from], sizeof d->ends[m]);
        d->work[m] = was.work[from];
        d->hop_start[m] = at;
        for (int32_t h = was.hop_start[from]; h < was.hop_start[from + 1]; h++, at++) {
            d->hop_link[at] = was.hop_link[h];
            d->hop_serialization[at] = was.hop_serialization[h];
        }
    }
    for (int32_t i = 0; i < f->n_items; i++) {
        bool of_mark =
            d->items[i].kind == CLEAVE_PRICED_MARK || d->items[i].kind == CLEAVE_PRICED_SYNC;
        bool of_message = d->items[i].kind == CLEAVE_PRICED_POST ||
                          d->items[i].kind == CLEAVE_PRICED_WAIT_ARRIVAL ||
                          d->items[i].kind == CLEAVE_PRICED_WAIT_RELEASE;
        int32_t x = of_mark ? j : a, y = of_mark ? k : b, s = d->items[i].subject;
        if ((of_mark || of_message) && x >= 0 && y >= 0)
            d->items[i].subject = s == x ? y : s == y ? x : s;
    }
    if (j >= 0 && k >= 0) {
        d->mark_queue[j] = was.mark_queue[k];
        d->mark_queue[k] = was.mark_queue[j];
    }
}

/* A wait for a message waits for another one that has been posted. */
static void redirect(world *w, drawn *d) {
    int posts[MAX_MESSAGES] = {0};
    for (int32_t i = 0; i < d->fragment.n_items; i++) {
        cleave_priced_item *item = &d->items[i];
        int32_t m = below(w, d->fragment.n_messages + 1) - 1;
        if (item->kind == CLEAVE_PRICED_POST)
            posts[item->subject]++;
        else if ((item->kind == CLEAVE_PRICED_WAIT_ARRIVAL ||
                  item->kind == CLEAVE_PRICED_WAIT_RELEASE) &&
                 m >= 0 && posts[m] == 2 && chance(w, 10))
            item->subject = m;
    }
}

/* The same fragment with some durations of its own, as where only prices change. */
static void draw_like(world *w, drawn *d, const drawn *like) {
    *d = *like;
    point_at_arrays(d, w->works > 0);
    if (chance(w, 50))
        renumber(w, d);
    if (w->strangers > 0 && chance(w, 30))
        redirect(w, d);
    int per_cent = chance(w, 50) ? 20 : 3;
    for (int32_t i = 0; i < d->fragment.n_items; i++)
        if (d->items[i].duration > 0 && chance(w, per_cent))
            d->items[i].duration = duration(w);
    int32_t n_hops = d->hop_start[d->fragment.n_messages];
    for (int32_t h = 0; h < n_hops; h++)
        if (chance(w, 10))
            d->hop_serialization[h] = 1 + cleave_random_below(&w->random, w->longest);
    for (int32_t m = 0; m < d->fragment.n_messages; m++)
        if (d->work[m].work > 0 && chance(w, 10))
            d->work[m].work = 1 + cleave_random_below(&w->random, w->longest);
}

static world *world_create(uint64_t seed) {
    world *w = calloc(1, sizeof *w);
    cleave_error error = {""};
    cr_assert_not_null(w);
    w->random.key = seed;
    w->n_devices = 1 + below(w, MAX_DEVICES);
    w->n_links = 1 + below(w, MAX_LINKS);
    w->n_slots = 3 + below(w, MAX_SLOTS - 3);
    w->n_places = 2 + below(w, MAX_PLACES - 2);
    w->longest = (const int64_t[]){3, 20, 1000, INT64_C(1000000000)}[below(w, 4)];
    w->zeros = 40 * below(w, 2);
    w->communication = (const int[]){0, 10, 40}[below(w, 3)];
    w->waits = (const int[]){5, 30, 60}[below(w, 3)];
    w->reach = (const int[]){3, 8, MAX_SLOTS}[below(w, 3)];
    w->strangers = 30 * below(w, 2);
    w->works = (const int[]){0, 30, 100}[below(w, 3)];
    w->rows = w->waits < 30 ? (const int[]){0, 15, 50}[below(w, 3)] : 0;
    w->meetings = (const int[]){0, 20, 60}[below(w, 3)];
    w->events = 10;
    if (chance(w, 40)) { /* devices with little to do with one another, but for late waits */
        w->n_devices = MAX_DEVICES;
        w->communication = w->meetings = w->rows = 0;
        w->waits = 40;
        w->strangers = 100;
        w->events = 3;
    }
    for (int32_t l = 0; l < w->n_links; l++)
        w->latency[l] = duration(w);
    for (int32_t f = 0; f < POOL; f++)
        if (f > 0 && chance(w, 50))
            draw_like(w, &w->pool[f], &w->pool[below(w, f)]);
        else
            draw_fragment(w, &w->pool[f]);
    memset(w->at, -1, sizeof w->at);
    memset(w->base, -1, sizeof w->base);
    cr_assert_eq(cleave_delta_create(w->n_places, w->n_slots, 2 * w->n_devices, w->n_links,
                                     w->latency, w->works > 0, &w->delta, &error),
                 CLEAVE_OK, "%s", error.message);
    if (chance(w, 80)) /* worlds are so small that plain passes would mostly be cheaper */
        cleave_delta_be_eager(w->delta);
    return w;
}

static void world_destroy(world *w) {
    cleave_delta_destroy(w->delta);
    cleave_arena_free(&w->arena);
    free(w);
}

/* --- The same items as one problem of the scan engine --------------------------------------------
 */

typedef struct assembly {
    cleave_engine_problem problem;
    int32_t last[2 * MAX_DEVICES]; /* item of the queue; -1: none yet */
    int32_t mark[MAX_PLACES][MAX_MARKS];
    int32_t first_message[MAX_PLACES], first_collective[MAX_PLACES];
} assembly;

static const cleave_priced_fragment *fragment_at(const world *w, int32_t place) {
    return w->at[place] < 0 ? NULL : &w->pool[w->at[place]].fragment;
}

static void take_arrays(world *w, assembly *a) {
    cleave_engine_problem *p = &a->problem;
    int64_t n_items = 0, n_messages = 0, n_collectives = 0;
    for (int32_t place = 0; place < w->n_places; place++) {
        const cleave_priced_fragment *f = fragment_at(w, place);
        n_items += f == NULL ? 0 : f->n_items;
        n_messages += f == NULL ? 0 : f->n_messages;
        n_collectives += f == NULL ? 0 : f->n_collectives;
    }
    p->kind = CLEAVE_ARENA_ARRAY(&w->arena, uint8_t, n_items);
    p->queue = CLEAVE_ARENA_ARRAY(&w->arena, int32_t, n_items);
    p->subject = CLEAVE_ARENA_ARRAY(&w->arena, int32_t, n_items);
    p->duration = CLEAVE_ARENA_ARRAY(&w->arena, int64_t, n_items);
    p->hop_start = CLEAVE_ARENA_ARRAY(&w->arena, int32_t, n_messages + 1);
    p->hop_link = CLEAVE_ARENA_ARRAY(&w->arena, int32_t, n_messages * MAX_HOPS);
    p->hop_serialization = CLEAVE_ARENA_ARRAY(&w->arena, int64_t, n_messages * MAX_HOPS);
    if (w->works > 0)
        p->ends = CLEAVE_ARENA_ARRAY(&w->arena, cleave_message_ends, n_messages);
    p->collective_joins = CLEAVE_ARENA_ARRAY(&w->arena, int32_t, n_collectives);
    p->collective_busy = CLEAVE_ARENA_ARRAY(&w->arena, int64_t, n_collectives);
    p->collective_rest = CLEAVE_ARENA_ARRAY(&w->arena, int64_t, n_collectives);
    p->collective_link_start = CLEAVE_ARENA_ARRAY(&w->arena, int32_t, n_collectives + 1);
    p->collective_links = CLEAVE_ARENA_ARRAY(&w->arena, int32_t, n_collectives * MAX_LINKS);
    p->link_latency = w->latency;
    p->n_links = w->n_links;
    p->n_queues = 2 * w->n_devices;
}

static void assemble_subjects(assembly *a, int32_t place, const cleave_priced_fragment *f) {
    cleave_engine_problem *p = &a->problem;
    a->first_message[place] = p->n_messages;
    a->first_collective[place] = p->n_collectives;
    for (int32_t m = 0; m < f->n_messages; m++) {
        int32_t at = p->hop_start[p->n_messages];
        for (int32_t h = f->hop_start[m]; h < f->hop_start[m + 1]; h++) {
            p->hop_link[at] = f->hop_link[h];
            p->hop_serialization[at++] = f->hop_serialization[h];
        }
        if (f->ends != NULL)
            p->ends[p->n_messages] = f->ends[m];
        p->hop_start[++p->n_messages] = at;
    }
    for (int32_t c = 0; c < f->n_collectives; c++) {
        int32_t at = p->collective_link_start[p->n_collectives];
        p->collective_joins[p->n_collectives] = f->collective_joins[c];
        p->collective_busy[p->n_collectives] = f->collective_busy[c];
        p->collective_rest[p->n_collectives] = f->collective_rest[c];
        for (int32_t l = f->collective_link_start[c]; l < f->collective_link_start[c + 1]; l++)
            p->collective_links[at++] = f->collective_links[l];
        p->collective_link_start[++p->n_collectives] = at;
    }
}

static void assemble_item(assembly *a, int32_t place, const cleave_priced_item *item) {
    static const uint8_t kinds[] = {
        [CLEAVE_PRICED_WORK] = CLEAVE_ENGINE_WORK,
        [CLEAVE_PRICED_POST] = CLEAVE_ENGINE_POST,
        [CLEAVE_PRICED_WAIT_ARRIVAL] = CLEAVE_ENGINE_WAIT_ARRIVAL,
        [CLEAVE_PRICED_WAIT_RELEASE] = CLEAVE_ENGINE_WAIT_RELEASE,
        [CLEAVE_PRICED_SYNC] = CLEAVE_ENGINE_SYNC,
        [CLEAVE_PRICED_JOIN] = CLEAVE_ENGINE_JOIN,
        [CLEAVE_PRICED_AWAIT] = CLEAVE_ENGINE_AWAIT,
    };
    cleave_engine_problem *p = &a->problem;
    if (item->kind == CLEAVE_PRICED_MARK) {
        a->mark[place][item->subject] = a->last[item->queue];
        return;
    }
    int32_t i = p->n_items++, subject = item->subject;
    p->kind[i] = kinds[item->kind];
    if (item->kind == CLEAVE_PRICED_SYNC) {
        subject = a->mark[place][subject];
        if (subject < 0) /* a mark before the first item of its queue: nothing to wait for */
            p->kind[i] = CLEAVE_ENGINE_WORK;
    } else if (item->kind == CLEAVE_PRICED_JOIN || item->kind == CLEAVE_PRICED_AWAIT) {
        subject += a->first_collective[place];
    } else if (item->kind != CLEAVE_PRICED_WORK) {
        subject += a->first_message[place];
    }
    p->queue[i] = item->queue;
    p->subject[i] = subject;
    p->duration[i] = item->duration;
    a->last[item->queue] = i;
}

/* By slot, then by rank, then by place, then as the fragment has them. */
static void assemble_items(const world *w, assembly *a) {
    for (int32_t slot = 0; slot < w->n_slots; slot++)
        for (int32_t rank = 0; rank < MAX_CHUNKS + 3; rank++)
            for (int32_t place = 0; place < w->n_places; place++) {
                const cleave_priced_fragment *f = fragment_at(w, place);
                for (int32_t c = 0; f != NULL && c < f->n_chunks; c++) {
                    if (f->chunks[c].slot != slot || f->chunks[c].rank != rank)
                        continue;
                    for (int32_t i = 0; i < f->chunks[c].n_items; i++)
                        assemble_item(a, place, &f->items[f->chunks[c].first_item + i]);
                }
            }
}

static int64_t by_engine(world *w) {
    assembly a = {0};
    cleave_engine_workspace *workspace;
    cleave_timeline timeline;
    cleave_error error = {""};
    cleave_arena_reset(&w->arena);
    memset(a.last, -1, sizeof a.last);
    take_arrays(w, &a);
    for (int32_t place = 0; place < w->n_places; place++)
        if (fragment_at(w, place) != NULL)
            assemble_subjects(&a, place, fragment_at(w, place));
    assemble_items(w, &a);
    cr_assert_eq(cleave_engine_finish(&a.problem, &w->arena, &error), CLEAVE_OK, "%s",
                 error.message);
    cr_assert_eq(cleave_engine_workspace_create(&a.problem, &w->arena, &workspace, &error), 0);
    cr_assert_eq(cleave_engine_timeline_create(&a.problem, &w->arena, &timeline, &error), 0);
    cr_assert_eq(cleave_engine_run_scan(&a.problem, workspace, &timeline, &error), CLEAVE_OK, "%s",
                 error.message);
    return timeline.step;
}

/* --- Changes -------------------------------------------------------------------------------------
 */

static void put(world *w, int32_t place, int32_t fragment) {
    cleave_error error = {""};
    w->at[place] = fragment;
    cr_assert_eq(cleave_delta_put(w->delta, place, fragment_at(w, place), &error), CLEAVE_OK, "%s",
                 error.message);
}

static void put_some(world *w) {
    for (int32_t n = 1 + below(w, chance(w, 30) ? 4 : 1); n > 0; n--)
        put(w, below(w, w->n_places), chance(w, 10) ? -1 : below(w, POOL));
}

static void expect_right(world *w, bool with_engine, uint64_t seed, int round) {
    cleave_error error = {""};
    int64_t step, full;
    bool full_first = chance(w, 50); /* it leaves a run and its base alone */
    if (full_first)
        cr_assert_eq(cleave_delta_full(w->delta, &full, &error), CLEAVE_OK);
    cr_assert_eq(cleave_delta_run(w->delta, &step, &error), CLEAVE_OK, "%s", error.message);
    if (!full_first)
        cr_assert_eq(cleave_delta_full(w->delta, &full, &error), CLEAVE_OK);
    cr_assert_eq(step, full, "world %llu, round %d: %lld by delta, %lld in full",
                 (unsigned long long)seed, round, (long long)step, (long long)full);
    if (with_engine) {
        int64_t engine = by_engine(w);
        cr_assert_eq(full, engine, "world %llu, round %d: %lld by delta, %lld by the engine",
                     (unsigned long long)seed, round, (long long)full, (long long)engine);
    }
}

static void decide(world *w, int accept) {
    if (chance(w, accept)) {
        cleave_delta_accept(w->delta);
        memcpy(w->base, w->at, sizeof w->at);
    } else {
        cleave_delta_reject(w->delta);
        memcpy(w->at, w->base, sizeof w->at);
    }
}

/* Returns how many changes were tried. */
static int64_t change_often(world *w, uint64_t seed) {
    int accept = (const int[]){10, 50, 95}[below(w, 3)];
    int64_t n_changes = 0;
    for (int32_t place = 0; place < w->n_places; place++)
        put(w, place, below(w, POOL));
    expect_right(w, true, seed, -1);
    decide(w, 90);
    for (int round = 0; round < ROUNDS; round++) {
        put_some(w);
        n_changes++;
        if (chance(w, 95))
            expect_right(w, round % 10 == 0, seed, round);
        if (chance(w, 10)) { /* more on top of what has already run */
            put_some(w);
            n_changes++;
            if (chance(w, 80))
                expect_right(w, false, seed, round);
        }
        decide(w, accept);
        if (chance(w, 5))
            expect_right(w, true, seed, round);
    }
    return n_changes;
}

Test(delta, any_changes_give_the_times_of_a_full_pass_bit_for_bit) {
    const char *wanted = getenv("CLEAVE_DELTA_CHANGES");
    int64_t left = wanted == NULL ? 100000 : atoll(wanted);
    cleave_delta_counts sum = {0};
    for (uint64_t seed = getenv("SEED") ? (uint64_t)atoll(getenv("SEED")) : 0; left > 0; seed++) {
        world *w = world_create(seed);
        left -= change_often(w, seed);
        cleave_delta_counts counts = cleave_delta_count(w->delta);
        sum.slots += counts.slots;
        sum.slots_jumped += counts.slots_jumped;
        sum.jumps += counts.jumps;
        world_destroy(w);
    }
    /* Or nothing of what matters was tried. */
    cr_expect_gt(sum.slots_jumped, sum.slots / 4);
    if (wanted != NULL)
        fprintf(stderr, "%lld slots simulated, %lld jumped over in %lld jumps\n",
                (long long)sum.slots, (long long)sum.slots_jumped, (long long)sum.jumps);
}
