/* Elimination on models whose optimum is known by hand, and what it refuses. */
#include "../../support/ok.h"
#include "search/solve/additive.h"
#include "search/solve/eliminate_plan.h"

#include <criterion/criterion.h>

/* Two variables of two values: alone 0 and 0 are best (1 + 2), together they cost 10 more; 1 and 0
   cost 3 + 2 - 4 = 1. */
static const int32_t two_values[] = {2, 2};
static const int64_t cost_a[] = {1, 3}, cost_b[] = {2, 9}, together[] = {10, 0, -4, 0};
static const int64_t *const costs[] = {cost_a, cost_b};

static cleave_status eliminate(const cleave_additive *additive, cleave_arena *arena,
                               cleave_additive_solution *solution, cleave_error *error) {
    return cleave_additive_eliminate(additive, 1000, arena, solution, error);
}

Test(elimination, pairs_count) {
    cleave_additive_pair pair = {0, 1, together};
    cleave_additive additive = {2, two_values, costs, 1, &pair};
    cleave_arena arena = {0};
    cleave_additive_solution solution;
    cr_assert_eq(eliminate(&additive, &arena, &solution, NULL), CLEAVE_OK);
    cr_expect_eq(solution.outcome, CLEAVE_ADDITIVE_OPTIMAL);
    cr_expect_eq(solution.value[0], 1);
    cr_expect_eq(solution.value[1], 0);
    cr_expect_eq(solution.total, 1);
    cr_expect_eq(cleave_additive_total(&additive, solution.value), 1);
    cleave_arena_free(&arena);
}

Test(elimination, nothing_costs_nothing) {
    cleave_additive additive = {0};
    cleave_arena arena = {0};
    cleave_additive_solution solution;
    cr_assert_eq(eliminate(&additive, &arena, &solution, NULL), CLEAVE_OK);
    cr_expect_eq(solution.outcome, CLEAVE_ADDITIVE_OPTIMAL);
    cr_expect_eq(solution.total, 0);
    cleave_arena_free(&arena);
}

/* A chain whose second values are never the answer: 0 + 1 + 2 + 0 + ... with the first ones, where
   one of the others alone takes 6 days, and all of them more than 64 bits hold. */
Test(elimination, what_is_too_dear_to_be_added_up_is_cut) {
    enum { N = 5000 };
    static const int64_t dear[3][2] = {{0, INT64_C(1) << 59}, {1, INT64_C(1) << 60}, {2, 40}};
    static const int64_t exchange[] = {0, INT64_C(1) << 61, INT64_C(1) << 61, 3};
    static int32_t n_values[N];
    static const int64_t *cost[N];
    static cleave_additive_pair pairs[N - 1];
    for (int32_t v = 0; v < N; v++) {
        n_values[v] = 2;
        cost[v] = dear[v % 3];
        if (v > 0)
            pairs[v - 1] = (cleave_additive_pair){v - 1, v, exchange};
    }
    cleave_additive additive = {N, n_values, cost, N - 1, pairs};
    cleave_arena arena = {0};
    cleave_additive_solution solution;
    OK(eliminate, &additive, &arena, &solution);
    cr_expect_eq(solution.outcome, CLEAVE_ADDITIVE_OPTIMAL);
    cr_expect_eq(solution.total, 4999); /* 1,666 times 0 + 1 + 2, and 0 + 1 */
    for (int32_t v = 0; v < N; v++)
        cr_expect_eq(solution.value[v], 0);
    cleave_arena_free(&arena);
}

/* Operators that take ten hours each, whatever is chosen, or an instant more: which of the two is
   best is known of 64 of them, too, whose sum is 2^61. */
Test(elimination, what_all_choices_cost_is_left_out_of_sums) {
    enum { HOURS = 55, N = 200 };
    static const int64_t either[] = {(INT64_C(1) << HOURS) + 1, INT64_C(1) << HOURS};
    static int32_t n_values[N];
    static const int64_t *cost[N];
    for (int32_t v = 0; v < N; v++) {
        n_values[v] = 2;
        cost[v] = either;
    }
    for (int32_t n = 63; n <= N; n += n < 64 ? 1 : N - 64) {
        cleave_additive additive = {n, n_values, cost, 0, NULL};
        cleave_arena arena = {0};
        cleave_additive_solution solution;
        OK(eliminate, &additive, &arena, &solution);
        for (int32_t v = 0; v < n; v++)
            cr_expect_eq(solution.value[v], 1);
        cr_expect_eq(solution.total, n <= 64 ? n * (INT64_C(1) << HOURS) : INT64_C(1) << 62);
        cr_expect_eq(solution.bound, solution.total);
        cleave_arena_free(&arena);
    }
}

