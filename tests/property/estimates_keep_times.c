/* Law 3: the time of a layout that was reached by changing others, split by split, some accepted
   and some not, is that of the same layout lowered and scanned from scratch, bit for bit, with
   collectives in closed form and in their steps, also where weights and gradients are sharded, or
   gradients set out together; what
   it is said to send is what it sends; and what memory it is said to need at most is not less than
   what it needs, nor is a plan by slots. */
#include "../support/draws.h"
#include "../support/models.h"
#include "../support/shipped.h"
#include "graph/program/traffic.h"
#include "simulator/step/estimate_checks.h"
#include "simulator/step/simulate.h"

#include "../support/test_machine.h"

#include <stdio.h>

typedef struct walk {
    cleave_arena arena, scratch;
    cleave_model model;
    cleave_machine machine;
    cleave_layout layout;
    cleave_lower_options options;
    cleave_cost_cache *cache;
    cleave_estimate *estimate;
    cleave_random random;
    cleave_split tried;
    const char *name;
    bool in_steps, shards; /* any state, from the begin on */
    int64_t together_bytes;
} walk;

static void ok(const walk *w, cleave_status status, const cleave_error *error) {
    cr_assert_eq(status, CLEAVE_OK, "%s: %s", w->name, error->message);
}

static void begin(walk *w, int32_t n_devices) {
    cleave_error error = {""};
    w->machine = make_machine(&w->arena, n_devices > 2 ? n_devices / 2 : 1,
                              n_devices > 2 ? 2 : n_devices, "1 TiB");
    w->options = (cleave_lower_options){.training = w->model.loss >= 0,
                                        .symbolic_collectives = !w->in_steps,
                                        .together_bytes = w->together_bytes,
                                        .optimizer_states = 1};
    w->random = (cleave_random){.key = seed_from(7)};
    ok(w, cleave_layout_random(&w->model, n_devices, seed_from(5), &w->arena, &w->layout, &error),
       &error);
    for (int32_t op = 0; op < w->model.n_operators; op++) { /* room for any split */
        int32_t *devices = CLEAVE_ARENA_ARRAY(&w->arena, int32_t, n_devices);
        memcpy(devices, w->layout.splits[op].devices,
               (size_t)w->layout.splits[op].n_parts * sizeof *devices);
        w->layout.splits[op].devices = devices;
    }
    w->tried.devices = CLEAVE_ARENA_ARRAY(&w->arena, int32_t, n_devices);
    for (int32_t t = 0; t < w->model.n_tensors && w->shards; t++)
        if (w->model.tensors[t].kind == CLEAVE_TENSOR_PARAMETER)
            w->layout.sharded[t] = (uint8_t)cleave_sharded_as(
                &w->model.tensors[t],
                (cleave_sharded)cleave_random_below(&w->random, CLEAVE_N_SHARDED));
    ok(w, cleave_cost_cache_create(&w->model, &w->machine, &w->cache, &error), &error);
    ok(w,
       cleave_estimate_create(&w->model, &w->layout, &w->options, w->cache, &w->estimate, &error),
       &error);
}

static void end(walk *w) {
    cleave_estimate_destroy(w->estimate);
    cleave_cost_cache_destroy(w->cache);
    cleave_arena_free(&w->scratch);
    cleave_arena_free(&w->arena);
}

/* What fits in whole slots takes little more by items: no device does with less in slots. */
static void expect_larger_in_slots(walk *w, int change, const int64_t *planned) {
    cleave_error error = {""};
    int32_t n = w->layout.n_devices;
    int64_t *room = CLEAVE_ARENA_ARRAY(&w->scratch, int64_t, n);
    for (int32_t d = 0; d < n; d++)
        room[d] = INT64_MAX;
    for (int32_t d = 0; d < n; d++) {
        bool fits = true;
        room[d] = (int64_t)(((double)planned[d] - 4096) / 1.1);
        ok(w, cleave_estimate_fits(w->estimate, room, &fits, &error), &error);
        cr_assert(!fits, "%s, change %d, device %d: %lld bytes planned, %lld in slots", w->name,
                  change, d, (long long)planned[d], (long long)room[d]);
        room[d] = INT64_MAX;
    }
}

/* By kind it is as much as in all. */
static void expect_all_kinds(walk *w, const cleave_program *program) {
    cleave_error error = {""};
    cleave_sent *sent;
    int32_t n;
    int64_t bytes = 0;
    if (!program->symbolic)
        return;
    ok(w, cleave_program_sent_by_kind(program, NULL, &w->scratch, &sent, &n, &error), &error);
    for (int32_t i = 0; i < n; i++)
        bytes += sent[i].bytes_sent;
    cr_assert_eq(bytes, cleave_program_bytes_sent(program, NULL), "%s: %lld bytes by kind", w->name,
                 (long long)bytes);
}

static void expect_same(walk *w, int change, int64_t step) {
    cleave_error error = {""};
    cleave_program program;
    cleave_timeline timeline;
    int64_t full;
    cleave_arena_reset(&w->scratch);
    ok(w, cleave_estimate_full(w->estimate, &full, &error), &error);
    cr_assert_eq(step, full, "%s, change %d: %lld by delta, %lld in full", w->name, change,
                 (long long)step, (long long)full);
    ok(w, cleave_lower(&w->model, &w->layout, &w->options, &w->scratch, &program, &error), &error);
    ok(w, cleave_simulate(&program, w->cache, CLEAVE_RULE_SCAN, &w->scratch, &timeline, &error),
       &error);
    cr_assert_eq(step, timeline.step, "%s, change %d: %lld, but %lld from scratch", w->name, change,
                 (long long)step, (long long)timeline.step);
    cr_assert_eq(cleave_estimate_bytes_sent(w->estimate), cleave_program_bytes_sent(&program, NULL),
                 "%s, change %d: %lld bytes by the estimate, %lld sent", w->name, change,
                 (long long)cleave_estimate_bytes_sent(w->estimate),
                 (long long)cleave_program_bytes_sent(&program, NULL));
    expect_larger_in_slots(w, change, program.peak_bytes);
    expect_all_kinds(w, &program);
    /* The packed messages of all-to-alls leave other holes than those that are run one by one. */
    for (int32_t d = 0; d < w->layout.n_devices && w->layout.n_devices <= 6; d++) {
        double live = (double)cleave_estimate_live_bytes(w->estimate, d) + 4096;
        double planned = (double)program.peak_bytes[d] + 4096;
        cr_assert(planned < 1.5 * live && live < 2 * planned,
                  "%s, change %d, device %d: %g bytes live, %g planned", w->name, change, d, live,
                  planned);
    }
}

