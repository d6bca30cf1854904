/* The search: never worse than a baseline, repeatable, within memory, and above its bound. */
#include "search/search.h"
#include "../../support/ok.h"
#include "../../support/price_whole.h"
#include "search/price/price.h"
#include "simulator/step/simulated_step.h"

#include "../../support/expect_bound.h"
#include "../../support/perceptron.h"
#include "../../support/test_machine.h"

static cleave_arena arena;
static cleave_model model;
static cleave_machine machine;
static cleave_search_options options;
static cleave_search_result result;

static void set_up(void) {
    model = make_perceptron(&arena, 3, 64, 512);
    machine = make_machine(&arena, 2, 2, "1 GiB");
    options = (cleave_search_options){
        .method = "auto", .proposals = 300, .seed = 1, .optimizer_states = 1, .quiet = true};
}
static void tear_down(void) { cleave_arena_free(&arena); }
TestSuite(search, .init = set_up, .fini = tear_down);

static void run(void) {
    OK(cleave_search, &model, &machine, &options, &arena, &result);
    OK(cleave_layout_check, &model, &result.best.layout);
}

static bool same_layout(const cleave_layout *a, const cleave_layout *b) {
    for (int32_t op = 0; op < model.n_operators; op++) {
        const cleave_split *x = &a->splits[op], *y = &b->splits[op];
        if (x->n_parts != y->n_parts || x->replicas != y->replicas ||
            memcmp(x->degree, y->degree, sizeof x->degree) != 0 ||
            memcmp(x->devices, y->devices, (size_t)x->n_parts * sizeof *x->devices) != 0)
            return false;
    }
    return true;
}

Test(search, result_is_never_worse_than_a_baseline) {
    for (uint64_t seed = 0; seed < 5; seed++)
        for (int64_t proposals = 1; proposals <= 100; proposals *= 10) {
            options.seed = seed;
            options.proposals = proposals;
            run();
            for (int32_t i = 0; i < result.n_baselines; i++)
                if (result.baselines[i].applies)
                    cr_expect_leq(result.best.step_seconds, result.baselines[i].step_seconds, "%s",
                                  result.baselines[i].method);
            cr_expect_leq(result.proposals, proposals);
        }
}

Test(search, walk_finds_something_better_than_every_baseline_here) {
    run();
    cr_expect_str_eq(result.best.method, "auto");
    cr_expect_gt(result.accepted, 0);
    for (int32_t i = 0; i < result.n_baselines; i++)
        if (result.baselines[i].applies)
            cr_expect_lt(result.best.step_seconds, result.baselines[i].step_seconds);
}

/* A walk of one proposal comes to less than what "auto" found, unless it knows that. */
Test(search, result_is_none_worse_than_what_is_known_and_otherwise_as_found) {
    run();
    const cleave_layout known = result.best.layout;
    const double known_seconds = result.best.step_seconds;
    options.method = "mcmc";
    options.proposals = 1;
    run();
    const double alone_seconds = result.best.step_seconds;
    cr_assert_gt(alone_seconds, known_seconds);
    options.known = &known;
    options.n_known = 1;
    run();
    cr_expect_eq(result.best.step_seconds, known_seconds);
    cr_expect_eq(result.proposals, 1);
}

/* Of constraints, too: what breaks one is not taken. */
Test(search, what_is_known_keeps_to_constraints) {
    run();
    const cleave_layout known = result.best.layout;
    cleave_constraints constraints = {0};
    OK(cleave_constraints_restrict, &constraints, "sample", &model, &arena);
    cr_assert_not(cleave_constraints_allow_layout(&constraints, &model, &known));
    options.constraints = &constraints;
    options.known = &known;
    options.n_known = 1;
    run();
    cr_expect(cleave_constraints_allow_layout(&constraints, &model, &result.best.layout));
}

/* Two devices have no collectives, so closed forms and steps are the same. */
Test(search, certified_step_is_that_of_the_result_and_no_walk_is_below_it) {
    machine = make_machine(&arena, 1, 2, "1 GiB");
    options.method = "branch-and-bound";
    run();
    cr_assert(result.is_certified);
    cr_expect_float_eq(result.best.step_seconds, result.certified_seconds, 1e-15);
    cr_expect_geq(result.certified_seconds, result.lower_bound_seconds);
    double certified = result.certified_seconds;
    options.method = "mcmc";
    for (options.seed = 1; options.seed <= 5; options.seed++) {
        run();
        cr_expect_eq(result.certified_seconds, 0);
        cr_expect_geq(result.best.step_seconds, certified - 1e-15);
    }
}

