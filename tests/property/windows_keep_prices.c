/* What the search on windows finds is priced as all devices would be: the step and memory of a
   layout that folds are those of lowering and simulating the whole of it, bit for bit; and however
   an estimate of a window came to a choice of splits, it gives what one that begins with it gives.
 */
#include "../support/deep_transformer.h"
#include "../support/draws.h"
#include "../support/price_whole.h"
#include "../support/shipped.h"
#include "../support/trial.h"
#include "../support/window_split.h"
#include "graph/model/attention.h"
#include "search/improve/chain.h"
#include "search/improve/window.h"
#include "search/problem/baselines.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <unistd.h>

static void begin(trial *t, const char *model, int layers, const char *machine, int32_t n_devices,
                  int64_t batch) {
    *t = (trial){0};
    snprintf(t->name, sizeof t->name, "%s on %d of %s, batch %lld", model, n_devices, machine,
             (long long)batch);
    if (layers > 0) {
        const deep_transformer shape = {layers, 256, 4, 32, 1000};
        trial_ok(t, deep_transformer_import(&shape, batch, &t->arena, &t->model, &t->error));
    } else {
        trial_ok(t, shipped_model(model, batch, &t->arena, &t->model, &t->error));
        trial_ok(t, cleave_model_fuse_attention(&t->model, NULL, &t->arena, &t->model, &t->error));
    }
    trial_ok(t, shipped_machine(machine, n_devices, &t->arena, &t->machine, &t->error));
    trial_ok(
        t, cleave_problem_create(&t->model, &t->machine, NULL, &t->arena, &t->problem, &t->error));
    trial_ok(t, cleave_choose_collectives(&t->machine, false, &t->arena, &t->rules, &t->error));
    trial_ok(t, cleave_pricer_create(&t->model, &t->machine, 1, 0, &t->pricer, &t->error));
}

/* Written, read, and priced with all devices lowered. */
static void expect_whole_price(trial *t, const cleave_layout *found, const cleave_price *price) {
    cleave_layout layout;
    cleave_price whole;
    char path[] = "/tmp/cleave-window-XXXXXX";
    int file = mkstemp(path);
    cr_assert_geq(file, 0);
    close(file);
    trial_ok(t, cleave_layout_write(path, &t->model, found, &t->error));
    trial_ok(t, cleave_layout_read(path, &t->model, &t->arena, &layout, &t->error));
    unlink(path);
    trial_ok(t, price_whole(&t->pricer, &layout, false, &whole, &t->error));
    cr_expect_eq(whole.step, price->step, "%s: %lld %lld", t->name, (long long)whole.step,
                 (long long)price->step);
    cr_expect_eq(whole.peak_bytes, price->peak_bytes, "%s", t->name);
    cr_expect_eq(whole.excess_bytes, 0);
}

/* Data parallel, whole. */
static int64_t baseline_step(trial *t) {
    cleave_layout layout;
    cleave_price price;
    bool applies;
    trial_ok(t, cleave_baseline_layout(&t->model, &t->machine, "data-parallel", 0, &t->arena,
                                       &layout, &applies, &t->error));
    layout.collectives = t->rules;
    trial_ok(t, price_whole(&t->pricer, &layout, false, &price, &t->error));
    return price.step;
}

typedef struct window_case {
    const char *model;
    int layers;
    const char *machine;
    int32_t devices;
    int64_t batch;
} window_case;

static const window_case cases[] = {
    {"mlp", 0, "a100-128x8", 16, 64},    {"mlp", 0, "k80-16x4", 32, 64},
    {"lenet5", 0, "p100-4x4", 16, 32},   {"byte_gpt", 0, "a100-128x8", 32, 32},
    {"alexnet", 0, "k80-16x4", 64, 256}, {"deep", 6, "a100-128x8", 64, 128},
    {"deep", 8, "h100-512x8", 32, 32},   {"deep", 5, "v100-32x8", 64, 32},
    {"dlrm", 0, "v100-32x8", 16, 64},
};
enum { N_CASES = sizeof cases / sizeof *cases };

