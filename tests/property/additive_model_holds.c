/* The additive model on real and small models. */
#include "../support/draws.h"
#include "../support/ok.h"
#include "../support/price_whole.h"
#include "../support/shipped.h"
#include "base/order.h"
#include "search/price/price.h"
#include "search/solve/model.h"

#include "../support/perceptron.h"
#include "../support/test_machine.h"

#include <stdio.h>
#include <stdlib.h>

static cleave_arena arena;
static cleave_model model;
static cleave_machine machine;
static cleave_candidates candidates;
static cleave_node_costs *costs;

static void tear_down(void) {
    cleave_node_costs_destroy(costs);
    costs = NULL;
    cleave_arena_free(&arena);
}
TestSuite(additive_model, .fini = tear_down);

static void list_candidates(void) {
    OK(cleave_node_costs_create, &model, &machine, &costs);
    OK(cleave_candidates_create, &model, &machine, costs, NULL, 0, &arena, &candidates);
}

static cleave_additive_model make_with(cleave_additive_options options) {
    cleave_additive_model made;
    OK(cleave_additive_model_create, &model, &machine, &candidates, &options, &arena, &made);
    return made;
}

static cleave_additive_model make(int32_t most_values) {
    return make_with((cleave_additive_options){
        .optimizer_states = 1, .most_values = most_values, .exposed_sync = 1});
}

static void import(const char *name, int64_t batch) {
    OK(shipped_model, name, batch, &arena, &model);
}

static int by_size(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return CLEAVE_ORDER(x, y);
}

/* Of all candidates, priced one operator at a time in a model of all of them. */
Test(additive_model, values_around_a_layout_change_its_total_least) {
    enum { MOST = 6 };
    import("alexnet", 32);
    machine = make_machine(&arena, 2, 2, "1 TiB");
    list_candidates();
    cleave_additive_model all = make(0), made;
    cleave_random random = {.key = seed_from(5)};
    int32_t *value = CLEAVE_ARENA_ARRAY(&arena, int32_t, model.n_operators);
    for (int32_t v = 0; v < model.n_operators; v++)
        value[v] = (int32_t)cleave_random_below(&random, all.additive.n_values[v]);
    cleave_layout layout;
    OK(cleave_additive_model_layout, &all, &model, &machine, &candidates, value, &arena, &layout);
    const cleave_additive_options options = {
        .optimizer_states = 1, .most_values = MOST, .exposed_sync = 1, .around = &layout};
    OK(cleave_additive_model_create, &model, &machine, &candidates, &options, &arena, &made);
    int n_checked = 0;
    for (int32_t op = 0; op < model.n_operators; op++) {
        int32_t n = all.additive.n_values[op], present = value[op], n_alike = 0;
        for (int32_t other = 0; other < model.n_operators; other++)
            n_alike += candidates.list_of[other] == candidates.list_of[op];
        if (n_alike > 1 || n <= MOST) /* values are of all that are alike */
            continue;
        int64_t *total = CLEAVE_ARENA_ARRAY(&arena, int64_t, n);
        int64_t *sorted = CLEAVE_ARENA_ARRAY(&arena, int64_t, n);
        for (value[op] = 0; value[op] < n; value[op]++)
            total[value[op]] = cleave_additive_total(&all.additive, value);
        value[op] = present;
        memcpy(sorted, total, (size_t)n * sizeof *total);
        CLEAVE_SORT(sorted, n, by_size);
        bool has_present = false;
        for (int32_t i = 0; i < MOST; i++) {
            int32_t candidate = made.candidates[op][i];
            has_present = has_present || candidate == present;
            if (candidate != present)
                cr_expect_leq(total[candidate], sorted[MOST - 1], "operator %d", op);
        }
        cr_expect(has_present, "operator %d", op);
        n_checked++;
    }
    cr_expect_gt(n_checked, 3);
}

/* Blocks that repeat share their tables, so twice the layers are no more tables. */
Test(additive_model, alike_pairs_share_their_table) {
    import("bert_base", 8);
    machine = make_machine(&arena, 1, 2, "1 TiB");
    list_candidates();
    cleave_additive_model made = make(8);
    int32_t n_distinct = 0;
    for (int32_t p = 0; p < made.additive.n_pairs; p++) {
        bool is_new = true;
        for (int32_t q = 0; q < p && is_new; q++)
            is_new = made.additive.pairs[q].cost != made.additive.pairs[p].cost;
        n_distinct += is_new;
        cr_assert_lt(made.additive.pairs[p].a, made.additive.pairs[p].b);
    }
    cr_expect_gt(made.additive.n_pairs, 100);
    cr_expect_lt(n_distinct, 30);
}

static double simulate(const cleave_additive_model *made, const int32_t *value) {
    cleave_arena scratch = {0};
    cleave_layout layout;
    cleave_pricer pricer;
    cleave_price price;
    OK(cleave_additive_model_layout, made, &model, &machine, &candidates, value, &scratch, &layout);
    OK(cleave_layout_check, &model, &layout);
    OK(cleave_choose_collectives, &machine, false, &scratch, &layout.collectives);
    OK(cleave_pricer_create, &model, &machine, 1, INT64_C(1) << 50, &pricer);
    OK(price_whole, &pricer, &layout, false, &price);
    cleave_pricer_destroy(&pricer);
    cleave_arena_free(&scratch);
    return (double)price.step;
}

