#include "drawn_fragments.h"

#include <criterion/criterion.h>
#include <string.h>

static int64_t duration(drawn_fragments *of) {
    return draw_chance(of, of->zeros) ? 0 : cleave_random_below(&of->random, of->longest + 1);
}
static int32_t some_queue(drawn_fragments *of) {
    return 2 * draw_below(of, of->n_devices) + draw_chance(of, of->communication);
}

static void add(drawn_fragment *d, int kind, int32_t queue, int32_t subject, int64_t takes) {
    cleave_priced_fragment *f = &d->fragment;
    cr_assert_lt(f->n_items, MAX_ITEMS);
    d->kind[f->n_items] = (uint8_t)kind;
    d->queue[f->n_items] = queue;
    d->subject[f->n_items] = subject;
    d->duration[f->n_items++] = takes;
    d->chunks[f->n_chunks - 1].n_items++;
}

/* What its ends do, from either of them to the other. */
static void draw_work(drawn_fragments *of, drawn_fragment *d, int32_t m) {
    bool back = draw_chance(of, 50);
    bool works = draw_chance(of, of->works), agrees = draw_chance(of, of->works);
    d->work[m] = (cleave_message_ends){
        .work = works ? 1 + cleave_random_below(&of->random, of->longest) : 0,
        .agreement = agrees ? 1 + cleave_random_below(&of->random, of->longest) : 0,
        .source = d->ends[m][back] / 2,
        .destination = d->ends[m][!back] / 2};
}

/* A message without its posts yet. */
static int32_t draw_message(drawn_fragments *of, drawn_fragment *d) {
    cleave_priced_fragment *f = &d->fragment;
    int32_t m = f->n_messages++, at = d->hop_start[m], n = 1 + draw_below(of, MAX_HOPS);
    for (int32_t h = 0; h < n; h++) {
        d->hop_link[at] = draw_below(of, of->n_links);
        d->hop_serialization[at++] = 1 + cleave_random_below(&of->random, of->longest);
    }
    d->hop_start[m + 1] = at;
    d->ends[m][0] = some_queue(of);
    d->ends[m][1] = some_queue(of);
    draw_work(of, d, m);
    return m;
}

/* One message, or two with their posts in turns; at times with work between. */
static void add_messages(drawn_fragments *of, drawn_fragment *d) {
    int32_t n = draw_chance(of, 20) ? 2 : 1, messages[2], first = draw_below(of, 2);
    if (d->fragment.n_messages > MAX_MESSAGES - 2)
        return;
    for (int32_t k = 0; k < n; k++)
        messages[k] = draw_message(of, d);
    for (int32_t post = 0; post < 2; post++) {
        for (int32_t k = 0; k < n; k++)
            add(d, CLEAVE_PRICED_POST, d->ends[messages[k]][first ^ post], messages[k],
                duration(of));
        if (post == 0 && draw_chance(of, 30))
            add(d, CLEAVE_PRICED_WORK, some_queue(of), -1, duration(of));
    }
}

/* Messages of two communication lanes over one link, each after the one before has arrived, and at
   times one of two main lanes among them. */
static void add_row(drawn_fragments *of, drawn_fragment *d) {
    cleave_priced_fragment *f = &d->fragment;
    int32_t ends[2] = {draw_below(of, of->n_devices), draw_below(of, of->n_devices)},
            link = draw_below(of, of->n_links);
    for (int32_t k = 2 + draw_below(of, 3); k > 0; k--) {
        if (f->n_messages == MAX_MESSAGES || f->n_items > MAX_ITEMS - 8)
            return;
        int32_t m = draw_message(of, d), lane = !draw_chance(of, 30);
        d->hop_link[d->hop_start[m]] = link;
        for (int32_t e = 0; e < 2; e++)
            d->ends[m][e] = 2 * ends[e] + lane;
        draw_work(of, d, m);
        for (int32_t e = 0; e < 2; e++)
            add(d, CLEAVE_PRICED_POST, d->ends[m][e], m, 0);
        for (int32_t e = 0; e < 2; e++)
            add(d, CLEAVE_PRICED_WAIT_ARRIVAL, d->ends[m][e], m, 0);
    }
}

