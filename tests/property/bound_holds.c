/* The lower bound lies below the simulated step of every layout of the space that it is of: drawn
   layouts, baselines, what walks find, with sharded updates, gradients and weights or without, by
   both rules of time and with collectives in closed form or in steps; and it is at least what two
   simpler bounds say.  So does the bound of a space of one layout, which is closer, and what it
   says that devices and nodes receive is no more than the program sends. */
#include "../support/draws.h"
#include "../support/models.h"
#include "../support/trial.h"
#include "search/bound/shares.h"
#include "search/improve/mcmc.h"
#include "search/problem/baselines.h"
#include "simulator/step/simulate.h"

#include "../support/test_machine.h"

#include <math.h>
#include <stdio.h>

static void add_baselines(trial *t) {
    for (int i = 0; cleave_baseline_names[i] != NULL && t->n_given < TRIAL_MOST_GIVEN; i++) {
        cleave_layout *layout = CLEAVE_ARENA_ARRAY(&t->arena, cleave_layout, 1);
        bool applies;
        trial_ok(t, cleave_baseline_layout(&t->model, &t->machine, cleave_baseline_names[i], 1,
                                           &t->arena, layout, &applies, &t->error));
        if (applies && cleave_layout_is_plain(layout)) /* so that walks may begin with it */
            t->given[t->n_given++] = layout;
    }
}

static void find_bounds(trial *t) {
    cleave_bound bound;
    trial_ok(t,
             cleave_lower_bound(&t->model, &t->machine, &t->candidates, 1, &t->bound, &t->error));
    trial_ok(t, cleave_lower_bound_of(&t->model, &t->machine, &t->candidates, 1, CLEAVE_BOUND_STEPS,
                                      &bound, &t->error));
    t->bound_in_steps = bound.seconds;
    cr_assert_not_null(bound.binds);
}

static void begin(trial *t) {
    add_baselines(t);
    trial_begin(t, 1);
    find_bounds(t);
    t->random.key = seed_from(7);
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
        double bound = way % 2 == 0 ? t->bound : t->bound_in_steps;
        cr_assert_geq(step, bound, "%s, way %d: step %.12g, bound %.12g", t->name, way, step,
                      bound);
        t->closest = fmax(t->closest, bound / step);
    }
}

/* What the only choice of the space says that devices and nodes receive, against what is sent. */
static void expect_more_bytes(trial *t, const cleave_layout *layout) {
    double weight[BOUND_N_LOADS] = {1}, least, sent = 0, sent_to_nodes = 0;
    int64_t most_pairs = INT64_MAX;
    bound_chain chain;
    bound_problem problem;
    bound_network network;
    bound_loads loads;
    cleave_program program;
    cleave_arena_reset(&t->scratch);
    int64_t *time =
        CLEAVE_ARENA_ARRAY(&t->scratch, int64_t, t->model.n_nests * CLEAVE_N_COMPUTE_PASSES);
    int32_t *choice = CLEAVE_ARENA_ARRAY(&t->scratch, int32_t, t->model.n_operators);
    trial_ok(t, bound_longest_chain(&t->model, time, &t->scratch, &chain, &t->error));
    trial_ok(t, bound_problem_create(&t->model, &t->machine, &t->candidates, &chain, 0, true,
                                     &t->scratch, &problem, &t->error));
    trial_ok(t,
             bound_forest_least(&problem, weight, &most_pairs, choice, &loads, &least, &t->error));
    trial_ok(t, bound_network_find(&t->machine, &network, &t->error));
    t->pricer.lower.symbolic_collectives = false;
    trial_ok(t,
             cleave_lower(&t->model, layout, &t->pricer.lower, &t->scratch, &program, &t->error));
    for (int32_t m = 0; m < program.n_messages; m++) {
        const cleave_message *message = &program.messages[m];
        bool leaves = !cleave_machine_same_node(&t->machine, message->source, message->destination);
        sent += (double)message->bytes;
        sent_to_nodes += leaves ? (double)message->bytes : 0;
    }
    double devices = loads.of[BOUND_DEVICES] * network.devices_rate;
    double nodes = loads.of[BOUND_NODES] * network.nodes_rate;
    cr_assert_leq(devices, sent * (1 + 1e-9) + 1e-3, "%s: %.12g bytes of %.12g", t->name, devices,
                  sent);
    cr_assert_leq(nodes, sent_to_nodes * (1 + 1e-9) + 1e-3, "%s: between nodes %.12g of %.12g",
                  t->name, nodes, sent_to_nodes);
    if (sent > 0)
        t->closest_bytes = fmax(t->closest_bytes, devices / sent);
}

