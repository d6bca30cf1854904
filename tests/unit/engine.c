/* The engines against makespans worked out by hand, and against each other. */
#include "simulator/engine.h"

#include "simulator/critical_path.h"

#include "base/random.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { W = CLEAVE_ENGINE_WORK, P = CLEAVE_ENGINE_POST, A = CLEAVE_ENGINE_WAIT_ARRIVAL };
enum { R = CLEAVE_ENGINE_WAIT_RELEASE, S = CLEAVE_ENGINE_SYNC };
enum { J = CLEAVE_ENGINE_JOIN, T = CLEAVE_ENGINE_AWAIT };

enum { ROOM = 4096 };

/* A problem under construction, with room for small cases. */
typedef struct bench {
    cleave_engine_problem problem;
    uint8_t kind[ROOM];
    int32_t queue[ROOM], subject[ROOM];
    int64_t duration[ROOM];
    int32_t hop_start[ROOM + 1], hop_link[ROOM];
    int64_t hop_serialization[ROOM], link_latency[64];
    cleave_message_ends ends[ROOM];
    int32_t joins[8], collective_link_start[9], collective_links[8];
    int64_t busy[8], rest[8];
    cleave_arena arena;
    cleave_engine_workspace *workspace;
    cleave_timeline timeline;
} bench;

static bench *bench_create(int32_t n_devices, int32_t n_links) {
    bench *b = calloc(1, sizeof *b);
    cr_assert_not_null(b);
    b->problem = (cleave_engine_problem){.n_queues = 2 * n_devices,
                                         .n_links = n_links,
                                         .kind = b->kind,
                                         .queue = b->queue,
                                         .subject = b->subject,
                                         .duration = b->duration,
                                         .hop_start = b->hop_start,
                                         .hop_link = b->hop_link,
                                         .hop_serialization = b->hop_serialization,
                                         .link_latency = b->link_latency,
                                         .collective_joins = b->joins,
                                         .collective_busy = b->busy,
                                         .collective_rest = b->rest,
                                         .collective_link_start = b->collective_link_start,
                                         .collective_links = b->collective_links};
    return b;
}

static void bench_destroy(bench *b) {
    cleave_arena_free(&b->arena);
    free(b);
}

static int32_t item(bench *b, int32_t queue, int kind, int32_t subject, int64_t duration) {
    int32_t i = b->problem.n_items++;
    cr_assert_lt(i, ROOM);
    b->kind[i] = (uint8_t)kind;
    b->queue[i] = queue;
    b->subject[i] = subject;
    b->duration[i] = duration;
    return i;
}

/* A message over one or two links; serialization is the same on both. */
static int32_t message(bench *b, int32_t first, int32_t second, int64_t serialization) {
    int32_t m = b->problem.n_messages++, at = b->hop_start[m];
    b->hop_link[at] = first;
    b->hop_serialization[at++] = serialization;
    if (second >= 0) {
        b->hop_link[at] = second;
        b->hop_serialization[at++] = serialization;
    }
    b->hop_start[m + 1] = at;
    return m;
}

/* What the ends of a message do while it is on its way. */
static void ends(bench *b, int32_t m, int64_t work, int32_t source, int32_t destination) {
    b->problem.ends = b->ends;
    b->ends[m] = (cleave_message_ends){work, source, destination};
}

static void finish(bench *b) {
    cleave_error error = {""};
    cr_assert_eq(cleave_engine_finish(&b->problem, &b->arena, &error), CLEAVE_OK, "%s",
                 error.message);
    cr_assert_eq(cleave_engine_workspace_create(&b->problem, &b->arena, &b->workspace, &error), 0);
    cr_assert_eq(cleave_engine_timeline_create(&b->problem, &b->arena, &b->timeline, &error), 0);
}

static int64_t events(bench *b) {
    cleave_error error = {""};
    cr_assert_eq(cleave_engine_run_events(&b->problem, b->workspace, &b->timeline, &error),
                 CLEAVE_OK, "%s", error.message);
    return b->timeline.step;
}

