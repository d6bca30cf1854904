/* Lagrange's relaxation against trying everything: its bound is one, what it finds is within the
   limits, and what it says is impossible is. */
#include "../support/drawn_additive.h"
#include "../support/draws.h"
#include "../support/integer_program.h"
#include "../support/ok.h"

#include <criterion/criterion.h>
#include <string.h>

enum { N_CASES = 2000 };

typedef struct tally {
    int n_infeasible, n_called_infeasible, n_unknown, n_optimal, n_found_optimum, n_feasible;
} tally;

static cleave_additive_solution relax(const cleave_additive *additive, int32_t n_limits,
                                      const cleave_additive_limit *limits, int64_t most_entries,
                                      cleave_arena *arena) {
    cleave_additive_solution solution;
    OK(cleave_additive_relax, additive, n_limits, limits, most_entries, arena, &solution);
    return solution;
}

static void check(const cleave_additive *additive, int32_t n_limits,
                  const cleave_additive_limit *limits, const cleave_additive_solution *solution,
                  int i, tally *t) {
    int64_t least;
    if (!drawn_optimum(additive, n_limits, limits, &least)) {
        cr_assert(solution->outcome == CLEAVE_ADDITIVE_INFEASIBLE ||
                      solution->outcome == CLEAVE_ADDITIVE_UNKNOWN,
                  "case %d", i);
        cr_assert_null(solution->value);
        t->n_infeasible++;
        t->n_called_infeasible += solution->outcome == CLEAVE_ADDITIVE_INFEASIBLE;
        return;
    }
    t->n_feasible++;
    cr_assert_neq(solution->outcome, CLEAVE_ADDITIVE_INFEASIBLE, "case %d", i);
    cr_assert_leq(solution->bound, least, "case %d: bound %lld above the optimum %lld", i,
                  (long long)solution->bound, (long long)least);
    t->n_unknown += solution->outcome == CLEAVE_ADDITIVE_UNKNOWN;
    if (solution->outcome == CLEAVE_ADDITIVE_UNKNOWN)
        return;
    cr_assert(drawn_is_choice(additive, solution), "case %d", i);
    for (int32_t k = 0; k < n_limits; k++)
        cr_assert_leq(drawn_weight(additive, &limits[k], solution->value), limits[k].most,
                      "case %d", i);
    cr_assert_geq(solution->total, least);
    cr_assert_eq(solution->outcome == CLEAVE_ADDITIVE_OPTIMAL, solution->total == solution->bound);
    t->n_optimal += solution->outcome == CLEAVE_ADDITIVE_OPTIMAL;
    t->n_found_optimum += solution->total == least;
}

static tally run(int32_t n_limits, bool wide) {
    static const int64_t weights[] = {1, 10, INT64_C(1) << 40};
    tally t = {0};
    for (uint64_t i = seed_from(0); i < seed_end(N_CASES); i++) {
        cleave_arena arena = {0};
        cleave_random random = {.key = i};
        additive_shape shape = additive_small_shape(&random);
        cleave_additive additive = drawn_additive(&shape, &random, &arena);
        cleave_additive_limit limits[3];
        for (int32_t k = 0; k < n_limits; k++)
            limits[k] =
                drawn_limit(&additive, weights[cleave_random_below(&random, 3)], &random, &arena);
        cleave_additive_solution solution =
            relax(&additive, n_limits, limits, wide ? 4 : INT64_MAX, &arena);
        check(&additive, n_limits, limits, &solution, (int)i, &t);
        cleave_arena_free(&arena);
    }
    return t;
}

/* Each variable's last value takes two weeks, where others take nanoseconds: two of them are more
   than solvers add up.  What is found is none of them where there is anything else. */