Test(windows, found_layouts_have_the_price_of_all_devices) {
    for (int c = 0; c < N_CASES; c++) {
        trial t;
        cleave_window_found found;
        const cleave_window_options options = {.most_proposals = 400};
        begin(&t, cases[c].model, cases[c].layers, cases[c].machine, cases[c].devices,
              cases[c].batch);
        trial_ok(&t, cleave_window_search(&t.problem, &t.pricer, &t.rules, &options, &t.arena,
                                          &found, &t.error));
        expect_whole_price(&t, &found.layout, &found.price);
        if (cases[c].batch % cases[c].devices == 0) /* else it is no start */
            cr_expect_leq(found.price.step, baseline_step(&t), "%s", t.name);
        printf("%s: %.3f ms, windows of %d, %lld proposals\n", t.name,
               (double)found.price.step * 1e-9, found.n_devices, (long long)found.proposals);
        trial_end(&t);
    }
}

/* Layouts that fold, and layouts that don't, such as one on other devices for every operator. */
Test(windows, closed_forms_have_the_price_of_all_devices) {
    static const char *const names[] = {"data-parallel", "one-weird-trick", "layer-per-device",
                                        "random"};
    for (int c = 0; c < N_CASES; c++) {
        trial t;
        begin(&t, cases[c].model, cases[c].layers, cases[c].machine, cases[c].devices,
              cases[c].batch);
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            cleave_layout layout;
            cleave_price price, whole;
            bool applies;
            trial_ok(&t, cleave_baseline_layout(&t.model, &t.machine, names[i], 7, &t.arena,
                                                &layout, &applies, &t.error));
            layout.collectives = t.rules;
            const cleave_price_subject what = {.layout = &layout, .view = CLEAVE_VIEW_FOLDED};
            trial_ok(&t, cleave_pricer_price(&t.pricer, &what, NULL, &price, &t.error));
            trial_ok(&t, price_whole(&t.pricer, &layout, false, &whole, &t.error));
            cr_expect_eq(price.step, whole.step, "%s %s", t.name, names[i]);
            cr_expect_eq(price.peak_bytes, whole.peak_bytes, "%s %s", t.name, names[i]);
            cr_expect_eq(price.excess_bytes, whole.excess_bytes, "%s %s", t.name, names[i]);
        }
        trial_end(&t);
    }
}

/* Bytes over the limit by device, as all devices or the windows of two stages' groups have them. */
static void price_over(trial *t, const cleave_layout *layout, cleave_price_view view,
                       int64_t *over) {
    const cleave_price_subject what = {.layout = layout, .view = view, .over = over};
    cleave_price price;
    for (int32_t d = 0; d < t->machine.n_devices; d++)
        over[d] = INT64_MIN;
    trial_ok(t, cleave_pricer_price(&t->pricer, &what, NULL, &price, &t->error));
}

/* Groups behind one another, and nodes of both in turn. */
Test(windows, the_memory_of_each_group_is_told_of_its_own_devices) {
    enum { N_DEVICES = 32, N_GROUPS = 2, WINDOW = 8 };
    for (int32_t neighbours = WINDOW; neighbours <= N_DEVICES / N_GROUPS; neighbours *= 2) {
        trial t;
        cleave_layout layout;
        bool applies;
        int64_t whole[N_DEVICES], window[N_DEVICES];
        int32_t n_told[N_GROUPS] = {0};
        begin(&t, "deep", 6, "a100-128x8", N_DEVICES, 64);
        int32_t first_operator[] = {0, t.model.n_operators / 2};
        const cleave_schedule schedule = {.micro_batches = 2,
                                          .n_stages = N_GROUPS,
                                          .kind = CLEAVE_SCHEDULE_1F1B,
                                          .first_operator = first_operator};
        const cleave_baseline_shape shape = {
            .schedule = &schedule, .n_groups = N_GROUPS, .tensor = 1, .neighbours = neighbours};
        trial_ok(&t, cleave_baseline_in_stages(&t.model, &t.machine, "data-parallel", &shape,
                                               &t.arena, &layout, &applies, &t.error));
        layout.collectives = t.rules;
        price_over(&t, &layout, CLEAVE_VIEW_ALL, whole);
        price_over(&t, &layout, CLEAVE_VIEW_WINDOW, window);
        for (int32_t d = 0; d < N_DEVICES; d++) {
            if (window[d] == INT64_MIN)
                continue;
            n_told[d / neighbours % N_GROUPS]++;
            cr_expect_eq(window[d], whole[d], "device %d", d);
        }
        cr_expect_gt(n_told[0], 0);
        cr_expect_eq(n_told[0], n_told[1]);
        cr_expect_lt(n_told[0], N_DEVICES / N_GROUPS);
        cr_expect_neq(whole[0], whole[neighbours]); /* groups differ */
        trial_end(&t);
    }
}

