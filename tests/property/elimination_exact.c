/* Elimination against trying everything, on random small models: trees, cycles, cliques, grids,
   chains with skips, several components, isolated variables, variables of one value, negative costs
   and ties, costs up to the largest allowed. */
#include "../support/drawn_additive.h"
#include "../support/draws.h"
#include "../support/ok.h"

#include <criterion/criterion.h>
#include <string.h>

enum { N_CASES = 3000 };

static cleave_additive_solution eliminate(const cleave_additive *additive, int64_t most_entries,
                                          cleave_arena *arena) {
    cleave_additive_solution solution;
    OK(cleave_additive_eliminate, additive, most_entries, arena, &solution);
    return solution;
}

Test(elimination, finds_the_least_total) {
    for (uint64_t i = seed_from(0); i < seed_end(N_CASES); i++) {
        cleave_arena arena = {0};
        cleave_random random = {.key = i};
        additive_shape shape = additive_small_shape(&random);
        cleave_additive additive = drawn_additive(&shape, &random, &arena);
        cleave_additive_solution solution = eliminate(&additive, INT64_MAX, &arena);
        int64_t least;
        cr_assert(drawn_optimum(&additive, 0, NULL, &least));
        cr_assert_eq(solution.outcome, CLEAVE_ADDITIVE_OPTIMAL, "case %d", (int)i);
        cr_assert(drawn_is_choice(&additive, &solution), "case %d", (int)i);
        cr_assert_eq(solution.total, least, "case %d: %lld instead of %lld", (int)i,
                     (long long)solution.total, (long long)least);
        cr_assert_eq(solution.bound, least);
        cleave_arena_free(&arena);
    }
}

/* No other value of one variable alone gives a smaller total. */
static bool is_local_optimum(const cleave_additive *additive,
                             const cleave_additive_solution *solution) {
    for (int32_t v = 0; v < additive->n_variables; v++) {
        int32_t kept = solution->value[v];
        bool better = false;
        for (int32_t x = 0; x < additive->n_values[v]; x++) {
            solution->value[v] = x;
            better = better || cleave_additive_total(additive, solution->value) < solution->total;
        }
        solution->value[v] = kept;
        if (better)
            return false;
    }
    return true;
}

/* With little room for tables: what is found is a choice, the bound is one, and what is called
   optimal is. */
Test(elimination, bounds_what_it_can_not_solve) {
    int n_wide = 0, n_optimal = 0;
    for (uint64_t i = seed_from(0); i < seed_end(N_CASES); i++) {
        cleave_arena arena = {0};
        cleave_random random = {.key = i};
        additive_shape shape = additive_small_shape(&random);
        cleave_additive additive = drawn_additive(&shape, &random, &arena);
        int64_t most_entries = 1 + cleave_random_below(&random, 9), least;
        cleave_additive_solution solution = eliminate(&additive, most_entries, &arena);
        cr_assert(drawn_optimum(&additive, 0, NULL, &least));
        cr_assert(drawn_is_choice(&additive, &solution), "case %d", (int)i);
        cr_assert_leq(solution.bound, least, "case %d: bound %lld above the optimum %lld", (int)i,
                      (long long)solution.bound, (long long)least);
        cr_assert_geq(solution.total, least);
        cr_assert(is_local_optimum(&additive, &solution), "case %d", (int)i);
        cr_assert_eq(solution.outcome == CLEAVE_ADDITIVE_OPTIMAL, solution.total == solution.bound);
        cr_assert(solution.outcome == CLEAVE_ADDITIVE_OPTIMAL ||
                  solution.outcome == CLEAVE_ADDITIVE_FEASIBLE);
        n_wide += solution.outcome == CLEAVE_ADDITIVE_FEASIBLE;
        n_optimal += solution.total == least;
        cleave_arena_free(&arena);
    }
    cr_expect_gt(n_wide, N_CASES / 50, "cases are too easy: %d of them were split", n_wide);
    cr_expect_gt(n_optimal, N_CASES / 2, "values are badly chosen: %d are optimal", n_optimal);
}

Test(elimination, gives_the_same_again) {
    for (uint64_t i = seed_from(0); i < seed_end(200); i++) {
        cleave_arena arena = {0};
        cleave_random random = {.key = i};
        additive_shape shape = additive_small_shape(&random);
        shape.spread = 1; /* ties */
        shape.n_variables = 30;
        shape.graph = i % 2 == 0 ? DRAWN_GRID : DRAWN_SKIPS;
        cleave_additive additive = drawn_additive(&shape, &random, &arena);
        int64_t most_entries = i % 3 == 0 ? 8 : INT64_MAX;
        cleave_additive_solution a = eliminate(&additive, most_entries, &arena);
        cleave_additive_solution b = eliminate(&additive, most_entries, &arena);
        cr_assert_eq(memcmp(a.value, b.value, 30 * sizeof *a.value), 0);
        cr_assert(a.total == b.total && a.bound == b.bound && a.outcome == b.outcome);
        cleave_arena_free(&arena);
    }
}
