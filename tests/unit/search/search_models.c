/* The search on real models: windows, paddings, concatenation and batch normalisation. */
#include "../../support/ok.h"
#include "../../support/shipped.h"
#include "graph/import/import.h"
#include "search/search.h"

#include "../../support/expect_bound.h"
#include "../../support/test_machine.h"

#include <stdio.h>

static cleave_arena arena;
static cleave_model model;
static cleave_machine machine;
static cleave_search_options options;
static cleave_search_result result;

static void set_up(void) {
    options = (cleave_search_options){
        .method = "auto", .proposals = 60, .seed = 1, .optimizer_states = 1, .quiet = true};
}
static void tear_down(void) { cleave_arena_free(&arena); }
TestSuite(search_models, .init = set_up, .fini = tear_down);

static void import(const char *path, int64_t batch) {
    char whole[4096];
    snprintf(whole, sizeof whole, "%s/%s", CLEAVE_SOURCE_DIR, path);
    OK(cleave_model_import_as,
       &(cleave_import_request){.file = whole, .batch = batch, .with_loss = true}, &arena, &model);
}

static void run(void) {
    OK(cleave_search, &model, &machine, &options, &arena, &result);
    OK(cleave_layout_check, &model, &result.best.layout);
}

static void expect_no_worse_than_baselines(void) {
    for (int32_t i = 0; i < result.n_baselines; i++)
        if (result.baselines[i].applies)
            cr_expect_leq(result.best.step_seconds, result.baselines[i].step_seconds, "%s",
                          result.baselines[i].method);
    cr_expect_leq(result.lower_bound_seconds, result.best.step_seconds);
}

Test(search_models, mlp_and_lenet5_are_never_worse_than_their_baselines) {
    static const char *const paths[] = {"configs/models/mlp.onnx", "configs/models/lenet5.onnx"};
    for (size_t m = 0; m < 2; m++)
        for (int32_t devices = 1; devices <= 4; devices *= 2) {
            import(paths[m], 64);
            machine = make_machine(&arena, 2, devices, "1 GiB");
            run();
            expect_no_worse_than_baselines();
        }
}

/* The classic: synchronising the 58 million parameters of AlexNet's dense layers costs data
   parallelism more than anything else it does. */
Test(search_models, walk_does_not_leave_the_dense_layers_of_alexnet_to_data_parallelism) {
    import("configs/models/alexnet.onnx", 32);
    OK(shipped_machine, "two-cores", 2, &arena, &machine);
    options.proposals = 500;
    run();
    expect_no_worse_than_baselines();
    cr_assert(result.baselines[0].applies);
    cr_expect_lt(result.best.step_seconds, 0.95 * result.baselines[0].step_seconds);
    int32_t op = cleave_model_find_operator(&model, "/classifier/classifier.1/Gemm");
    cr_assert_geq(op, 0);
    cr_expect_eq(result.best.layout.splits[op].degree[0], 1);
}

static void begin_on_64_k80s(const char *path, int64_t batch) {
    import(path, batch);
    OK(shipped_machine, "k80-16x4", 64, &arena, &machine);
    options.proposals = 0;
    options.n_threads = 2;
}

/* On 64 devices no single change leads from the additive model's best to anything below 15.9 ms,
   while a dense layer and the one before it, changed at once, do.  A walk of single changes finds
   15.4 ms in a hundred times as long. */
Test(search_models, neighbours_of_alexnet_change_at_once) {
    begin_on_64_k80s("configs/models/alexnet.onnx", 256);
    run();
    expect_no_worse_than_baselines();
    cr_expect_lt(result.best.step_seconds, 0.0154);
}

/* In closed form three sharded updates make the best of ResNet-101 .1 ms quicker, in steps 1.8 ms
   slower: 2.0244 s. */
Test(search_models, updates_are_sharded_only_where_that_is_quicker_in_steps) {
    begin_on_64_k80s("configs/models/resnet101.onnx", 4096);
    options.optimizer_states = 0;
    run();
    expect_no_worse_than_baselines();
    cr_expect_lt(result.best.step_seconds, 2.0235);
}

Test(search_models, every_baseline_is_legal_and_priced_for_every_oracle) {
    static const char *const paths[] = {
        "tests/data/oracles/tiny_mlp.onnx", "tests/data/oracles/tiny_cnn.onnx",
        "tests/data/oracles/tiny_resnet.onnx", "tests/data/oracles/tiny_transformer.onnx"};
    for (size_t m = 0; m < 4; m++) {
        import(paths[m], 8);
        machine = make_machine(&arena, 2, 4, "1 GiB");
        options.proposals = 5;
        run();
        for (int32_t i = 0; i < result.n_baselines; i++) {
            bool expected = m == 3 || strncmp(result.baselines[i].method, "megatron", 8) != 0;
            cr_expect_eq(result.baselines[i].applies, expected, "%s of %s",
                         result.baselines[i].method, paths[m]);
        }
        expect_no_worse_than_baselines();
    }
}

/* On a machine where only arithmetic takes time, where a bound that claims too much shows. */
Test(search_models, bound_holds_for_random_layouts_of_candidates) {
    static const char *const paths[] = {"tests/data/oracles/tiny_cnn.onnx",
                                        "tests/data/oracles/tiny_resnet.onnx",
                                        "configs/models/lenet5.onnx"};
    for (size_t m = 0; m < 3; m++) {
        import(paths[m], 8);
        machine = make_ideal_machine(&arena, 2, 2);
        expect_bound_to_hold(&model, &machine, 100, &arena);
    }
}