static int64_t scan(bench *b) {
    cleave_error error = {""};
    cr_assert_eq(cleave_engine_run_scan(&b->problem, b->workspace, &b->timeline, &error), CLEAVE_OK,
                 "%s", error.message);
    return b->timeline.step;
}

/* Device 0 works 100, posts m (5) and works 50 more.  Device 1 posts m (3), works 40, waits for m
   and works 20.  m is ready at 105, takes its link for 30 and arrives 7 later, at 142: while device
   0 works until 155, device 1 goes on at 142 and ends at 162. */
Test(engine, computing_and_transferring_overlap) {
    bench *b = bench_create(2, 1);
    b->link_latency[0] = 7;
    int32_t m = message(b, 0, -1, 30);
    item(b, 0, W, -1, 100);
    item(b, 2, P, m, 3);
    item(b, 2, W, -1, 40);
    item(b, 0, P, m, 5);
    int32_t last_of_0 = item(b, 0, W, -1, 50);
    int32_t wait = item(b, 2, A, m, 0);
    item(b, 2, W, -1, 20);
    finish(b);
    for (int rule = 0; rule < 2; rule++) {
        cr_expect_eq(rule ? scan(b) : events(b), 162);
        cr_expect_eq(b->timeline.arrival[m], 142);
        cr_expect_eq(b->timeline.start[wait], 43);
        cr_expect_eq(b->timeline.end[wait], 142);
        cr_expect_eq(b->timeline.end[last_of_0], 155);
    }
    bench_destroy(b);
}

/* m crosses link 0 (latency 4) and link 1 (latency 6), 30 on each: s1 = 10, s2 = 14, free2 = 44,
   arrived max(40 + 4 + 6, 44 + 6) = 50.  The sender may go on at 40. */
Test(engine, two_hops_cut_through_a_switch) {
    bench *b = bench_create(2, 2);
    b->link_latency[0] = 4;
    b->link_latency[1] = 6;
    int32_t m = message(b, 0, 1, 30);
    item(b, 0, P, m, 10);
    item(b, 2, P, m, 2);
    int32_t release = item(b, 0, R, m, 0);
    item(b, 2, A, m, 0);
    finish(b);
    for (int rule = 0; rule < 2; rule++) {
        cr_expect_eq(rule ? scan(b) : events(b), 50);
        cr_expect_eq(b->timeline.end[release], 40);
        cr_expect_eq(cleave_engine_hop_begin(b->workspace)[1], 14);
    }
    bench_destroy(b);
}

/* Posted at 2 and 3.  The link takes 3..33, its first byte is out at 10, and from then on both
   processors work for 50: until 60, when it has arrived, since the last byte was out at 40, and has
   left.  Device 0 works 20 from 2 on, of which 8 are done at 10 and the rest from 60 on. */
Test(engine, processors_work_on_a_message_beside_its_link) {
    bench *b = bench_create(2, 1);
    b->link_latency[0] = 7;
    int32_t m = message(b, 0, -1, 30);
    ends(b, m, 50, 0, 1);
    item(b, 0, P, m, 2);
    item(b, 2, P, m, 3);
    int32_t work = item(b, 0, W, -1, 20);
    int32_t release = item(b, 0, R, m, 0);
    item(b, 2, A, m, 0);
    item(b, 2, W, -1, 5);
    finish(b);
    for (int rule = 0; rule < 2; rule++) {
        cr_expect_eq(rule ? scan(b) : events(b), 72);
        cr_expect_eq(b->timeline.arrival[m], 60);
        cr_expect_eq(b->timeline.end[work], 72);
        cr_expect_eq(b->timeline.end[release], 72);
        cr_expect_eq(b->timeline.end[5], 65);
        for (int e = 0; e < 2; e++)
            cr_expect_eq(cleave_engine_end_begin(b->workspace)[e], 10);
    }
    bench_destroy(b);
}

/* Two messages, one each way, 90 on their links, 50 of either processor: by links alone both are
   there at 90, but device 1 works for the first 0..50 and for the second 50..100, which so is there
   at 100: max(90, 2 x 50).  No post waits for the work of the other message. */
