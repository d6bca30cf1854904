/* What is done for parameters besides passes and messages, against what the lowered program of a
   data-parallel layout does for them, whatever of their state is sharded. */
#include "search/problem/state_chores.h"
#include "../../support/ok.h"
#include "../../support/perceptron.h"
#include "../../support/shipped.h"
#include "../../support/test_machine.h"
#include "graph/lower/lower.h"
#include "search/problem/baselines.h"

#include <string.h>

enum { LAYERS = 2, BATCH = 32, WIDTH = 64, MICRO_BATCHES = 4 };

/* Picoseconds of a device's copies of one sort in a step. */
static int64_t sum_of(const cleave_program *program, const int64_t *duration, cleave_chore chore) {
    int64_t sum = 0;
    for (int32_t i = 0; i < program->n_items; i++)
        if (program->items[i].kind == CLEAVE_ITEM_COPY && program->items[i].device == 0 &&
            program->copies[program->items[i].subject].chore == chore)
            sum += duration[i];
    return sum;
}

static void compare(cleave_framework framework, cleave_sharded sharded) {
    cleave_arena arena = {0};
    cleave_model model = make_perceptron(&arena, LAYERS, BATCH, WIDTH);
    cleave_machine machine = make_machine(&arena, 1, 2, "1 GiB");
    cleave_layout layout;
    cleave_program program;
    cleave_cost_cache *cache;
    bool applies;
    machine.kinds[0].framework = framework;
    OK(cleave_baseline_layout, &model, &machine, "data-parallel", 0, &arena, &layout, &applies);
    layout.schedule.micro_batches = MICRO_BATCHES;
    int32_t weight = -1, last = 2 * LAYERS - 2; /* the last layer, before its rectifier */
    for (int32_t t = 0; t < model.n_tensors; t++)
        if (model.tensors[t].kind == CLEAVE_TENSOR_PARAMETER) {
            layout.sharded[t] = (uint8_t)sharded;
            weight = t;
        }
    const cleave_lower_options options = {.training = true, .symbolic_collectives = true};
    OK(cleave_lower, &model, &layout, &options, &arena, &program);
    OK(cleave_cost_cache_create, &model, &machine, &cache);
    int64_t *duration = CLEAVE_ARENA_ARRAY(&arena, int64_t, program.n_items);
    OK(cleave_cost_items, &program, cache, duration);
    cleave_state_chores chores =
        cleave_state_chores_of(&machine, &model, last, weight, sharded, WIDTH * WIDTH, 2);
    bool reduces = sharded >= CLEAVE_SHARDED_GRADIENT;
    /* Of what data go into no gradient is asked for, so the first weight is gathered once. */
    cr_expect_eq(sum_of(&program, duration, CLEAVE_CHORE_UNPACK),
                 (2 * LAYERS - 1) * MICRO_BATCHES * chores.unpacking);
    cr_expect_eq(sum_of(&program, duration, CLEAVE_CHORE_PACK),
                 LAYERS * MICRO_BATCHES * chores.packing);
    cr_expect_eq(sum_of(&program, duration, CLEAVE_CHORE_BUCKET), LAYERS * chores.bucketing);
    cr_expect_eq(sum_of(&program, duration, CLEAVE_CHORE_ACCUMULATE),
                 reduces ? 0 : LAYERS * (MICRO_BATCHES - 1) * chores.adding);
    cleave_cost_cache_destroy(cache);
    cleave_arena_free(&arena);
}

Test(state_chores, are_those_of_the_program) {
    for (int framework = 0; framework < CLEAVE_N_FRAMEWORKS; framework++)
        for (int sharded = 0; sharded < CLEAVE_N_SHARDED; sharded++)
            compare((cleave_framework)framework, (cleave_sharded)sharded);
}

/* Under Megatron-LM products add to what was there, and passes over a gradient are for all others:
   of a layer with a bias its weight alone is added for nothing. */
