/* The price of a deep model from six of its blocks is that of lowering, planning and simulating all
   of them: step, memory and bytes, bit for bit, for drawn splits of a block, folded and not. */
#include "../support/deep_transformer.h"
#include "../support/draws.h"
#include "../support/price_whole.h"
#include "../support/shipped.h"
#include "../support/window_split.h"
#include "graph/model/attention.h"
#include "search/pipeline/recompute.h"
#include "search/price/view.h"
#include "search/problem/baselines.h"
#include "simulator/step/simulate.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct trial {
    cleave_arena arena;
    cleave_error error;
    cleave_model model;
    cleave_machine machine;
    cleave_collective_rules rules;
    cleave_pricer pricer;
    cleave_problem problem;
    cleave_repeats *repeats;
    char name[100];
    int n_known, n_priced, n_sharded; /* and known with state sharded or recomputed */
} trial;

typedef struct repeat_case {
    const char *model; /* null: `layers` of a transformer */
    int layers;
    const char *machine;
    int32_t devices;
    int64_t batch;
    int rounds;
} repeat_case;

static void ok(const trial *t, cleave_status status) {
    cr_assert_eq(status, CLEAVE_OK, "%s: %s", t->name, t->error.message);
}

static void import(trial *t, const repeat_case *of) {
    if (of->model != NULL) {
        ok(t, shipped_model(of->model, of->batch, &t->arena, &t->model, &t->error));
        return;
    }
    const deep_transformer shape = {of->layers, 256, 4, 32, 1000};
    ok(t, deep_transformer_import(&shape, of->batch, &t->arena, &t->model, &t->error));
    ok(t, cleave_model_fuse_attention(&t->model, NULL, &t->arena, &t->model, &t->error));
}

static void begin(trial *t, const repeat_case *of) {
    *t = (trial){0};
    snprintf(t->name, sizeof t->name, "%s, %d layers, on %d of %s",
             of->model != NULL ? of->model : "deep", of->layers, of->devices, of->machine);
    import(t, of);
    ok(t, shipped_machine(of->machine, of->devices, &t->arena, &t->machine, &t->error));
    ok(t, cleave_choose_collectives(&t->machine, false, &t->arena, &t->rules, &t->error));
    ok(t, cleave_pricer_create(&t->model, &t->machine, 1, 0, &t->pricer, &t->error));
    ok(t, cleave_problem_create(&t->model, &t->machine, NULL, &t->arena, &t->problem, &t->error));
    ok(t, cleave_repeats_create(&t->pricer, &t->problem.blocks, &t->repeats, &t->error));
    cr_assert_neq(t->repeats, NULL, "%s", t->name);
}

static void end(trial *t) {
    cleave_repeats_destroy(t->repeats);
    cleave_pricer_destroy(&t->pricer);
    cleave_arena_free(&t->arena);
}

/* Both ways; a layout that does not fold does so in neither. */
static void expect_same_price(trial *t, const cleave_layout *layout, int round) {
    cleave_price whole, few;
    cleave_repeated extended;
    bool known;
    t->pricer.repeats = NULL;
    const cleave_price_subject what = {.layout = layout, .view = CLEAVE_VIEW_WINDOW};
    cleave_status status = cleave_pricer_price(&t->pricer, &what, NULL, &whole, &t->error);
    t->pricer.repeats = t->repeats;
    cr_assert_eq(cleave_pricer_price(&t->pricer, &what, NULL, &few, &t->error), status, "%s: %d",
                 t->name, round);
    ok(t, cleave_repeats_extend(t->repeats, layout, true, &known, &extended, &t->error));
    t->n_known += known;
    t->n_priced += status == CLEAVE_OK;
    if (status == CLEAVE_NO_LAYOUT) {
        cr_expect_not(known, "%s: %d", t->name, round);
        return;
    }
    ok(t, status);
    cr_assert_eq(few.step, whole.step, "%s: round %d: %lld %lld", t->name, round,
                 (long long)few.step, (long long)whole.step);
    cr_assert_eq(few.peak_bytes, whole.peak_bytes, "%s: round %d: %lld %lld", t->name, round,
                 (long long)few.peak_bytes, (long long)whole.peak_bytes);
    cr_assert_eq(few.excess_bytes, whole.excess_bytes, "%s: round %d", t->name, round);
    cr_assert_eq(few.bytes_sent, whole.bytes_sent, "%s: round %d", t->name, round);
}