Test(engine, processors_work_on_messages_both_ways_in_turn) {
    bench *b = bench_create(2, 2);
    int32_t there = message(b, 0, -1, 90), back = message(b, 1, -1, 90);
    ends(b, there, 50, 0, 1);
    ends(b, back, 50, 1, 0);
    for (int32_t d = 0; d < 2; d++)
        item(b, 2 * d, P, there, 0);
    for (int32_t d = 0; d < 2; d++)
        item(b, 2 * d, P, back, 0);
    for (int32_t d = 0; d < 2; d++)
        item(b, 2 * d, A, d == 0 ? back : there, 0);
    finish(b);
    for (int rule = 0; rule < 2; rule++) {
        cr_expect_eq(rule ? scan(b) : events(b), 100);
        cr_expect_eq(b->timeline.arrival[there], 90);
        cr_expect_eq(b->timeline.arrival[back], 100);
    }
    bench_destroy(b);
}

/* The communication lanes' message is on its way 100..110 and works its ends 100..140.  Main works
   120 and 10 more, from 0 on: 0..160, 160..170.  By the scan it stands behind the first piece in
   the program, and so puts the lane's clock back by 40, into which what follows falls. */
Test(engine, work_with_a_message_of_communication_is_taken_from_the_main_lane) {
    bench *b = bench_create(2, 1);
    int32_t m = message(b, 0, -1, 10);
    ends(b, m, 40, 0, 1);
    int32_t first = item(b, 0, W, -1, 120);
    item(b, 3, W, -1, 100);
    item(b, 3, P, m, 0);
    item(b, 1, P, m, 0);
    int32_t second = item(b, 0, W, -1, 10);
    finish(b);
    cr_expect_eq(events(b), 170);
    cr_expect_eq(b->timeline.end[first], 160);
    cr_expect_eq(scan(b), 170);
    cr_expect_eq(b->timeline.end[first], 120);
    cr_expect_eq(b->timeline.start[second], 160);
    bench_destroy(b);
}

/* Devices 0 and 1 send to device 2 over the one link.  m0 stands first in the program but is ready
   at 100, m1 at 10; each takes 50.  By readiness m1 goes at 10..60 and m0 at 100..150: 150.  In
   program order m0 goes at 100..150 and m1 at 150..200: 200. */
Test(engine, rules_differ_where_a_link_is_shared) {
    bench *b = bench_create(3, 1);
    int32_t m0 = message(b, 0, -1, 50), m1 = message(b, 0, -1, 50);
    item(b, 4, P, m0, 0);
    item(b, 4, P, m1, 0);
    item(b, 0, P, m0, 100);
    item(b, 2, P, m1, 10);
    item(b, 4, A, m0, 0);
    item(b, 4, A, m1, 0);
    finish(b);
    cr_expect_eq(events(b), 150);
    cr_expect_eq(b->timeline.arrival[m1], 60);
    cr_expect_eq(scan(b), 200);
    bench_destroy(b);
}

/* Devices 2 and 3 exchange `late` in their communication lanes when device 2 has worked 1000 there:
   1000..1100 on the link.  `early` of devices 0 and 1 stands later in the program, in their main
   lanes, and is ready at 10: 10..30 by both rules, and `late` is as late as it was. */
Test(engine, a_late_transfer_of_communication_lets_an_early_one_pass) {
    bench *b = bench_create(4, 1);
    int32_t late = message(b, 0, -1, 100), early = message(b, 0, -1, 20);
    int32_t next = message(b, 0, -1, 5);
    item(b, 5, W, -1, 1000);
    item(b, 5, P, late, 0);
    item(b, 7, P, late, 0);
    item(b, 0, W, -1, 10);
    item(b, 0, P, early, 0);
    item(b, 2, P, early, 0);
    item(b, 5, P, next, 0);
    item(b, 7, P, next, 0);
    finish(b);
    for (int rule = 0; rule < 2; rule++) {
        int64_t step = rule ? scan(b) : events(b);
        cr_expect_eq(b->timeline.arrival[early], 30, "rule %d: %lld", rule,
                     (long long)b->timeline.arrival[early]);
        cr_expect_eq(b->timeline.arrival[late], 1100);
        cr_expect_eq(b->timeline.arrival[next], 1105);
        cr_expect_eq(step, 1000);
    }
    bench_destroy(b);
}

