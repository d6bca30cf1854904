/* What branch and bound certifies is what exhaustive search finds: small models of every kind, with
   few candidates for each operator, drawn, on several machines.  And of every layout of the space
   the bounds that it rests on lie below the simulated step. */
#include "../support/draws.h"
#include "../support/models.h"
#include "../support/price_whole.h"
#include "../support/trial.h"
#include "search/solve/block_windows.h"
#include "search/solve/branch_and_bound.h"

#include "../support/perceptron.h"
#include "../support/test_machine.h"

#include <stdio.h>

enum { MOST_WHOLE = 600 };

static cleave_candidate_list *list_of(const trial *t, int32_t op) {
    return &t->candidates.lists[t->candidates.list_of[op]];
}

/* Every operator gets a list of its own, of a few candidates that are drawn, some at one start
   only, so that the space is small enough to be walked through. */
static void cut_down(trial *t) {
    int32_t n_ops = t->model.n_operators;
    cleave_candidate_list *lists = CLEAVE_ARENA_ARRAY(&t->arena, cleave_candidate_list, n_ops);
    int64_t whole = 1;
    for (int32_t op = 0; op < n_ops; op++) {
        const cleave_candidate_list *from = list_of(t, op);
        lists[op] = *from;
        int64_t room = MOST_WHOLE / whole;
        int32_t n = (int32_t)cleave_random_below(&t->random, 3) + 1;
        lists[op].items = CLEAVE_ARENA_ARRAY(&t->arena, cleave_candidate, n);
        lists[op].n = 0;
        int64_t values = 0;
        for (int32_t i = 0; i < n; i++) {
            cleave_candidate c = from->items[cleave_random_below(&t->random, from->n)];
            if (values + c.n_starts > room || cleave_random_below(&t->random, 2) == 0)
                c.n_starts = 1;
            if (i > 0 && values + c.n_starts > room)
                break;
            values += c.n_starts;
            lists[op].items[lists[op].n++] = c;
        }
        whole *= values;
    }
    int32_t *list_of = CLEAVE_ARENA_ARRAY(&t->arena, int32_t, n_ops);
    for (int32_t op = 0; op < n_ops; op++)
        list_of[op] = op;
    t->candidates = (cleave_candidates){.n_lists = n_ops, .lists = lists, .list_of = list_of};
}

static void begin(trial *t) {
    int32_t n_devices = t->machine.n_devices;
    trial_begin(t, (int)cleave_random_below(&t->random, 3));
    cut_down(t);
    trial_ok(t, cleave_layout_create(&t->model, n_devices, &t->arena, &t->start, &t->error));
    for (int32_t op = 0; op < t->model.n_operators; op++) {
        t->start.splits[op].devices = CLEAVE_ARENA_ARRAY(&t->arena, int32_t, n_devices);
        cleave_candidate_place(&list_of(t, op)->items[0], 0, &t->start.splits[op]);
    }
    for (int32_t i = 0; i < t->model.n_tensors; i++)
        if (t->model.tensors[i].kind == CLEAVE_TENSOR_PARAMETER)
            t->start.sharded[i] = cleave_random_below(&t->random, 4) == 0;
    trial_ok(t, cleave_layout_copy(&t->start, &t->model, &t->arena, &t->layout, &t->error));
    for (int32_t op = 0; op < t->model.n_operators; op++)
        t->layout.splits[op].devices = CLEAVE_ARENA_ARRAY(&t->arena, int32_t, n_devices);
}

/* All values of the operators from `op` on; whole layouts are lowered and simulated from scratch.
 */
static void walk_through(trial *t, int32_t op) {
    if (op == t->model.n_operators) {
        cleave_price price;
        trial_ok(t, price_whole(&t->pricer, &t->layout, false, &price, &t->error));
        t->optimum = price.step < t->optimum ? price.step : t->optimum;
        t->whole++;
        return;
    }
    for (int32_t c = 0; c < list_of(t, op)->n; c++)
        for (int32_t start = 0; start < list_of(t, op)->items[c].n_starts; start++) {
            cleave_candidate_place(&list_of(t, op)->items[c], start, &t->layout.splits[op]);
            walk_through(t, op + 1);
        }
}

