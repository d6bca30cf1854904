/* The engines against makespans worked out by hand. */
#include "../../support/engine_case.h"

#include <string.h>

/* Device 0 works 100, posts m (5) and works 50 more.  Device 1 posts m (3), works 40, waits for m
   and works 20.  m is ready at 105, takes its link for 30 and arrives 7 later, at 142: while device
   0 works until 155, device 1 goes on at 142 and ends at 162. */
Test(engine, computing_and_transferring_overlap) {
    engine_case *c = engine_case_create(2, 1);
    c->link_latency[0] = 7;
    int32_t m = message(c, 0, -1, 30);
    item(c, 0, W, -1, 100);
    item(c, 2, P, m, 3);
    item(c, 2, W, -1, 40);
    item(c, 0, P, m, 5);
    int32_t last_of_0 = item(c, 0, W, -1, 50);
    int32_t wait = item(c, 2, A, m, 0);
    item(c, 2, W, -1, 20);
    finish(c);
    for (int rule = 0; rule < 2; rule++) {
        cr_expect_eq(rule ? scan(c) : events(c), 162);
        cr_expect_eq(c->timeline.arrival[m], 142);
        cr_expect_eq(c->timeline.start[wait], 43);
        cr_expect_eq(c->timeline.end[wait], 142);
        cr_expect_eq(c->timeline.end[last_of_0], 155);
    }
    engine_case_destroy(c);
}

/* m crosses link 0 (latency 4) and link 1 (latency 6), 30 on each: s1 = 10, s2 = 14, free2 = 44,
   arrived max(40 + 4 + 6, 44 + 6) = 50.  The sender may go on at 40. */
Test(engine, two_hops_cut_through_a_switch) {
    engine_case *c = engine_case_create(2, 2);
    c->link_latency[0] = 4;
    c->link_latency[1] = 6;
    int32_t m = message(c, 0, 1, 30);
    item(c, 0, P, m, 10);
    item(c, 2, P, m, 2);
    int32_t release = item(c, 0, R, m, 0);
    item(c, 2, A, m, 0);
    finish(c);
    for (int rule = 0; rule < 2; rule++) {
        cr_expect_eq(rule ? scan(c) : events(c), 50);
        cr_expect_eq(c->timeline.end[release], 40);
        cr_expect_eq(cleave_engine_hop_begin(c->workspace)[1], 14);
    }
    engine_case_destroy(c);
}

/* Posted at 2 and 3.  The link takes 3..33, its first byte is out at 10, and from then on both
   processors work for 50: until 60, when it has arrived, since the last byte was out at 40, and has
   left.  Device 0 works 20 from 2 on, of which 8 are done at 10 and the rest from 60 on. */
Test(engine, processors_work_on_a_message_beside_its_link) {
    engine_case *c = engine_case_create(2, 1);
    c->link_latency[0] = 7;
    int32_t m = message(c, 0, -1, 30);
    ends(c, m, 50, 0, 1);
    item(c, 0, P, m, 2);
    item(c, 2, P, m, 3);
    int32_t work = item(c, 0, W, -1, 20);
    int32_t release = item(c, 0, R, m, 0);
    item(c, 2, A, m, 0);
    item(c, 2, W, -1, 5);
    finish(c);
    for (int rule = 0; rule < 2; rule++) {
        cr_expect_eq(rule ? scan(c) : events(c), 72);
        cr_expect_eq(c->timeline.arrival[m], 60);
        cr_expect_eq(c->timeline.end[work], 72);
        cr_expect_eq(c->timeline.end[release], 72);
        cr_expect_eq(c->timeline.end[5], 65);
        for (int e = 0; e < 2; e++)
            cr_expect_eq(c->workspace->end_begin[e], 10);
    }
    engine_case_destroy(c);
}

/* Posted at 3, but its ends agree until 28: so a small message, posted at 6, has the link first,
   for
   10.  Then the link takes 28..58, and from 35 on both processors work for 50. */
