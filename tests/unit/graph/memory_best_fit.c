/* The memory plan places the lives of a device as the plainest best fit does (one list of free
   ranges, looked through for every life), or they take less than so; and what lives at once never
   shares a byte.  By size, too, each span lies where the plainest search puts it. */
#include "../../support/ok.h"
#include "base/random.h"
#include "graph/program/memory_by_size.h"
#include "graph/program/memory_plan.h"

#include <criterion/criterion.h>

enum { MOST_LIVES = 400, MOST_RANGES = 2 * MOST_LIVES, DEVICES = 4, ITEMS = 90 };

typedef struct range {
    int64_t offset, bytes;
} range;

/* Best fit by hand, of one device: `offset` of its lives, and the arena's size. */
typedef struct plain {
    range free[MOST_RANGES];
    int n;
    int64_t top;
} plain;

static int64_t plain_take(plain *p, int64_t bytes) {
    int best = -1;
    for (int i = 0; i < p->n; i++)
        if (p->free[i].bytes >= bytes &&
            (best < 0 || p->free[i].bytes < p->free[best].bytes ||
             (p->free[i].bytes == p->free[best].bytes && p->free[i].offset < p->free[best].offset)))
            best = i;
    for (int i = 0; best < 0 && i < p->n; i++) /* what is free at the end grows */
        if (p->free[i].offset + p->free[i].bytes == p->top) {
            p->top = p->free[i].offset + bytes;
            p->free[i].bytes = bytes;
            best = i;
        }
    if (best < 0) {
        p->top += bytes;
        return p->top - bytes;
    }
    int64_t offset = p->free[best].offset;
    p->free[best].offset += bytes;
    p->free[best].bytes -= bytes;
    if (p->free[best].bytes == 0)
        p->free[best] = p->free[--p->n];
    return offset;
}

static void plain_give(plain *p, range given) {
    for (int i = 0; i < p->n;) {
        range *of = &p->free[i];
        if (of->offset + of->bytes != given.offset && given.offset + given.bytes != of->offset) {
            i++;
            continue;
        }
        given.offset = of->offset < given.offset ? of->offset : given.offset;
        given.bytes += of->bytes;
        *of = p->free[--p->n];
        i = 0;
    }
    p->free[p->n++] = given;
}

static int64_t plain_plan(const cleave_lives *lives, int32_t device, int64_t *offset) {
    static plain p;
    p = (plain){0};
    for (int32_t item = 0; item < lives->n_items; item++) {
        for (int32_t l = 0; l < lives->n; l++)
            if (lives->items[l].device == device && lives->items[l].first == item &&
                lives->items[l].bytes > 0)
                offset[l] = plain_take(&p, cleave_buffer_aligned(lives->items[l].bytes));
        for (int32_t l = 0; l < lives->n; l++)
            if (lives->items[l].device == device && lives->items[l].last == item &&
                lives->items[l].bytes > 0)
                plain_give(&p, (range){offset[l], cleave_buffer_aligned(lives->items[l].bytes)});
    }
    return p.top;
}

/* Some are used by the communication lane alone, for part of their lives. */
static void draw_lane(cleave_random *random, cleave_life *items, int32_t n) {
    for (int32_t l = 0; l < n; l++) {
        cleave_life *of = &items[l];
        if (cleave_random_below(random, 2) == 0)
            continue;
        int32_t room = of->last - of->first + 1;
        of->lane_only = true;
        of->lane_first = of->first + (int32_t)cleave_random_below(random, room);
        of->lane_last =
            of->lane_first + (int32_t)cleave_random_below(random, of->last - of->lane_first + 1);
    }
}

static cleave_lives draw(cleave_random *random, bool alike, bool lane) {
    static cleave_life items[MOST_LIVES];
    int32_t n = DEVICES * (1 + (int32_t)cleave_random_below(random, MOST_LIVES / DEVICES));
    for (int32_t l = 0; l < n; l++) {
        if (alike &&
            l % DEVICES != 0) { /* as on the device before, but for when it ends, perhaps */
            items[l] = items[l - 1];
            items[l].device = l % DEVICES;
            if (cleave_random_below(random, 200) == 0)
                items[l].last = ITEMS - 1;
            continue;
        }
        int32_t first = (int32_t)cleave_random_below(random, ITEMS);
        int32_t left = (int32_t)cleave_random_below(random, 4) == 0 ? ITEMS - first : 6;
        int32_t last = first + (int32_t)cleave_random_below(random, left);
        items[l] = (cleave_life){.bytes = 40 * cleave_random_below(random, 12),
                                 .device = alike ? 0 : (int32_t)cleave_random_below(random, 3),
                                 .first = first,
                                 .last = last < ITEMS ? last : ITEMS - 1};
    }
    if (lane)
        draw_lane(random, items, n);
    return (cleave_lives){.n = n, .n_devices = DEVICES, .n_items = ITEMS, .items = items};
}