/* Communication has the link for five messages, each posted 10 after the one before has arrived:
   0..100, 110..210 and so on to 540.  The main lane's message is ready at 150.  By readiness it
   waits for the second of these: 210..230, the third begins at 230 instead of 220, and the fifth
   ends at 550.  The scan comes to it when all five are done, and lets it wait for as long as one
   takes: 250..270; so what communication posts next, at 550, gets the link at 560, as by events. */
Test(engine, a_main_transfer_waits_for_one_transfer_of_communication) {
    bench *b = bench_create(4, 1);
    int32_t m[6];
    for (int k = 0; k < 6; k++) {
        m[k] = message(b, 0, -1, k < 5 ? 100 : 5);
        if (k == 5) {
            int32_t early = message(b, 0, -1, 20);
            item(b, 0, W, -1, 150);
            item(b, 0, P, early, 0);
            item(b, 2, P, early, 0);
        }
        item(b, 5, W, -1, k > 0 ? 10 : 0);
        item(b, 5, P, m[k], 0);
        item(b, 7, P, m[k], 0);
        item(b, 5, A, m[k], 0);
    }
    finish(b);
    cr_expect_eq(events(b), 565);
    cr_expect_eq(b->timeline.arrival[m[5] + 1], 230);
    cr_expect_eq(scan(b), 565);
    cr_expect_eq(b->timeline.arrival[m[5] + 1], 270);
    bench_destroy(b);
}

/* Communication posts three messages at once, which have the link for 0..300, and one at 350.  The
   main lane's message is ready at 40 and waits for all three by readiness: 300..320.  The scan lets
   it wait for as long as their run takes: 340..360. */
Test(engine, a_main_transfer_waits_for_a_run_of_communication) {
    bench *b = bench_create(4, 1);
    for (int k = 0; k < 4; k++) {
        int32_t m = message(b, 0, -1, 100);
        if (k == 3)
            item(b, 5, W, -1, 350);
        item(b, 5, P, m, 0);
        item(b, 7, P, m, 0);
    }
    int32_t early = message(b, 0, -1, 20);
    item(b, 0, W, -1, 40);
    item(b, 0, P, early, 0);
    item(b, 2, P, early, 0);
    finish(b);
    events(b);
    cr_expect_eq(b->timeline.arrival[early], 320);
    scan(b);
    cr_expect_eq(b->timeline.arrival[early], 360);
    bench_destroy(b);
}

/* Both ready at 5: the smaller id goes first, 5..25, then 25..45, whichever was posted first. */
Test(engine, ties_go_to_the_smaller_message) {
    bench *b = bench_create(3, 1);
    int32_t m0 = message(b, 0, -1, 20), m1 = message(b, 0, -1, 20);
    item(b, 4, P, m1, 0);
    item(b, 4, P, m0, 0);
    item(b, 0, P, m1, 5);
    item(b, 2, P, m0, 5);
    item(b, 4, A, m0, 0);
    item(b, 4, A, m1, 0);
    finish(b);
    cr_expect_eq(events(b), 45);
    cr_expect_eq(b->timeline.arrival[m0], 25);
    bench_destroy(b);
}

/* Main works 100 and 100.  The communication lane works 10 (0..10), waits for the first main item
   and works 30.  The first main item gets 0..10 taken: it ends at 110.  At 110 communication works
   until 140; main is slowed by these 30: 110..240. */
Test(engine, communication_takes_its_time_from_the_main_lane) {
    bench *b = bench_create(1, 0);
    item(b, 1, W, -1, 10);
    int32_t first = item(b, 0, W, -1, 100);
    item(b, 1, S, first, 0);
    int32_t copy = item(b, 1, W, -1, 30);
    int32_t second = item(b, 0, W, -1, 100);
    finish(b);
    for (int rule = 0; rule < 2; rule++) {
        cr_expect_eq(rule ? scan(b) : events(b), 240, "rule %d: %lld", rule,
                     (long long)b->timeline.step);
        cr_expect_eq(b->timeline.end[first], 110);
        cr_expect_eq(b->timeline.end[copy], 140);
        cr_expect_eq(b->timeline.end[second], 240);
    }
    bench_destroy(b);
}