Test(elimination, pairs_out_of_range_are_refused) {
    static const int32_t pairs[][2] = {{1, 1}, {1, 0}, {0, 2}, {-1, 0}};
    for (int i = 0; i < 4; i++) {
        cleave_additive_pair pair = {pairs[i][0], pairs[i][1], together};
        cleave_additive additive = {2, two_values, costs, 1, &pair};
        cleave_arena arena = {0};
        cleave_additive_solution solution;
        cr_expect_eq(eliminate(&additive, &arena, &solution, NULL), CLEAVE_FAILED);
        cleave_arena_free(&arena);
    }
}

/* ---- plans ----------------------------------------------------------------------------------- */

enum { ROOM = 400 };

typedef struct graph {
    cleave_additive additive;
    int32_t n_values[ROOM];
    const int64_t *cost[ROOM];
    cleave_additive_pair pairs[2 * ROOM];
} graph;

static void begin(graph *g, int32_t n_variables, int32_t n_values) {
    *g = (graph){.additive = {n_variables, g->n_values, g->cost, 0, g->pairs}};
    for (int32_t v = 0; v < n_variables; v++)
        g->n_values[v] = n_values;
}

static void join(graph *g, int32_t a, int32_t b) {
    g->pairs[g->additive.n_pairs++] = (cleave_additive_pair){.a = a, .b = b};
}

static cleave_elimination_plan plan_of(graph *g, int64_t most_entries, cleave_arena *arena) {
    cleave_elimination_plan plan;
    OK(cleave_elimination_plan_create, &g->additive, most_entries, arena, &plan);
    return plan;
}

/* A chain from its ends inward: every table is over one variable. */
Test(elimination, a_chain_is_one_variable_wide) {
    static graph g;
    cleave_arena arena = {0};
    begin(&g, 100, 64);
    for (int32_t v = 1; v < 100; v++)
        join(&g, v - 1, v);
    cleave_elimination_plan plan = plan_of(&g, INT64_MAX, &arena);
    cr_expect_eq(plan.largest, 64);
    cr_expect_eq(plan.work, 99 * 64 * 64 + 64);
    cr_expect(plan.exact);
    cr_expect_eq(plan.n_components, 1);
    cleave_arena_free(&arena);
}

/* A cycle of four, all alike at every step. */
Test(elimination, of_several_the_smaller_number_goes_first) {
    static graph g;
    cleave_arena arena = {0};
    begin(&g, 4, 5);
    join(&g, 0, 1);
    join(&g, 1, 2);
    join(&g, 2, 3);
    join(&g, 0, 3);
    cleave_elimination_plan plan = plan_of(&g, INT64_MAX, &arena);
    cr_assert_eq(plan.n_steps, 4);
    for (int32_t s = 0; s < 4; s++)
        cr_expect_eq(plan.steps[s].variable, s);
    cleave_arena_free(&arena);
}

/* A grid of two layers is two variables wide, however long. */
Test(elimination, a_grid_of_two_layers_is_two_variables_wide) {
    static graph g;
    cleave_arena arena = {0};
    begin(&g, 80, 64);
    for (int32_t t = 0; t < 40; t++) {
        join(&g, 2 * t, 2 * t + 1);
        for (int32_t layer = 0; layer < 2 && t > 0; layer++)
            join(&g, 2 * (t - 1) + layer, 2 * t + layer);
    }
    cleave_elimination_plan plan = plan_of(&g, INT64_MAX, &arena);
    cr_expect_eq(plan.largest, 64 * 64);
    cleave_arena_free(&arena);
}

/* Variables of one value widen nothing, and part what they lie between. */
Test(elimination, variables_of_one_value_cost_nothing) {
    static graph g;
    cleave_arena arena = {0};
    begin(&g, 41, 8);
    g.n_values[20] = 1;
    for (int32_t v = 0; v < 41; v++)
        if (v != 20)
            join(&g, v < 20 ? v : 20, v < 20 ? 20 : v);
    cleave_elimination_plan plan = plan_of(&g, INT64_MAX, &arena);
    cr_expect_eq(plan.largest, 1);
    cr_expect_eq(plan.n_components, 41);
    cleave_arena_free(&arena);
}

/* A clique of 6 variables of 4 values needs 4^5 entries; with 4^2 at most no table has more. */
Test(elimination, no_table_has_more_entries_than_allowed) {
    static graph g;
    cleave_arena arena = {0};
    begin(&g, 6, 4);
    for (int32_t a = 0; a < 6; a++)
        for (int32_t b = a + 1; b < 6; b++)
            join(&g, a, b);
    cleave_elimination_plan plan = plan_of(&g, INT64_MAX, &arena);
    cr_expect_eq(plan.largest, 1024);
    cr_expect(plan.exact);
    plan = plan_of(&g, 16, &arena);
    cr_expect_eq(plan.largest, 16);
    cr_expect_not(plan.exact);
    cleave_arena_free(&arena);
}
