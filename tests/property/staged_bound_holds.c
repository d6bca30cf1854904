/* No layout in stages and micro-batches, whatever it recomputes or shards, takes less than the
   bound of its number of micro-batches says: drawn splits, cuts, kinds, marks and sharded state, by
   both rules of time, with collectives in closed form or in steps, in f32 and in bf16; in stages
   alone where the batch can't be cut.  And the model of one micro-batch is a model. */
#include "../support/drawn_schedule.h"
#include "../support/draws.h"
#include "../support/models.h"
#include "../support/perceptron.h"
#include "../support/test_machine.h"
#include "graph/lower/lower.h"
#include "graph/model/micro_batch.h"
#include "graph/model/precision.h"
#include "search/bound/micro_batches.h"
#include "simulator/step/simulate.h"

#include <math.h>
#include <stdio.h>

enum { MOST_MICRO_BATCHES = 4 };

typedef struct subject {
    cleave_arena arena;
    cleave_model model;
    cleave_machine machine;
    cleave_problem problem;
    cleave_cost_cache *cache;
    cleave_node_costs *costs; /* of all numbers of micro-batches before */
    int64_t *least;           /* [n_operators] of these, too */
    const char *name;
    double closest;
    int n_looked_at, n_cut, n_by_others; /* these, by what is known of other numbers */
} subject;

static void ok(const subject *s, cleave_status status, const cleave_error *error) {
    cr_assert_eq(status, CLEAVE_OK, "%s: %s", s->name, error->message);
}

static void expect_above(subject *s, const cleave_layout *layout, bool in_steps,
                         cleave_arena *scratch) {
    cleave_micro_bound_options options = {.micro_batches = layout->schedule.micro_batches,
                                          .optimizer_states = 1,
                                          .forms = in_steps ? CLEAVE_BOUND_STEPS
                                                            : CLEAVE_BOUND_ALL_FORMS,
                                          .layouts = &layout,
                                          .n_layouts = 1};
    const cleave_lower_options lower = {
        .training = true, .optimizer_states = 1, .symbolic_collectives = !in_steps};
    cleave_error error = {""};
    cleave_program program;
    double bound, again;
    ok(s, cleave_lower_bound_in_micro_batches(&s->problem, &options, &bound, &error), &error);
    options.costs = s->costs;
    ok(s, cleave_lower_bound_in_micro_batches(&s->problem, &options, &again, &error), &error);
    cr_assert_eq(bound, again, "%s: %.17g, and of what is kept %.17g", s->name, bound, again);
    options.least = s->least;
    options.enough_seconds = (0.9 + 0.05 * (s->n_looked_at % 4)) * bound;
    ok(s, cleave_lower_bound_in_micro_batches(&s->problem, &options, &again, &error), &error);
    cr_assert_leq(again, bound, "%s", s->name);
    if (again < options.enough_seconds)
        cr_assert_eq(again, bound, "%s: %.17g, and by others %.17g", s->name, bound, again);
    s->n_by_others += again < bound;
    options.enough_seconds = 0;
    ok(s, cleave_lower_bound_in_micro_batches(&s->problem, &options, &again, &error), &error);
    cr_assert_eq(bound, again, "%s", s->name);
    ok(s, cleave_lower(&s->model, layout, &lower, scratch, &program, &error), &error);
    for (int rule = CLEAVE_RULE_EVENTS; rule <= CLEAVE_RULE_SCAN; rule++) {
        cleave_timeline timeline;
        ok(s, cleave_simulate(&program, s->cache, (cleave_rule)rule, scratch, &timeline, &error),
           &error);
        double step = (double)timeline.step * 1e-12;
        cr_assert_geq(step, bound, "%s: %d micro-batches in %d stages take %.12g, bound %.12g",
                      s->name, layout->schedule.micro_batches, layout->schedule.n_stages, step,
                      bound);
        s->closest = fmax(s->closest, bound / step);
    }
}

static void expect_model(const subject *s, int32_t m, cleave_arena *scratch) {
    cleave_error error = {""};
    cleave_micro_batches micro;
    cleave_model small;
    ok(s, cleave_micro_batches_find(&s->model, m, scratch, &micro, &error), &error);
    ok(s, cleave_micro_batches_model(&s->model, &micro, scratch, &small, &error), &error);
    ok(s, cleave_model_check(&small, &error), &error);
    for (int32_t t = 0; t < small.n_tensors; t++) {
        int64_t parts = micro.sharing.tensor_dimension[t] >= 0 ? m : 1;
        cr_assert_eq(cleave_tensor_size(&small.tensors[t]) * parts,
                     cleave_tensor_size(&s->model.tensors[t]), "%s: %s", s->name,
                     small.tensors[t].name);
    }
}