static void expect_optimum(trial *t) {
    cleave_certified certified;
    cleave_price price;
    t->optimum = INT64_MAX;
    t->whole = 0;
    walk_through(t, 0);
    trial_ok(t, cleave_branch_and_bound(&t->pricer, &t->candidates, &t->start, 0, NULL, &t->arena,
                                        &certified, &t->error));
    cr_expect(certified.complete, "%s", t->name);
    cr_expect_eq(certified.step, t->optimum, "%s: %lld, not %lld of %lld layouts", t->name,
                 (long long)certified.step, (long long)t->optimum, (long long)t->whole);
    cr_expect_eq(certified.bound, certified.step, "%s", t->name);
    trial_ok(t, price_whole(&t->pricer, &certified.layout, false, &price, &t->error));
    cr_expect_eq(price.step, certified.step, "%s: the layout has another step", t->name);
}

/* At every level the bounds of drawn values lie below the step of the whole. */
static void expect_bounds_below(trial *t, int n_drawn) {
    cleave_bound_blocks blocks;
    bool made;
    cleave_lower_options lower = t->pricer.lower;
    lower.symbolic_collectives = true;
    lower.workspace = NULL;
    cleave_bound_blocks_options options = {.like = &t->start, .lower = &lower};
    trial_ok(t, cleave_bound_blocks_create(&t->model, &t->candidates, &options, t->pricer.cache,
                                           &t->scratch, &blocks, &made, &t->error));
    cr_assert(made, "%s", t->name);
    int32_t *value = CLEAVE_ARENA_ARRAY(&t->scratch, int32_t, blocks.n_blocks);
    cleave_bound_blocks_prefix *prefix =
        CLEAVE_ARENA_ARRAY(&t->scratch, cleave_bound_blocks_prefix, blocks.n_blocks);
    for (int i = 0; i < n_drawn; i++) {
        cleave_price price;
        for (int32_t k = 0; k < blocks.n_blocks; k++) {
            const cleave_block *block = &blocks.blocks[k];
            value[k] = (int32_t)cleave_random_below(&t->random, block->n_values);
            int32_t rest = value[k];
            for (int32_t o = block->n_operators - 1; o >= 0; o--) {
                int32_t op = block->operators[o], n = blocks.n_values[op];
                const cleave_split *split = &blocks.values[op][rest % n];
                int32_t *devices = t->layout.splits[op].devices;
                t->layout.splits[op] = *split;
                t->layout.splits[op].devices = devices;
                memcpy(devices, split->devices, (size_t)split->n_parts * sizeof *devices);
                rest /= n;
            }
        }
        trial_ok(t, price_whole(&t->pricer, &t->layout, false, &price, &t->error));
        for (int32_t k = 0; k < blocks.n_blocks; k++) {
            int64_t simulated;
            prefix[k].sums = CLEAVE_ARENA_ARRAY(&t->scratch, int64_t, blocks.n_sums);
            prefix[k].synced = CLEAVE_ARENA_ARRAY(&t->scratch, int64_t, blocks.n_devices);
            cleave_bound_blocks_add(&blocks, k == 0 ? NULL : &prefix[k - 1],
                                    k == 0 ? 0 : value[k - 1], k, value[k], &prefix[k]);
            int64_t bound = cleave_bound_blocks_bound(&blocks, &prefix[k], value[0], k, value[k]);
            cr_assert_leq(bound, price.step, "%s: sums up to block %d of %d", t->name, k,
                          blocks.n_blocks);
            trial_ok(t, cleave_bound_blocks_simulate(&blocks, value, k, &simulated, &t->error));
            cr_assert_leq(simulated, price.step, "%s: simulated up to block %d of %d", t->name, k,
                          blocks.n_blocks);
        }
    }
    cleave_bound_blocks_destroy(&blocks);
}

static const struct {
    const char *name;
    int32_t n_devices;
} machines[] = {{"two-cores", 2}, {"k80-16x4", 3}, {"k80-16x4", 4}, {"mixed-1x4-2x4", 4}};
enum { N_MACHINES = sizeof machines / sizeof machines[0], N_SEEDS = 2 };