/* A lane follows the other one of its device. */
static void add_follower(drawn_fragments *of, drawn_fragment *d) {
    cleave_priced_fragment *f = &d->fragment;
    int32_t queue = some_queue(of);
    if (f->n_marks == MAX_MARKS)
        return;
    d->mark_queue[f->n_marks] = queue ^ 1;
    add(d, CLEAVE_PRICED_MARK, queue ^ 1, f->n_marks, 0);
    add(d, CLEAVE_PRICED_SYNC, queue, f->n_marks++, 0);
    add(d, CLEAVE_PRICED_WORK, queue, -1, duration(of));
}

static void work_everywhere(drawn_fragments *of, drawn_fragment *d) {
    for (int32_t device = 0; device < of->n_devices; device++)
        add(d, CLEAVE_PRICED_WORK, 2 * device, -1, duration(of));
}

static void add_collective(drawn_fragments *of, drawn_fragment *d) {
    cleave_priced_fragment *f = &d->fragment;
    if (f->n_collectives == MAX_COLLECTIVES || f->n_items > MAX_ITEMS - 20)
        return;
    int32_t c = f->n_collectives++, n = 1 + draw_below(of, of->n_devices), at = d->link_start[c];
    int32_t from = draw_below(of, of->n_devices), lane = draw_chance(of, of->communication);
    for (int32_t i = 0; i < n; i++) {
        d->joined_by[c][i] = 2 * ((from + i) % of->n_devices) + lane;
        add(d, CLEAVE_PRICED_JOIN, d->joined_by[c][i], c, duration(of));
    }
    for (int32_t l = 0; l < of->n_links; l++)
        if (draw_chance(of, 40))
            d->links[at++] = l;
    d->joins[c] = n;
    d->busy[c] = duration(of);
    d->rest[c] = duration(of);
    d->link_start[c + 1] = at;
}

/* Gradients: communication lanes follow the main lanes, join a collective and wait for it. */
static void add_meeting(drawn_fragments *of, drawn_fragment *d) {
    cleave_priced_fragment *f = &d->fragment;
    int32_t c = f->n_collectives, n = 1 + draw_below(of, of->n_devices), at = d->link_start[c];
    int32_t first = f->n_marks, from = draw_below(of, of->n_devices);
    if (c == MAX_COLLECTIVES || f->n_items > MAX_ITEMS - 48 || first > MAX_MARKS - 2 * n)
        return;
    f->n_collectives++;
    f->n_marks += 2 * n;
    for (int32_t i = 0; i < n; i++) {
        d->joined_by[c][i] = 2 * ((from + i) % of->n_devices) + 1;
        d->mark_queue[first + i] = d->joined_by[c][i] - 1;
        d->mark_queue[first + n + i] = d->joined_by[c][i];
        add(d, CLEAVE_PRICED_MARK, d->joined_by[c][i] - 1, first + i, 0);
        if (draw_chance(of, 80))
            add(d, CLEAVE_PRICED_SYNC, d->joined_by[c][i], first + i, 0);
    }
    for (int32_t i = 0; i < n; i++)
        add(d, CLEAVE_PRICED_JOIN, d->joined_by[c][i], c, duration(of));
    bool has_own_links = draw_chance(of, 30); /* else as many as possible meet again and again */
    for (int32_t l = 0; l < of->n_links; l++)
        if (!has_own_links || draw_chance(of, 40))
            d->links[at++] = l;
    d->joins[c] = n;
    d->busy[c] = duration(of) * (1 + draw_below(of, 8));
    d->rest[c] = duration(of);
    d->link_start[c + 1] = at;
    for (int32_t i = 0; i < n; i++)
        if (draw_chance(of, 98))
            add(d, CLEAVE_PRICED_AWAIT, d->joined_by[c][i], c, 0);
    for (int32_t i = 0; i < n; i++)
        add(d, CLEAVE_PRICED_MARK, d->joined_by[c][i], first + n + i, 0);
    if (draw_chance(of, 10))
        add(d, CLEAVE_PRICED_SYNC, d->joined_by[c][0] - 1, first + n, 0);
}