Test(search, equal_seeds_give_identical_results) {
    run();
    cleave_search_result first = result;
    run();
    cr_expect(same_layout(&first.best.layout, &result.best.layout));
    cr_expect_eq(first.best.step_seconds, result.best.step_seconds);
    cr_expect_eq(first.proposals, result.proposals);
    cr_expect_eq(first.accepted, result.accepted);
}

/* Whatever the method has come to, all baselines are priced, and nothing comes before the result.
 */
Test(search, interrupted_at_once_it_returns_the_best_of_the_baselines) {
    static const char *const methods[] = {"auto", "exact", "mcmc", "branch-and-bound"};
    static const volatile sig_atomic_t interrupted = 1;
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        options.method = methods[m];
        options.interrupted = NULL;
        run();
        const cleave_search_result whole = result;
        options.interrupted = &interrupted;
        run();
        for (int32_t i = 0; i < result.n_baselines; i++) {
            const cleave_plan *plan = &result.baselines[i];
            cr_expect_eq(plan->applies, whole.baselines[i].applies, "%s %s", methods[m],
                         plan->method);
            if (plan->applies)
                cr_expect_leq(result.best.step_seconds, plan->step_seconds, "%s %s", methods[m],
                              plan->method);
        }
        cr_expect(result.baselines[0].applies);
    }
}

Test(search, different_seeds_explore_differently) {
    run();
    cleave_search_result first = result;
    options.seed = 2;
    run();
    cr_expect(!same_layout(&first.best.layout, &result.best.layout) ||
              first.accepted != result.accepted);
}

Test(search, step_is_that_of_full_simulation_with_steps_of_collectives) {
    run();
    cleave_pricer pricer;
    cleave_price price;
    OK(cleave_pricer_create, &model, &machine, options.optimizer_states, options.memory_limit_bytes,
       &pricer);
    cr_assert_eq(price_whole(&pricer, &result.best.layout, true, &price, NULL), CLEAVE_OK);
    cr_expect_eq((double)price.step * 1e-12, result.best.step_seconds);
    cr_expect_eq(price.peak_bytes, result.best.peak_bytes);
    cr_expect_eq(price.bytes_sent, result.best.bytes_sent);
    cleave_pricer_destroy(&pricer);
}

/* Of the layout as it is written, with the rules that it keeps. */
Test(search, shares_are_those_of_the_simulated_result) {
    run();
    cleave_pricer pricer;
    cleave_program program;
    cleave_simulated_step step;
    OK(cleave_pricer_create, &model, &machine, options.optimizer_states, options.memory_limit_bytes,
       &pricer);
    OK(cleave_lower, &model, &result.best.layout, &pricer.lower, &arena, &program);
    OK(cleave_simulated_step_make, &program, NULL, pricer.cache, &arena, &step);
    cr_expect_eq(step.prices.shares.links, result.shares.links);
    cr_expect_eq(step.prices.shares.step_spread_seconds, result.shares.step_spread_seconds);
    cr_expect_arr_eq(step.prices.shares.share, result.shares.share, sizeof result.shares.share);
    cr_expect_gt(result.shares.links, 0);
    cleave_pricer_destroy(&pricer);
}

/* Of what the baselines need, the limit takes the middle: some fit, some do not. */
Test(search, memory_limit_is_respected) {
    run();
    int64_t least = INT64_MAX, most = 0;
    for (int32_t i = 0; i < result.n_baselines; i++)
        if (result.baselines[i].applies) {
            int64_t bytes = result.baselines[i].peak_bytes;
            least = bytes < least ? bytes : least;
            most = bytes > most ? bytes : most;
        }
    cr_assert_lt(least, most);
    options.memory_limit_bytes = (least + most) / 2;
    run();
    cr_expect_leq(result.best.peak_bytes, options.memory_limit_bytes);
    int32_t n_applied = 0;
    for (int32_t i = 0; i < result.n_baselines; i++)
        if (result.baselines[i].applies) {
            n_applied++;
            cr_expect_leq(result.baselines[i].peak_bytes, options.memory_limit_bytes);
        }
    cr_expect_geq(n_applied, 1);
}