/* Main waits from 10 for a message that arrives at 110; communication works 50 meanwhile (10..60),
   which costs main nothing: it ends at 110 + 20. */
Test(engine, communication_is_free_while_the_main_lane_waits) {
    bench *b = bench_create(2, 1);
    int32_t m = message(b, 0, -1, 100);
    item(b, 0, P, m, 0);
    int32_t first = item(b, 0, W, -1, 10);
    item(b, 2, P, m, 10);
    item(b, 0, A, m, 0);
    item(b, 1, S, first, 0);
    item(b, 1, W, -1, 50);
    item(b, 0, W, -1, 20);
    finish(b);
    cr_expect_eq(events(b), 130);
    cr_expect_eq(scan(b), 130);
    bench_destroy(b);
}

/* Two devices join at 20 and 50; the link is free at 0: busy 50..90, ended 5 later, both go on. */
Test(engine, collective_starts_with_its_last_join) {
    bench *b = bench_create(2, 1);
    b->problem.n_collectives = 1;
    b->joins[0] = 2;
    b->busy[0] = 40;
    b->rest[0] = 5;
    b->collective_link_start[1] = 1;
    item(b, 0, J, 0, 20);
    item(b, 2, J, 0, 50);
    item(b, 0, T, 0, 0);
    item(b, 2, T, 0, 0);
    item(b, 0, W, -1, 7);
    finish(b);
    cr_expect_eq(events(b), 102);
    cr_expect_eq(scan(b), 102);
    bench_destroy(b);
}

Test(engine, lanes_that_wait_for_each_other_are_an_error) {
    bench *b = bench_create(2, 2);
    int32_t m0 = message(b, 0, -1, 1), m1 = message(b, 1, -1, 1);
    /* Device 0 posts m0 after m1 has arrived, device 1 posts m1 after m0 has. */
    item(b, 0, P, m1, 0);
    item(b, 2, P, m0, 0);
    item(b, 0, A, m1, 0);
    item(b, 2, A, m0, 0);
    item(b, 0, P, m0, 0);
    item(b, 2, P, m1, 0);
    finish(b);
    cleave_error error = {""};
    cr_expect_eq(cleave_engine_run_events(&b->problem, b->workspace, &b->timeline, &error),
                 CLEAVE_FAILED);
    cr_expect_eq(cleave_engine_run_scan(&b->problem, b->workspace, &b->timeline, &error),
                 CLEAVE_FAILED);
    bench_destroy(b);
}

Test(engine, absurd_times_are_refused) {
    bench *b = bench_create(1, 0);
    item(b, 0, W, -1, INT64_MAX / 2);
    item(b, 0, W, -1, INT64_MAX / 2);
    cleave_error error = {""};
    cr_expect_eq(cleave_engine_finish(&b->problem, &b->arena, &error), CLEAVE_FAILED);
    cr_expect_neq(strlen(error.message), 0);
    bench_destroy(b);
}

Test(engine, a_message_posted_once_is_refused) {
    bench *b = bench_create(2, 1);
    message(b, 0, -1, 1);
    item(b, 0, P, 0, 1);
    cleave_error error = {""};
    cr_expect_eq(cleave_engine_finish(&b->problem, &b->arena, &error), CLEAVE_FAILED);
    bench_destroy(b);
}

/* A random program in a legal global order.  With own_links every message has a link of its own,
   with ends_work both its ends work on it. */