Test(engine, a_large_message_sets_out_when_its_ends_have_agreed) {
    engine_case *c = engine_case_create(2, 1);
    c->link_latency[0] = 7;
    int32_t large = message(c, 0, -1, 30), small = message(c, 0, -1, 10);
    ends(c, large, 50, 0, 1);
    ends(c, small, 0, 0, 1);
    c->ends[large].agreement = 25;
    item(c, 0, P, large, 2);
    item(c, 2, P, large, 3);
    item(c, 0, P, small, 4);
    item(c, 2, P, small, 1);
    item(c, 2, A, small, 0);
    item(c, 2, A, large, 0);
    finish(c);
    cr_expect_eq(events(c), 85);
    cr_expect_eq(c->timeline.arrival[small], 23);
    cr_expect_eq(cleave_engine_hop_begin(c->workspace)[0], 28);
    cr_expect_eq(c->timeline.arrival[large], 85);
    engine_case_destroy(c);
}

/* Two messages, one each way, 90 on their links, 50 of either processor: by links alone both are
   there at 90, but device 1 works for the first 0..50 and for the second 50..100, which so is there
   at 100: max(90, 2 x 50).  No post waits for the work of the other message. */
Test(engine, processors_work_on_messages_both_ways_in_turn) {
    engine_case *c = engine_case_create(2, 2);
    int32_t there = message(c, 0, -1, 90), back = message(c, 1, -1, 90);
    ends(c, there, 50, 0, 1);
    ends(c, back, 50, 1, 0);
    for (int32_t d = 0; d < 2; d++)
        item(c, 2 * d, P, there, 0);
    for (int32_t d = 0; d < 2; d++)
        item(c, 2 * d, P, back, 0);
    for (int32_t d = 0; d < 2; d++)
        item(c, 2 * d, A, d == 0 ? back : there, 0);
    finish(c);
    for (int rule = 0; rule < 2; rule++) {
        cr_expect_eq(rule ? scan(c) : events(c), 100);
        cr_expect_eq(c->timeline.arrival[there], 90);
        cr_expect_eq(c->timeline.arrival[back], 100);
    }
    engine_case_destroy(c);
}

/* The communication lanes' message is on its way 100..110 and works its ends 100..140.  Main works
   120 and 10 more, from 0 on: 0..160, 160..170.  By the scan it stands behind the first piece in
   the program, and so puts the lane's clock back by 40, into which what follows falls. */
Test(engine, work_with_a_message_of_communication_is_taken_from_the_main_lane) {
    engine_case *c = engine_case_create(2, 1);
    int32_t m = message(c, 0, -1, 10);
    ends(c, m, 40, 0, 1);
    int32_t first = item(c, 0, W, -1, 120);
    item(c, 3, W, -1, 100);
    item(c, 3, P, m, 0);
    item(c, 1, P, m, 0);
    int32_t second = item(c, 0, W, -1, 10);
    finish(c);
    cr_expect_eq(events(c), 170);
    cr_expect_eq(c->timeline.end[first], 160);
    cr_expect_eq(scan(c), 170);
    cr_expect_eq(c->timeline.end[first], 120);
    cr_expect_eq(c->timeline.start[second], 160);
    engine_case_destroy(c);
}

/* Device 0 has communication work 0..30 and, from 0 on, 50 with a message that its main lane has
   posted.  Main then posts another one, which takes 5 and makes up for the 30 alone: 35.  What it
   does next, 20, falls into the rest of the 50: 35..70. */
Test(engine, a_post_leaves_the_work_with_messages_to_what_follows) {
    engine_case *c = engine_case_create(2, 1);
    int32_t m = message(c, 0, -1, 10), next = message(c, 0, -1, 10);
    ends(c, m, 50, 0, 1);
    ends(c, next, 0, 0, 1);
    item(c, 1, W, -1, 30);
    item(c, 0, P, m, 0);
    item(c, 2, P, m, 0);
    int32_t post = item(c, 0, P, next, 5);
    int32_t work = item(c, 0, W, -1, 20);
    item(c, 2, P, next, 0);
    finish(c);
    for (int rule = 0; rule < 2; rule++) {
        int64_t step = rule ? scan(c) : events(c);
        cr_expect_eq(c->timeline.end[post], 35, "rule %d: %lld", rule,
                     (long long)c->timeline.end[post]);
        cr_expect_eq(c->timeline.end[work], 70, "rule %d: %lld", rule,
                     (long long)c->timeline.end[work]);
        cr_expect_eq(step, 70, "rule %d: %lld", rule, (long long)step);
    }
    engine_case_destroy(c);
}