/* A limit below every baseline, but not below every layout: the walk must find its way in. */
Test(search, walk_finds_a_layout_that_fits_where_no_baseline_does) {
    run();
    int64_t least = INT64_MAX;
    for (int32_t i = 0; i < result.n_baselines; i++)
        if (result.baselines[i].applies && result.baselines[i].peak_bytes < least)
            least = result.baselines[i].peak_bytes;
    options.memory_limit_bytes = least - 1024;
    options.proposals = 3000;
    run();
    cr_expect_str_eq(result.best.method, "auto");
    cr_expect_leq(result.best.peak_bytes, options.memory_limit_bytes);
}

Test(search, a_limit_that_nothing_fits_is_an_error_with_the_least_need) {
    cleave_error error = {""};
    options.memory_limit_bytes = 4096;
    cr_expect_eq(cleave_search(&model, &machine, &options, &arena, &result, &error),
                 CLEAVE_NO_LAYOUT);
    cr_expect_not_null(strstr(error.message, "no layout fits in "), "%s", error.message);
    cr_expect_not_null(strstr(error.message, "the least that any of "), "%s", error.message);
    cr_expect_not_null(strstr(error.message, "layouts tried needs is "), "%s", error.message);
}

Test(search, a_baseline_that_does_not_apply_is_no_layout) {
    cleave_error error = {""};
    options.method = "megatron";
    cr_expect_eq(cleave_search(&model, &machine, &options, &arena, &result, &error),
                 CLEAVE_NO_LAYOUT);
    cr_expect_str_eq(error.message, "method \"megatron\" does not apply to perceptron");
}

Test(search, an_unknown_method_is_bad_input) {
    cleave_error error = {""};
    options.method = "magic";
    cr_expect_eq(cleave_search(&model, &machine, &options, &arena, &result, &error),
                 CLEAVE_BAD_INPUT);
}

Test(search, a_baseline_as_method_gives_that_baseline) {
    options.method = "one-weird-trick";
    run();
    cr_expect_str_eq(result.best.method, "one-weird-trick");
    cr_expect_str_eq(result.best.layout.method, "one-weird-trick");
    cr_expect_eq(result.proposals, 0);
}

Test(search, an_interrupted_search_gives_the_best_so_far) {
    volatile sig_atomic_t flag = 1;
    options.interrupted = &flag;
    run();
    cr_expect_eq(result.proposals, 0);
    cr_expect(result.best.applies);
}

Test(search, time_budget_ends_the_walk) {
    options.proposals = 0;
    options.time_seconds =
        2; /* enough for a proposal on a machine that is busy with other things */
    run();
    cr_expect_lt(result.search_seconds, 20.0);
    cr_expect_gt(result.proposals, 0);
}

Test(search, bound_holds_for_random_layouts_of_candidates) {
    expect_bound_to_hold(&model, &machine, 500, &arena);
}

/* Where only arithmetic takes time, layouts come close to the bound, so that one that claims too
   much is found out: data parallel has all devices busy all the time. */
Test(search, bound_is_reached_where_only_arithmetic_takes_time) {
    machine = make_ideal_machine(&arena, 2, 2);
    expect_bound_to_hold(&model, &machine, 500, &arena);
    run();
    cr_expect_leq(result.lower_bound_seconds, result.best.step_seconds);
    cr_expect_gt(result.lower_bound_seconds, 0.99 * result.best.step_seconds);
}

/* With one sample and one feature nothing can be split, and every device can only wait for the
   path through all passes. */
Test(search, bound_is_the_path_where_nothing_can_be_split) {
    model = make_perceptron(&arena, 6, 1, 1);
    machine = make_machine(&arena, 2, 2, "1 GiB");
    run();
    cr_expect_leq(result.lower_bound_seconds, result.best.step_seconds);
    /* 1 us of launch each: 13 nests forward; backward the loss, 6 rectifiers, the input gradients
       of layers 5 to 1 and the weight gradient of layer 0, which is where the path ends. */
    cr_expect_gt(result.lower_bound_seconds, 26e-6);
}

/* On one device there is one layout, which does all its work in a row.  Copies and loads are not in
   the bound, so it is below the step, but most of the step is in it. */
Test(search, bound_of_one_device_is_near_its_step) {
    machine = make_machine(&arena, 1, 1, "1 GiB");
    run();
    cr_expect_leq(result.lower_bound_seconds, result.best.step_seconds);
    cr_expect_gt(result.lower_bound_seconds, 0.9 * result.best.step_seconds);
}
