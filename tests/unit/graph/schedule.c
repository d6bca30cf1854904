/* Orders of blocks by kind, written out by hand; that the sequence of all groups is topological and
   keeps the orders; and what is refused. */
#include "graph/model/schedule.h"
#include "../../support/ok.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { MOST_STAGES = 8, MOST_TEXT = 4096 };

static const char letters[] = "FBW";
static cleave_arena arena;
static void tear_down(void) { cleave_arena_free(&arena); }
TestSuite(schedule, .fini = tear_down);

/* Stage s on group s mod P. */
static cleave_schedule round_robin(cleave_schedule_kind kind, int32_t n_stages, int32_t n_groups,
                                   int32_t m, int32_t *group) {
    for (int32_t s = 0; s < n_stages; s++)
        group[s] = s % n_groups;
    return (cleave_schedule){.micro_batches = m, .n_stages = n_stages, .kind = kind};
}

static void put_block(char *text, const cleave_stage_block *block) {
    size_t n = strlen(text);
    snprintf(text + n, MOST_TEXT - n, "%s%c%d.%d", n > 0 ? " " : "", letters[block->kind],
             block->stage, block->micro_batch);
}

static int32_t sequence_of(const cleave_schedule *schedule, const int32_t *group,
                           cleave_stage_block **sequence) {
    int32_t n = 0;
    OK(cleave_schedule_sequence, schedule, group, &arena, sequence, &n);
    OK(cleave_schedule_check_order, schedule, group);
    return n;
}

static void expect_sequence(const cleave_schedule *schedule, const int32_t *group,
                            const char *expected) {
    cleave_stage_block *sequence;
    char text[MOST_TEXT] = "";
    int32_t n = sequence_of(schedule, group, &sequence);
    for (int32_t b = 0; b < n; b++)
        put_block(text, &sequence[b]);
    cr_expect_str_eq(text, expected);
}

static void expect_orders(const cleave_schedule *schedule, const int32_t *group, int32_t n_groups,
                          const char *const *expected) {
    cleave_stage_block *sequence;
    int32_t n = sequence_of(schedule, group, &sequence);
    for (int32_t g = 0; g < n_groups; g++) {
        char text[MOST_TEXT] = "";
        for (int32_t b = 0; b < n; b++)
            if (group[sequence[b].stage] == g)
                put_block(text, &sequence[b]);
        cr_expect_str_eq(text, expected[g], "%s of group %d: %s",
                         cleave_schedule_names[schedule->kind], g, text);
    }
}

static void expect_refused(const cleave_schedule *schedule, const int32_t *group,
                           const char *message) {
    cleave_stage_block *sequence;
    int32_t n;
    cleave_error error = {""};
    cr_expect_eq(cleave_schedule_sequence(schedule, group, &arena, &sequence, &n, &error),
                 CLEAVE_BAD_INPUT);
    cr_expect_str_eq(error.message, message);
    cr_expect_eq(cleave_schedule_check_order(schedule, group, &error), CLEAVE_BAD_INPUT);
    cr_expect_str_eq(error.message, message);
}

/* ---- kinds ----------------------------------------------------------------------------------- */

Test(schedule, one_stage_does_one_micro_batch_after_the_other) {
    int32_t group[1];
    cleave_schedule schedule = round_robin(CLEAVE_SCHEDULE_1F1B, 1, 1, 3, group);
    expect_sequence(&schedule, group, "F0.0 B0.0 F0.1 B0.1 F0.2 B0.2");
    schedule.kind = CLEAVE_SCHEDULE_GPIPE;
    expect_sequence(&schedule, group, "F0.0 F0.1 F0.2 B0.0 B0.1 B0.2");
    schedule.kind = CLEAVE_SCHEDULE_ZB_H1;
    expect_sequence(&schedule, group, "F0.0 B0.0 W0.0 F0.1 B0.1 W0.1 F0.2 B0.2 W0.2");
}

Test(schedule, gpipe_does_all_forwards_first) {
    int32_t group[2];
    cleave_schedule schedule = round_robin(CLEAVE_SCHEDULE_GPIPE, 2, 2, 3, group);
    expect_orders(
        &schedule, group, 2,
        (const char *const[]){"F0.0 F0.1 F0.2 B0.0 B0.1 B0.2", "F1.0 F1.1 F1.2 B1.0 B1.1 B1.2"});
}

