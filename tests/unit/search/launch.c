/* The launch of a layout: which is nearest, and what is lost. */
#include "search/launch/launch.h"
#include "../../support/config_request.h"
#include "../../support/ok.h"
#include "graph/import/import.h"
#include "search/pipeline/stages.h"
#include "search/problem/baselines.h"

#include <criterion/criterion.h>
#include <string.h>

enum { D = 8, BATCH = 16, LAYERS = 4 };

static cleave_arena arena;
static cleave_model model;
static cleave_layout layout;
static cleave_launch launch;

static void set_up(void) {
    const char *text =
        "{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 96, "
        "\"num_hidden_layers\": 4, \"num_attention_heads\": 8, \"num_key_value_heads\": 4, "
        "\"vocab_size\": 64, \"rms_norm_eps\": 1e-5, \"hidden_act\": \"silu\", "
        "\"max_position_embeddings\": 64, \"tie_word_embeddings\": false}";
    const cleave_import_request request = config_request(text, BATCH, 16);
    OK(cleave_model_import_as, &request, &arena, &model);
}
static void tear_down(void) { cleave_arena_free(&arena); }
TestSuite(launch, .init = set_up, .fini = tear_down);

/* Megatron on all devices, in stages of one layer more in the first than in the last. */
static void lay_out(int32_t tensor, int32_t pipeline, cleave_sharded sharded) {
    bool applies;
    const cleave_machine machine = {.name = "any", .n_devices = D};
    cleave_schedule schedule = {.micro_batches = 2, .n_stages = pipeline};
    if (pipeline > 1) {
        schedule.first_operator = CLEAVE_ARENA_ARRAY(&arena, int32_t, pipeline);
        OK(cleave_stages_of_layers, &model, (int32_t[]){3, 1}, pipeline, schedule.first_operator);
    }
    const cleave_baseline_shape shape = {
        .schedule = &schedule, .n_groups = pipeline, .tensor = tensor, .sharded = sharded};
    OK(cleave_baseline_in_stages, &model, &machine, "megatron", &shape, &arena, &layout, &applies);
}

static void find(cleave_launcher launcher) {
    OK(cleave_launch_find, &model, &layout, launcher, &arena, &launch);
}

Test(launch, of_a_layout_that_is_one_nothing_is_lost) {
    lay_out(2, 2, CLEAVE_SHARDED_UPDATE);
    find(CLEAVE_LAUNCHER_MEGATRON);
    cr_expect_eq(launch.n_lost, 0, "%s", launch.n_lost > 0 ? launch.lost[0].what : "");
    cr_expect_eq(launch.tensor, 2);
    cr_expect_eq(launch.pipeline, 2);
    cr_expect_eq(launch.data, 2);
    cr_expect_eq(launch.layers[0], 3);
    cr_expect_eq(launch.layers[1], 1);
    cr_expect_eq(launch.micro_batch, BATCH / 2 / 2); /* by micro-batches, and by data */
    cr_expect_eq(launch.sharded, CLEAVE_SHARDED_UPDATE);
    cr_expect_float_eq(launch.alike, 1, 1e-12);
}

/* The other way to split one of the operators leaves the launch what it is.  By samples over all of
   a group and by columns over some of it, device d has in common
       (the samples of both) / (all samples) x (its columns)
   of the operator: 1/4 x 1/2 of the whole, of the 1/4 that it does. */
Test(launch, what_differs_is_named_and_weighed) {
    lay_out(2, 2, CLEAVE_SHARDED_NOTHING);
    int32_t op = cleave_model_find_operator(&model, "model.layers.0.mlp.up_proj");
    int32_t degree[CLEAVE_MAX_AXES] = {4}, devices[] = {0, 1, 2, 3};
    OK(cleave_layout_set, &layout, op, 1, degree, devices, &arena);
    find(CLEAVE_LAUNCHER_MEGATRON);
    cr_assert_eq(launch.n_lost, 1);
    cr_expect_eq(launch.lost[0].op, op);
    cr_expect_eq(launch.tensor, 2);
    double work = 0, of_it = 0;
    for (int32_t o = 0; o < model.n_operators; o++) {
        const cleave_nest *nest = &model.nests[model.operators[o].main_nest];
        double points = 1;
        for (int a = 0; a < nest->n_axes; a++)
            points *= (double)nest->axes[a].extent;
        work += points;
        of_it = o == op ? points : of_it;
    }
    cr_expect_float_eq(launch.alike, 1 - of_it / work / 2, 1e-12);
}

Test(launch, torchtitan_shards_gradients_where_there_is_more_than_data) {
    lay_out(2, 1, CLEAVE_SHARDED_NOTHING);
    find(CLEAVE_LAUNCHER_TORCHTITAN);
    cr_expect_eq(launch.sharded, CLEAVE_SHARDED_GRADIENT);
    cr_expect_gt(launch.n_lost, 0);
    lay_out(1, 1, CLEAVE_SHARDED_NOTHING);
    find(CLEAVE_LAUNCHER_TORCHTITAN);
    cr_expect_eq(launch.sharded, CLEAVE_SHARDED_NOTHING);
}

/* Gradients of all micro-batches are shared out together. */
Test(launch, torchtitan_shards_the_update_alone_in_a_pipeline) {
    for (int sharded = CLEAVE_SHARDED_NOTHING; sharded < CLEAVE_N_SHARDED; sharded++) {
        lay_out(1, 2, (cleave_sharded)sharded);
        find(CLEAVE_LAUNCHER_TORCHTITAN);
        cr_expect_eq(launch.pipeline, 2);
        cr_expect_eq(launch.sharded, CLEAVE_SHARDED_UPDATE);
    }
}

/* 16 samples in 2 micro-batches are at most 8 shares; 8 heads of queries, 4 of keys. */
Test(launch, products_are_shared_by_no_more_than_there_are_heads) {
    OK(cleave_layout_create, &model, D, &arena, &layout);
    find(CLEAVE_LAUNCHER_MEGATRON);
    cr_expect_leq(launch.tensor, 4, "heads of keys are 4, and %d share a product", launch.tensor);
}

/* One product of all is recomputed.  To recompute nothing is nearer by work, and keeps more than
 * there may be room for. */
Test(launch, nothing_is_kept_that_the_layout_does_not) {
    lay_out(2, 1, CLEAVE_SHARDED_NOTHING);
    find(CLEAVE_LAUNCHER_MEGATRON);
    cr_expect_eq(launch.recompute, CLEAVE_RECOMPUTE_NONE);
    int32_t op = cleave_model_find_operator(&model, "model.layers.0.mlp.up_proj");
    layout.recompute = CLEAVE_ARENA_ARRAY(&arena, bool, model.n_operators);
    cr_assert_not_null(layout.recompute);
    layout.recompute[op] = true;
    find(CLEAVE_LAUNCHER_MEGATRON);
    cr_expect_eq(launch.recompute, CLEAVE_RECOMPUTE_SELECTIVE);
}