/* Devices 0 and 1 send to device 2 over the one link.  m0 stands first in the program but is ready
   at 100, m1 at 10; each takes 50.  By readiness m1 goes at 10..60 and m0 at 100..150: 150.  In
   program order m0 goes at 100..150 and m1 at 150..200: 200. */
Test(engine, rules_differ_where_a_link_is_shared) {
    engine_case *c = engine_case_create(3, 1);
    int32_t m0 = message(c, 0, -1, 50), m1 = message(c, 0, -1, 50);
    item(c, 4, P, m0, 0);
    item(c, 4, P, m1, 0);
    item(c, 0, P, m0, 100);
    item(c, 2, P, m1, 10);
    item(c, 4, A, m0, 0);
    item(c, 4, A, m1, 0);
    finish(c);
    cr_expect_eq(events(c), 150);
    cr_expect_eq(c->timeline.arrival[m1], 60);
    cr_expect_eq(scan(c), 200);
    engine_case_destroy(c);
}

/* Devices 2 and 3 exchange `late` in their communication lanes when device 2 has worked 1000 there:
   1000..1100 on the link.  `early` of devices 0 and 1 stands later in the program, in their main
   lanes, and is ready at 10: 10..30 by both rules, and `late` is as late as it was. */
Test(engine, a_late_transfer_of_communication_lets_an_early_one_pass) {
    engine_case *c = engine_case_create(4, 1);
    int32_t late = message(c, 0, -1, 100), early = message(c, 0, -1, 20);
    int32_t next = message(c, 0, -1, 5);
    item(c, 5, W, -1, 1000);
    item(c, 5, P, late, 0);
    item(c, 7, P, late, 0);
    item(c, 0, W, -1, 10);
    item(c, 0, P, early, 0);
    item(c, 2, P, early, 0);
    item(c, 5, P, next, 0);
    item(c, 7, P, next, 0);
    finish(c);
    for (int rule = 0; rule < 2; rule++) {
        int64_t step = rule ? scan(c) : events(c);
        cr_expect_eq(c->timeline.arrival[early], 30, "rule %d: %lld", rule,
                     (long long)c->timeline.arrival[early]);
        cr_expect_eq(c->timeline.arrival[late], 1100);
        cr_expect_eq(c->timeline.arrival[next], 1105);
        cr_expect_eq(step, 1000);
    }
    engine_case_destroy(c);
}

/* Communication has the link for five messages, each posted 10 after the one before has arrived:
   0..100, 110..210 and so on to 540.  The main lane's message is ready at 150.  By readiness it
   waits for the second of these: 210..230, the third begins at 230 instead of 220, and the fifth
   ends at 550.  The scan comes to it when all five are done, and lets it wait for as long as one
   takes: 250..270; so what communication posts next, at 550, gets the link at 560, as by events. */
Test(engine, a_main_transfer_waits_for_one_transfer_of_communication) {
    engine_case *c = engine_case_create(4, 1);
    int32_t m[6];
    for (int k = 0; k < 6; k++) {
        m[k] = message(c, 0, -1, k < 5 ? 100 : 5);
        if (k == 5) {
            int32_t early = message(c, 0, -1, 20);
            item(c, 0, W, -1, 150);
            item(c, 0, P, early, 0);
            item(c, 2, P, early, 0);
        }
        item(c, 5, W, -1, k > 0 ? 10 : 0);
        item(c, 5, P, m[k], 0);
        item(c, 7, P, m[k], 0);
        item(c, 5, A, m[k], 0);
    }
    finish(c);
    cr_expect_eq(events(c), 565);
    cr_expect_eq(c->timeline.arrival[m[5] + 1], 230);
    cr_expect_eq(scan(c), 565);
    cr_expect_eq(c->timeline.arrival[m[5] + 1], 270);
    engine_case_destroy(c);
}

/* Communication posts three messages at once, which have the link for 0..300, and one at 350.  The
   main lane's message is ready at 40 and waits for all three by readiness: 300..320.  The scan lets
   it wait for as long as their run takes: 340..360. */