/* P - s forwards come before the first backward of stage s. */
Test(schedule, one_forward_follows_one_backward) {
    int32_t group[3];
    cleave_schedule schedule = round_robin(CLEAVE_SCHEDULE_1F1B, 3, 3, 4, group);
    expect_orders(&schedule, group, 3,
                  (const char *const[]){"F0.0 F0.1 F0.2 B0.0 F0.3 B0.1 B0.2 B0.3",
                                        "F1.0 F1.1 B1.0 F1.2 B1.1 F1.3 B1.2 B1.3",
                                        "F2.0 B2.0 F2.1 B2.1 F2.2 B2.2 F2.3 B2.3"});
    schedule.micro_batches = 1; /* fewer than fill the pipeline */
    expect_orders(&schedule, group, 3,
                  (const char *const[]){"F0.0 B0.0", "F1.0 B1.0", "F2.0 B2.0"});
}

/* Rounds of two micro-batches through stages 0 and 2 of group 0, 1 and 3 of group 1; before their
   first backward 2 (P - g - 1) + (v - 1) P = 4 and 2 forwards, and one more beside it. */
Test(schedule, interleaved_stages_go_by_rounds) {
    int32_t group[4];
    cleave_schedule schedule = round_robin(CLEAVE_SCHEDULE_INTERLEAVED, 4, 2, 4, group);
    expect_orders(&schedule, group, 2,
                  (const char *const[]){"F0.0 F0.1 F2.0 F2.1 F0.2 B2.0 F0.3 B2.1 F2.2 B0.0 F2.3 "
                                        "B0.1 B2.2 B2.3 B0.2 B0.3",
                                        "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 F1.2 B1.0 F1.3 B1.1 F3.2 "
                                        "B3.2 F3.3 B3.3 B1.2 B1.3"});
}

/* Gradients of weights follow g blocks late. */
Test(schedule, zb_interleaved_puts_off_the_gradients_of_weights_by_blocks) {
    int32_t group[4];
    cleave_schedule schedule = round_robin(CLEAVE_SCHEDULE_ZB_INTERLEAVED, 4, 2, 2, group);
    cr_expect(cleave_schedule_parts_weights(&schedule));
    expect_orders(
        &schedule, group, 2,
        (const char *const[]){"F0.0 F0.1 F2.0 F2.1 B2.0 W2.0 B2.1 W2.1 B0.0 W0.0 B0.1 W0.1",
                              "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 W3.0 B1.0 W3.1 B1.1 W1.0 W1.1"});
}

/* Gradients of weights follow s micro-batches late. */
Test(schedule, zb_h1_puts_off_the_gradients_of_weights) {
    int32_t group[2];
    cleave_schedule schedule = round_robin(CLEAVE_SCHEDULE_ZB_H1, 2, 2, 3, group);
    cr_expect(cleave_schedule_parts_weights(&schedule));
    expect_orders(&schedule, group, 2,
                  (const char *const[]){"F0.0 F0.1 B0.0 W0.0 F0.2 B0.1 W0.1 B0.2 W0.2",
                                        "F1.0 B1.0 F1.1 B1.1 W1.0 F1.2 B1.2 W1.1 W1.2"});
}

/* As many micro-batches, or blocks, less late. */
Test(schedule, gradients_of_weights_come_sooner) {
    int32_t group[4];
    cleave_schedule schedule = round_robin(CLEAVE_SCHEDULE_ZB_H1, 3, 3, 3, group);
    schedule.sooner = 1;
    expect_orders(&schedule, group, 3,
                  (const char *const[]){"F0.0 F0.1 F0.2 B0.0 W0.0 B0.1 W0.1 B0.2 W0.2",
                                        "F1.0 F1.1 B1.0 W1.0 F1.2 B1.1 W1.1 B1.2 W1.2",
                                        "F2.0 B2.0 F2.1 B2.1 W2.0 F2.2 B2.2 W2.1 W2.2"});
    schedule = round_robin(CLEAVE_SCHEDULE_ZB_INTERLEAVED, 4, 2, 2, group);
    schedule.sooner = 9; /* no more than there are groups */
    expect_orders(
        &schedule, group, 2,
        (const char *const[]){"F0.0 F0.1 F2.0 F2.1 B2.0 W2.0 B2.1 W2.1 B0.0 W0.0 B0.1 W0.1",
                              "F1.0 F1.1 F3.0 B3.0 W3.0 F3.1 B3.1 W3.1 B1.0 W1.0 B1.1 W1.1"});
}

