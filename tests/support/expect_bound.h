/* Prices layouts that are drawn from the candidates, wherever their blocks stand, and asserts that
   each takes at least the lower bound of the space that they are drawn from. */
#ifndef CLEAVE_TESTS_SUPPORT_EXPECT_BOUND_H
#define CLEAVE_TESTS_SUPPORT_EXPECT_BOUND_H

#include "ok.h"
#include "price_whole.h"
#include "search/bound/bound.h"
#include "search/price/price.h"

#include <criterion/criterion.h>

static inline void draw_from(const cleave_candidates *candidates, int32_t n_devices,
                             cleave_random *random, int32_t *devices, cleave_layout *layout) {
    for (int32_t op = 0; op < layout->n_operators; op++) {
        const cleave_candidate_list *list = &candidates->lists[candidates->list_of[op]];
        const cleave_candidate *c = &list->items[cleave_random_below(random, list->n)];
        layout->splits[op].devices = &devices[op * n_devices];
        cleave_candidate_place(c, (int32_t)cleave_random_below(random, c->n_starts),
                               &layout->splits[op]);
    }
}

static inline void expect_bound_to_hold(const cleave_model *model, const cleave_machine *machine,
                                        int trials, cleave_arena *arena) {
    cleave_pricer pricer;
    cleave_node_costs *costs;
    cleave_candidates candidates;
    cleave_layout layout;
    double seconds;
    OK(cleave_node_costs_create, model, machine, &costs);
    OK(cleave_candidates_create, model, machine, costs, NULL, 0, arena, &candidates);
    OK(cleave_lower_bound, model, machine, &candidates, 1, &seconds);
    cr_assert_gt(seconds, 0);
    OK(cleave_pricer_create, model, machine, 1, INT64_C(1) << 50, &pricer);
    OK(cleave_layout_create, model, machine->n_devices, arena, &layout);
    int32_t *devices = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_operators * machine->n_devices);
    cleave_random random = {.key = 5};
    for (int trial = 0; trial < trials; trial++) {
        cleave_price price;
        draw_from(&candidates, machine->n_devices, &random, devices, &layout);
        OK(price_whole, &pricer, &layout, trial % 2 == 0, &price);
        cr_assert_geq((double)price.step * 1e-12, seconds, "%s", model->file);
    }
    cleave_pricer_destroy(&pricer);
    cleave_node_costs_destroy(costs);
}

#endif
