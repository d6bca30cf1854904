/* Law 7: where memory may be left in doubt the step of a baseline with collectives in their steps,
   and what is sent in it, are those of its program, bit for bit, whatever the price was made of; so
   a report need lower no more than the result.  Also on a machine where steps settle, whose
   estimates do without. */
#include "../support/draws.h"
#include "../support/shipped.h"
#include "search/price/price.h"
#include "search/problem/baselines.h"

#include "../support/test_machine.h"
#include "../support/trial.h"

#include <stdio.h>

static cleave_price price_of(trial *t, const cleave_layout *layout, cleave_price_memory memory) {
    const cleave_price_subject what = {.layout = layout, .in_steps = true, .memory = memory};
    cleave_price price;
    trial_ok(t, cleave_pricer_price(&t->pricer, &what, NULL, &price, &t->error));
    return price;
}

static int check_baseline(trial *t, const char *method) {
    cleave_layout layout;
    bool applies;
    trial_ok(t, cleave_baseline_layout(&t->model, &t->machine, method, 1, &t->arena, &layout,
                                       &applies, &t->error));
    if (!applies)
        return 0;
    layout.collectives = t->rules;
    cleave_price planned = price_of(t, &layout, CLEAVE_MEMORY_PLANNED),
                 doubted = price_of(t, &layout, CLEAVE_MEMORY_IN_DOUBT);
    cr_expect_eq(doubted.excess_bytes, 0);
    cr_expect_eq(doubted.step, planned.step, "%s, %s: %lld, not %lld", t->name, method,
                 (long long)doubted.step, (long long)planned.step);
    cr_expect_eq(doubted.bytes_sent, planned.bytes_sent, "%s, %s: %lld bytes, not %lld", t->name,
                 method, (long long)doubted.bytes_sent, (long long)planned.bytes_sent);
    return doubted.peak_bytes != planned.peak_bytes; /* it was made of an estimate */
}

static void begin(trial *t, const char *model, int round, bool settles) {
    static const char *const bandwidth[] = {"1 GB/s", "4 GB/s", "10 GB/s", "40 GB/s"};
    *t = (trial){.random = {.key = seed_from((uint64_t)round)}};
    int32_t nodes = 1 << cleave_random_below(&t->random, 3),
            devices = 2 << cleave_random_below(&t->random, 2);
    int64_t batch = INT64_C(8) << cleave_random_below(&t->random, 4);
    const char *links =
        cleave_arena_printf(&t->arena, "\"bandwidth\": \"%s\", \"latency\": \"%d us\"",
                            bandwidth[cleave_random_below(&t->random, 4)],
                            1 + (int)cleave_random_below(&t->random, 20));
    snprintf(t->name, sizeof t->name, "%s, round %d, %s", model, round,
             settles ? "settled" : "not settled");
    trial_ok(t, shipped_model(model, batch, &t->arena, &t->model, &t->error));
    t->machine = parse_machine(&t->arena, nodes, devices, "1 TiB", "200 GB/s", "1 us", links);
    for (int32_t l = 0; l < t->machine.n_links && settles; l++)
        t->machine.links[l].protocol.receiving.small = 1.2;
    trial_ok(t, cleave_choose_collectives(&t->machine, false, &t->arena, &t->rules, &t->error));
    trial_ok(t, cleave_pricer_create(&t->model, &t->machine, 1, 0, &t->pricer, &t->error));
}

static int check(const char *model, int round, bool settles) {
    trial t;
    int n_estimated = 0;
    begin(&t, model, round, settles);
    for (int b = 0; cleave_baseline_names[b] != NULL; b++)
        n_estimated += check_baseline(&t, cleave_baseline_names[b]);
    trial_end(&t);
    return n_estimated;
}

static const char *const names[] = {"lenet5", "byte_gpt", "byte_lstm"};

Test(prices_in_doubt, are_those_of_programs) {
    int n_estimated = 0;
    for (int round = 0; round < n_draws(3); round++)
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            n_estimated += check(names[i], round, false) + check(names[i], round, true);
    cr_expect_gt(n_estimated, n_draws(6), "%d", n_estimated);
}

static void check_limit(trial *t, const cleave_layout *layout, const cleave_price *whole,
                        int percent) {
    cleave_price_subject what = {.layout = layout};
    cleave_price price;
    t->pricer.memory_limit_bytes = whole->peak_bytes / 100 * percent + percent;
    trial_ok(t, cleave_pricer_estimate(&t->pricer, layout, false, &what.estimate, &t->error));
    trial_ok(t, cleave_pricer_price(&t->pricer, &what, NULL, &price, &t->error));
    bool fits = whole->peak_bytes <= t->pricer.memory_limit_bytes;
    cr_expect_eq(price.excess_bytes == 0, fits, "%s at %d %%", t->name, percent);
    cr_expect_eq(price.step, whole->step, "%s at %d %%", t->name, percent);
    cr_expect(!fits || price.peak_bytes <= t->pricer.memory_limit_bytes, "%s at %d %%", t->name,
              percent);
    cleave_estimate_destroy(what.estimate);
}

static void check_limits(const char *model, int round) {
    static const int percents[] = {70, 90, 99, 100, 103, 110, 130, 160};
    trial t;
    begin(&t, model, round, false);
    for (int b = 0; cleave_baseline_names[b] != NULL; b++) {
        cleave_layout layout;
        bool applies;
        trial_ok(&t, cleave_baseline_layout(&t.model, &t.machine, cleave_baseline_names[b], 1,
                                            &t.arena, &layout, &applies, &t.error));
        if (!applies || !cleave_layout_is_whole(&layout))
            continue;
        layout.collectives = t.rules;
        t.pricer.memory_limit_bytes = 0;
        const cleave_price_subject what = {.layout = &layout};
        cleave_price whole;
        trial_ok(&t, cleave_pricer_price(&t.pricer, &what, NULL, &whole, &t.error));
        for (size_t p = 0; p < sizeof percents / sizeof percents[0]; p++)
            check_limit(&t, &layout, &whole, percents[p]);
    }
    trial_end(&t);
}

/* However near the limit is to what a proposal takes, and however its memory is planned: it fits
   where the smallest plan of its program does. */
Test(prices_in_doubt, fit_where_programs_do) {
    for (int round = 0; round < n_draws(3); round++)
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            check_limits(names[i], round);
}
