/* The steps of collectives, run on sets: what a member holds of a block is the set of members whose
   contribution is in it.  A reducing exchange joins two sets, which must share nothing; another one
   replaces.  So an algorithm is right for any numbers, not for some. */
#include "graph/model/collective_steps.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 24 };

typedef struct state {
    uint32_t has[MOST][MOST]; /* [member][block] */
    int64_t sent;             /* blocks, all members */
} state;

static const char *const names[] = {"default", "ring", "halving-doubling", "tree", "two-level"};

static void begin(const cleave_collective_plan *plan, cleave_collective_kind kind, state *s) {
    memset(s, 0, sizeof *s);
    for (int32_t i = 0; i < plan->n_members; i++)
        for (int32_t b = 0; b < plan->n_blocks; b++) {
            bool own = kind == CLEAVE_ALL_GATHER && cleave_collective_member_of_block(plan, b) == i;
            s->has[i][b] = kind != CLEAVE_ALL_GATHER || own ? UINT32_C(1) << i : 0;
        }
}

/* All exchanges of a step read what was there before it. */
static void run_step(const cleave_collective_plan *plan, int32_t number, state *s) {
    bool sends[MOST] = {false}, receives[MOST] = {false};
    const cleave_collective_step step = cleave_collective_step_of(plan, number);
    const state before = *s;
    cr_assert(step.n_exchanges > 0 && step.n_exchanges <= plan->n_members);
    cr_assert(step.alike >= 1 && number + step.alike <= plan->n_steps);
    for (int32_t e = 0; e < step.n_exchanges; e++) {
        cleave_exchange x = cleave_collective_exchange_of(plan, &step, e);
        cr_assert(x.from != x.to && x.from >= 0 && x.to >= 0 && x.from < plan->n_members &&
                  x.to < plan->n_members);
        cr_assert(x.first >= 0 && x.first < x.end && x.end <= plan->n_blocks);
        cr_assert(!sends[x.from] && !receives[x.to], "one message each way");
        sends[x.from] = receives[x.to] = true;
        for (int32_t b = x.first; b < x.end; b++) {
            uint32_t comes = before.has[x.from][b], old = before.has[x.to][b];
            cr_assert(!step.reduces || (comes & old) == 0, "a contribution is added twice");
            s->has[x.to][b] = step.reduces ? comes | old : comes;
            s->sent++;
        }
    }
}

static void expect_done(const cleave_collective_plan *plan, cleave_collective_kind kind,
                        const state *s, const char *what) {
    uint32_t all = (UINT32_C(1) << plan->n_members) - 1;
    for (int32_t i = 0; i < plan->n_members; i++)
        for (int32_t b = 0; b < plan->n_blocks; b++) {
            int32_t owner =
                kind == CLEAVE_ALL_REDUCE ? -1 : cleave_collective_member_of_block(plan, b);
            uint32_t wanted = kind == CLEAVE_ALL_GATHER ? UINT32_C(1) << owner : all;
            if (kind != CLEAVE_REDUCE_SCATTER || owner == i)
                cr_assert_eq(s->has[i][b], wanted, "%s: member %d, block %d", what, i, b);
        }
}

Test(collective_steps, every_algorithm_does_what_its_kind_promises) {
    int n_plans = 0;
    for (int k = CLEAVE_ALL_REDUCE; k <= CLEAVE_ALL_GATHER; k++)
        for (int a = CLEAVE_ALGORITHM_DEFAULT; a <= CLEAVE_ALGORITHM_TWO_LEVEL; a++)
            for (int32_t n = 2; n <= MOST; n++)
                for (int32_t m = 1; m <= n; m++) {
                    cleave_collective_kind kind = (cleave_collective_kind)k;
                    cleave_collective_algorithm algorithm = (cleave_collective_algorithm)a;
                    if (!cleave_collective_has_plan(kind, algorithm, n, m))
                        continue;
                    cleave_collective_plan plan = cleave_collective_plan_of(kind, algorithm, n, m);
                    state s;
                    char what[64];
                    snprintf(what, sizeof what, "kind %d, %s, %d members, %d a node", k, names[a],
                             n, m);
                    begin(&plan, kind, &s);
                    for (int32_t step = 0; step < plan.n_steps; step++)
                        run_step(&plan, step, &s);
                    expect_done(&plan, kind, &s, what);
                    n_plans++;
                }
    cr_expect_gt(n_plans, 1000);
}

