/* The integer program against trying everything, with and without limits, and against elimination
   where nothing is limited. */
#include "../support/drawn_additive.h"
#include "../support/draws.h"
#include "../support/integer_program.h"
#include "../support/ok.h"

#include <criterion/criterion.h>

enum { N_CASES = 400, N_LARGER = 40 };

static cleave_additive_solution solve(const cleave_additive *additive, int32_t n_limits,
                                      const cleave_additive_limit *limits, cleave_arena *arena) {
    cleave_additive_solution solution;
    OK(solve_integer_program, additive, n_limits, limits, 0, arena, &solution);
    return solution;
}

Test(integer_program, finds_the_least_total_within_limits) {
    static const int64_t weights[] = {1, 10, INT64_C(16) << 30};
    int n_infeasible = 0, n_bound = 0;
    for (uint64_t i = seed_from(0); i < seed_end(N_CASES); i++) {
        cleave_arena arena = {0};
        cleave_random random = {.key = i};
        additive_shape shape = additive_small_shape(&random);
        if (shape.spread > 1000)
            shape.spread = 100000; /* the solver's tolerance */
        cleave_additive additive = drawn_additive(&shape, &random, &arena);
        cleave_additive_limit limits[2];
        int32_t n_limits = (int32_t)(i % 3);
        for (int32_t k = 0; k < n_limits; k++)
            limits[k] =
                drawn_limit(&additive, weights[cleave_random_below(&random, 3)], &random, &arena);
        cleave_additive_solution solution = solve(&additive, n_limits, limits, &arena);
        int64_t least, unlimited;
        drawn_optimum(&additive, 0, NULL, &unlimited);
        if (drawn_optimum(&additive, n_limits, limits, &least)) {
            cr_assert_eq(solution.outcome, CLEAVE_ADDITIVE_OPTIMAL, "case %d", (int)i);
            cr_assert(drawn_is_choice(&additive, &solution), "case %d", (int)i);
            cr_assert_eq(solution.total, least, "case %d: %lld instead of %lld", (int)i,
                         (long long)solution.total, (long long)least);
            cr_assert_eq(solution.bound, least);
            for (int32_t k = 0; k < n_limits; k++)
                cr_assert_leq(drawn_weight(&additive, &limits[k], solution.value), limits[k].most);
            n_bound += least > unlimited;
        } else {
            cr_assert_eq(solution.outcome, CLEAVE_ADDITIVE_INFEASIBLE, "case %d", (int)i);
            cr_assert_null(solution.value);
            n_infeasible++;
        }
        cleave_arena_free(&arena);
    }
    cr_expect_gt(n_infeasible, N_CASES / 50);
    cr_expect_gt(n_bound, N_CASES / 50);
}

Test(integer_program, agrees_with_elimination) {
    for (uint64_t i = seed_from(0); i < seed_end(N_LARGER); i++) {
        cleave_arena arena = {0};
        cleave_random random = {.key = i};
        additive_shape shape = {.graph = i % 2 == 0 ? DRAWN_GRID : DRAWN_SKIPS,
                                .n_variables = 20,
                                .most_values = 6,
                                .spread = 1000};
        cleave_additive additive = drawn_additive(&shape, &random, &arena);
        cleave_additive_solution solution = solve(&additive, 0, NULL, &arena), other;
        OK(cleave_additive_eliminate, &additive, INT64_MAX, &arena, &other);
        cr_assert_eq(solution.total, other.total);
        cr_assert_eq(solution.outcome, CLEAVE_ADDITIVE_OPTIMAL);
        cleave_arena_free(&arena);
    }
}

/* With next to no time: whatever comes back is true. */
Test(integer_program, holds_what_it_says_when_time_is_up) {
    cleave_arena arena = {0};
    cleave_random random = {.key = 1};
    additive_shape shape = {
        .graph = DRAWN_CLIQUE, .n_variables = 12, .most_values = 12, .spread = 1000000};
    cleave_additive additive = drawn_additive(&shape, &random, &arena);
    cleave_additive_solution best, solution;
    OK(cleave_additive_eliminate, &additive, 1 << 20, &arena, &best);
    for (int i = 0; i < 4; i++) {
        double seconds = 0.002 * (double)(1 << (2 * i));
        cr_assert_eq(solve_integer_program(&additive, 0, NULL, seconds, &arena, &solution, NULL),
                     CLEAVE_OK);
        cr_expect_leq(solution.bound, best.total);
        cr_expect(solution.outcome == CLEAVE_ADDITIVE_UNKNOWN ||
                  (drawn_is_choice(&additive, &solution) && solution.total >= best.bound));
        cr_expect_neq(solution.outcome, CLEAVE_ADDITIVE_INFEASIBLE);
    }
    cleave_arena_free(&arena);
}