Test(engine, a_main_transfer_waits_for_a_run_of_communication) {
    engine_case *c = engine_case_create(4, 1);
    for (int k = 0; k < 4; k++) {
        int32_t m = message(c, 0, -1, 100);
        if (k == 3)
            item(c, 5, W, -1, 350);
        item(c, 5, P, m, 0);
        item(c, 7, P, m, 0);
    }
    int32_t early = message(c, 0, -1, 20);
    item(c, 0, W, -1, 40);
    item(c, 0, P, early, 0);
    item(c, 2, P, early, 0);
    finish(c);
    events(c);
    cr_expect_eq(c->timeline.arrival[early], 320);
    scan(c);
    cr_expect_eq(c->timeline.arrival[early], 360);
    engine_case_destroy(c);
}

/* Device 1 posts what another stage sends it at 1,000, before its communication lane posts a
   message that is ready at 10 and takes 40, one ready at once that takes 30, and one ready at 970
   that takes
   40.  In stages the first two go while the link is idle, one after the other; the third would not
   be over at 1,000, and follows.  Else all follow. */
Test(engine, communication_uses_a_link_that_waits_for_another_stage) {
    for (int staged = 0; staged < 2; staged++) {
        engine_case *c = engine_case_create(3, 1);
        int32_t sent = message(c, 0, -1, 30), early = message(c, 0, -1, 40);
        int32_t next = message(c, 0, -1, 30), late = message(c, 0, -1, 40);
        c->problem.has_stages = staged;
        item(c, 0, W, -1, 1000);
        item(c, 0, P, sent, 0);
        item(c, 2, P, sent, 0);
        item(c, 3, P, early, 10);
        item(c, 5, P, early, 0);
        item(c, 3, P, next, 0);
        item(c, 5, P, next, 0);
        item(c, 5, W, -1, 970);
        item(c, 3, P, late, 0);
        item(c, 5, P, late, 0);
        item(c, 2, A, sent, 0);
        item(c, 5, A, early, 0);
        item(c, 5, A, next, 0);
        item(c, 5, A, late, 0);
        finish(c);
        cr_expect_eq(scan(c), staged ? 1070 : 1140);
        cr_expect_eq(c->timeline.arrival[sent], 1030);
        cr_expect_eq(c->timeline.arrival[early], staged ? 50 : 1070);
        cr_expect_eq(c->timeline.arrival[next], staged ? 80 : 1100);
        cr_expect_eq(c->timeline.arrival[late], staged ? 1070 : 1140);
        engine_case_destroy(c);
    }
}

/* Communication has the link from 0 to 1000 and, after a pause, from 1500 to 2500.  A message that
   main lane and communication lane post at 0, one right after the other, is one of communication,
   since that posts last: it comes behind at 2500, where one of the main lane would wait for one
   transfer only, until 1000. */
Test(engine, the_last_post_says_which_lane_a_message_is_of) {
    engine_case *c = engine_case_create(2, 1);
    for (int k = 0; k < 2; k++) {
        int32_t m = message(c, 0, -1, 1000);
        if (k == 1)
            item(c, 1, W, -1, 1500);
        item(c, 3, P, m, 0);
        item(c, 1, P, m, 0);
    }
    int32_t mixed = message(c, 0, -1, 100);
    item(c, 0, P, mixed, 0);
    item(c, 3, P, mixed, 0);
    finish(c);
    scan(c);
    cr_expect_eq(c->timeline.arrival[mixed], 2600);
    engine_case_destroy(c);
}

/* Both ready at 5: the smaller id goes first, 5..25, then 25..45, whichever was posted first. */
Test(engine, ties_go_to_the_smaller_message) {
    engine_case *c = engine_case_create(3, 1);
    int32_t m0 = message(c, 0, -1, 20), m1 = message(c, 0, -1, 20);
    item(c, 4, P, m1, 0);
    item(c, 4, P, m0, 0);
    item(c, 0, P, m1, 5);
    item(c, 2, P, m0, 5);
    item(c, 4, A, m0, 0);
    item(c, 4, A, m1, 0);
    finish(c);
    cr_expect_eq(events(c), 45);
    cr_expect_eq(c->timeline.arrival[m0], 25);
    engine_case_destroy(c);
}

/* Main works 100 and 100.  The communication lane works 10 (0..10), waits for the first main item
   and works 30.  The first main item gets 0..10 taken: it ends at 110.  At 110 communication works
   until 140; main is slowed by these 30: 110..240. */