Test(state_chores, products_alone_add_up_by_themselves) {
    cleave_arena arena = {0};
    cleave_model model;
    cleave_machine machine = make_machine(&arena, 1, 2, "1 GiB");
    int n_biases = 0;
    machine.kinds[0].framework = CLEAVE_MEGATRON;
    OK(shipped_model, "mlp", 8, &arena, &model);
    for (int32_t n = 0; n < model.n_nests; n++) {
        const cleave_nest *nest = &model.nests[n];
        const cleave_operator *of = &model.operators[nest->op];
        bool is_product = nest->kind == CLEAVE_NEST_PRODUCT;
        for (int i = 0; i < nest->n_inputs; i++) {
            int32_t t = nest->inputs[i].tensor;
            if (model.tensors[t].kind != CLEAVE_TENSOR_PARAMETER)
                continue;
            cleave_state_chores chores = cleave_state_chores_of(&machine, &model, nest->op, t,
                                                                CLEAVE_SHARDED_NOTHING, 1 << 20, 2);
            cr_expect_eq(chores.adding == 0, is_product, "%s", model.tensors[t].name);
            n_biases += !is_product && model.nests[of->main_nest].kind == CLEAVE_NEST_PRODUCT;
        }
    }
    cr_expect_gt(n_biases, 0);
    cleave_arena_free(&arena);
}

/* Gathered forward, once more where that is done again, and backward. */
Test(state_chores, are_of_a_micro_batch) {
    const cleave_state_chores chores = {.unpacking = 5, .packing = 7, .adding = 12};
    cr_expect_float_eq(cleave_state_chores_each(&chores, 4, false), 2 * 5 + 7 + 9, 1e-9);
    cr_expect_float_eq(cleave_state_chores_each(&chores, 1, true), 3 * 5 + 7, 1e-9);
}

/* Of all devices, what gradients that come together take of a program in one micro-batch. */
static int64_t sum_of_combining(const cleave_model *model, cleave_machine *machine,
                                cleave_layout *layout, cleave_sharded sharded,
                                cleave_arena *arena) {
    cleave_program program;
    cleave_cost_cache *cache;
    int64_t sum = 0;
    for (int32_t t = 0; t < model->n_tensors; t++)
        if (model->tensors[t].kind == CLEAVE_TENSOR_PARAMETER)
            layout->sharded[t] = (uint8_t)sharded;
    const cleave_lower_options options = {.training = true, .symbolic_collectives = true};
    OK(cleave_lower, model, layout, &options, arena, &program);
    OK(cleave_cost_cache_create, model, machine, &cache);
    int64_t *duration = CLEAVE_ARENA_ARRAY(arena, int64_t, program.n_items);
    OK(cleave_cost_items, &program, cache, duration);
    for (int32_t i = 0; i < program.n_items; i++) {
        const cleave_item *item = &program.items[i];
        cleave_chore chore = item->kind == CLEAVE_ITEM_COPY ? program.copies[item->subject].chore
                                                            : CLEAVE_CHORE_NONE;
        sum += chore == CLEAVE_CHORE_PACK || chore == CLEAVE_CHORE_BUCKET ? duration[i] : 0;
    }
    cleave_cost_cache_destroy(cache);
    return sum;
}

/* What is told of a split is the least of all ways to shard its state, but for launches, of which
   each device has its own; of a split in which nothing is combined it is nothing. */
static void expect_least(const char *baseline, int32_t n_devices) {
    cleave_arena arena = {0};
    cleave_model model = make_perceptron(&arena, LAYERS, BATCH, WIDTH);
    cleave_machine machine = make_machine(&arena, 1, n_devices, "1 GiB");
    cleave_layout layout;
    cleave_least_chores chores;
    bool applies;
    double launches = 1e12 * n_devices * LAYERS * 2 * machine.kinds[0].launch_seconds;
    OK(cleave_baseline_layout, &model, &machine, baseline, 0, &arena, &layout, &applies);
    cr_assert(applies);
    OK(cleave_least_chores_find, &model, &machine, &arena, &chores);
    int64_t told = 0, least = INT64_MAX;
    for (int32_t op = 0; op < model.n_operators; op++)
        told += cleave_least_chores_of(&model, &chores, op, &layout.splits[op]);
    for (int sharded = 0; sharded < CLEAVE_N_SHARDED; sharded++) {
        int64_t sum = sum_of_combining(&model, &machine, &layout, (cleave_sharded)sharded, &arena);
        least = sum < least ? sum : least;
    }
    cr_expect_leq(told, least, "%s", baseline);
    cr_expect_geq((double)told, (double)least - launches, "%s", baseline);
    cr_expect_eq(told > 0, n_devices > 1 && strcmp(baseline, "data-parallel") == 0);
    cleave_arena_free(&arena);
}

Test(state_chores, least_is_of_any_sharding) {
    expect_least("data-parallel", 1);
    expect_least("data-parallel", 2);
    expect_least("data-parallel", 4);
    expect_least("single", 4);
}