/* A chain of three operators has little that could overlap, so the sum is near the simulated step,
   whatever moves between them: every choice of values. */
Test(additive_model, total_of_a_chain_is_near_its_simulated_step) {
    model = make_perceptron(&arena, 1, 512, 256);
    machine = make_machine(&arena, 2, 2, "1 TiB");
    list_candidates();
    cleave_additive_model made = make(0);
    const cleave_additive *a = &made.additive;
    int32_t value[3], n = 0, n_far = 0;
    for (value[0] = 0; value[0] < a->n_values[0]; value[0]++)
        for (value[1] = 0; value[1] < a->n_values[1]; value[1]++)
            for (value[2] = 0; value[2] < a->n_values[2]; value[2]++) {
                double ratio = (double)cleave_additive_total(a, value) / simulate(&made, value);
                cr_assert(ratio > 0.6 && ratio < 2, "%d %d %d: %g", value[0], value[1], value[2],
                          ratio);
                n++;
                n_far += ratio < 0.8 || ratio > 1.25;
            }
    cr_expect_lt(n_far, n / 10, "%d of %d", n_far, n);
}

/* An update moves a parameter's gradient, itself and its states through memory, at 50 GB/s: each
   state is read and written. */
Test(additive_model, updates_cost_as_many_states_as_there_are) {
    model = make_perceptron(&arena, 1, 8, 64);
    machine = make_machine(&arena, 1, 2, "1 GiB");
    list_candidates();
    cleave_additive_model made[3];
    for (int states = 0; states < 3; states++)
        made[states] = make_with((cleave_additive_options){.optimizer_states = states});
    const cleave_candidate_list *list = &candidates.lists[candidates.list_of[0]];
    for (int32_t v = 0; v < made[0].additive.n_values[0]; v++)
        for (int states = 1; states < 3; states++) {
            const cleave_candidate *c = &list->items[made[0].candidates[0][v]];
            double weight = 64 * 64 * 4 / (c->degree[1] * c->degree[2]);
            int64_t more = made[states].additive.cost[0][v] - made[0].additive.cost[0][v];
            cr_expect_float_eq((double)more, states * 2 * weight / 50e9 * 1e12, 2, "value %d", v);
        }
}

/* Where samples are split, partial gradients of the weight are added up: half of it goes each way
   over links of 10 GB/s at the least.  Replicas and all other splits have none.  What is exposed of
   it counts. */
Test(additive_model, partial_gradients_cost_their_exchange_as_far_as_it_is_exposed) {
    model = make_perceptron(&arena, 1, 8, 64);
    machine = make_machine(&arena, 1, 2, "1 GiB");
    list_candidates();
    cleave_additive_model made[3];
    for (int halves = 0; halves < 3; halves++)
        made[halves] = make_with((cleave_additive_options){.exposed_sync = 0.5 * halves});
    const cleave_candidate_list *list = &candidates.lists[candidates.list_of[0]];
    int32_t n_exchanging = 0;
    for (int32_t v = 0; v < made[0].additive.n_values[0]; v++) {
        const cleave_candidate *c = &list->items[made[0].candidates[0][v]];
        int64_t all = made[2].additive.cost[0][v] - made[0].additive.cost[0][v];
        int64_t half = made[1].additive.cost[0][v] - made[0].additive.cost[0][v];
        double least = c->degree[0] > 1 ? 64 * 64 * 4 / 10e9 * 1e12 : 0;
        cr_expect_geq((double)all, least, "value %d", v);
        cr_expect_eq(all > 0, c->degree[0] > 1, "value %d", v);
        cr_expect_leq(llabs(all - 2 * half), 2, "value %d", v);
        n_exchanging += all > 0;
    }
    cr_expect_gt(n_exchanging, 0);
}

/* Memory: the weights of a device's share, at the least. */
Test(additive_model, memory_counts_parameters_gradients_and_states) {
    model = make_perceptron(&arena, 1, 8, 64);
    machine = make_machine(&arena, 1, 2, "1 GiB");
    list_candidates();
    cleave_additive_model made = make(0);
    const cleave_candidate_list *list = &candidates.lists[candidates.list_of[0]];
    for (int32_t v = 0; v < made.additive.n_values[0]; v++) {
        const cleave_candidate *c = &list->items[made.candidates[0][v]];
        /* Weight 64 x 64, a state, and its gradient, which is let go at once where each device has
           a part of its own; x, and y which nobody keeps for backward but the rectifier's output:
           that is the next operator's. */
        int64_t n = c->degree[1] * c->degree[2] == 2 ? 2 : 3;
        int64_t weight = 64 * 64 * 4 / (c->degree[1] * c->degree[2]);
        int64_t x = 8 * 64 * 4 / (c->degree[0] * c->degree[2]);
        cr_expect_eq(made.memory.weight[0][v], n * weight + x, "value %d", v);
    }
    cr_expect_eq(made.memory.most, INT64_C(1) << 30);
}