Test(relaxation, finds_what_is_cheap_beside_what_takes_weeks) {
    static const int64_t weeks = INT64_C(1) << 60;
    int n_cut = 0, n_feasible = 0, n_found = 0;
    for (uint64_t i = seed_from(0); i < seed_end(N_CASES); i++) {
        cleave_arena arena = {0};
        cleave_random random = {.key = i};
        additive_shape shape = additive_small_shape(&random);
        shape.spread = 1000;
        cleave_additive additive = drawn_additive(&shape, &random, &arena);
        cleave_additive_fitted fitted;
        for (int32_t v = 0; v < additive.n_variables; v++)
            if (additive.n_values[v] > 1)
                ((int64_t *)(uintptr_t)additive.cost[v])[additive.n_values[v] - 1] = weeks;
        cleave_additive_limit limit = drawn_limit(&additive, 10, &random, &arena);
        OK(cleave_additive_fit, &additive, 1, &limit, &arena, &fitted);
        n_cut += fitted.additive.cost != additive.cost;
        cleave_additive_solution solution = relax(&additive, 1, &limit, INT64_MAX, &arena);
        int64_t least;
        if (drawn_optimum(&additive, 1, &limit, &least) && least < weeks / 2) {
            cr_assert_not_null(solution.value, "case %d", (int)i);
            cr_assert_leq(solution.bound, least, "case %d", (int)i);
            cr_assert_leq(drawn_weight(&additive, &limit, solution.value), limit.most);
            cr_assert(solution.total > weeks / 1000 || drawn_is_choice(&additive, &solution));
            n_feasible++;
            n_found += solution.total == least;
        }
        cleave_arena_free(&arena);
    }
    cr_expect_gt(n_cut, N_CASES / 4);
    cr_expect_gt(n_feasible, N_CASES / 4);
    cr_expect_gt(n_found, n_feasible * 8 / 10, "%d of %d", n_found, n_feasible);
}

/* With one limit the lightest choice tells whether anything is within it. */
Test(relaxation, holds_with_one_limit) {
    tally t = run(1, false);
    cr_expect_gt(t.n_infeasible, N_CASES / 50);
    cr_expect_eq(t.n_called_infeasible, t.n_infeasible);
    cr_expect_eq(t.n_unknown, 0);
    cr_expect_gt(t.n_optimal, t.n_feasible * 6 / 10, "%d of %d", t.n_optimal, t.n_feasible);
    cr_expect_gt(t.n_found_optimum, t.n_feasible * 8 / 10, "%d of %d", t.n_found_optimum,
                 t.n_feasible);
}

Test(relaxation, holds_with_three_limits) {
    tally t = run(3, false);
    cr_expect_gt(t.n_called_infeasible, t.n_infeasible / 2, "%d of %d", t.n_called_infeasible,
                 t.n_infeasible);
    cr_expect_lt(t.n_unknown, t.n_feasible / 10, "%d of %d", t.n_unknown, t.n_feasible);
    cr_expect_gt(t.n_found_optimum, t.n_feasible * 6 / 10, "%d of %d", t.n_found_optimum,
                 t.n_feasible);
}

Test(relaxation, holds_where_tables_are_split) {
    tally t = run(1, true);
    cr_expect_eq(t.n_unknown, 0);
    cr_expect_gt(t.n_found_optimum, t.n_feasible / 2, "%d of %d", t.n_found_optimum, t.n_feasible);
}

Test(relaxation, without_limits_is_elimination) {
    tally t = run(0, false);
    cr_expect_eq(t.n_optimal, N_CASES);
}

/* A chain that is too long to try: the integer program's optimum lies between bound and total. */
Test(relaxation, brackets_the_integer_program) {
    for (uint64_t i = seed_from(0); i < seed_end(20); i++) {
        cleave_arena arena = {0};
        cleave_random random = {.key = i};
        additive_shape shape = {
            .graph = DRAWN_SKIPS, .n_variables = 16, .most_values = 5, .spread = 1000};
        cleave_additive additive = drawn_additive(&shape, &random, &arena);
        cleave_additive_limit limit = drawn_limit(&additive, 1000, &random, &arena);
        cleave_additive_solution solution = relax(&additive, 1, &limit, INT64_MAX, &arena), exact;
        cr_assert_eq(solve_integer_program(&additive, 1, &limit, 0, &arena, &exact, NULL),
                     CLEAVE_OK);
        cr_assert_eq(solution.outcome == CLEAVE_ADDITIVE_INFEASIBLE,
                     exact.outcome == CLEAVE_ADDITIVE_INFEASIBLE);
        if (exact.outcome != CLEAVE_ADDITIVE_INFEASIBLE) {
            cr_assert_leq(solution.bound, exact.total);
            cr_assert_geq(solution.total, exact.total);
        }
        cleave_additive_solution again = relax(&additive, 1, &limit, INT64_MAX, &arena);
        cr_assert_eq(again.total, solution.total);
        cr_assert_eq(again.bound, solution.bound);
        cr_assert(solution.value == NULL ||
                  memcmp(again.value, solution.value, 16 * sizeof *again.value) == 0);
        cleave_arena_free(&arena);
    }
}