/* By an estimate, where that is enough: whatever the limit, the same fit, and the same step. */
Test(windows, layouts_found_by_estimates_have_the_price_of_programs) {
    static const char *const names[] = {"data-parallel", "one-weird-trick", "random"};
    static const int percents[] = {50, 99, 100, 104, 120, 140, 170};
    for (int c = 0; c < N_CASES; c++) {
        trial t;
        begin(&t, cases[c].model, cases[c].layers, cases[c].machine, cases[c].devices,
              cases[c].batch);
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            cleave_layout layout;
            cleave_price price, whole;
            bool applies;
            trial_ok(&t, cleave_baseline_layout(&t.model, &t.machine, names[i], 7, &t.arena,
                                                &layout, &applies, &t.error));
            layout.collectives = t.rules;
            t.pricer.memory_limit_bytes = INT64_MAX / 4;
            trial_ok(&t, price_whole(&t.pricer, &layout, false, &whole, &t.error));
            for (size_t p = 0; p < sizeof percents / sizeof *percents; p++) {
                t.pricer.memory_limit_bytes = whole.peak_bytes / 100 * percents[p] + percents[p];
                int64_t excess = whole.peak_bytes - t.pricer.memory_limit_bytes;
                const cleave_price_subject what = {.layout = &layout,
                                                   .view = CLEAVE_VIEW_FOLDED,
                                                   .memory = CLEAVE_MEMORY_IN_DOUBT};
                trial_ok(&t, cleave_pricer_price(&t.pricer, &what, NULL, &price, &t.error));
                cr_expect_eq(price.excess_bytes, excess > 0 ? excess : 0, "%s %s %d", t.name,
                             names[i], percents[p]);
                if (excess <= 0)
                    cr_expect_eq(price.step, whole.step, "%s %s %d", t.name, names[i], percents[p]);
            }
        }
        trial_end(&t);
    }
}

Test(windows, limited_work_ends_the_search_earlier) {
    trial t;
    cleave_window_found all, limited, again;
    begin(&t, "alexnet", 0, "k80-16x4", 32, 256);
    cleave_window_options options = {0};
    trial_ok(&t, cleave_window_search(&t.problem, &t.pricer, &t.rules, &options, &t.arena, &all,
                                      &t.error));
    options.most_wholes = 1;
    trial_ok(&t, cleave_window_search(&t.problem, &t.pricer, &t.rules, &options, &t.arena, &limited,
                                      &t.error));
    trial_ok(&t, cleave_window_search(&t.problem, &t.pricer, &t.rules, &options, &t.arena, &again,
                                      &t.error));
    cr_expect_lt(limited.proposals, all.proposals / 2);
    cr_expect_geq(limited.price.step, all.price.step);
    cr_expect_leq(limited.price.step, baseline_step(&t));
    cr_expect_eq(again.proposals, limited.proposals);
    cr_expect_eq(again.price.step, limited.price.step);
    expect_whole_price(&t, &limited.layout, &limited.price);
    trial_end(&t);
}

/* Some groups get another split; half of the time those of all samples, which fold. */
static void draw(cleave_random *random, const cleave_window_space *space, int32_t *choice) {
    for (int64_t n = 1 + cleave_random_below(random, 3); n > 0; n--) {
        int32_t g = (int32_t)cleave_random_below(random, space->n_groups);
        const cleave_candidate_list *list = cleave_window_list(space, g);
        choice[g] = (int32_t)cleave_random_below(random, list->n);
    }
}

static bool folds(const cleave_price *price) { return price->excess_bytes < INT64_MAX; }