static void check(trial *t, int m, uint64_t seed, const char *name) {
    snprintf(t->name, sizeof t->name, "%s on %d of %s, seed %d", name, machines[m].n_devices,
             machines[m].name, (int)seed);
    t->random.key = cleave_hash_join(seed, (uint64_t)m + 1);
    trial_read_machine(t, machines[m].name, machines[m].n_devices);
    begin(t);
    expect_optimum(t);
    expect_bounds_below(t, 20);
    trial_end(t);
}

Test(certified, is_optimal_for_models_made_by_hand) {
    for (int which = 0; which < N_MODELS; which++)
        for (int m = 0; m < N_MACHINES; m++)
            for (uint64_t seed = seed_from(0); seed < seed_end(N_SEEDS); seed++) {
                trial t = {.optimum = 0};
                trial_hand_model(&t, which);
                check(&t, m, seed, hand_model_names[which]);
            }
}

Test(certified, is_optimal_for_real_models) {
    static const struct {
        const char *path;
        int64_t batch;
    } models[] = {{"configs/models/lenet5.onnx", 64},
                  {"configs/models/mlp.onnx", 256},
                  {"tests/data/rnnlm_2_steps.onnx", 64},
                  {"tests/data/oracles/tiny_lstm_lm.onnx", 16}};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
        for (int m = 0; m < N_MACHINES; m++)
            for (uint64_t seed = seed_from(0); seed < seed_end(N_SEEDS); seed++) {
                trial t = {.name = "import"};
                trial_import(&t, models[i].path, models[i].batch);
                check(&t, m, seed, models[i].path);
            }
}

/* Of the whole space, not cut down: whatever is changed in the optimum at one operator is no
   better. */
Test(certified, optimum_of_a_whole_space_is_no_worse_than_its_neighbours) {
    trial t = {.name = "perceptron"};
    cleave_certified certified;
    t.model = make_perceptron(&t.arena, 2, 256, 512);
    t.machine = make_machine(&t.arena, 2, 2, "1 GiB");
    trial_begin(&t, 0);
    trial_ok(&t, cleave_layout_create(&t.model, 4, &t.arena, &t.start, &t.error));
    trial_ok(&t, cleave_branch_and_bound(&t.pricer, &t.candidates, &t.start, 0, NULL, &t.arena,
                                         &certified, &t.error));
    cr_expect(certified.complete);
    int32_t devices[4];
    for (int32_t op = 0; op < t.model.n_operators; op++)
        for (int32_t c = 0; c < list_of(&t, op)->n; c++)
            for (int32_t s = 0; s < list_of(&t, op)->items[c].n_starts; s++) {
                cleave_price price;
                trial_ok(&t, cleave_layout_copy(&certified.layout, &t.model, &t.arena, &t.layout,
                                                &t.error));
                t.layout.splits[op].devices = devices;
                cleave_candidate_place(&list_of(&t, op)->items[c], s, &t.layout.splits[op]);
                trial_ok(&t, price_whole(&t.pricer, &t.layout, false, &price, &t.error));
                cr_expect_geq(price.step, certified.step);
            }
    trial_end(&t);
}

/* Stopped before it begins: the best is the start, and nothing more is claimed than a bound. */
Test(certified, a_search_that_is_stopped_says_so) {
    volatile sig_atomic_t flag = 1;
    trial t = {.name = "stopped"};
    cleave_certified certified;
    t.random.key = 1;
    t.model = make_perceptron(&t.arena, 3, 64, 512);
    t.machine = make_machine(&t.arena, 2, 2, "1 GiB");
    begin(&t);
    trial_ok(&t, cleave_branch_and_bound(&t.pricer, &t.candidates, &t.start, 0, &flag, &t.arena,
                                         &certified, &t.error));
    cr_expect_eq(certified.priced, 0);
    cr_expect_leq(certified.bound, certified.step);
    cr_expect(!certified.complete || certified.bound == certified.step);
    trial_end(&t);
}
