/* The search on many devices, as a whole: what comes out is no worse than any baseline, no better
   than its bound, and keeps to constraints; what was not priced is said. */
#include "../../support/config_request.h"
#include "../../support/ok.h"
#include "../../support/price_whole.h"
#include "../../support/shipped.h"
#include "graph/import/import.h"
#include "graph/model/attention.h"
#include "search/price/price.h"
#include "search/search.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static cleave_arena arena;
static cleave_error error;
static cleave_model model;
static cleave_machine machine;
static cleave_search_result result;

static void tear_down(void) { cleave_arena_free(&arena); }
TestSuite(many, .fini = tear_down);

static void load(const char *name, const char *of_machine, int32_t n_devices, int64_t batch) {
    OK(shipped_model, name, batch, &arena, &model);
    OK(cleave_model_fuse_attention, &model, NULL, &arena, &model);
    OK(shipped_machine, of_machine, n_devices, &arena, &machine);
}

static cleave_status search(const char *method, const cleave_constraints *constraints,
                            int64_t memory_limit_bytes) {
    const cleave_search_options options = {.method = method,
                                           .proposals = 200,
                                           .optimizer_states = 1,
                                           .memory_limit_bytes = memory_limit_bytes,
                                           .constraints = constraints,
                                           .quiet = true};
    return cleave_search(&model, &machine, &options, &arena, &result, &error);
}

/* On many devices steps are those of closed forms. */
static void expect_sound(bool in_steps) {
    cr_assert(result.best.applies);
    cr_expect_eq(result.in_steps, in_steps);
    cr_expect_gt(result.lower_bound_seconds, 0);
    cr_expect_leq(result.lower_bound_seconds, result.best.step_seconds);
    OK(cleave_layout_check, &model, &result.best.layout);
    for (int32_t b = 0; b < result.n_baselines; b++) {
        const cleave_plan *plan = &result.baselines[b];
        if (plan->applies) {
            cr_expect_leq(result.best.step_seconds, plan->step_seconds, "%s", plan->method);
            cr_expect_leq(result.lower_bound_seconds, plan->step_seconds, "%s", plan->method);
        }
        cr_expect(!plan->applies || plan->unpriced == NULL);
    }
}

Test(many, results_lie_between_bound_and_baselines) {
    static const struct {
        const char *model, *machine;
        int32_t devices;
        int64_t batch;
    } cases[] = {{"mlp", "a100-128x8", 128, 256},
                 {"byte_gpt", "h100-512x8", 1024, 1024},
                 {"bert_base", "a100-128x8", 1024, 1024},
                 {"mlp", "h100-512x8", 4096, 512}}; /* fewer samples than devices */
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        load(cases[c].model, cases[c].machine, cases[c].devices, cases[c].batch);
        cr_assert_eq(search("auto", NULL, 0), CLEAVE_OK, "%s: %s", cases[c].model, error.message);
        expect_sound(false);
    }
}

/* A baseline that folds is priced, as Megatron's within nodes or of sharded state, one that stands
   on few devices too; of BERT's layers on 1,024 devices each split by features nothing can be said.
 */
Test(many, baselines_are_priced_or_it_is_said_why_not) {
    load("bert_base", "a100-128x8", 1024, 1024);
    cr_assert_eq(search("auto", NULL, 0), CLEAVE_OK, "%s", error.message);
    for (int32_t b = 0; b < result.n_baselines; b++) {
        const char *name = result.baselines[b].method;
        bool is_wide = strcmp(name, "one-weird-trick") == 0;
        cr_expect_eq(result.baselines[b].unpriced != NULL, is_wide, "%s", name);
    }
    cr_assert_eq(search("data-parallel", NULL, 0), CLEAVE_OK, "%s", error.message);
    cr_expect_str_eq(result.best.method, "data-parallel");
    cr_expect_eq(search("one-weird-trick", NULL, 0), CLEAVE_NO_LAYOUT);
}

/* Weights that have room on every device, and activations of 64 samples each that have not. */
Test(many, a_batch_that_does_not_fit_is_cut) {
    load("byte_gpt", "a100-128x8", 128, 64 * 128);
    cr_assert_eq(search("auto", NULL, 16 << 20), CLEAVE_OK, "%s", error.message);
    cr_expect_gt(result.best.layout.schedule.micro_batches, 1);
    cr_expect_leq(result.staged_bound_seconds, result.best.step_seconds);
    cr_expect_leq(result.best.peak_bytes, 16 << 20);
}

Test(many, constraints_are_kept) {
    load("byte_gpt", "a100-128x8", 128, 128);
    cleave_constraints constraints = {0};
    OK(cleave_constraints_restrict, &constraints, "sample", &model, &arena);
    cr_assert_eq(search("auto", &constraints, 0), CLEAVE_OK, "%s", error.message);
    cr_expect(cleave_constraints_allow_layout(&constraints, &model, &result.best.layout));
    expect_sound(false);
}