/* A chain that begins with a choice; false where that does not fold. */
static bool begin_chain(trial *t, cleave_windows *windows, const cleave_window_space *space,
                        const int32_t *choice, cleave_chain *chain) {
    cleave_choices choices;
    cleave_layout like = {0};
    trial_ok(t, cleave_choices_create(&t->model, &t->arena, &choices, &t->error));
    trial_ok(t, cleave_layout_create(&t->model, t->machine.n_devices, &t->arena, &like, &t->error));
    like.collectives = t->rules;
    for (int32_t op = 0; op < t->model.n_operators; op++)
        choices.of[op].candidate = choice[space->group_of[op]];
    const cleave_chain_start start = {&choices, NULL};
    const cleave_chain_frame frame = {.candidates = &space->candidates,
                                      .like = &like,
                                      .windows = windows,
                                      .window_devices = space->window_devices};
    cleave_status status =
        cleave_chain_begin(&t->pricer, &frame, &start, &t->arena, chain, &t->error);
    cr_assert(status == CLEAVE_OK || status == CLEAVE_NO_LAYOUT, "%s: %s", t->name,
              t->error.message);
    return status == CLEAVE_OK;
}

/* What windows that begin with a choice say of it. */
static cleave_price fresh_price(trial *t, const cleave_blocks *blocks,
                                const cleave_window_space *space, const int32_t *choice) {
    cleave_windows *windows;
    cleave_chain chain;
    cleave_price price = {.excess_bytes = INT64_MAX};
    trial_ok(t, cleave_windows_create(&t->pricer, blocks, &windows, &t->error));
    if (begin_chain(t, windows, space, choice, &chain))
        price = chain.price;
    cleave_windows_destroy(windows);
    return price;
}

/* Proposes a choice to a chain in windows, and prices it. */
static cleave_price propose(trial *t, const cleave_window_space *space, const int32_t *choice,
                            int64_t below, cleave_chain *chain) {
    for (int32_t op = 0; op < t->model.n_operators; op++)
        trial_ok(t, cleave_chain_change(chain, op, (cleave_choice){choice[space->group_of[op]], 0},
                                        &t->error));
    trial_ok(t, cleave_chain_price(chain, below, false, &t->error));
    return chain->proposed;
}

/* The folded price of the whole model; the estimate's is near it: it takes a group of all windows
   to use the links at its first window alone. */
static void expect_near(trial *t, const cleave_window_space *space, const int32_t *choice,
                        const cleave_price *price) {
    cleave_layout layout;
    cleave_price folded;
    trial_ok(t,
             cleave_layout_create(&t->model, t->machine.n_devices, &t->arena, &layout, &t->error));
    for (int32_t op = 0; op < t->model.n_operators; op++)
        layout.splits[op] = window_split(space, op, choice);
    layout.collectives = t->rules;
    const cleave_price_subject what = {.layout = &layout, .view = CLEAVE_VIEW_WINDOW};
    cleave_status status = cleave_pricer_price(&t->pricer, &what, NULL, &folded, &t->error);
    cr_assert_eq(status == CLEAVE_OK, folds(price), "%s: %s", t->name, t->error.message);
    if (folds(price))
        cr_expect_float_eq((double)price->step / (double)folded.step, 1, 0.1, "%s: %lld %lld",
                           t->name, (long long)price->step, (long long)folded.step);
}

