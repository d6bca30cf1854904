/* The lower bound lies below the simulated step of every layout of the space that it is of: drawn
   layouts, baselines, what walks find, with sharded updates or without, by both rules of time and
   with collectives in closed form or in steps; and it is at least what two simpler bounds say. */
#include "search/bound/internal.h"
#include "search/refine/mcmc.h"
#include "tests/support/models.h"
#include "tests/support/trial.h"

#include "../test_machine.h"

#include <math.h>
#include <stdio.h>

static void add_baselines(trial *t) {
    for (int i = 0; cleave_baseline_names[i] != NULL && t->n_given < TRIAL_MOST_GIVEN; i++) {
        cleave_layout *layout = CLEAVE_ARENA_ARRAY(&t->arena, cleave_layout, 1);
        bool applies;
        trial_ok(t, cleave_baseline_layout(&t->model, &t->machine, cleave_baseline_names[i], 1,
                                           &t->arena, layout, &applies, &t->error));
        if (applies)
            t->given[t->n_given++] = layout;
    }
}

static void begin(trial *t) {
    add_baselines(t);
    trial_begin(t, 1);
    trial_ok(t,
             cleave_lower_bound(&t->model, &t->machine, &t->candidates, 1, &t->bound, &t->error));
    t->random.key = 7;
}

static void expect_above(trial *t, const cleave_layout *layout) {
    for (int way = 0; way < 4; way++) {
        cleave_program program;
        cleave_timeline timeline;
        cleave_arena_reset(&t->scratch);
        t->pricer.lower.symbolic_collectives = way % 2 == 0;
        trial_ok(
            t, cleave_lower(&t->model, layout, &t->pricer.lower, &t->scratch, &program, &t->error));
        trial_ok(t, cleave_simulate(&program, t->pricer.cache,
                                    way < 2 ? CLEAVE_RULE_SCAN : CLEAVE_RULE_EVENTS, &t->scratch,
                                    &timeline, &t->error));
        double step = (double)timeline.step * 1e-12;
        cr_assert_geq(step, t->bound, "%s, way %d: step %.12g, bound %.12g", t->name, way, step,
                      t->bound);
        t->closest = fmax(t->closest, t->bound / step);
    }
}

/* Any candidates; or one for all operators that are alike; or one with all devices wherever there
   is one, which comes closer to the bound. */
static void draw(trial *t, int sort, cleave_layout *layout) {
    int32_t n_devices = t->machine.n_devices;
    trial_ok(t, cleave_layout_create(&t->model, n_devices, &t->arena, layout, &t->error));
    int32_t *seen = CLEAVE_ARENA_ARRAY(&t->arena, int32_t, t->candidates.n_lists);
    for (int32_t op = 0; op < t->model.n_operators; op++) {
        int32_t l = t->candidates.list_of[op];
        const cleave_candidate_list *list = &t->candidates.lists[l];
        int32_t c = (int32_t)cleave_random_below(&t->random, list->n);
        for (int tries = 0; sort == 2 && list->items[c].n_parts < n_devices && tries < 20; tries++)
            c = (int32_t)cleave_random_below(&t->random, list->n);
        if (sort > 0 && seen[l] > 0)
            c = seen[l] - 1;
        seen[l] = c + 1;
        layout->splits[op].devices = CLEAVE_ARENA_ARRAY(&t->arena, int32_t, n_devices);
        cleave_candidate_place(&list->items[c],
                               (int32_t)cleave_random_below(&t->random, list->items[c].n_starts),
                               &layout->splits[op]);
    }
    for (int32_t i = 0; i < t->model.n_tensors; i++)
        if (t->model.tensors[i].kind == CLEAVE_TENSOR_PARAMETER)
            layout->sharded[i] = cleave_random_below(&t->random, 2) == 0;
}

static void expect_above_walks(trial *t) {
    cleave_progress progress = {.quiet = true};
    cleave_mcmc mcmc = {.pricer = &t->pricer,
                        .candidates = &t->candidates,
                        .progress = &progress,
                        .most_proposals = 400};
    for (int32_t g = 0; g < t->n_given; g++) {
        cleave_layout found;
        cleave_price price;
        trial_ok(t, cleave_mcmc_walk(&mcmc, t->given[g], (cleave_mcmc_budget){.proposals = 100},
                                     &t->arena, &found, &price, &t->error));
        expect_above(t, &found);
    }
}

