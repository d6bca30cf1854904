/* What `explain` says is so: the shares of a step add up to it, memory is within the arena, and the
   next best split is the best of all others, each lowered and simulated from scratch. */
#include "../support/draws.h"
#include "../support/models.h"
#include "../support/ok.h"
#include "../support/price_whole.h"
#include "search/explain/changes.h"
#include "search/explain/path.h"

#include "../support/test_machine.h"

typedef struct drawn {
    cleave_arena arena;
    cleave_model model;
    cleave_machine machine;
    cleave_layout layout;
} drawn;

static void begin(drawn *d, int which, uint64_t seed, const char *memory) {
    static const int32_t nodes[] = {1, 2, 1}, devices[] = {2, 2, 4};
    cleave_error error = {""};
    *d = (drawn){0};
    cr_assert(hand_model(which, &d->arena, &d->model, &error), "%s", error.message);
    d->machine = make_machine(&d->arena, nodes[seed % 3], devices[seed % 3], memory);
    OK(cleave_layout_random, &d->model, d->machine.n_devices, seed, &d->arena, &d->layout);
}

/* ---- shares ---- */

static void check_path(drawn *d) {
    const cleave_pricing priced_as = {&d->model, &d->machine, &d->layout, .optimizer_states = 2};
    cleave_priced_program priced = {0};
    cleave_simulated_step step;
    explain_path path;
    OK(cleave_priced_program_make, &priced_as, &d->arena, &priced);
    OK(cleave_simulated_step_make, &priced.program, NULL, priced.cache, &d->arena, &step);
    OK(explain_path_find, &d->model, &priced, &step, &d->arena, &path);
    int64_t total = 0, of_operators[EXPLAIN_N_SORTS] = {0}, held = 0;
    for (int32_t op = 0; op < d->model.n_operators; op++) {
        const explain_operator *of = &path.operators[op];
        int64_t sum = 0;
        for (int s = 0; s < EXPLAIN_N_SORTS; s++) {
            cr_assert_geq(of->picoseconds[s], 0);
            sum += of->picoseconds[s];
            of_operators[s] += of->picoseconds[s];
        }
        cr_assert_eq(sum, of->total);
        cr_assert_leq(of->transfers,
                      of->picoseconds[EXPLAIN_EXCHANGE] + of->picoseconds[EXPLAIN_SYNC]);
        cr_assert_eq(of->link >= 0, of->link_picoseconds > 0);
        cr_assert_leq(of->memory_bytes, path.peak_bytes);
    }
    for (int s = 0; s < EXPLAIN_N_SORTS; s++) {
        cr_assert_leq(of_operators[s], path.picoseconds[s]);
        total += path.picoseconds[s];
    }
    cr_assert_eq(total, step.timeline.step, "%lld of %lld picoseconds are explained",
                 (long long)total, (long long)step.timeline.step);
    cr_assert_leq(path.device_busy, path.step);
    cr_assert_leq(path.link_busy, path.step);
    for (int k = 0; k < CLEAVE_N_BUFFER_KINDS; k++)
        held += path.held_bytes[k];
    cr_assert_leq(held, path.peak_bytes);
    cr_assert_gt(held * 2, path.peak_bytes, "an arena is mostly in use where it is fullest");
    cleave_cost_cache_destroy(priced.cache);
}

/* ---- other splits ---- */

/* Every candidate at every block, without the estimate. */
static void find_by_hand(drawn *d, explain_changes *changes, int32_t op, cleave_pricer *pricer,
                         int64_t *fitting, int64_t *n) {
    const cleave_candidate_list *list = &changes->candidates.lists[changes->candidates.list_of[op]];
    cleave_split own = d->layout.splits[op], split = {.devices = changes->devices};
    *fitting = INT64_MAX;
    *n = 0;
    for (int32_t i = 0; i < list->n; i++)
        for (int32_t start = 0; start < list->items[i].n_starts; start++) {
            cleave_price price;
            cleave_candidate_place(&list->items[i], start, &split);
            if (cleave_split_same(&split, &own))
                continue;
            d->layout.splits[op] = split;
            OK(price_whole, pricer, &d->layout, false, &price);
            d->layout.splits[op] = own;
            if (price.excess_bytes == 0 && price.step < *fitting)
                *fitting = price.step;
            (*n)++;
        }
}

static void check_choices(drawn *d, int64_t limit) {
    const cleave_pricing of = {&d->model, &d->machine, &d->layout, .optimizer_states = 1};
    explain_changes changes;
    cleave_pricer pricer;
    OK(cleave_pricer_create, &d->model, &d->machine, 1, limit, &pricer);
    OK(explain_changes_create, &of, limit, &d->arena, &changes);
    OK(explain_changes_list, &changes, &d->arena);
    for (int32_t op = 0; op < d->model.n_operators; op++) {
        explain_choice all, some;
        int64_t fitting, n;
        OK(explain_changes_choose, &changes, op, (explain_extent){true, 0, EXPLAIN_ALTERNATIVES},
           &d->arena, &all);
        find_by_hand(d, &changes, op, &pricer, &fitting, &n);
        cr_assert_eq(all.tried, n, "%lld of %lld are tried", (long long)all.tried, (long long)n);
        cr_assert_eq(all.n > 0 ? all.best[0].step : INT64_MAX, fitting);
        for (int32_t i = 1; i < all.n; i++)
            cr_assert_leq(all.best[i - 1].step, all.best[i].step);
        if (all.is_held_back) {
            cr_assert_lt(all.held_back.step, fitting);
            cr_assert_lt(all.held_back.step, changes.price.step);
        }
        OK(explain_changes_choose, &changes, op, (explain_extent){false, 3, 2}, &d->arena, &some);
        cr_assert_leq(some.tried,
                      explain_changes_count(&changes, op, (explain_extent){false, 3, 2}));
        cr_assert_leq(some.n, 2);
        if (some.n > 0)
            cr_assert_geq(some.best[0].step, fitting);
        OK(explain_changes_follow, &changes, op, &all, &d->arena, &some);
        cr_assert_eq(some.n, all.n, "what was best stays so, tried alone");
        cr_assert_eq(some.is_held_back, all.is_held_back);
        for (int32_t i = 0; i < all.n; i++)
            cr_assert_eq(some.best[i].step, all.best[i].step);
        OK(explain_changes_choose, &changes, op, (explain_extent){true, 0, 1}, &d->arena, &some);
        cr_assert_eq(some.n > 0 ? some.best[0].step : INT64_MAX, fitting);
    }
    explain_changes_destroy(&changes);
    cleave_pricer_destroy(&pricer);
}

static void check_model(int which) {
    for (uint64_t seed = seed_from(0); seed < seed_end(12); seed++) {
        drawn d;
        begin(&d, which, seed, "1 TiB");
        check_path(&d);
        if (seed < 4)
            check_choices(&d, seed % 2 == 0 ? 0 : 20000);
        cleave_arena_free(&d.arena);
    }
}

Test(explanations, add_up_on_a_multi_layer_perceptron) { check_model(MODEL_MLP); }
Test(explanations, add_up_on_a_convolutional_network) { check_model(MODEL_CNN); }
Test(explanations, add_up_on_a_network_with_tied_parameters) { check_model(MODEL_TIED); }
Test(explanations, add_up_on_a_recurrent_network) { check_model(MODEL_RECURRENT); }
Test(explanations, add_up_on_a_network_with_lookups) { check_model(MODEL_EMBEDDING); }