/* What the step rests on, by lowering and simulating everything. */
static void expect_same_shares(trial *t, const cleave_layout *layout) {
    cleave_arena arena = {0};
    cleave_lowered lowered;
    cleave_engine_problem problem;
    cleave_timeline timeline;
    cleave_price_shares whole, few;
    cleave_turned turned;
    bool folds;
    t->pricer.repeats = t->repeats;
    ok(t, cleave_lowered_fold(&t->pricer, layout, false, true, &folds, &lowered, &t->error));
    cr_assert(lowered.repeats, "%s", t->name);
    ok(t, cleave_lowered_simulate(&t->pricer, &lowered, &timeline.step, &few, &t->error));
    t->pricer.repeats = NULL;
    ok(t, cleave_lowered_fold(&t->pricer, layout, false, true, &folds, &lowered, &t->error));
    cr_assert_not(lowered.repeats, "%s", t->name);
    const cleave_program program = lowered.program;
    ok(t, cleave_simulate_prepare(&program, t->pricer.cache, &arena, &problem, &t->error));
    ok(t,
       cleave_simulate(&program, t->pricer.cache, CLEAVE_RULE_SCAN, &arena, &timeline, &t->error));
    cleave_price_basis *basis = CLEAVE_ARENA_ARRAY(&arena, cleave_price_basis, program.n_items);
    ok(t, cleave_cost_basis(&program, t->pricer.cache, basis, &t->error));
    ok(t, cleave_turned_make(program.n_items, NULL, &arena, &turned, &t->error));
    ok(t, cleave_price_shares_find(&program, &problem, &turned, &timeline, basis,
                                   cleave_cost_n_sources(t->pricer.cache), &whole, &t->error));
    cr_expect_gt(whole.links, 0, "%s", t->name);
    cr_expect_eq(few.links, whole.links, "%s", t->name);
    cr_expect_eq(few.step_spread_seconds, whole.step_spread_seconds, "%s", t->name);
    for (int p = 0; p < CLEAVE_N_PROVENANCES; p++)
        cr_expect_eq(few.share[p], whole.share[p], "%s", t->name);
    cleave_arena_free(&arena);
}

static void make_layout(trial *t, const cleave_window_space *space, const int32_t *choice,
                        cleave_layout *layout) {
    ok(t, cleave_layout_create(&t->model, t->machine.n_devices, &t->arena, layout, &t->error));
    for (int32_t op = 0; op < t->model.n_operators; op++)
        layout->splits[op] = window_split(space, op, choice);
    layout->collectives = t->rules;
}

/* Sharded state of what an operator reads, through views. */
static void shard(const trial *t, cleave_layout *layout, int32_t tensor, uint8_t sharded) {
    const cleave_tensor *of = &t->model.tensors[tensor];
    for (int32_t s = 0; s < of->view.n_sources; s++)
        shard(t, layout, of->view.sources[s], sharded);
    if (of->kind == CLEAVE_TENSOR_PARAMETER && of->view.kind == CLEAVE_VIEW_NONE)
        layout->sharded[tensor] = sharded;
}

/* Alike in all blocks: of some layouts all state, as much of it, or of each place in a block as
   much as is drawn for it; and what is recomputed. */