/* The least work of all parts of all operators, and the longest path of the quickest parts. */
static void work_and_path(trial *t, int64_t *work, int64_t *path) {
    int64_t *time =
        CLEAVE_ARENA_ARRAY(&t->arena, int64_t, t->model.n_nests * CLEAVE_N_COMPUTE_PASSES);
    *work = 0;
    for (int32_t op = 0; op < t->model.n_operators; op++) {
        const cleave_candidate_list *list = &t->candidates.lists[t->candidates.list_of[op]];
        *work += list->least_total;
        for (int32_t i = 0; i < t->model.operators[op].n_nests * CLEAVE_N_COMPUTE_PASSES; i++)
            if (list->least[i] < INT64_MAX)
                time[t->model.operators[op].nests[i / CLEAVE_N_COMPUTE_PASSES] *
                         CLEAVE_N_COMPUTE_PASSES +
                     i % CLEAVE_N_COMPUTE_PASSES] = list->least[i];
    }
    trial_ok(t, bound_longest_path(&t->model, time, path, &t->error));
}

static void expect_no_less_than_simple_bounds(trial *t) {
    int64_t work, path;
    work_and_path(t, &work, &path);
    cr_expect_geq(t->bound, (double)path * 1e-12, "%s", t->name);
    cr_expect_geq(t->bound, (double)(work / t->machine.n_devices) * 1e-12, "%s", t->name);
}

static void check(trial *t, int n_drawn) {
    begin(t);
    expect_no_less_than_simple_bounds(t);
    for (int32_t g = 0; g < t->n_given; g++)
        expect_above(t, t->given[g]);
    for (int i = 0; i < n_drawn; i++) {
        cleave_layout layout;
        draw(t, i % 3, &layout);
        expect_above(t, &layout);
    }
    expect_above_walks(t);
    printf("%s: bound at most %.1f %% of a step\n", t->name, 100 * t->closest);
    trial_end(t);
}

static const struct {
    const char *name;
    int32_t n_devices;
} machines[] = {{"two-cores", 2}, {"k80-16x4", 4},      {"k80-16x4", 8},
                {"k80-16x4", 3},  {"mixed-1x4-2x4", 8}, {"a100-128x8", 16}};
enum { N_MACHINES = sizeof machines / sizeof machines[0] };

Test(bound, holds_for_models_made_by_hand) {
    for (int which = 0; which < N_MODELS; which++)
        for (int m = 0; m < N_MACHINES; m++) {
            trial t = {.bound = 0};
            snprintf(t.name, sizeof t.name, "%s on %d of %s", hand_model_names[which],
                     machines[m].n_devices, machines[m].name);
            trial_hand_model(&t, which);
            trial_read_machine(&t, machines[m].name, machines[m].n_devices);
            check(&t, 30);
        }
}

Test(bound, holds_for_real_models) {
    static const struct {
        const char *path;
        int64_t batch;
    } models[] = {{"configs/models/lenet5.onnx", 64},
                  {"configs/models/alexnet.onnx", 32},
                  {"tests/data/oracles/tiny_resnet.onnx", 32},
                  {"tests/data/oracles/tiny_transformer.onnx", 32},
                  {"tests/data/oracles/tiny_lstm_lm.onnx", 32},
                  {"configs/models/resnet50.onnx", 16}};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
        for (int m = 0; m < N_MACHINES; m++) {
            trial t = {.bound = 0};
            bool large = i == sizeof models / sizeof models[0] - 1;
            if (large && m != 1 && m != 4)
                continue;
            snprintf(t.name, sizeof t.name, "%s on %d of %s", models[i].path, machines[m].n_devices,
                     machines[m].name);
            trial_import(&t, models[i].path, models[i].batch);
            trial_read_machine(&t, machines[m].name, machines[m].n_devices);
            check(&t, large ? 3 : 20);
        }
}

/* Where launches and arithmetic both count, one split has to serve both: the bound lies above what
   either says.  Eight layers of 1 us a launch, and as much arithmetic a layer. */
Test(bound, is_more_than_work_and_path_where_one_split_serves_both) {
    trial t = {.name = "perceptron"};
    trial_import(&t, "configs/models/mlp.onnx", 256);
    t.machine = make_machine(&t.arena, 1, 4, "1 GiB");
    begin(&t);
    int64_t work, path, other;
    work_and_path(&t, &work, &path);
    trial_ok(&t, bound_other_work(&t.model, &t.machine, 1, &other, &t.error));
    work += other;
    cr_expect_gt(t.bound, 1.01e-12 * (double)(work / 4));
    cr_expect_gt(t.bound, 1.01e-12 * (double)path);
    trial_end(&t);
}