static void expect_disjoint(const cleave_lives *lives, const int64_t *offset, const int64_t *peak) {
    for (int32_t a = 0; a < lives->n; a++) {
        const cleave_life *x = &lives->items[a];
        cr_assert(x->bytes == 0 || offset[a] + x->bytes <= peak[x->device]);
        for (int32_t b = 0; b < a; b++) {
            const cleave_life *y = &lives->items[b];
            bool together = x->device == y->device && x->first <= y->last && y->first <= x->last &&
                            (!x->lane_only || !y->lane_only ||
                             (x->lane_first <= y->lane_last && y->lane_first <= x->lane_last));
            bool apart = offset[a] + x->bytes <= offset[b] || offset[b] + y->bytes <= offset[a];
            cr_assert(!together || apart || x->bytes == 0 || y->bytes == 0);
        }
    }
}

Test(memory_best_fit, is_best_fit) {
    int n_plain = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        cleave_random random = {.key = seed};
        int64_t offset[MOST_LIVES] = {0}, plain_offset[MOST_LIVES] = {0}, peak[DEVICES];
        const cleave_lives lives = draw(&random, seed % 2 == 0, false);
        OK(cleave_memory_plan_lives, &lives, NULL, offset, peak);
        bool is_plain[DEVICES];
        for (int32_t d = 0; d < DEVICES; d++) {
            int64_t plain_peak = plain_plan(&lives, d, plain_offset);
            is_plain[d] = peak[d] == plain_peak;
            n_plain += is_plain[d];
            cr_assert_leq(peak[d], plain_peak, "seed %d", (int)seed);
        }
        for (int32_t l = 0; l < lives.n; l++)
            cr_assert(!is_plain[lives.items[l].device] || offset[l] == plain_offset[l],
                      "seed %d, life %d", (int)seed, l);
        expect_disjoint(&lives, offset, peak);
    }
    cr_expect_gt(n_plain, 100);
}

Test(memory_best_fit, what_the_lane_uses_alone_lies_by_its_order) {
    int n_smaller = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        cleave_random random = {.key = seed};
        int64_t offset[MOST_LIVES] = {0}, by_main[MOST_LIVES] = {0}, peak[DEVICES];
        const cleave_lives lives = draw(&random, false, true);
        OK(cleave_memory_plan_lives, &lives, NULL, offset, peak);
        expect_disjoint(&lives, offset, peak);
        for (int32_t d = 0; d < DEVICES; d++) {
            int64_t plain_peak = plain_plan(&lives, d, by_main);
            cr_assert_leq(peak[d], plain_peak, "seed %d", (int)seed);
            n_smaller += peak[d] < plain_peak * 9 / 10;
        }
    }
    cr_expect_gt(n_smaller, 300);
}

/* Devices, alike or not, with more room than the plan needs, or just as much; and one of them with
   a byte less. */
Test(memory_best_fit, lives_fit_where_no_arena_of_the_plan_is_larger) {
    for (uint64_t seed = 0; seed < 300; seed++) {
        cleave_random random = {.key = seed};
        int64_t offset[MOST_LIVES] = {0}, peak[DEVICES], room[DEVICES];
        const cleave_lives lives = draw(&random, seed % 2 == 0, seed % 3 > 0);
        OK(cleave_memory_plan_lives, &lives, NULL, offset, peak);
        for (int32_t d = 0; d < DEVICES; d++)
            room[d] = peak[d] + 3000 * cleave_random_below(&random, 2);
        bool fit = false;
        OK(cleave_memory_lives_fit, &lives, room, &fit);
        cr_expect(fit, "seed %d", (int)seed);
        int64_t peak_of_enough[DEVICES];
        OK(cleave_memory_plan_lives, &lives, room, offset, peak_of_enough);
        expect_disjoint(&lives, offset, peak_of_enough);
        for (int32_t d = 0; d < DEVICES; d++)
            cr_expect(peak[d] <= peak_of_enough[d] && peak_of_enough[d] <= room[d]);
        int32_t short_of = (int32_t)cleave_random_below(&random, DEVICES);
        room[short_of] = peak[short_of] - 1;
        OK(cleave_memory_plan_lives, &lives, room, offset, peak_of_enough);
        cr_expect_eq(peak_of_enough[short_of], peak[short_of]);
        OK(cleave_memory_lives_fit, &lives, room, &fit);
        cr_expect(!fit, "seed %d", (int)seed);
    }
}

/* A gradient after the other is summed up beside the main lane, which waits at the end. */
Test(memory_best_fit, sums_beside_the_main_lane_take_turns) {
    cleave_life items[21] = {{.bytes = 640, .first = 0, .last = 5}};
    for (int32_t l = 0; l < 20; l++)
        items[1 + l] = (cleave_life){.bytes = 64 * (1 + l % 4),
                                     .first = 3 + l,
                                     .last = 60,
                                     .lane_only = true,
                                     .lane_first = 20 + 2 * l,
                                     .lane_last = 21 + 2 * l};
    const cleave_lives lives = {.n = 21, .n_devices = 1, .n_items = 61, .items = items};
    int64_t offset[21] = {0}, peak[1];
    OK(cleave_memory_plan_lives, &lives, NULL, offset, peak);
    cr_expect_eq(peak[0], 640 + 256);
    expect_disjoint(&lives, offset, peak);
}