static void swap_split(walk *w, int32_t op) {
    cleave_split other = w->tried;
    w->tried = w->layout.splits[op];
    w->layout.splits[op] = other;
}

/* Any parameter; -1: there is none. */
static int32_t draw_parameter(walk *w) {
    int32_t chosen = -1, n = 0;
    for (int32_t t = 0; t < w->model.n_tensors; t++)
        if (w->model.tensors[t].kind == CLEAVE_TENSOR_PARAMETER &&
            cleave_random_below(&w->random, ++n) == 0)
            chosen = t;
    return chosen;
}

/* Shards the update of some parameter, or no longer, in every second change. */
static int32_t change_shard(walk *w) {
    cleave_error error = {""};
    int32_t tensor = draw_parameter(w);
    if (tensor < 0 || w->layout.sharded[tensor] > CLEAVE_SHARDED_UPDATE ||
        cleave_random_below(&w->random, 2) == 0)
        return -1;
    w->layout.sharded[tensor] = !w->layout.sharded[tensor];
    ok(w, cleave_estimate_shard(w->estimate, tensor, w->layout.sharded[tensor], &error), &error);
    return tensor;
}

/* What the program itself takes is counted from change to change, too. */
static void expect_own_bytes(walk *w) {
    cleave_error error = {""};
    cleave_estimate *fresh;
    ok(w, cleave_estimate_create(&w->model, &w->layout, &w->options, w->cache, &fresh, &error),
       &error);
    cr_assert_eq(cleave_estimate_own_bytes(w->estimate), cleave_estimate_own_bytes(fresh), "%s",
                 w->name);
    cleave_estimate_destroy(fresh);
}

static void check(walk *w, int32_t n_devices, int n) {
    cleave_error error = {""};
    begin(w, n_devices);
    for (int change = 0; change < n; change++) {
        int32_t op = (int32_t)cleave_random_below(&w->random, w->model.n_operators);
        cleave_split_random(&w->model.operators[op], n_devices, &w->random, &w->tried);
        int64_t step;
        ok(w, cleave_estimate_change(w->estimate, op, &w->tried, &error), &error);
        swap_split(w, op);
        int32_t sharded = change_shard(w);
        ok(w, cleave_estimate_run(w->estimate, &step, &error), &error);
        expect_same(w, change, step);
        if (cleave_random_below(&w->random, 2) == 0) {
            ok(w, cleave_estimate_accept(w->estimate, &error), &error);
        } else {
            ok(w, cleave_estimate_reject(w->estimate, &error), &error);
            swap_split(w, op);
            if (sharded >= 0)
                w->layout.sharded[sharded] = !w->layout.sharded[sharded];
        }
    }
    expect_own_bytes(w);
    end(w);
}

static void check_hand_model(int which) {
    static const int32_t devices[] = {2, 4, 6, 12};
    for (size_t i = 0; i < 4 * sizeof devices / sizeof devices[0]; i++) {
        walk w = {.name = hand_model_names[which],
                  .in_steps = i % 2 != 0,
                  .shards = i / 2 % 2 != 0,
                  .together_bytes = i % 3 == 0 ? 800 : 0}; /* of a few gradients */
        cleave_error error = {""};
        cr_assert(hand_model(which, &w.arena, &w.model, &error), "%s", error.message);
        if (devices[i / 4] == 4) /* gradients are clipped */
            ok(&w, cleave_model_clip(&w.model, &error), &error);
        check(&w, devices[i / 4], w.in_steps || w.shards ? n_draws(100) : n_draws(300));
    }
}

Test(estimates, keep_times_of_a_multi_layer_perceptron) { check_hand_model(MODEL_MLP); }
Test(estimates, keep_times_of_a_convolutional_network) { check_hand_model(MODEL_CNN); }
Test(estimates, keep_times_with_tied_parameters_and_views) { check_hand_model(MODEL_TIED); }
Test(estimates, keep_times_of_a_recurrence) { check_hand_model(MODEL_RECURRENT); }
Test(estimates, keep_times_of_a_tied_embedding) { check_hand_model(MODEL_EMBEDDING); }

Test(estimates, keep_times_of_a_model_of_experts) { check_hand_model(MODEL_EXPERTS); }

Test(estimates, keep_times_of_real_models) {
    static const char *const names[] = {"mlp", "lenet5", "byte_gpt", "byte_lstm"};
    for (size_t i = 0; i < 4 * sizeof names / sizeof names[0]; i++) {
        walk w = {.name = names[i / 4],
                  .in_steps = i % 2 != 0,
                  .shards = i / 2 % 2 != 0,
                  .together_bytes = i % 3 == 0 ? 1 << 18 : 0};
        cleave_error error = {""};
        ok(&w, shipped_model(names[i / 4], 16, &w.arena, &w.model, &error), &error);
        check(&w, 4, n_draws(30));
    }
}
