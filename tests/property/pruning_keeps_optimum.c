/* Dropping values that are never needed: the optimum stays, with and without limits, and something
   is dropped. */
#include "../support/drawn_additive.h"
#include "../support/draws.h"
#include "../support/ok.h"
#include "search/solve/prune.h"

#include <criterion/criterion.h>

enum { N_CASES = 2000 };

Test(pruning, keeps_the_optimum) {
    int64_t n_dropped = 0;
    for (uint64_t i = seed_from(0); i < seed_end(N_CASES); i++) {
        cleave_arena arena = {0};
        cleave_random random = {.key = i};
        additive_shape shape = additive_small_shape(&random);
        cleave_additive additive = drawn_additive(&shape, &random, &arena);
        cleave_additive_limit limits[2];
        int32_t n_limits = (int32_t)(i % 3);
        for (int32_t k = 0; k < n_limits; k++)
            limits[k] = drawn_limit(&additive, 3, &random, &arena);
        cleave_additive_pruned pruned;
        OK(cleave_additive_prune, &additive, n_limits, limits, &arena, &pruned);
        int64_t least = 0, left = 0;
        bool feasible = drawn_optimum(&additive, n_limits, limits, &least);
        cr_assert_eq(drawn_optimum(&pruned.additive, n_limits, pruned.limits, &left), feasible,
                     "case %d", (int)i);
        cr_assert_eq(left, least, "case %d: %lld instead of %lld", (int)i, (long long)left,
                     (long long)least);
        for (int32_t v = 0; v < additive.n_variables; v++)
            for (int32_t x = 0; x < pruned.additive.n_values[v]; x++) {
                int32_t was = pruned.kept[v][x];
                cr_assert(was >= 0 && was < additive.n_values[v]);
                cr_assert(x == 0 || was > pruned.kept[v][x - 1]);
                cr_assert_eq(pruned.additive.cost[v][x], additive.cost[v][was]);
            }
        n_dropped += pruned.n_dropped;
        cleave_arena_free(&arena);
    }
    cr_expect_gt(n_dropped, N_CASES / 4);
}

/* Value 1 costs 5 more by itself, and at most 4 less beside the other variable; value 2 costs 5
   more, too, but 6 less at one place. */
Test(pruning, drops_what_is_never_better) {
    static const int32_t n_values[] = {3, 2};
    static const int64_t a[] = {0, 5, 5}, b[] = {0, 0}, pair_cost[] = {7, 3, 3, 1, 1, 9};
    const int64_t *cost[] = {a, b};
    cleave_additive_pair pair = {0, 1, pair_cost};
    cleave_additive additive = {2, n_values, cost, 1, &pair};
    cleave_additive_pruned pruned;
    cleave_arena arena = {0};
    OK(cleave_additive_prune, &additive, 0, NULL, &arena, &pruned);
    cr_assert_eq(pruned.additive.n_values[0], 2);
    cr_expect_eq(pruned.kept[0][1], 2);
    cr_expect_eq(pruned.additive.n_values[1], 2);
    cr_expect_eq(pruned.n_dropped, 1);
    cleave_arena_free(&arena);
}