static void try_seed(subject *s, uint64_t seed) {
    cleave_arena scratch = {0};
    cleave_error error = {""};
    cleave_layout layout;
    ok(s, cleave_layout_random(&s->model, s->machine.n_devices, seed, &scratch, &layout, &error),
       &error);
    if (draw_schedule(&s->model, seed, MOST_MICRO_BATCHES, &scratch, &layout)) {
        s->n_looked_at++;
        s->n_cut += layout.schedule.micro_batches > 1;
        expect_above(s, &layout, seed % 2 == 0, &scratch);
        if (layout.schedule.micro_batches > 1)
            expect_model(s, layout.schedule.micro_batches, &scratch);
    }
    cleave_arena_free(&scratch);
}

static void try_model(subject *s, int n_seeds) {
    cleave_error error = {""};
    if (s->machine.n_devices == 0)
        s->machine = make_machine(&s->arena, 2, 2, "16 GiB");
    ok(s, cleave_problem_create(&s->model, &s->machine, NULL, &s->arena, &s->problem, &error),
       &error);
    ok(s, cleave_cost_cache_create(&s->model, &s->machine, &s->cache, &error), &error);
    ok(s, cleave_node_costs_create(&s->model, &s->machine, &s->costs, &error), &error);
    s->least = CLEAVE_ARENA_ARRAY(&s->arena, int64_t, s->model.n_operators);
    for (int32_t op = 0; op < s->model.n_operators; op++)
        s->least[op] = INT64_MAX;
    for (uint64_t seed = seed_from(0); seed < seed_from((uint64_t)n_seeds); seed++)
        try_seed(s, (uint64_t)seed);
    printf("%s: %d layouts, %d of them in micro-batches, %d less by others; the bound is at most "
           "%.3f of a step\n",
           s->name, s->n_looked_at, s->n_cut, s->n_by_others, s->closest);
    cr_expect_gt(s->n_looked_at, n_seeds / 3, "%s", s->name);
    cleave_node_costs_destroy(s->costs);
    cleave_cost_cache_destroy(s->cache);
    cleave_arena_free(&s->arena);
}

Test(staged_bound_holds, of_drawn_layouts) {
    static const int which[] = {MODEL_MLP, MODEL_TIED, MODEL_RECURRENT, MODEL_EMBEDDING,
                                MODEL_EXPERTS};
    for (size_t i = 0; i < sizeof which / sizeof which[0]; i++) {
        subject s = {.name = hand_model_names[which[i]]};
        cleave_error error = {""};
        cr_assert(hand_model(which[i], &s.arena, &s.model, &error), "%s", error.message);
        try_model(&s, n_draws(30));
    }
}

/* Large operators, of which work is nearly all there is. */
Test(staged_bound_holds, where_work_is_all) {
    subject s = {.name = "perceptron"};
    s.model = make_perceptron(&s.arena, 4, 256, 512);
    int n = n_draws(120);
    try_model(&s, n);
    cr_expect_gt(s.n_cut, n / 3);
    cr_expect_gt(s.closest, 0.3);
}

/* Stages are drawn on devices of which some are a third as quick as others. */
Test(staged_bound_holds, on_two_kinds_of_devices) {
    static const int which[] = {MODEL_MLP, MODEL_TIED, MODEL_EXPERTS};
    for (size_t i = 0; i <= sizeof which / sizeof which[0]; i++) {
        bool is_last = i == sizeof which / sizeof which[0];
        subject s = {.name = is_last ? "perceptron" : hand_model_names[which[i]]};
        cleave_error error = {""};
        if (is_last)
            s.model = make_perceptron(&s.arena, 4, 256, 512);
        else
            cr_assert(hand_model(which[i], &s.arena, &s.model, &error), "%s", error.message);
        s.machine = parse_two_kinds(&s.arena, 2, 3, "16 GiB", 100, "1 us",
                                    "\"bandwidth\": \"10 GB/s\", \"latency\": \"1 us\"");
        try_model(&s, n_draws(60));
    }
}

/* One device adds up all gradients by itself, and launches take next to nothing: the bound is near
   the step, so a sum of bf16 that counted as one of f32 would lie above it. */
Test(staged_bound_holds, where_sums_are_of_bf16) {
    static const int which[] = {MODEL_RECURRENT, MODEL_EMBEDDING, MODEL_EXPERTS};
    for (size_t i = 0; i < sizeof which / sizeof which[0]; i++) {
        subject s = {.name = hand_model_names[which[i]]};
        cleave_error error = {""};
        cr_assert(hand_model(which[i], &s.arena, &s.model, &error), "%s", error.message);
        cleave_model_set_precision(&s.model, CLEAVE_BF16, CLEAVE_F32);
        s.machine = parse_machine(&s.arena, 1, 1, "16 GiB", "100 GB/s", "1 ns",
                                  "\"bandwidth\": \"10 GB/s\", \"latency\": \"1 us\"");
        try_model(&s, n_draws(40));
        cr_expect_gt(s.closest, 0.5, "%s", s.name);
    }
}
