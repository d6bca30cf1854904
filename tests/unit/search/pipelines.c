/* Stages, micro-batches and recomputation as a search finds them: cuts are the best there are, what
   people name is what they get, and where memory is short something is found that fits. */
#include "../../support/config_request.h"
#include "../../support/ok.h"
#include "../../support/shipped.h"
#include "search/pipeline/internal.h"
#include "search/pipeline/stages.h"
#include "search/problem/baselines.h"
#include "search/search.h"

#include "../../support/perceptron.h"
#include "../../support/test_machine.h"
#include "base/random.h"
#include "graph/import/import.h"
#include "graph/model/attention.h"

#include <stdio.h>
#include <string.h>

enum { N_LAYERS = 8, BATCH = 64 };

static cleave_arena arena;
static cleave_model model;
static cleave_machine machine;
static cleave_search_options options;
static cleave_schedule_wish wish;

/* Wide activations, small weights. */
static void set_up(void) {
    model = make_perceptron(&arena, N_LAYERS, 4096, 64);
    machine = make_machine(&arena, 2, 2, "1 GiB");
    wish = (cleave_schedule_wish){.kind = -1, .recompute = -1};
    options = (cleave_search_options){
        .method = "auto", .optimizer_states = 1, .schedule = &wish, .quiet = true};
}
static void tear_down(void) { cleave_arena_free(&arena); }
TestSuite(pipelines, .init = set_up, .fini = tear_down);

static cleave_search_result run(void) {
    cleave_search_result result;
    OK(cleave_search, &model, &machine, &options, &arena, &result);
    OK(cleave_layout_check, &model, &result.best.layout);
    return result;
}

static int n_recomputed(const cleave_layout *layout) {
    int n = 0;
    for (int32_t op = 0; op < layout->n_operators; op++)
        n += layout->recompute[op];
    return n;
}

/* ---- cuts ---- */

enum { MOST_CUT = 9 };

enum { MOST_ROWS = 3 };

static int64_t slowest_of(int32_t n, const cleave_stage_work *of, int32_t n_stages,
                          const int32_t *first) {
    int64_t slowest = 0;
    for (int32_t s = 0; s < n_stages; s++) {
        int32_t end = s + 1 < n_stages ? first[s + 1] : n;
        int64_t sum = end < n ? of->sends[end - 1] : 0;
        for (int32_t op = first[s]; op < end; op++)
            sum += of->work[(of->row_of == NULL ? 0 : of->row_of[s]) * n + op];
        slowest = sum > slowest ? sum : slowest;
    }
    return slowest;
}

/* Of all ways to cut. */
static int64_t best_of(int32_t n, const cleave_stage_work *of, int32_t n_stages) {
    int64_t best = INT64_MAX;
    for (uint32_t cuts = 0; cuts < 1u << (n - 1); cuts++) {
        int32_t first[MOST_CUT] = {0}, stages = 1;
        for (int32_t op = 1; op < n; op++)
            if ((cuts >> (op - 1) & 1) != 0)
                first[stages++] = op;
        if (stages != n_stages)
            continue;
        int64_t slowest = slowest_of(n, of, n_stages, first);
        best = slowest < best ? slowest : best;
    }
    return best;
}

/* Every second time of devices of several kinds, on which operators take each their own times. */
Test(pipelines, cuts_leave_the_slowest_stage_as_quick_as_can_be) {
    cleave_random random = {.key = 5};
    for (int trial = 0; trial < 4000; trial++) {
        int32_t n = 1 + (int32_t)cleave_random_below(&random, MOST_CUT);
        int32_t n_stages = 1 + (int32_t)cleave_random_below(&random, n), first[MOST_CUT];
        int64_t work[MOST_ROWS * MOST_CUT], sends[MOST_CUT];
        int32_t row_of[MOST_CUT];
        for (int32_t op = 0; op < MOST_ROWS * n; op++)
            work[op] = cleave_random_below(&random, 100);
        for (int32_t op = 0; op < n; op++)
            sends[op] = cleave_random_below(&random, 50);
        for (int32_t s = 0; s < n_stages; s++)
            row_of[s] = (int32_t)cleave_random_below(&random, MOST_ROWS);
        const cleave_stage_work of = {
            .work = work, .row_of = trial % 2 == 0 ? NULL : row_of, .sends = sends};
        OK(cleave_stages_cut, n, &of, n_stages, first);
        cr_assert_eq(first[0], 0);
        for (int32_t s = 1; s < n_stages; s++)
            cr_assert(first[s] > first[s - 1] && first[s] < n, "trial %d", trial);
        int64_t got = slowest_of(n, &of, n_stages, first), best = best_of(n, &of, n_stages);
        cr_assert(got == best, "trial %d: %lld, not %lld", trial, (long long)got, (long long)best);
    }
}