/* Blocks that all members together send, and steps. */
static void expect_traffic(cleave_collective_kind kind, cleave_collective_algorithm algorithm,
                           int32_t n, int32_t m, int32_t n_blocks, int64_t sent, int32_t n_steps) {
    cleave_collective_plan plan = cleave_collective_plan_of(kind, algorithm, n, m);
    state s;
    begin(&plan, kind, &s);
    for (int32_t step = 0; step < plan.n_steps; step++)
        run_step(&plan, step, &s);
    cr_expect_eq(plan.n_blocks, n_blocks);
    cr_expect_eq(plan.n_steps, n_steps);
    cr_expect_eq(s.sent, sent, "%lld blocks", (long long)s.sent);
}

/* A member of n sends (n - 1)/n of the vector in each half of a ring or of halving and doubling.
   With 6 members two hand over all 4 blocks of 4 and get them back: 2 x 8; the four others do 2 x 3
   blocks each.  A tree sends the one block up and down each of its n - 1 edges. */
Test(collective_steps, traffic_and_steps_are_those_of_the_textbook) {
    expect_traffic(CLEAVE_ALL_REDUCE, CLEAVE_ALGORITHM_RING, 6, 1, 6, 2 * 5 * 6, 10);
    expect_traffic(CLEAVE_ALL_GATHER, CLEAVE_ALGORITHM_RING, 6, 1, 6, 5 * 6, 5);
    expect_traffic(CLEAVE_ALL_REDUCE, CLEAVE_ALGORITHM_HALVING_DOUBLING, 8, 1, 8, 2 * 7 * 8, 6);
    expect_traffic(CLEAVE_REDUCE_SCATTER, CLEAVE_ALGORITHM_HALVING_DOUBLING, 8, 1, 8, 7 * 8, 3);
    expect_traffic(CLEAVE_ALL_REDUCE, CLEAVE_ALGORITHM_HALVING_DOUBLING, 6, 1, 4, 2 * 8 + 4 * 2 * 3,
                   6);
    expect_traffic(CLEAVE_ALL_REDUCE, CLEAVE_ALGORITHM_TREE, 6, 1, 1, 2 * 5, 6);
    /* 3 nodes of 4: each half, a member sends 3/4 within its node and 2/3 of 1/4 across. */
    expect_traffic(CLEAVE_ALL_REDUCE, CLEAVE_ALGORITHM_TWO_LEVEL, 12, 4, 12, 2 * 12 * (9 + 2),
                   2 * (2 + 2));
}

/* Across nodes a two-level all-reduce moves twice (nodes - 1)/nodes of one vector from each node:
   with 2 nodes of 4, members 0..3 send one block each to the other node, and again. */
Test(collective_steps, two_levels_send_one_vector_across_nodes) {
    cleave_collective_plan plan =
        cleave_collective_plan_of(CLEAVE_ALL_REDUCE, CLEAVE_ALGORITHM_TWO_LEVEL, 8, 4);
    int32_t across = 0;
    for (int32_t step = 0; step < plan.n_steps; step++) {
        const cleave_collective_step at = cleave_collective_step_of(&plan, step);
        for (int32_t e = 0; e < at.n_exchanges; e++) {
            cleave_exchange x = cleave_collective_exchange_of(&plan, &at, e);
            if (x.from / 4 == 0 && x.to / 4 == 1)
                across += x.end - x.first;
        }
    }
    cr_expect_eq(across, 2 * 4); /* of 8 blocks: the whole vector */
}

Test(collective_steps, what_has_no_plan_is_said) {
    cr_expect_not(cleave_collective_has_plan(CLEAVE_ALL_GATHER, CLEAVE_ALGORITHM_TREE, 8, 1));
    cr_expect_not(cleave_collective_has_plan(CLEAVE_ALL_REDUCE, CLEAVE_ALGORITHM_TWO_LEVEL, 8, 3));
    cr_expect_not(cleave_collective_has_plan(CLEAVE_ALL_REDUCE, CLEAVE_ALGORITHM_TWO_LEVEL, 8, 8));
    cr_expect_not(cleave_collective_has_plan(CLEAVE_ALL_REDUCE, CLEAVE_ALGORITHM_TWO_LEVEL, 8, 1));
    cr_expect_not(cleave_collective_has_plan(CLEAVE_ALL_REDUCE, CLEAVE_ALGORITHM_DIRECT, 8, 1));
    cr_expect_not(cleave_collective_has_plan(CLEAVE_ALL_TO_ALL, CLEAVE_ALGORITHM_RING, 8, 1));
    cr_expect_not(cleave_collective_has_plan(CLEAVE_ALL_REDUCE, CLEAVE_ALGORITHM_RING, 1, 1));
}