Test(schedule, in_flight_says_how_many_forwards_come_first) {
    int32_t group[2];
    cleave_schedule schedule = round_robin(CLEAVE_SCHEDULE_1F1B, 2, 2, 4, group);
    schedule.in_flight = (int32_t[]){1, 1};
    expect_orders(&schedule, group, 2,
                  (const char *const[]){"F0.0 B0.0 F0.1 B0.1 F0.2 B0.2 F0.3 B0.3",
                                        "F1.0 B1.0 F1.1 B1.1 F1.2 B1.2 F1.3 B1.3"});
    schedule.in_flight = (int32_t[]){9, 2}; /* no more than there are */
    expect_orders(&schedule, group, 2,
                  (const char *const[]){"F0.0 F0.1 F0.2 F0.3 B0.0 B0.1 B0.2 B0.3",
                                        "F1.0 F1.1 B1.0 F1.2 B1.1 F1.3 B1.2 B1.3"});
    schedule.kind = CLEAVE_SCHEDULE_ZB_H1;
    schedule.in_flight = (int32_t[]){3, 1};
    expect_orders(&schedule, group, 2,
                  (const char *const[]){"F0.0 F0.1 F0.2 B0.0 W0.0 F0.3 B0.1 W0.1 B0.2 W0.2 B0.3 "
                                        "W0.3",
                                        "F1.0 B1.0 F1.1 B1.1 W1.0 F1.2 B1.2 W1.1 F1.3 B1.3 W1.2 "
                                        "W1.3"});
}

/* ---- the sequence ---------------------------------------------------------------------------- */

/* A forward takes one unit, a backward two, from 1 on: F0.0 1-2, F0.1 and F1.0 2-3, F1.1 3-4, B1.0
   4-6, B0.0 and B1.1 6-8, B0.1 8-10; of two at once that of gpipe comes first whose group has just
   sent what the other reads. */
Test(schedule, the_sequence_goes_by_unit_times) {
    int32_t group[2];
    cleave_schedule schedule = round_robin(CLEAVE_SCHEDULE_GPIPE, 2, 2, 2, group);
    expect_sequence(&schedule, group, "F0.0 F0.1 F1.0 F1.1 B1.0 B1.1 B0.0 B0.1");
    /* B1.0 3-5, B0.0 and F1.1 5-7 and 5-6, B1.1 6-8; of two at once that of the earlier stage. */
    schedule.kind = CLEAVE_SCHEDULE_1F1B;
    expect_sequence(&schedule, group, "F0.0 F0.1 F1.0 B1.0 B0.0 F1.1 B1.1 B0.1");
}

/* All blocks once, each behind what it reads, and a stage's micro-batches one after the other. */
static void check_sequence(const cleave_schedule *schedule, const int32_t *group) {
    int32_t next[CLEAVE_N_BLOCK_KINDS][MOST_STAGES] = {{0}}, S = schedule->n_stages;
    int kinds = cleave_schedule_parts_weights(schedule) ? 3 : 2;
    cleave_stage_block *sequence;
    int32_t n = sequence_of(schedule, group, &sequence);
    cr_assert_eq(n, kinds * S * schedule->micro_batches);
    for (int32_t b = 0; b < n; b++) {
        int32_t s = sequence[b].stage, u = sequence[b].micro_batch;
        int kind = sequence[b].kind;
        cr_assert_eq(u, next[kind][s]++);
        if (kind == CLEAVE_BLOCK_FORWARD && s > 0)
            cr_assert_lt(u, next[kind][s - 1]);
        if (kind != CLEAVE_BLOCK_FORWARD)
            cr_assert_lt(u, next[kind - 1][s]);
        if (kind == CLEAVE_BLOCK_BACKWARD && s + 1 < S)
            cr_assert_lt(u, next[kind][s + 1]);
    }
}

Test(schedule, every_sequence_is_topological) {
    static const cleave_schedule_kind kinds[] = {CLEAVE_SCHEDULE_1F1B, CLEAVE_SCHEDULE_GPIPE,
                                                 CLEAVE_SCHEDULE_ZB_H1, CLEAVE_SCHEDULE_INTERLEAVED,
                                                 CLEAVE_SCHEDULE_ZB_INTERLEAVED};
    for (int k = 0; k < 5; k++)
        for (int32_t P = 1; P <= 4; P++)
            for (int32_t m = 1; m <= 24; m++) {
                int32_t group[MOST_STAGES], v = cleave_schedule_kind_goes_round(kinds[k]) ? 2 : 1;
                cleave_schedule schedule = round_robin(kinds[k], v * P, P, m, group);
                if (v == 1 || m % P == 0)
                    check_sequence(&schedule, group);
            }
}