static bool draw_state(trial *t, cleave_random *random, cleave_layout *layout) {
    const cleave_blocks *blocks = &t->problem.blocks;
    int32_t all = (int32_t)cleave_random_below(random, 5),
            end = blocks->first + blocks->n * blocks->period;
    uint8_t *drawn = CLEAVE_ARENA_ARRAY(&t->arena, uint8_t, t->model.n_operators);
    for (int32_t op = 0; op < t->model.n_operators; op++) {
        bool repeats = op >= blocks->first + blocks->period && op < end;
        uint8_t own = all < 4 ? (uint8_t)all : (uint8_t)cleave_random_below(random, 4);
        drawn[op] = repeats ? drawn[op - blocks->period] : own;
        for (int32_t k = 0; k < t->model.operators[op].n_nests; k++) {
            const cleave_nest *nest = &t->model.nests[t->model.operators[op].nests[k]];
            for (int i = 0; i < nest->n_inputs; i++)
                shard(t, layout, nest->inputs[i].tensor, drawn[op]);
        }
    }
    ok(t, cleave_recompute_mark(&t->model, (cleave_recompute)cleave_random_below(random, 4), layout,
                                &t->error));
    return cleave_layout_check(&t->model, layout, &t->error) == CLEAVE_OK;
}

static void walk(trial *t, const repeat_case *of, uint64_t seed) {
    cleave_random random = {.key = seed_from(seed)};
    cleave_window_space space;
    cleave_layout layout;
    ok(t, cleave_window_space_create(&t->problem, &t->problem.blocks, t->machine.devices_per_node,
                                     &t->arena, &space, &t->error));
    int32_t *choice = CLEAVE_ARENA_ARRAY(&t->arena, int32_t, space.n_groups);
    for (int round = 0; round < n_draws(of->rounds); round++) {
        make_layout(t, &space, choice, &layout);
        expect_same_price(t, &layout, round);
        if (round == 0)
            expect_same_shares(t, &layout);
        if (draw_state(t, &random, &layout)) {
            int before = t->n_known;
            expect_same_price(t, &layout, round);
            t->n_sharded += t->n_known > before;
        }
        for (int64_t n = 1 + cleave_random_below(&random, 4); n > 0; n--) {
            int32_t g = (int32_t)cleave_random_below(&random, space.n_groups);
            const cleave_candidate_list *list = cleave_window_list(&space, g);
            choice[g] = (int32_t)cleave_random_below(&random, list->n);
        }
    }
}

Test(repeats, few_blocks_have_the_price_of_all) {
    static const repeat_case cases[] = {
        {NULL, 8, "a100-128x8", 16, 64, 12},        {NULL, 13, "h100-512x8", 64, 128, 12},
        {NULL, 17, "k80-16x4", 16, 64, 12},         {NULL, 11, "v100-32x8", 64, 64, 12},
        {"bert_base", 12, "a100-128x8", 64, 64, 6}, {"gpt2_small", 12, "k80-16x4", 32, 32, 6}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        trial t;
        begin(&t, &cases[c]);
        walk(&t, &cases[c], 11 + c);
        printf("%s: %d of %d known, %d of them with sharded state or recomputed\n", t.name,
               t.n_known, t.n_priced, t.n_sharded);
        cr_expect_gt(t.n_sharded, 0, "%s", t.name);
        cr_expect_geq(2 * t.n_known, t.n_priced, "%s: %d of %d", t.name, t.n_known, t.n_priced);
        end(&t);
    }
}

