/* Baselines: what each splits, on a perceptron of three layers (n=8, 6 features). */
#include "../../support/ok.h"
#include "search/search.h"

#include "../../support/perceptron.h"
#include "../../support/test_machine.h"

static cleave_arena arena;
static cleave_model model;
static cleave_machine machine;
static cleave_layout layout;
static bool applies;

static void make(const char *name, int32_t nodes, int32_t devices) {
    model = make_perceptron(&arena, 3, 8, 6);
    machine = make_machine(&arena, nodes, devices, "1 GiB");
    OK(cleave_baseline_layout, &model, &machine, name, 7, &arena, &layout, &applies);
    OK(cleave_layout_check, &model, &layout);
}

static void tear_down(void) { cleave_arena_free(&arena); }
TestSuite(baselines, .fini = tear_down);

static const cleave_split *split_of(const char *name) {
    return &layout.splits[cleave_model_find_operator(&model, name)];
}

Test(baselines, data_parallel_splits_samples_over_all_devices) {
    make("data-parallel", 1, 4);
    cr_expect(applies);
    for (int32_t op = 0; op < model.n_operators; op++) {
        cr_expect_eq(layout.splits[op].degree[0], 4);
        cr_expect_eq(layout.splits[op].n_parts, 4);
        cr_expect_eq(layout.splits[op].devices[3], 3);
    }
}

Test(baselines, data_parallel_uses_no_more_devices_than_samples) {
    make("data-parallel", 4, 4);
    cr_expect_eq(split_of("dense0")->degree[0], 8);
    cr_expect_eq(split_of("@loss")->n_parts, 8);
}

Test(baselines, single_uses_device_0_only) {
    make("single", 1, 4);
    for (int32_t op = 0; op < model.n_operators; op++) {
        cr_expect_eq(layout.splits[op].n_parts, 1);
        cr_expect_eq(layout.splits[op].devices[0], 0);
    }
}

Test(baselines, one_weird_trick_splits_dense_layers_by_feature_and_the_loss_by_sample) {
    make("one-weird-trick", 1, 2);
    cr_expect(applies);
    cr_expect_eq(split_of("dense1")->degree[1], 2);
    cr_expect_eq(split_of("dense1")->degree[0], 1);
    cr_expect_eq(split_of("relu1")->degree[1], 2, "a rectifier follows its dense layer");
    cr_expect_eq(split_of("@loss")->degree[0], 2);
}

Test(baselines, layer_per_device_gives_each_device_one_run_of_operators) {
    make("layer-per-device", 1, 4);
    cr_expect(applies);
    cr_expect_eq(split_of("dense0")->devices[0], 0);
    cr_expect_eq(split_of("@loss")->devices[0], 3);
    for (int32_t op = 1; op < model.n_operators; op++) {
        int32_t step = layout.splits[op].devices[0] - layout.splits[op - 1].devices[0];
        cr_expect(step == 0 || step == 1);
    }
}

Test(baselines, megatron_does_not_apply_without_attention) {
    make("megatron", 1, 4);
    cr_expect_not(applies);
}

/* Weights are matrices; of what has a lower rank no more than the update is. */
Test(baselines, zero_shards_the_state_of_data_parallel) {
    static const char *const names[] = {"zero-1", "zero-3"};
    static const cleave_sharded expected[] = {CLEAVE_SHARDED_UPDATE, CLEAVE_SHARDED_WEIGHT};
    for (int i = 0; i < 2; i++) {
        make(names[i], 1, 4);
        cr_expect(applies);
        cr_expect_eq(split_of("dense0")->degree[0], 4);
        for (int32_t t = 0; t < model.n_tensors; t++)
            cr_expect_eq(layout.sharded[t], model.tensors[t].kind == CLEAVE_TENSOR_PARAMETER
                                                ? expected[i]
                                                : CLEAVE_SHARDED_NOTHING);
        int32_t w = cleave_model_find_tensor(&model, "weight0");
        model.tensors[w].rank = 1;
        cleave_layout_shard(&model, expected[i], &layout);
        cr_expect_eq(layout.sharded[w], CLEAVE_SHARDED_UPDATE);
    }
}

Test(baselines, random_is_drawn_from_the_seed) {
    make("random", 1, 4);
    cr_expect(applies);
    cleave_layout drawn;
    OK(cleave_layout_random, &model, 4, 7, &arena, &drawn);
    for (int32_t op = 0; op < model.n_operators; op++)
        cr_expect_eq(drawn.splits[op].devices[0], layout.splits[op].devices[0]);
}

Test(baselines, an_unknown_name_is_refused) {
    cleave_error error = {""};
    model = make_perceptron(&arena, 1, 8, 6);
    machine = make_machine(&arena, 1, 2, "1 GiB");
    cr_expect_eq(
        cleave_baseline_layout(&model, &machine, "magic", 0, &arena, &layout, &applies, &error),
        CLEAVE_BAD_INPUT);
    cr_expect_str_eq(
        error.message,
        "method \"magic\" is no baseline: they are data-parallel, single, "
        "layer-per-device, one-weird-trick, megatron, zero-1, zero-3, megatron-1f1b, and "
        "random");
}