static void add_wait(drawn_fragments *of, drawn_fragment *d) {
    const cleave_priced_fragment *f = &d->fragment;
    int32_t what = draw_below(of, 4), s;
    if (what < 2 && f->n_messages > 0) {
        s = draw_below(of, f->n_messages);
        add(d, what == 0 ? CLEAVE_PRICED_WAIT_RELEASE : CLEAVE_PRICED_WAIT_ARRIVAL,
            draw_chance(of, of->strangers) ? some_queue(of) : d->ends[s][what], s, 0);
    } else if (what == 2 && f->n_collectives > 0) {
        s = draw_below(of, f->n_collectives);
        add(d, CLEAVE_PRICED_AWAIT, d->joined_by[s][draw_below(of, d->joins[s])], s, 0);
    } else if (what == 3 && f->n_marks > 0) {
        s = draw_below(of, f->n_marks);
        add(d, CLEAVE_PRICED_SYNC, d->mark_queue[s] ^ 1, s, 0);
    }
}

static void add_event(drawn_fragments *of, drawn_fragment *d) {
    cleave_priced_fragment *f = &d->fragment;
    int32_t what = draw_below(of, 100);
    if (f->n_items > MAX_ITEMS - 8)
        return;
    if (what < of->waits) {
        add_wait(of, d);
    } else if (what < of->waits + 20) {
        add_messages(of, d);
    } else if (what < of->waits + 24) {
        add_collective(of, d);
    } else if (what < of->waits + 32 && f->n_marks < MAX_MARKS) {
        d->mark_queue[f->n_marks] = some_queue(of);
        add(d, CLEAVE_PRICED_MARK, d->mark_queue[f->n_marks], f->n_marks, 0);
        f->n_marks++;
    } else if (what < of->waits + 35) {
        add_follower(of, d);
    } else if (what < of->waits + 38) {
        work_everywhere(of, d);
    } else if (what < of->waits + 38 + of->rows) {
        add_row(of, d);
    } else {
        add(d, CLEAVE_PRICED_WORK, some_queue(of), -1, duration(of));
    }
}

static void point_at_arrays(drawn_fragment *d, bool works) {
    cleave_priced_fragment *f = &d->fragment;
    f->chunks = d->chunks;
    f->kind = d->kind;
    f->queue = d->queue;
    f->subject = d->subject;
    f->duration = d->duration;
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

static void draw_fragment(drawn_fragments *of, drawn_fragment *d) {
    memset(d, 0, sizeof *d);
    point_at_arrays(d, of->works > 0);
    int32_t slot = draw_below(of, of->n_slots), rank = 0;
    int32_t n = 1 + draw_below(of, MAX_CHUNKS);
    for (int32_t c = 0; c < n; c++) {
        int32_t then = slot + (c == 0 ? 0 : draw_below(of, of->reach));
        if (then >= of->n_slots)
            break;
        rank = then == slot ? rank + draw_below(of, 2) : draw_below(of, 3);
        slot = then;
        d->chunks[d->fragment.n_chunks++] =
            (cleave_priced_chunk){.slot = slot, .rank = rank, .first_item = d->fragment.n_items};
        if (draw_chance(of, of->meetings))
            add_meeting(of, d);
        else
            for (int32_t k = draw_below(of, of->events); k > 0; k--)
                add_event(of, d);
    }
}

/* Two messages change their numbers, and two marks, so that chunks may be alike that number what
   they do in another way. */
static void renumber(drawn_fragments *of, drawn_fragment *d) {
    cleave_priced_fragment *f = &d->fragment;
    int32_t a = draw_below(of, f->n_messages + 1) - 1, b = draw_below(of, f->n_messages + 1) - 1,
            at = 0;
    int32_t j = draw_below(of, f->n_marks + 1) - 1, k = draw_below(of, f->n_marks + 1) - 1;
    drawn_fragment was = *d;
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
        bool of_mark = d->kind[i] == CLEAVE_PRICED_MARK || d->kind[i] == CLEAVE_PRICED_SYNC;
        bool of_message = d->kind[i] == CLEAVE_PRICED_POST ||
                          d->kind[i] == CLEAVE_PRICED_WAIT_ARRIVAL ||
                          d->kind[i] == CLEAVE_PRICED_WAIT_RELEASE;
        int32_t x = of_mark ? j : a, y = of_mark ? k : b, s = d->subject[i];
        if ((of_mark || of_message) && x >= 0 && y >= 0)
            d->subject[i] = s == x ? y : s == y ? x : s;
    }
    if (j >= 0 && k >= 0) {
        d->mark_queue[j] = was.mark_queue[k];
        d->mark_queue[k] = was.mark_queue[j];
    }
}