static bench *random_bench(uint64_t seed, bool own_links, bool two_lanes, bool ends_work) {
    cleave_random random = {.key = seed};
    int32_t n_devices = (int32_t)(2 + cleave_random_below(&random, 4)), n_messages = 40;
    bench *b = bench_create(n_devices, own_links ? n_messages : 4);
    for (int32_t l = 0; l < b->problem.n_links; l++)
        b->link_latency[l] = cleave_random_below(&random, 50);
    int32_t last_of_lane[16];
    memset(last_of_lane, -1, sizeof last_of_lane);
    for (int32_t k = 0; k < n_messages; k++) {
        int32_t from = (int32_t)cleave_random_below(&random, n_devices);
        int32_t to = (from + 1 + (int32_t)cleave_random_below(&random, n_devices - 1)) % n_devices;
        int32_t lane = two_lanes ? (int32_t)cleave_random_below(&random, 2) : 0;
        int32_t a = 2 * from + lane, z = 2 * to + lane;
        int32_t second = !own_links && cleave_random_below(&random, 2) ? k % 4 : -1;
        int32_t m =
            message(b, own_links ? k : (k + 1) % 4, second, 1 + cleave_random_below(&random, 300));
        if (ends_work)
            ends(b, m, cleave_random_below(&random, 300), from, to);
        item(b, a, W, -1, cleave_random_below(&random, 200));
        item(b, z, P, m, cleave_random_below(&random, 20));
        item(b, z, W, -1, cleave_random_below(&random, 200));
        last_of_lane[a] = item(b, a, P, m, cleave_random_below(&random, 20));
        if (two_lanes && last_of_lane[z ^ 1] >= 0)
            item(b, z, S, last_of_lane[z ^ 1], 0);
        if (cleave_random_below(&random, 2))
            item(b, a, R, m, 0);
        last_of_lane[z] = item(b, z, A, m, 0);
    }
    finish(b);
    return b;
}

/* What must hold of any timeline: lanes in order, nothing before what it waits for, no work faster
   than its duration, no transfer faster than its links. */
static void expect_dependencies_hold(const bench *b) {
    const cleave_engine_problem *p = &b->problem;
    const cleave_timeline *t = &b->timeline;
    int64_t free[32] = {0}, ready[ROOM] = {0}, step = 0;
    for (int32_t i = 0; i < p->n_items; i++) {
        cr_expect_geq(t->start[i], free[p->queue[i]]);
        cr_expect_geq(t->end[i], t->start[i] + p->duration[i]);
        free[p->queue[i]] = t->end[i];
        step = t->end[i] > step ? t->end[i] : step;
        int32_t s = p->subject[i];
        if (p->kind[i] == P && t->end[i] > ready[s])
            ready[s] = t->end[i];
        if (p->kind[i] == A)
            cr_expect_geq(t->end[i], t->arrival[s]);
        if (p->kind[i] == S)
            cr_expect_geq(t->end[i], t->end[s]);
    }
    for (int32_t m = 0; m < p->n_messages; m++) {
        int32_t first = p->hop_start[m];
        cr_expect_geq(t->arrival[m],
                      ready[m] + p->hop_serialization[first] + p->link_latency[p->hop_link[first]]);
        for (int e = 0; p->ends != NULL && p->ends[m].work > 0 && e < 2; e++) {
            int64_t begin = cleave_engine_end_begin(b->workspace)[2 * m + e];
            cr_expect_geq(begin, cleave_engine_hop_begin(b->workspace)[first]);
            cr_expect_geq(t->arrival[m], begin + p->ends[m].work);
        }
    }
    cr_expect_geq(t->step, step);
}

Test(engine, both_engines_respect_dependencies_of_random_programs) {
    for (uint64_t seed = 0; seed < 200; seed++) {
        bench *b = random_bench(seed, seed % 2, seed % 3 != 0, seed % 4 < 2);
        events(b);
        expect_dependencies_hold(b);
        scan(b);
        expect_dependencies_hold(b);
        bench_destroy(b);
    }
}

Test(engine, engines_agree_where_no_link_is_shared) {
    for (uint64_t seed = 0; seed < 200; seed++) {
        bench *b = random_bench(seed, true, false, false);
        int64_t by_events = events(b);
        int64_t *start = malloc((size_t)b->problem.n_items * sizeof *start);
        cr_assert_not_null(start);
        memcpy(start, b->timeline.start, (size_t)b->problem.n_items * sizeof *start);
        cr_expect_eq(scan(b), by_events, "seed %llu", (unsigned long long)seed);
        cr_expect_eq(memcmp(start, b->timeline.start, (size_t)b->problem.n_items * sizeof *start),
                     0);
        free(start);
        bench_destroy(b);
    }
}