Test(engine, communication_takes_its_time_from_the_main_lane) {
    engine_case *c = engine_case_create(1, 0);
    item(c, 1, W, -1, 10);
    int32_t first = item(c, 0, W, -1, 100);
    item(c, 1, S, first, 0);
    int32_t copy = item(c, 1, W, -1, 30);
    int32_t second = item(c, 0, W, -1, 100);
    finish(c);
    for (int rule = 0; rule < 2; rule++) {
        cr_expect_eq(rule ? scan(c) : events(c), 240, "rule %d: %lld", rule,
                     (long long)c->timeline.step);
        cr_expect_eq(c->timeline.end[first], 110);
        cr_expect_eq(c->timeline.end[copy], 140);
        cr_expect_eq(c->timeline.end[second], 240);
    }
    engine_case_destroy(c);
}

/* Main waits from 10 for a message that arrives at 110; communication works 50 meanwhile (10..60),
   which costs main nothing: it ends at 110 + 20. */
Test(engine, communication_is_free_while_the_main_lane_waits) {
    engine_case *c = engine_case_create(2, 1);
    int32_t m = message(c, 0, -1, 100);
    item(c, 0, P, m, 0);
    int32_t first = item(c, 0, W, -1, 10);
    item(c, 2, P, m, 10);
    item(c, 0, A, m, 0);
    item(c, 1, S, first, 0);
    item(c, 1, W, -1, 50);
    item(c, 0, W, -1, 20);
    finish(c);
    cr_expect_eq(events(c), 130);
    cr_expect_eq(scan(c), 130);
    engine_case_destroy(c);
}

/* Two devices join at 20 and 50; the link is free at 0: busy 50..90, ended 5 later, both go on. */
Test(engine, collective_starts_with_its_last_join) {
    engine_case *c = engine_case_create(2, 1);
    c->problem.step.n_collectives = 1;
    c->joins[0] = 2;
    c->busy[0] = 40;
    c->rest[0] = 5;
    c->collective_link_start[1] = 1;
    item(c, 0, J, 0, 20);
    item(c, 2, J, 0, 50);
    item(c, 0, T, 0, 0);
    item(c, 2, T, 0, 0);
    item(c, 0, W, -1, 7);
    finish(c);
    cr_expect_eq(events(c), 102);
    cr_expect_eq(scan(c), 102);
    engine_case_destroy(c);
}

Test(engine, lanes_that_wait_for_each_other_are_an_error) {
    engine_case *c = engine_case_create(2, 2);
    int32_t m0 = message(c, 0, -1, 1), m1 = message(c, 1, -1, 1);
    /* Device 0 posts m0 after m1 has arrived, device 1 posts m1 after m0 has. */
    item(c, 0, P, m1, 0);
    item(c, 2, P, m0, 0);
    item(c, 0, A, m1, 0);
    item(c, 2, A, m0, 0);
    item(c, 0, P, m0, 0);
    item(c, 2, P, m1, 0);
    finish(c);
    cleave_error error = {""};
    cr_expect_eq(cleave_engine_run_events(&c->problem, c->workspace, &c->timeline, &error),
                 CLEAVE_FAILED);
    cr_expect_eq(cleave_engine_run_scan(&c->problem, c->workspace, &c->timeline, &error),
                 CLEAVE_FAILED);
    engine_case_destroy(c);
}

Test(engine, absurd_times_are_refused) {
    engine_case *c = engine_case_create(1, 0);
    item(c, 0, W, -1, INT64_MAX / 2);
    item(c, 0, W, -1, INT64_MAX / 2);
    cleave_error error = {""};
    cr_expect_eq(cleave_engine_finish(&c->problem, &c->arena, &error), CLEAVE_BAD_INPUT);
    cr_expect_neq(strlen(error.message), 0);
    engine_case_destroy(c);
}

Test(engine, a_message_posted_once_is_refused) {
    engine_case *c = engine_case_create(2, 1);
    message(c, 0, -1, 1);
    item(c, 0, P, 0, 1);
    cleave_error error = {""};
    cr_expect_eq(cleave_engine_finish(&c->problem, &c->arena, &error), CLEAVE_FAILED);
    engine_case_destroy(c);
}
