/* Passing messages: no optimum is lost, no total changes, and the bound is one.  And elimination of
   models that are wide enough for it finds what elimination without it finds. */
#include "../support/drawn_additive.h"
#include "../support/draws.h"
#include "../support/ok.h"
#include "search/solve/tighten.h"

#include <criterion/criterion.h>

enum { N_CASES = 2000, N_WIDE = 40 };

/* A choice of the first values that are left costs what it did. */
static void check_costs(const cleave_additive *additive, const cleave_additive_tightened *made,
                        cleave_random *random, cleave_arena *arena) {
    int32_t *left = CLEAVE_ARENA_ARRAY(arena, int32_t, additive->n_variables);
    int32_t *was = CLEAVE_ARENA_ARRAY(arena, int32_t, additive->n_variables);
    for (int32_t v = 0; v < additive->n_variables; v++) {
        left[v] = (int32_t)cleave_random_below(random, made->additive.n_values[v]);
        was[v] = made->kept[v][left[v]];
        cr_assert(was[v] >= 0 && was[v] < additive->n_values[v]);
    }
    cr_assert_eq(cleave_additive_total(&made->additive, left),
                 cleave_additive_total(additive, was));
}

/* Every choice that costs no more than the one that was found has all its values left. */
static bool keeps_what_is_as_good(const cleave_additive *additive,
                                  const cleave_additive_tightened *made) {
    int32_t value[8] = {0}, kept[8] = {0};
    int64_t all = 0, left = 0;
    for (bool more = true; more; more = drawn_count_on(additive, value))
        all += cleave_additive_total(additive, value) <= made->total;
    for (bool more = true; more; more = drawn_count_on(&made->additive, kept))
        left += cleave_additive_total(&made->additive, kept) <= made->total;
    return all == left;
}

Test(tightening, keeps_totals_and_optimum) {
    int64_t n_dropped = 0;
    int n_proven = 0;
    for (uint64_t i = seed_from(0); i < seed_end(N_CASES); i++) {
        cleave_arena arena = {0};
        cleave_random random = {.key = i};
        additive_shape shape = additive_small_shape(&random);
        if (shape.spread > 1000)
            shape.spread = INT64_C(1) << 40;
        cleave_additive additive = drawn_additive(&shape, &random, &arena);
        cr_assert(cleave_additive_can_tighten(&additive));
        cleave_additive_tightened made;
        int32_t times = 1 + (int32_t)(i % 10);
        OK(cleave_additive_tighten, &additive, times, &arena, &made);
        int64_t least = 0, left = 0;
        drawn_optimum(&additive, 0, NULL, &least);
        drawn_optimum(&made.additive, 0, NULL, &left);
        cr_assert_eq(left, least, "case %d: %lld instead of %lld", (int)i, (long long)left,
                     (long long)least);
        cr_assert_leq(made.bound, least, "case %d: bound %lld above the optimum %lld", (int)i,
                      (long long)made.bound, (long long)least);
        cr_assert_geq(made.total, least);
        cr_assert_eq(cleave_additive_total(&additive, made.value), made.total);
        cr_assert(keeps_what_is_as_good(&additive, &made), "case %d", (int)i);
        check_costs(&additive, &made, &random, &arena);
        for (int32_t v = 0; v < additive.n_variables; v++)
            n_dropped += additive.n_values[v] - made.additive.n_values[v];
        n_proven += made.bound == made.total;
        cleave_arena_free(&arena);
    }
    cr_expect_gt(n_dropped, N_CASES, "%lld values were dropped", (long long)n_dropped);
    cr_expect_gt(n_proven, N_CASES / 2, "%d of %d were proven", n_proven, (int)N_CASES);
}

/* The largest costs must leave room for sums of them. */
Test(tightening, is_not_for_the_largest_costs) {
    static const int32_t n_values[] = {1, 1};
    static const int64_t large[] = {INT64_C(1) << 48}, small[] = {1};
    const int64_t *cost[] = {small, large};
    cleave_additive additive = {1, n_values, cost, 0, NULL};
    cr_expect(cleave_additive_can_tighten(&additive));
    additive.n_variables = 2;
    cr_expect_not(cleave_additive_can_tighten(&additive));
}

/* The same model with one variable more, of one value whose cost is too large for messages. */
static cleave_additive without_messages(const cleave_additive *additive, cleave_arena *arena) {
    static const int64_t large[] = {INT64_C(1) << 50};
    int32_t n = additive->n_variables;
    int32_t *n_values = CLEAVE_ARENA_ARRAY(arena, int32_t, n + 1);
    const int64_t **cost = CLEAVE_ARENA_ARRAY(arena, const int64_t *, n + 1);
    for (int32_t v = 0; v < n; v++) {
        n_values[v] = additive->n_values[v];
        cost[v] = additive->cost[v];
    }
    n_values[n] = 1;
    cost[n] = large;
    return (cleave_additive){n + 1, n_values, cost, additive->n_pairs, additive->pairs};
}

Test(tightening, wide_models_have_the_same_least_total) {
    for (uint64_t i = seed_from(0); i < seed_end(N_WIDE); i++) {
        cleave_arena arena = {0};
        cleave_random random = {.key = i};
        additive_shape shape = {.graph = i % 2 == 0 ? DRAWN_CLIQUE : DRAWN_SPARSE,
                                .n_variables = i % 2 == 0 ? 7 : 20,
                                .most_values = i % 2 == 0 ? 16 : 10,
                                .spread = 1 + cleave_random_below(&random, 10000)};
        cleave_additive additive = drawn_additive(&shape, &random, &arena);
        /* The first values drop out at once, so that those left are numbered otherwise. */
        for (int32_t v = 0; v < additive.n_variables; v++)
            if (additive.n_values[v] > 1)
                *(int64_t *)additive.cost[v] += 100 * shape.spread;
        cleave_additive plain = without_messages(&additive, &arena);
        cleave_additive_solution with, without, split;
        OK(cleave_additive_eliminate, &additive, INT64_MAX, &arena, &with);
        OK(cleave_additive_eliminate, &plain, INT64_MAX, &arena, &without);
        cr_assert_eq(with.outcome, CLEAVE_ADDITIVE_OPTIMAL);
        cr_assert(drawn_is_choice(&additive, &with));
        cr_assert_eq(with.total, without.total - (INT64_C(1) << 50), "case %d", (int)i);
        OK(cleave_additive_eliminate, &additive, 100, &arena, &split);
        cr_assert(drawn_is_choice(&additive, &split));
        cr_assert_leq(split.bound, with.total);
        cleave_arena_free(&arena);
    }
}