/* ---- what is refused ------------------------------------------------------------------------- */

Test(schedule, groups_that_do_not_go_with_the_kind_are_refused) {
    int32_t group[4];
    cleave_schedule schedule = round_robin(CLEAVE_SCHEDULE_INTERLEAVED, 4, 2, 3, group);
    expect_refused(&schedule, group,
                   "schedule: an interleaved one of 2 groups of devices wants a multiple of 2 "
                   "micro-batches, not 3");
    schedule = round_robin(CLEAVE_SCHEDULE_INTERLEAVED, 3, 2, 2, group);
    expect_refused(&schedule, group,
                   "schedule: 3 stages do not give each of 2 groups of devices the same number");
    schedule = round_robin(CLEAVE_SCHEDULE_INTERLEAVED, 4, 2, 2, group);
    group[2] = 1;
    expect_refused(&schedule, group,
                   "schedule: stages of an interleaved one go round all 2 groups of devices, but "
                   "stage 2 is on that of stage 1");
    schedule = round_robin(CLEAVE_SCHEDULE_1F1B, 4, 2, 2, group);
    expect_refused(&schedule, group,
                   "schedule: 4 stages on 2 groups of devices; two stages of one group want the "
                   "kind interleaved");
    schedule.kind = CLEAVE_SCHEDULE_GPIPE;
    expect_refused(&schedule, group,
                   "schedule: 4 stages on 2 groups of devices; two stages of one group want the "
                   "kind interleaved");
}

/* The second group wants three forwards, the first does its backward after one. */
Test(schedule, in_flight_that_deadlocks_is_refused) {
    int32_t group[2];
    cleave_schedule schedule = round_robin(CLEAVE_SCHEDULE_1F1B, 2, 2, 4, group);
    schedule.in_flight = (int32_t[]){1, 3};
    expect_refused(&schedule, group, "schedule: the orders of the groups wait for each other");
    schedule.kind = CLEAVE_SCHEDULE_ZB_H1;
    expect_refused(&schedule, group, "schedule: the orders of the groups wait for each other");
    schedule.micro_batches = 1; /* then there is one forward */
    expect_sequence(&schedule, group, "F0.0 F1.0 B1.0 B0.0 W1.0 W0.0");
}

Test(schedule, more_blocks_than_can_be_numbered_are_refused) {
    int32_t group[2];
    cleave_schedule schedule = round_robin(CLEAVE_SCHEDULE_GPIPE, 2, 2, INT32_MAX, group);
    expect_refused(&schedule, group,
                   "schedule: 2 stages and 2147483647 micro-batches are too many");
}

/* ---- explicit orders ------------------------------------------------------------------------- */

#define F(s, u)                                                                                    \
    { CLEAVE_BLOCK_FORWARD, s, u }
#define B(s, u)                                                                                    \
    { CLEAVE_BLOCK_BACKWARD, s, u }
#define WEIGHTS(s, u)                                                                              \
    { CLEAVE_BLOCK_WEIGHT, s, u }
#define ORDER(...) ((cleave_stage_block[]){__VA_ARGS__})

static cleave_schedule explicit_orders(int32_t n_stages, int32_t m, int32_t n_orders,
                                       int32_t *n_blocks, cleave_stage_block **orders) {
    return (cleave_schedule){.micro_batches = m,
                             .n_stages = n_stages,
                             .kind = CLEAVE_SCHEDULE_ORDERS,
                             .n_orders = n_orders,
                             .n_blocks = n_blocks,
                             .orders = orders};
}

Test(schedule, orders_are_taken_as_they_are) {
    int32_t group[] = {0, 1, 0}, n_blocks[] = {8, 4};
    cleave_stage_block *orders[] = {
        ORDER(F(0, 0), F(2, 0), B(2, 0), B(0, 0), F(0, 1), F(2, 1), B(2, 1), B(0, 1)),
        ORDER(F(1, 0), B(1, 0), F(1, 1), B(1, 1))};
    cleave_schedule schedule = explicit_orders(3, 2, 2, n_blocks, orders);
    cr_expect_not(cleave_schedule_parts_weights(&schedule));
    expect_sequence(&schedule, group,
                    "F0.0 F1.0 F2.0 B2.0 B1.0 B0.0 F0.1 F1.1 F2.1 B2.1 B1.1 B0.1");
}