/* How long the device of a main item works on messages within it. */
static int64_t worked_within(const bench *b, int32_t i) {
    const cleave_engine_problem *p = &b->problem;
    const cleave_timeline *t = &b->timeline;
    int64_t sum = 0;
    for (int32_t m = 0; m < p->n_messages && p->kind[i] != P; m++)
        for (int e = 0; e < 2; e++) {
            int64_t begin = cleave_engine_end_begin(b->workspace)[2 * m + e];
            int64_t end = begin + p->ends[m].work;
            if ((e == 0 ? p->ends[m].source : p->ends[m].destination) != p->queue[i] / 2)
                continue;
            begin = begin > t->start[i] ? begin : t->start[i];
            end = end < t->end[i] ? end : t->end[i];
            sum += end > begin ? end - begin : 0;
        }
    return sum;
}

/* Work is conserved: a main item ends as late as its own work and all that the communication lane,
   and the device for messages, did within it say, to the picosecond. */
Test(engine, time_taken_from_the_main_lane_is_exact_by_events) {
    for (uint64_t seed = 0; seed < 100; seed++) {
        bench *b = random_bench(seed, true, true, true);
        events(b);
        const cleave_engine_problem *p = &b->problem;
        const cleave_timeline *t = &b->timeline;
        for (int32_t i = 0; i < p->n_items; i++) {
            if (p->queue[i] % 2 != 0 || p->duration[i] == 0)
                continue;
            int64_t taken = worked_within(b, i);
            for (int32_t k = 0; k < p->n_items; k++)
                if (p->queue[k] == p->queue[i] + 1 && p->duration[k] > 0) {
                    int64_t lo = t->start[k] > t->start[i] ? t->start[k] : t->start[i];
                    int64_t hi = t->end[k] < t->end[i] ? t->end[k] : t->end[i];
                    taken += hi > lo ? hi - lo : 0;
                }
            cr_expect_eq(t->end[i] - t->start[i], p->duration[i] + taken, "seed %llu item %d",
                         (unsigned long long)seed, i);
        }
        bench_destroy(b);
    }
}

/* By the scan some of it lies between items, and after the last one. */
Test(engine, critical_paths_of_both_engines_add_up_to_the_step) {
    int32_t n_after = 0;
    for (uint64_t seed = 0; seed < 400; seed++) {
        bench *b = random_bench(seed, seed % 2, seed % 3 != 0, seed % 4 < 2);
        for (int rule = 0; rule < 2; rule++) {
            int64_t step = rule ? scan(b) : events(b), sum = 0, own = 0, last = 0;
            cleave_critical_path path;
            cleave_error error = {""};
            cr_assert_eq(
                cleave_critical_path_find(&b->problem, &b->timeline, &b->arena, &path, &error),
                CLEAVE_OK, "%s", error.message);
            for (int32_t i = 0; i < path.n; i++) {
                sum += path.segments[i].picoseconds;
                own += b->problem.kind[path.segments[i].item] == W ? 1 : 0;
            }
            cr_expect_eq(sum, step, "seed %llu, rule %d: %lld of %lld", (unsigned long long)seed,
                         rule, (long long)sum, (long long)step);
            cr_expect_gt(own, 0);
            for (int32_t i = 0; i < b->problem.n_items; i++)
                last = b->timeline.end[i] > last ? b->timeline.end[i] : last;
            n_after += last < step;
        }
        bench_destroy(b);
    }
    cr_expect_gt(n_after, 0, "no step ends after its last item");
}

Test(engine, a_second_run_gives_the_same_times) {
    bench *b = random_bench(7, false, true, true);
    int64_t first = events(b);
    scan(b);
    cr_expect_eq(events(b), first);
    int64_t by_scan = scan(b);
    cr_expect_eq(scan(b), by_scan);
    bench_destroy(b);
}