Test(memory_best_fit, too_many_bytes_are_refused) {
    cleave_error error;
    const cleave_life items[] = {
        {.bytes = INT64_MAX / 2}, {.bytes = INT64_MAX / 2}, {.bytes = INT64_MAX / 2}};
    const cleave_lives lives = {.n = 3, .n_devices = 1, .n_items = 1, .items = items};
    int64_t offset[3] = {0}, peak[1];
    cr_expect_eq(cleave_memory_plan_lives(&lives, NULL, offset, peak, &error), CLEAVE_FAILED);
}

/* The same lives come first with enough for any plan, and then with enough for none: what was left
   out the first time is not taken for the least. */
Test(memory_best_fit, sizes_of_known_devices_are_the_least_where_that_is_wanted) {
    int n_larger = 0;
    for (uint64_t seed = 0; seed < 100; seed++) {
        cleave_random random = {.key = seed};
        cleave_planned_devices known = {0};
        int64_t offset[MOST_LIVES] = {0}, peak[DEVICES], size[DEVICES], enough[DEVICES];
        const cleave_lives lives = draw(&random, seed % 2 == 0, true);
        OK(cleave_memory_plan_lives, &lives, NULL, offset, peak);
        for (int pass = 0; pass < 2; pass++) {
            for (int32_t d = 0; d < DEVICES; d++)
                enough[d] = pass == 0 ? INT64_MAX : -1;
            OK(cleave_memory_plan_sizes, &lives, enough, &known, size);
            for (int32_t d = 0; d < DEVICES; d++) {
                n_larger += size[d] > peak[d];
                cr_expect(pass == 0 ? size[d] >= peak[d] : size[d] == peak[d], "seed %d",
                          (int)seed);
            }
        }
        CLEAVE_LIST_FREE(&known);
    }
    cr_expect_gt(n_larger, 10);
}

enum { MOST_SPANS = 600 };

static bool live_at_once(const cleave_span *a, const cleave_span *b) {
    return a->begin <= b->end && b->begin <= a->end &&
           (!a->lane_only || !b->lane_only ||
            (a->lane_begin <= b->lane_end && b->lane_begin <= a->lane_end));
}

/* The lowest place at which a span meets none of those before it: 0, or where one ends. */
static int64_t plain_lowest(const cleave_span *spans, int32_t k) {
    int64_t lowest = -1;
    for (int32_t i = -1; i < k; i++) {
        int64_t at = i < 0 ? 0 : spans[i].offset + spans[i].bytes;
        bool free = lowest < 0 || at < lowest;
        for (int32_t j = 0; j < k && free; j++)
            free = !live_at_once(&spans[j], &spans[k]) || at + spans[k].bytes <= spans[j].offset ||
                   spans[j].offset + spans[j].bytes <= at;
        lowest = free ? at : lowest;
    }
    return lowest;
}

static int32_t draw_spans(cleave_random *random, cleave_span *spans) {
    int32_t n = 1 + (int32_t)cleave_random_below(random, MOST_SPANS);
    int32_t moments = 1 + (int32_t)cleave_random_below(random, 2000);
    for (int32_t k = 0; k < n; k++) {
        int32_t begin = (int32_t)cleave_random_below(random, moments);
        int32_t longest = cleave_random_below(random, 4) == 0 ? moments : 1 + moments / 40;
        int32_t end = begin + (int32_t)cleave_random_below(random, longest);
        spans[k] = (cleave_span){.bytes = 1 + (int64_t)cleave_random_below(random, 60),
                                 .begin = begin,
                                 .end = end,
                                 .lane_begin = (begin + end) / 2,
                                 .lane_end = end,
                                 .lane_only = cleave_random_below(random, 3) == 0};
    }
    return n;
}

Test(memory_best_fit, by_size_each_lies_as_low_as_it_can) {
    static cleave_span spans[MOST_SPANS];
    static int32_t lists[MOST_SPANS * CLEAVE_LISTED_OF_SPAN];
    cleave_random random = {.key = 29};
    for (int drawn = 0; drawn < 60; drawn++) {
        int32_t n = draw_spans(&random, spans);
        int64_t top, highest = 0;
        cr_assert(cleave_place_by_size(spans, n, INT64_MAX, lists, &top));
        for (int32_t k = 0; k < n; k++) {
            int64_t end = spans[k].offset + spans[k].bytes;
            cr_assert(k == 0 || spans[k].bytes <= spans[k - 1].bytes);
            cr_assert_eq(spans[k].offset, plain_lowest(spans, k), "draw %d, span %d", drawn, k);
            highest = end > highest ? end : highest;
        }
        cr_assert_eq(top, highest);
        cr_assert_not(cleave_place_by_size(spans, n, top, lists, &top));
    }
}