/* An operator split by features over 4 devices stands in no window twice: few operators are then
   searched with all devices lowered, and keep the split; of many it is said why there is none. */
Test(many, what_is_fixed_and_does_not_fold_is_searched_in_full_or_refused) {
    load("mlp", "a100-128x8", 128, 256);
    machine.collectives.n_spans = 0; /* or it is all priced in closed form */
    cleave_layout fixed;
    bool is_fixed[16] = {true};
    int32_t devices[] = {5, 6, 7, 3};
    cr_assert_leq(model.n_operators, 16);
    OK(cleave_layout_create, &model, 128, &arena, &fixed);
    fixed.splits[0] = (cleave_split){.replicas = 1, .n_parts = 4, .devices = devices};
    for (int a = 0; a < CLEAVE_MAX_AXES; a++)
        fixed.splits[0].degree[a] = a == 1 ? 4 : 1; /* n, k, c */
    cleave_constraints constraints = {.fixed = &fixed,
                                      .fixed_from = "fixed",
                                      .is_fixed = is_fixed,
                                      .is_update_fixed =
                                          CLEAVE_ARENA_ARRAY(&arena, bool, model.n_tensors),
                                      .n_fixed = 1};
    const cleave_search_options options = {
        .method = "auto", .proposals = 20, .constraints = &constraints, .quiet = true};
    OK(cleave_search, &model, &machine, &options, &arena, &result);
    expect_sound(true);
    cr_expect(cleave_constraints_allow_layout(&constraints, &model, &result.best.layout));
    load("bert_base", "h100-512x8", 4096, 4096);
    bool *none = CLEAVE_ARENA_ARRAY(&arena, bool, model.n_operators);
    none[0] = true;
    constraints.is_fixed = none;
    constraints.is_update_fixed = CLEAVE_ARENA_ARRAY(&arena, bool, model.n_tensors);
    OK(cleave_layout_create, &model, 4096, &arena, &fixed);
    fixed.splits[0].replicas = fixed.splits[0].n_parts = 4;
    fixed.splits[0].devices = devices;
    cr_assert_eq(search("auto", &constraints, 0), CLEAVE_NO_LAYOUT);
    cr_expect_not_null(strstr(error.message, "fold"), "%s", error.message);
    cr_expect_not_null(strstr(error.message, "--fix"), "%s", error.message);
}

Test(many, without_memory_there_is_no_layout) {
    load("byte_gpt", "a100-128x8", 128, 128);
    cr_expect_eq(search("auto", NULL, 64 << 10), CLEAVE_NO_LAYOUT);
    cr_expect_not_null(strstr(error.message, "fits"), "%s", error.message);
}

/* Rules that stay in the layout are those that its own collectives run by: the step is as before.
 */
Test(many, found_layouts_keep_the_rules_they_use) {
    load("byte_gpt", "a100-128x8", 128, 128);
    cr_assert_eq(search("auto", NULL, 0), CLEAVE_OK, "%s", error.message);
    cleave_pricer pricer;
    cleave_price price;
    OK(cleave_pricer_create, &model, &machine, 1, 0, &pricer);
    OK(price_whole, &pricer, &result.best.layout, false, &price);
    cr_expect_float_eq((double)price.step * 1e-12, result.best.step_seconds, 0);
    cleave_pricer_destroy(&pricer);
}

/* With gradients sharded, too, all 128 micro-batches would be lowered, which is too much. */
Test(many, where_sharding_more_is_too_large_updates_are_sharded) {
    static const char config[] =
        "{\"model_type\": \"gpt_neox\", \"hidden_size\": 6144, \"intermediate_size\": 24576, "
        "\"num_hidden_layers\": 8, \"num_attention_heads\": 64, \"vocab_size\": 50432, "
        "\"max_position_embeddings\": 2048, \"rotary_pct\": 0.25, \"hidden_act\": \"gelu_fast\", "
        "\"tie_word_embeddings\": false, \"use_parallel_residual\": true}";
    cleave_import_request request = config_request(config, 512, 1024);
    request.precision = "bf16";
    const cleave_schedule_wish wish = {
        .kind = CLEAVE_SCHEDULE_1F1B, .recompute = -1, .stages = 2, .micro_batches = 128};
    const cleave_search_options options = {.method = "auto",
                                           .optimizer_states = 2,
                                           .memory_limit_bytes = INT64_C(7) << 30,
                                           .schedule = &wish,
                                           .quiet = true};
    OK(cleave_model_import_as, &request, &arena, &model);
    OK(cleave_model_fuse_attention, &model, NULL, &arena, &model);
    OK(shipped_machine, "a100-40-128x8", 16, &arena, &machine);
    OK(cleave_search, &model, &machine, &options, &arena, &result);
    cr_expect_str_eq(result.best.method, "auto"); /* and no baseline, all of which share less */
}