/* A stage without blocks of its own for weights has to have them where another has. */
Test(schedule, orders_that_leave_something_out_are_refused) {
    int32_t group[] = {0, 1}, n_blocks[] = {4, 4};
    cleave_stage_block *orders[] = {ORDER(F(0, 0), B(0, 0), F(0, 1), B(0, 1)),
                                    ORDER(F(1, 0), B(1, 0), F(1, 1), B(1, 1))};
    cleave_schedule schedule = explicit_orders(2, 2, 2, n_blocks, orders);
    check_sequence(&schedule, group);
    n_blocks[1] = 3;
    expect_refused(&schedule, group, "schedule: the orders have 1 of 2 micro-batches of stage 1");
    n_blocks[1] = 4;
    orders[1] = ORDER(F(1, 0), B(1, 0), F(1, 1), WEIGHTS(1, 0));
    expect_refused(&schedule, group, "schedule: the orders have 1 of 2 micro-batches of stage 1");
    n_blocks[1] = 6;
    orders[1] = ORDER(F(1, 0), B(1, 0), F(1, 1), WEIGHTS(1, 0), B(1, 1), WEIGHTS(1, 1));
    expect_refused(&schedule, group, "schedule: the orders have 0 of 2 micro-batches of stage 0");
}

Test(schedule, orders_of_other_stages_or_out_of_order_are_refused) {
    int32_t group[] = {0, 1}, n_blocks[] = {4, 4};
    cleave_stage_block *right = ORDER(F(1, 0), B(1, 0), F(1, 1), B(1, 1));
    cleave_stage_block *orders[] = {ORDER(F(0, 0), B(0, 0), F(0, 1), B(0, 1)), right};
    cleave_schedule schedule = explicit_orders(2, 2, 1, n_blocks, orders);
    expect_refused(&schedule, group,
                   "schedule: 1 orders, but the stages are on 2 groups of devices");
    schedule.n_orders = 2;
    orders[1] = ORDER(F(1, 0), B(0, 1), F(1, 1), B(1, 1));
    expect_refused(&schedule, group,
                   "schedule: order 1 has a block of stage 0, which is not on its devices");
    orders[1] = ORDER(F(1, 0), B(2, 0), F(1, 1), B(1, 1));
    expect_refused(&schedule, group,
                   "schedule: order 1 has a block of stage 2, which is not on its devices");
    orders[1] = ORDER(F(1, 1), B(1, 0), F(1, 0), B(1, 1));
    expect_refused(&schedule, group, "schedule: stage 1 takes micro-batch 1 where 0 is next");
    orders[1] = ORDER(F(1, 0), F(1, 0), F(1, 1), B(1, 1)); /* twice */
    expect_refused(&schedule, group, "schedule: stage 1 takes micro-batch 0 where 1 is next");
}

Test(schedule, orders_that_wait_for_each_other_are_refused) {
    int32_t group[] = {0, 1}, n_blocks[] = {4, 4};
    cleave_stage_block *orders[] = {ORDER(F(0, 0), B(0, 0), F(0, 1), B(0, 1)),
                                    ORDER(F(1, 0), F(1, 1), B(1, 0), B(1, 1))};
    cleave_schedule schedule = explicit_orders(2, 2, 2, n_blocks, orders);
    expect_refused(&schedule, group, "schedule: the orders of the groups wait for each other");
    orders[1] = ORDER(B(1, 0), F(1, 0), F(1, 1), B(1, 1)); /* a backward without its forward */
    expect_refused(&schedule, group, "schedule: the orders of the groups wait for each other");
}

Test(schedule, a_copy_is_the_same_and_its_own) {
    int32_t group[] = {0, 1}, n_blocks[] = {2, 2}, first[] = {0, 3}, in_flight[] = {1, 1};
    cleave_stage_block *orders[] = {ORDER(F(0, 0), B(0, 0)), ORDER(F(1, 0), B(1, 0))};
    cleave_schedule schedule = explicit_orders(2, 1, 2, n_blocks, orders), copy;
    schedule.first_operator = first;
    schedule.in_flight = in_flight;
    OK(cleave_schedule_copy, &schedule, &arena, &copy);
    first[1] = in_flight[0] = n_blocks[0] = 0;
    orders[0] = NULL;
    cr_expect_eq(copy.first_operator[1], 3);
    cr_expect_eq(copy.in_flight[0], 1);
    expect_sequence(&copy, group, "F0.0 F1.0 B1.0 B0.0");
}