/* A space of one layout has a bound of its own, with nothing to choose from: much closer. */
static void expect_above_its_own(trial *t, const cleave_layout *layout) {
    const trial whole = *t;
    bool *all = CLEAVE_ARENA_ARRAY(&t->arena, bool, t->model.n_operators);
    for (int32_t op = 0; op < t->model.n_operators; op++)
        all[op] = true;
    const cleave_constraints constraints = {
        .fixed = layout, .is_fixed = all, .n_fixed = t->model.n_operators};
    cleave_problem problem;
    trial_ok(t, cleave_problem_create(&t->model, &t->machine, &constraints, &t->arena, &problem,
                                      &t->error));
    trial_ok(t,
             cleave_candidates_list(&problem, t->costs, 1, &t->arena, &t->candidates, &t->error));
    trial_ok(t, cleave_candidates_add(&problem, t->costs, &layout, 1, &t->arena, &t->candidates,
                                      &t->error));
    find_bounds(t);
    t->bound = fmax(t->bound, whole.bound);
    t->bound_in_steps = fmax(t->bound_in_steps, whole.bound_in_steps);
    t->closest = t->closest_alone;
    expect_above(t, layout);
    expect_more_bytes(t, layout);
    t->closest_alone = t->closest;
    t->closest = whole.closest;
    t->candidates = whole.candidates;
    t->bound = whole.bound;
    t->bound_in_steps = whole.bound_in_steps;
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
            layout->sharded[i] = (uint8_t)cleave_random_below(&t->random, CLEAVE_N_SHARDED);
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

/* With collectives by other rules than the default, too. */
static void draw_rules(trial *t, cleave_layout *layout) {
    if (cleave_random_below(&t->random, 2) == 0)
        trial_ok(t, cleave_choose_collectives(&t->machine, false, &t->arena, &layout->collectives,
                                              &t->error));
}

/* Links that carry so many times less, so that what moves is what counts. */
static void slow_down(trial *t, double times) {
    for (int32_t l = 0; l < t->machine.n_links; l++) {
        t->machine.links[l].bytes_per_second /= times;
        t->machine.links[l].protocol.first_bytes_per_second /= times;
    }
}

static void check(trial *t, int n_drawn) {
    begin(t);
    expect_no_less_than_simple_bounds(t);
    for (int32_t g = 0; g < t->n_given; g++)
        expect_above_its_own(t, t->given[g]);
    for (int i = 0; i < n_draws(n_drawn); i++) {
        cleave_layout layout;
        draw(t, i % 3, &layout);
        draw_rules(t, &layout);
        expect_above_its_own(t, &layout);
    }
    expect_above_walks(t);
    printf("%s: bound at most %.1f %% of a step; of one layout %.1f %%, and %.1f %% of its bytes\n",
           t->name, 100 * t->closest, 100 * t->closest_alone, 100 * t->closest_bytes);
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

Test(bound, holds_where_links_are_slow) {
    static const double times[] = {10, 300};
    for (int which = 0; which < N_MODELS; which++)
        for (int m = 0; m < N_MACHINES; m++) {
            trial t = {.bound = 0};
            snprintf(t.name, sizeof t.name, "%s on %d of %s, links %g times slower",
                     hand_model_names[which], machines[m].n_devices, machines[m].name,
                     times[(which + m) % 2]);
            trial_hand_model(&t, which);
            trial_read_machine(&t, machines[m].name, machines[m].n_devices);
            slow_down(&t, times[(which + m) % 2]);
            check(&t, 15);
        }
}

/* Two devices whose collectives a framework was timed at, which are quicker than messages. */
Test(bound, holds_where_a_framework_launches_collectives_of_two) {
    for (int which = 0; which < N_MODELS; which++) {
        trial t = {.bound = 0};
        snprintf(t.name, sizeof t.name, "%s on 2 devices of a framework", hand_model_names[which]);
        trial_hand_model(&t, which);
        trial_read_machine(&t, "two-cores", 2);
        t.machine.collectives =
            (cleave_machine_collectives){.source = "made up",
                                         .least_devices = 2,
                                         .together_bytes = 25 << 20,
                                         .n_spans = 1,
                                         .spans = {{.kind = -1,
                                                    .collective = -1,
                                                    .n_devices = 2,
                                                    .bytes_per_second = 1e11,
                                                    .latency_seconds = 1e-9,
                                                    .overhead_seconds = 1e-10,
                                                    .overhead_seconds_per_byte = 1e-12}},
                                         .between_share = 1};
        slow_down(&t, 1000);
        check(&t, 15);
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
    trial_ok(&t, bound_other_work(&t.model, &t.machine, 1, false, &other, &t.error));
    work += other;
    cr_expect_gt(t.bound, 1.01e-12 * (double)(work / 4));
    cr_expect_gt(t.bound, 1.01e-12 * (double)path);
    trial_end(&t);
}