/* On one device, and with all devices lowered. */
Test(repeats, few_blocks_have_the_price_of_all_devices) {
    static const char *const names[] = {"single", "data-parallel"};
    static const repeat_case of = {NULL, 14, "a100-128x8", 16, 64, 0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        trial t;
        cleave_layout layout;
        cleave_price whole, few;
        cleave_repeated extended;
        bool applies, known;
        begin(&t, &of);
        ok(&t, cleave_baseline_layout(&t.model, &t.machine, names[i], 0, &t.arena, &layout,
                                      &applies, &t.error));
        layout.collectives = t.rules;
        ok(&t, price_whole(&t.pricer, &layout, false, &whole, &t.error));
        t.pricer.repeats = t.repeats;
        ok(&t, price_whole(&t.pricer, &layout, false, &few, &t.error));
        ok(&t, cleave_repeats_extend(t.repeats, &layout, false, &known, &extended, &t.error));
        cr_expect(known, "%s", names[i]);
        cr_expect_eq(few.step, whole.step, "%s", names[i]);
        cr_expect_eq(few.peak_bytes, whole.peak_bytes, "%s", names[i]);
        cr_expect_eq(few.excess_bytes, whole.excess_bytes, "%s", names[i]);
        end(&t);
    }
}

/* One block that is split, recomputed or sharded otherwise: the whole model is priced. */
Test(repeats, unlike_blocks_are_not_repeated) {
    static const repeat_case of = {NULL, 12, "a100-128x8", 16, 64, 0};
    trial t;
    cleave_layout layout;
    cleave_program program;
    bool applies, known;
    begin(&t, &of);
    ok(&t, cleave_baseline_layout(&t.model, &t.machine, "data-parallel", 0, &t.arena, &layout,
                                  &applies, &t.error));
    layout.collectives = t.rules;
    ok(&t, cleave_repeats_lower(t.repeats, &layout, true, &known, &program, &t.error));
    cr_expect(known);
    int32_t op = t.problem.blocks.first + 7 * t.problem.blocks.period;
    const cleave_split before = layout.splits[op];
    layout.splits[op] = (cleave_split){.replicas = 16, .n_parts = 16, .devices = before.devices};
    for (int a = 0; a < CLEAVE_MAX_AXES; a++)
        layout.splits[op].degree[a] = 1;
    ok(&t, cleave_repeats_lower(t.repeats, &layout, true, &known, &program, &t.error));
    cr_expect_not(known);
    layout.splits[op] = before;
    layout.recompute[op] = true;
    ok(&t, cleave_repeats_lower(t.repeats, &layout, true, &known, &program, &t.error));
    cr_expect_not(known);
    layout.recompute[op] = false;
    int32_t weight = -1; /* of block 7 */
    for (int32_t tensor = 0; tensor < t.model.n_tensors; tensor++)
        if (t.model.tensors[tensor].kind == CLEAVE_TENSOR_PARAMETER)
            layout.sharded[tensor] = CLEAVE_SHARDED_UPDATE;
    for (int32_t k = 0; k < t.problem.blocks.period && weight < 0; k++)
        for (int32_t n = 0; n < t.model.operators[op + k].n_nests && weight < 0; n++) {
            const cleave_nest *nest = &t.model.nests[t.model.operators[op + k].nests[n]];
            for (int i = 0; i < nest->n_inputs; i++)
                if (layout.sharded[nest->inputs[i].tensor] != CLEAVE_SHARDED_NOTHING)
                    weight = nest->inputs[i].tensor;
        }
    cr_assert_geq(weight, 0);
    ok(&t, cleave_repeats_lower(t.repeats, &layout, true, &known, &program, &t.error));
    cr_expect(known);
    layout.sharded[weight] = CLEAVE_SHARDED_NOTHING;
    ok(&t, cleave_repeats_lower(t.repeats, &layout, true, &known, &program, &t.error));
    cr_expect_not(known);
    end(&t);
}

/* Which gradients set out together is another thing for a few blocks than for all. */
Test(repeats, blocks_whose_gradients_go_together_are_not_repeated) {
    static const repeat_case of = {NULL, 12, "a100-128x8", 16, 64, 0};
    trial t;
    begin(&t, &of);
    cleave_repeats_destroy(t.repeats);
    t.pricer.lower.together_bytes = 25 << 20;
    ok(&t, cleave_repeats_create(&t.pricer, &t.problem.blocks, &t.repeats, &t.error));
    cr_expect_eq(t.repeats, NULL);
    end(&t);
}