/* A slow table leaves the others room for more than an even cut gives them. */
Test(pipelines, of_cuts_that_are_as_quick_the_most_even_one_is_taken) {
    static const int64_t work[] = {6, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, sends[13] = {0};
    static const int32_t even[] = {0, 1, 5, 9};
    const cleave_stage_work of = {.work = work, .sends = sends};
    int32_t first[4];
    OK(cleave_stages_cut, 13, &of, 4, first);
    cr_expect_arr_eq(first, even, sizeof even);
}

static void import(const char *text) {
    const cleave_import_request request = config_request(text, BATCH, 64);
    cleave_model imported;
    OK(cleave_model_import_as, &request, &arena, &imported);
    OK(cleave_model_fuse_attention, &imported, NULL, &arena, &model);
}

/* What lies beside a branch would have parts of its gradient in two stages. */
Test(pipelines, no_stage_ends_within_a_branch) {
    int32_t *joined;
    import("{\"model_type\": \"llama\", \"hidden_size\": 512, \"intermediate_size\": 2048, "
           "\"num_hidden_layers\": 16, \"num_attention_heads\": 4, \"vocab_size\": 64}");
    machine = parse_machine(&arena, 2, 2, "4 GiB", "1000 GB/s", "0 us",
                            "\"bandwidth\": \"1000 GB/s\", \"latency\": \"1 us\"");
    OK(cleave_stage_joined, &model, &arena, &joined);
    for (int32_t n_virtual = 1; n_virtual <= 4; n_virtual *= 2) {
        wish = (cleave_schedule_wish){.micro_batches = 8,
                                      .stages = 4 * n_virtual,
                                      .virtual_stages = n_virtual,
                                      .tensor = 1,
                                      .kind = n_virtual > 1 ? CLEAVE_SCHEDULE_INTERLEAVED
                                                            : CLEAVE_SCHEDULE_1F1B,
                                      .recompute = -1};
        options.method = "megatron";
        const cleave_schedule schedule = run().best.layout.schedule;
        cr_assert_eq(schedule.n_stages, 4 * n_virtual);
        for (int32_t s = 1; s < schedule.n_stages; s++) {
            int32_t cut = schedule.first_operator[s] - 1;
            cr_expect(joined[cut] > cut, "of %d stages one ends with %s", schedule.n_stages,
                      model.operators[cut].name);
        }
    }
}

/* Three layers of two operators, an embedding before them and a head behind: stages of two layers
   and one begin with the embedding and with the third layer. */
Test(pipelines, layers_that_are_given_are_the_stages) {
    static const char *const names[] = {"embed",    "h.0.up", "h.0.down", "h.1.up",
                                        "h.1.down", "h.2.up", "h.2.down", "head"};
    cleave_operator operators[8] = {0};
    cleave_model of = {.n_operators = 8, .operators = operators};
    cleave_error why = {""};
    int32_t first[3];
    for (int op = 0; op < 8; op++)
        operators[op].name = names[op];
    cr_assert_eq(cleave_stages_of_layers(&of, (const int32_t[]){2, 1}, 2, first, &why), CLEAVE_OK,
                 "%s", why.message);
    cr_expect_eq(first[0], 0);
    cr_expect_eq(first[1], 5);
    cr_expect_eq(cleave_stages_of_layers(&of, (const int32_t[]){2, 2}, 2, first, &why),
                 CLEAVE_BAD_INPUT);
    cr_expect_str_eq(why.message, "stages of 4 layers together, and the model has 3");
    cr_expect_eq(cleave_stages_of_layers(&of, (const int32_t[]){0, 3}, 2, first, &why), CLEAVE_OK);
    cr_expect_eq(first[1], 1, "the embedding by itself");
    cr_expect_eq(cleave_stages_of_layers(&of, (const int32_t[]){3, 0}, 2, first, &why), CLEAVE_OK);
    cr_expect_eq(first[1], 7, "the head by itself");
}

/* ---- searches ---- */

Test(pipelines, what_is_asked_for_is_what_comes) {
    wish = (cleave_schedule_wish){
        .micro_batches = 8, .stages = 2, .kind = CLEAVE_SCHEDULE_GPIPE, .recompute = -1};
    cleave_search_result result = run();
    cr_expect_eq(result.best.layout.schedule.micro_batches, 8);
    cr_expect_eq(result.best.layout.schedule.n_stages, 2);
    cr_expect_eq(result.best.layout.schedule.kind, CLEAVE_SCHEDULE_GPIPE);
    options.method = "data-parallel";
    wish = (cleave_schedule_wish){
        .micro_batches = 4, .stages = 4, .kind = CLEAVE_SCHEDULE_INTERLEAVED, .recompute = 0};
    result = run();
    cr_expect_eq(result.best.layout.schedule.n_stages, 4);
    cr_expect_eq(n_recomputed(&result.best.layout), 0);
    for (int32_t op = 0; op < model.n_operators; op++) /* two groups of two devices */
        cr_expect_eq(result.best.layout.splits[op].n_parts, 2);
    /* The whole batch at once is no answer to that, however quick it is. */
    cr_expect_gt(result.best.step_seconds, result.baselines[0].step_seconds);
}

Test(pipelines, where_nothing_may_be_cut_the_search_is_as_without_them) {
    cleave_search_result open = run();
    wish = (cleave_schedule_wish){.micro_batches = 1, .stages = 1, .kind = -1, .recompute = 0};
    cleave_search_result plain = run();
    cr_expect(cleave_layout_is_plain(&plain.best.layout));
    cr_expect_leq(open.best.step_seconds, plain.best.step_seconds);
}

/* Less and less memory: what is found fits, and is slower at most where it has to be. */
Test(pipelines, where_memory_is_short_the_batch_is_cut) {
    wish = (cleave_schedule_wish){.micro_batches = 1, .stages = 1, .kind = -1, .recompute = 0};
    cleave_search_result roomy = run();
    double before = roomy.best.step_seconds;
    bool cut = false;
    wish = (cleave_schedule_wish){.kind = -1, .recompute = -1};
    for (int percent = 80; percent >= 30; percent -= 25) {
        options.memory_limit_bytes = roomy.best.peak_bytes * percent / 100;
        cleave_search_result result = run();
        cr_expect_leq(result.best.peak_bytes, options.memory_limit_bytes);
        cr_expect_geq(result.best.step_seconds, before * (1 - 1e-9), "at %d %%", percent);
        cut = cut || !cleave_layout_is_plain(&result.best.layout);
        before = result.best.step_seconds;
    }
    cr_expect(cut, "nothing was cut, and nothing recomputed");
}

/* ---- sharded state ---- */

static int most_sharded(const cleave_layout *layout) {
    int most = 0;
    for (int32_t t = 0; t < layout->n_tensors; t++)
        most = layout->sharded[t] > most ? layout->sharded[t] : most;
    return most;
}

Test(pipelines, so_much_is_sharded_as_is_asked_for) {
    static const char *const methods[] = {"auto", "data-parallel"};
    for (int m = 0; m < 2; m++)
        for (int sharded = 0; sharded < CLEAVE_N_SHARDED; sharded++) {
            options.method = methods[m];
            wish = (cleave_schedule_wish){
                .micro_batches = 2, .stages = 2, .kind = -1, .recompute = 0, .zero = 1 + sharded};
            cleave_search_result result = run();
            cr_expect_eq(most_sharded(&result.best.layout), sharded, "%s, %s", methods[m],
                         cleave_sharded_names[sharded]);
            cr_expect_eq(result.best.layout.schedule.n_stages, 2);
            wish = (cleave_schedule_wish){
                .micro_batches = 1, .stages = 1, .kind = -1, .recompute = 0, .zero = 1 + sharded};
            result = run();
            cr_expect_eq(most_sharded(&result.best.layout), sharded);
        }
}

/* As ZeRO's baselines are: no wish is needed, and a wish is kept to. */
Test(pipelines, zero_has_the_best_number_of_micro_batches) {
    wish = (cleave_schedule_wish){.kind = -1, .recompute = -1};
    options.method = "zero-3";
    cleave_search_result best = run();
    cr_expect_eq(most_sharded(&best.best.layout), CLEAVE_SHARDED_WEIGHT);
    for (int32_t m = 1; m <= 8; m *= 2) {
        wish = (cleave_schedule_wish){.micro_batches = m, .kind = -1, .recompute = -1};
        cleave_search_result result = run();
        cr_expect_eq(result.best.layout.schedule.micro_batches, m);
        cr_expect_eq(result.best.layout.schedule.n_stages, 1);
        cr_expect_eq(most_sharded(&result.best.layout), CLEAVE_SHARDED_WEIGHT);
        cr_expect_geq(result.best.step_seconds, best.best.step_seconds);
    }
}

static const cleave_plan *baseline_of(const cleave_search_result *result, const char *name) {
    for (int32_t i = 0; i < result->n_baselines; i++)
        if (strcmp(cleave_baseline_names[i], name) == 0)
            return &result->baselines[i];
    return NULL;
}

/* Half of what data parallel needs, which is nearly all activations. */
Test(pipelines, baselines_that_do_not_fit_have_micro_batches) {
    static const char *const cut[] = {"data-parallel", "zero-1", "zero-3"};
    cleave_search_result all = run();
    options.memory_limit_bytes = baseline_of(&all, "data-parallel")->peak_bytes / 2;
    cleave_search_result result = run();
    for (int i = 0; i < 3; i++) {
        const cleave_plan *plan = baseline_of(&result, cut[i]);
        cr_assert(plan->applies, "%s", cut[i]);
        cr_expect_gt(plan->layout.schedule.micro_batches, 1, "%s", cut[i]);
        cr_expect_eq(plan->layout.schedule.n_stages, 1, "%s", cut[i]);
        cr_expect_leq(plan->peak_bytes, options.memory_limit_bytes, "%s", cut[i]);
        cr_expect_geq(plan->step_seconds, result.best.step_seconds, "%s", cut[i]);
    }
    const cleave_plan *single = baseline_of(&result, "single");
    cr_expect(!single->applies);
    cr_expect_gt(single->peak_bytes, options.memory_limit_bytes, "what it needs is said");
}

/* Another for every seed, and none quicker than what is found. */
Test(pipelines, random_keeps_to_what_is_asked_for) {
    wish = (cleave_schedule_wish){
        .micro_batches = 4, .stages = 2, .kind = CLEAVE_SCHEDULE_ZB_H1, .recompute = 0, .zero = 1};
    double found = run().best.step_seconds, before = 0;
    options.method = "random";
    for (options.seed = 0; options.seed < 6; options.seed++) {
        cleave_search_result result = run();
        const cleave_layout *layout = &result.best.layout;
        cr_expect_eq(layout->schedule.micro_batches, 4);
        cr_expect_eq(layout->schedule.n_stages, 2);
        cr_expect_eq(layout->schedule.kind, CLEAVE_SCHEDULE_ZB_H1);
        cr_expect_eq(n_recomputed(layout), 0);
        cr_expect_eq(most_sharded(layout), CLEAVE_SHARDED_NOTHING);
        cr_expect_gt(result.best.step_seconds, found);
        cr_expect_neq(result.best.step_seconds, before);
        before = result.best.step_seconds;
    }
    cleave_error error = {""};
    cleave_search_result result;
    wish.tensor = 2;
    cr_expect_eq(cleave_search(&model, &machine, &options, &arena, &result, &error),
                 CLEAVE_BAD_INPUT);
    cr_expect_neq(strstr(error.message, "random"), NULL, "%s", error.message);
}

/* ---- recomputation ---- */

static void import_gpt(void) { OK(shipped_model, "byte_gpt", 16, &arena, &model); }

/* Products within nodes of 2 devices, a stage for each of 2 nodes. */
Test(pipelines, megatron_1f1b_has_a_stage_for_each_node) {
    import_gpt();
    wish.micro_batches = 4;
    options.method = "megatron-1f1b";
    cleave_search_result named = run();
    wish.micro_batches = 0;
    options.method = "auto";
    cleave_search_result result = run();
    const cleave_plan *plan = baseline_of(&result, "megatron-1f1b");
    cr_assert(plan->applies);
    cr_expect_leq(plan->step_seconds, named.best.step_seconds);
    for (int i = 0; i < 2; i++) {
        const cleave_layout *layout = i == 0 ? &named.best.layout : &plan->layout;
        cr_expect_eq(layout->schedule.n_stages, 2);
        cr_expect_eq(layout->schedule.kind, CLEAVE_SCHEDULE_1F1B);
        for (int32_t op = 0; op < model.n_operators; op++)
            cr_expect_eq(layout->splits[op].devices[0] / 2, /* the node */
                         cleave_schedule_stage_of(&layout->schedule, op));
    }
    cr_expect_eq(named.best.layout.schedule.micro_batches, 4);
}

static void read_machine(const char *name, int32_t n_devices) {
    const char *file =
        cleave_arena_printf(&arena, "%s/configs/machines/%s.json", CLEAVE_SOURCE_DIR, name);
    OK(cleave_machine_read, file, n_devices, &arena, &machine);
}

/* Two nodes of one device each, of two kinds. */
static void two_kinds(const char *first_rate, const char *second_rate, const char *second_memory) {
    static const char kind[] = "\"%s\": {\"memory\": \"%s\", \"flops\": \"%s\", "
                               "\"memory_bandwidth\": \"100 GB/s\", \"efficiency\": {\"product\": "
                               "0.5, \"memory\": 0.5}, \"launch\": \"1 us\", \"source\": \"test\"}";
    static const char node[] = "{\"count\": 1, \"devices\": 1, \"kind\": \"%s\", \"links\": "
                               "[{\"join\": [[0, \"card\"]], \"bandwidth\": \"10 GB/s\", "
                               "\"latency\": \"1 us\"}]}";
    const char *text = cleave_arena_printf(
        &arena,
        "{\"cleave_machine\": 1, \"name\": \"test\", \"kinds\": {%s, %s}, \"nodes\": [%s, %s], "
        "\"network\": {\"join\": \"card\", \"through\": \"switch\", \"bandwidth\": \"10 "
        "GB/s\", \"latency\": \"1 us\"}}",
        cleave_arena_printf(&arena, kind, "a", "1 GiB", first_rate),
        cleave_arena_printf(&arena, kind, "b", second_memory, second_rate),
        cleave_arena_printf(&arena, node, "a"), cleave_arena_printf(&arena, node, "b"));
    OK(cleave_machine_parse, text, strlen(text), "test", 0, &arena, &machine);
}

/* Weights of 4 MiB, their gradients and one state each: half of them is 48 MiB. */
static cleave_layout two_stages(int64_t batch) {
    model = make_perceptron(&arena, N_LAYERS, batch, 1024);
    wish.stages = 2;
    wish.micro_batches = 8;
    return run().best.layout;
}

/* The first of the second stage. */
static const char *second_begins(const cleave_layout *layout) {
    cr_assert_eq(layout->schedule.n_stages, 2);
    return model.operators[layout->schedule.first_operator[1]].name;
}

/* 6 of 8 layers are on a device that is three times as quick, where micro-batches are so large that
   flops are what a layer takes; and on one with too little memory for half of them there are less.
 */
Test(pipelines, stages_are_cut_for_the_devices_that_they_are_on) {
    two_kinds("3 TFLOP/s", "1 TFLOP/s", "1 GiB");
    cleave_layout by_speed = two_stages(2048);
    int quick = by_speed.schedule.first_operator[1];
    cr_expect(quick >= model.n_operators * 5 / 8 && quick <= model.n_operators * 7 / 8,
              "the second begins with %s", second_begins(&by_speed));
    two_kinds("1 TFLOP/s", "1 TFLOP/s", "40 MiB");
    cleave_layout by_room = two_stages(64);
    cr_expect_gt(by_room.schedule.first_operator[1], model.n_operators / 2,
                 "the second begins with %s", second_begins(&by_room));
}

/* Three kinds of devices are in groups in 606 ways; the quickest of those that have room are not
   among the first that are listed. */
Test(pipelines, all_ways_to_group_three_kinds_are_foreseen) {
    model = make_perceptron(&arena, 40, 512, 1024);
    options.memory_limit_bytes = INT64_C(40) << 20;
    read_machine("rtx-4x8", 32);
    cleave_search_result found = run();
    wish.stages = 16;
    cleave_search_result told = run();
    cr_expect_leq(found.best.step_seconds, 1.01 * told.best.step_seconds);
}

/* Of two layers, on a node in which all share each product where megatron-1f1b is asked for: with 8
   micro-batches, of which attention alone is recomputed, it fits. */
Test(pipelines, auto_is_none_worse_than_baselines_asked_for_by_name) {
    static const char config[] =
        "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_size\": "
        "512, "
        "\"intermediate_size\": 1408, \"num_attention_heads\": 8, \"num_key_value_heads\": 4, "
        "\"num_hidden_layers\": 2, \"vocab_size\": 512, \"rms_norm_eps\": 1e-05, "
        "\"rope_theta\": 10000.0, \"max_position_embeddings\": 512, \"hidden_act\": \"silu\", "
        "\"attention_bias\": false, \"tie_word_embeddings\": false}";
    const cleave_import_request request = config_request(config, 32, 256);
    OK(cleave_model_import_as, &request, &arena, &model);
    OK(cleave_model_fuse_attention, &model, NULL, &arena, &model);
    read_machine("rtx-4x8", 8);
    options.optimizer_states = 2;
    options.memory_limit_bytes = INT64_C(36) << 20;
    cleave_search_result found = run();
    options.method = "megatron-1f1b";
    cleave_search_result named = run();
    cr_expect_gt(named.best.layout.schedule.micro_batches, 1);
    cr_expect_leq(found.best.step_seconds, named.best.step_seconds);
}

/* Weights take long to gather, so all samples at once, recomputed, are quicker than parts of them
   that keep what they write. */
Test(pipelines, baselines_recompute_where_that_is_quicker) {
    import_gpt();
    OK(cleave_model_fuse_attention, &model, NULL, &arena, &model);
    wish = (cleave_schedule_wish){.kind = -1, .recompute = -1};
    read_machine("p100-4x4", 8);
    options.method = "zero-3";
    options.memory_limit_bytes = INT64_C(13) << 18;
    cleave_search_result best = run();
    wish.recompute = CLEAVE_RECOMPUTE_NONE;
    cleave_search_result kept = run();
    cr_expect_gt(kept.best.layout.schedule.micro_batches, best.best.layout.schedule.micro_batches);
    cr_expect_lt(best.best.step_seconds, kept.best.step_seconds);
}

/* Eight turns at most by themselves; and as many as are asked for, alone. */
Test(pipelines, groups_have_as_many_turns_as_they_are_told) {
    cleave_pricer pricer = {.model = &model};
    cleave_pipeline_options told = {.wish = wish};
    const pipeline_finder finder = {.pricer = &pricer, .options = &told};
    pipeline_turns turns[PIPELINE_MOST_TURNS];
    int n = pipeline_list_turns(&finder, 2, 4, turns);
    cr_expect_eq(n, 8);
    cr_expect_eq(turns[n - 1].n_virtual, 8);
    told.wish.virtual_stages = 3;
    n = pipeline_list_turns(&finder, 2, 4, turns);
    cr_expect_eq(n, 4);
    cr_expect_eq(turns[n - 1].n_virtual, 3);
}

/* ---- what was priced ---- */

static cleave_layout copy_of(const cleave_layout *layout) {
    cleave_layout copy;
    OK(cleave_layout_copy, layout, &model, &arena, &copy);
    return copy;
}

/* Two that differ in anything that has a price are two. */
Test(pipelines, what_was_priced_is_found_for_the_same_layout_alone) {
    enum { N_OTHERS = 7 };
    int32_t degree[CLEAVE_MAX_AXES] = {2}, whole[CLEAVE_MAX_AXES] = {1}, pair[] = {0, 1},
            back[] = {1, 0}, in_flight[] = {1};
    bool recompute[64] = {false, true};
    cleave_layout layout, others[N_OTHERS];
    OK(cleave_layout_create, &model, 4, &arena, &layout);
    OK(cleave_layout_set, &layout, 1, 1, degree, pair, &arena);
    for (int i = 0; i < N_OTHERS; i++)
        others[i] = copy_of(&layout);
    OK(cleave_layout_set, &others[0], 1, 1, degree, back, &arena);
    OK(cleave_layout_set, &others[1], 1, 2, whole, pair, &arena);
    others[2].sharded[0] = CLEAVE_SHARDED_WEIGHT;
    others[3].schedule.micro_batches = 2;
    others[4].schedule.in_flight = in_flight;
    others[5].recompute = recompute;
    others[6].stores_scores = true;
    cleave_priced_layouts priced = {0};
    cr_assert_leq(model.n_operators, 64);
    const cleave_priced_layout known = {.key = cleave_layout_digest(&layout)};
    cr_assert(CLEAVE_LIST_PUSH(&priced, known));
    const cleave_layout copy = copy_of(&layout);
    const cleave_digest same = cleave_layout_digest(&copy);
    cr_expect_eq(cleave_priced_find(&priced, &same), &priced.items[0]);
    for (int i = 0; i < N_OTHERS; i++) {
        const cleave_digest other = cleave_layout_digest(&others[i]);
        cr_expect_null(cleave_priced_find(&priced, &other), "change %d", i);
    }
    CLEAVE_LIST_FREE(&priced);
}

/* Two stages are quicker than all layouts in one. */
Test(pipelines, methods_leave_stages_some_of_the_time) {
    import_gpt();
    read_machine("p100-4x4", 2);
    options.time_seconds = 6; /* enough under sanitizers, too */
    cleave_search_result limited = run();
    wish = (cleave_schedule_wish){.micro_batches = 1, .stages = 1, .kind = -1, .recompute = 0};
    cleave_search_result plain = run();
    cr_expect_lt(limited.best.step_seconds, plain.best.step_seconds);
}

/* Of a transformer: attention alone; or all but what each half of a block begins with. */
Test(pipelines, recomputes_what_its_names_say) {
    cleave_layout layout;
    import_gpt();
    OK(cleave_layout_create, &model, 1, &arena, &layout);
    OK(cleave_recompute_mark, &model, CLEAVE_RECOMPUTE_SELECTIVE, &layout);
    for (int32_t op = 0; op < model.n_operators; op++)
        cr_expect_eq(layout.recompute[op],
                     strstr(model.operators[op].name, "attention/mixed") != NULL, "%s",
                     model.operators[op].name);
    OK(cleave_recompute_mark, &model, CLEAVE_RECOMPUTE_FULL, &layout);
    int32_t kept = 0;
    for (int32_t op = 0; op < model.n_operators; op++)
        kept += !layout.recompute[op];
    cr_expect(kept >= 4 && kept <= model.n_operators / 3, "%d of %d are kept", kept,
              model.n_operators);
    int32_t n_full = n_recomputed(&layout), n_products = 0;
    OK(cleave_recompute_mark, &model, CLEAVE_RECOMPUTE_ALTERNATE, &layout);
    for (int32_t op = 0; op < model.n_operators; op++)
        n_products += layout.recompute[op] &&
                      model.nests[model.operators[op].main_nest].kind == CLEAVE_NEST_PRODUCT;
    cr_expect_lt(n_recomputed(&layout), n_full);
    cr_expect_geq(n_products, 2, "%d products are recomputed", n_products); /* one of a block */
    OK(cleave_recompute_mark, &model, CLEAVE_RECOMPUTE_NONE, &layout);
    cr_expect_eq(n_recomputed(&layout), 0);
}

/* Each keeps less than none, and full less than all; and takes longer. */
Test(pipelines, recomputation_trades_time_for_memory) {
    import_gpt();
    options.method = "data-parallel";
    double seconds[CLEAVE_N_RECOMPUTES];
    int64_t bytes[CLEAVE_N_RECOMPUTES];
    for (int what = 0; what < CLEAVE_N_RECOMPUTES; what++) {
        wish =
            (cleave_schedule_wish){.micro_batches = 2, .stages = 1, .kind = -1, .recompute = what};
        cleave_search_result result = run();
        cr_expect_eq(n_recomputed(&result.best.layout) > 0, what != CLEAVE_RECOMPUTE_NONE);
        seconds[what] = result.best.step_seconds;
        bytes[what] = result.best.peak_bytes;
    }
    for (int what = CLEAVE_RECOMPUTE_SELECTIVE; what < CLEAVE_RECOMPUTE_FULL; what++) {
        const char *name = cleave_recompute_names[what];
        cr_expect_gt(seconds[what], seconds[CLEAVE_RECOMPUTE_NONE], "%s", name);
        cr_expect_lt(bytes[what], bytes[CLEAVE_RECOMPUTE_NONE], "%s", name);
        cr_expect_gt(seconds[CLEAVE_RECOMPUTE_FULL], seconds[what], "%s", name);
        cr_expect_lt(bytes[CLEAVE_RECOMPUTE_FULL], bytes[what], "%s", name);
    }
}