static void walk(trial *t, uint64_t seed) {
    cleave_window_space space;
    cleave_windows *windows;
    cleave_chain chain;
    cleave_random random = {.key = seed_from(seed)};
    const cleave_blocks none = {0};
    int folded = 0;
    trial_ok(t, cleave_window_space_create(&t->problem, &none, t->machine.devices_per_node,
                                           &t->arena, &space, &t->error));
    int32_t *choice = CLEAVE_ARENA_ARRAY(&t->arena, int32_t, space.n_groups);
    int32_t *tried = CLEAVE_ARENA_ARRAY(&t->arena, int32_t, space.n_groups);
    trial_ok(t, cleave_windows_create(&t->pricer, &none, &windows, &t->error));
    cr_assert(begin_chain(t, windows, &space, choice, &chain), "%s", t->name);
    for (int round = 0; round < n_draws(40); round++) {
        bool moves = cleave_random_below(&random, 2) == 0;
        for (int32_t g = 0; g < space.n_groups; g++)
            tried[g] = choice[g];
        draw(&random, &space, tried);
        const cleave_price price =
            propose(t, &space, tried, moves ? INT64_MAX : chain.price.step, &chain);
        cleave_price fresh = fresh_price(t, &none, &space, tried);
        cr_assert_eq(folds(&fresh), folds(&price), "%s: round %d", t->name, round);
        if (folds(&price) && price.step != INT64_MAX)
            cr_assert_eq(price.step, fresh.step, "%s: round %d", t->name, round);
        if (round % 8 == 0)
            expect_near(t, &space, tried, &fresh);
        folded += folds(&price);
        moves = moves && folds(&price);
        trial_ok(t, (moves ? cleave_chain_accept : cleave_chain_reject)(&chain, &t->error));
        for (int32_t g = 0; g < space.n_groups && moves; g++)
            choice[g] = tried[g];
    }
    cr_expect_gt(folded, 0, "%s", t->name);
    cleave_windows_destroy(windows);
}

Test(windows, estimates_are_what_a_fresh_one_gives) {
    static const window_case walks[] = {{"mlp", 0, "a100-128x8", 16, 64},
                                        {"byte_gpt", 0, "v100-32x8", 32, 32},
                                        {"lenet5", 0, "k80-16x4", 16, 64},
                                        {"deep", 2, "h100-512x8", 512, 1024}};
    for (size_t c = 0; c < sizeof walks / sizeof *walks; c++) {
        trial t;
        begin(&t, walks[c].model, walks[c].layers, walks[c].machine, walks[c].devices,
              walks[c].batch);
        walk(&t, 77 + c);
        trial_end(&t);
    }
}

/* Of a deep model the price by a few blocks is that of all of them. */
Test(windows, few_blocks_tell_the_price_of_many) {
    trial t;
    cleave_window_space space;
    cleave_random random = {.key = seed_from(5)};
    const cleave_blocks none = {0};
    begin(&t, "deep", 16, "a100-128x8", 64, 256);
    const cleave_blocks blocks = t.problem.blocks;
    cr_assert_eq(blocks.n, 15);
    trial_ok(&t, cleave_window_space_create(&t.problem, &blocks, 8, &t.arena, &space, &t.error));
    int32_t *choice = CLEAVE_ARENA_ARRAY(&t.arena, int32_t, space.n_groups);
    for (int round = 0; round < n_draws(12); round++) {
        cleave_price few = fresh_price(&t, &blocks, &space, choice);
        cleave_price all = fresh_price(&t, &none, &space, choice);
        cr_assert_eq(folds(&few), folds(&all));
        if (folds(&few))
            cr_expect_float_eq((double)few.step / (double)all.step, 1, 0.02, "%lld %lld",
                               (long long)few.step, (long long)all.step);
        draw(&random, &space, choice);
    }
    trial_end(&t);
}

/* A limit that data parallel's peak does not fit is kept, or said to be too low. */
Test(windows, results_keep_the_memory_limit) {
    trial t;
    cleave_window_found found, limited;
    const cleave_window_options options = {.most_proposals = 300};
    begin(&t, "deep", 6, "a100-128x8", 64, 128);
    trial_ok(&t, cleave_window_search(&t.problem, &t.pricer, &t.rules, &options, &t.arena, &found,
                                      &t.error));
    for (int percent = 90; percent > 0; percent -= 30) {
        t.pricer.memory_limit_bytes = found.price.peak_bytes * percent / 100;
        cleave_status status = cleave_window_search(&t.problem, &t.pricer, &t.rules, &options,
                                                    &t.arena, &limited, &t.error);
        if (status == CLEAVE_OK) {
            cr_expect_leq(limited.price.peak_bytes, t.pricer.memory_limit_bytes);
            cr_expect_geq(limited.price.step, found.price.step);
        } else {
            cr_expect_eq(status, CLEAVE_NO_LAYOUT, "%s", t.error.message);
        }
        printf("%d %%: %s\n", percent, status == CLEAVE_OK ? "found" : t.error.message);
    }
    trial_end(&t);
}