/* A wait for a message waits for another one that has been posted. */
static void redirect(drawn_fragments *of, drawn_fragment *d) {
    int posts[MAX_MESSAGES] = {0};
    for (int32_t i = 0; i < d->fragment.n_items; i++) {
        int32_t *subject = &d->subject[i];
        int32_t m = draw_below(of, d->fragment.n_messages + 1) - 1;
        if (d->kind[i] == CLEAVE_PRICED_POST)
            posts[*subject]++;
        else if ((d->kind[i] == CLEAVE_PRICED_WAIT_ARRIVAL ||
                  d->kind[i] == CLEAVE_PRICED_WAIT_RELEASE) &&
                 m >= 0 && posts[m] == 2 && draw_chance(of, 10))
            *subject = m;
    }
}

/* The same fragment with some durations of its own, as where only prices change. */
static void draw_like(drawn_fragments *of, drawn_fragment *d, const drawn_fragment *like) {
    *d = *like;
    point_at_arrays(d, of->works > 0);
    if (draw_chance(of, 50))
        renumber(of, d);
    if (of->strangers > 0 && draw_chance(of, 30))
        redirect(of, d);
    int per_cent = draw_chance(of, 50) ? 20 : 3;
    for (int32_t i = 0; i < d->fragment.n_items; i++)
        if (d->duration[i] > 0 && draw_chance(of, per_cent))
            d->duration[i] = duration(of);
    int32_t n_hops = d->hop_start[d->fragment.n_messages];
    for (int32_t h = 0; h < n_hops; h++)
        if (draw_chance(of, 10))
            d->hop_serialization[h] = 1 + cleave_random_below(&of->random, of->longest);
    for (int32_t m = 0; m < d->fragment.n_messages; m++)
        if (d->work[m].work > 0 && draw_chance(of, 10))
            d->work[m].work = 1 + cleave_random_below(&of->random, of->longest);
}

void draw_fragments(drawn_fragments *of) {
    of->n_devices = 1 + draw_below(of, MAX_DEVICES);
    of->n_links = 1 + draw_below(of, MAX_LINKS);
    of->n_slots = 3 + draw_below(of, MAX_SLOTS - 3);
    of->longest = (const int64_t[]){3, 20, 1000, INT64_C(1000000000)}[draw_below(of, 4)];
    of->zeros = 40 * draw_below(of, 2);
    of->communication = (const int[]){0, 10, 40}[draw_below(of, 3)];
    of->waits = (const int[]){5, 30, 60}[draw_below(of, 3)];
    of->reach = (const int[]){3, 8, MAX_SLOTS}[draw_below(of, 3)];
    of->strangers = 30 * draw_below(of, 2);
    of->works = (const int[]){0, 30, 100}[draw_below(of, 3)];
    of->rows = of->waits < 30 ? (const int[]){0, 15, 50}[draw_below(of, 3)] : 0;
    of->meetings = (const int[]){0, 20, 60}[draw_below(of, 3)];
    of->events = 10;
    if (draw_chance(of, 40)) { /* devices with little to do with one another, but for late waits */
        of->n_devices = MAX_DEVICES;
        of->communication = of->meetings = of->rows = 0;
        of->waits = 40;
        of->strangers = 100;
        of->events = 3;
    }
    for (int32_t l = 0; l < of->n_links; l++)
        of->latency[l] = duration(of);
    for (int32_t f = 0; f < POOL; f++)
        if (f > 0 && draw_chance(of, 50))
            draw_like(of, &of->pool[f], &of->pool[draw_below(of, f)]);
        else
            draw_fragment(of, &of->pool[f]);
}
