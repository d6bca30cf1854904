/* The scan serves links in program order, lane by lane, and the reference by readiness.  How far
   that takes the step, with collectives in steps: shipped models, data parallel, by other baselines
   and by random layouts, on two machines: one of shared links, and one of a slow link where
   messages wait for polls, so that communication falls far behind.  Batch normalisation exchanges
   statistics in the main lane all the while. */
#include "../support/ok.h"
#include "../support/shipped.h"
#include "base/order.h"
#include "graph/lower/lower.h"
#include "search/search.h"
#include "simulator/step/simulate.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

typedef struct trial {
    cleave_arena arena, scratch;
    cleave_machine machine;
    double errors[MOST]; /* scan over events, less 1, without sign */
    int n;
} trial;

static const char slow_link[] =
    "{\"cleave_machine\": 1, \"name\": \"slow\", \"kinds\": {\"core\": {\"memory\": \"64 GiB\", "
    "\"flops\": \"90 GFLOP/s\", \"memory_bandwidth\": \"19 GB/s\", \"efficiency\": "
    "{\"product\": 0.8, \"memory\": 1}, \"launch\": \"2 us\", \"source\": \"test\"}}, "
    "\"node\": {\"count\": 1, \"devices\": 2, \"kind\": \"core\", \"links\": [{\"join\": [[0, 1]], "
    "\"bandwidth\": \"120 MB/s\", \"latency\": \"1 us\", \"overhead\": \"8 us\", "
    "\"copy_bandwidth\": \"18 GB/s\", \"protocol\": {\"large_from\": \"64 KiB\", "
    "\"send_polls\": {\"small\": 0, \"large\": 1.25, \"per_byte\": 0}, "
    "\"receive_polls\": {\"small\": 0.5, \"large\": 2.6, \"per_byte\": 0}}}]}}";

static int64_t step_of(trial *t, const cleave_program *program, const cleave_model *model,
                       cleave_rule rule) {
    cleave_cost_cache *cache;
    cleave_timeline timeline;
    OK(cleave_cost_cache_create, model, &t->machine, &cache);
    OK(cleave_simulate, program, cache, rule, &t->scratch, &timeline);
    cleave_cost_cache_destroy(cache);
    return timeline.step;
}

static void compare(trial *t, const cleave_model *model, const char *name, const char *method,
                    uint64_t seed) {
    cleave_layout layout;
    cleave_program program;
    cleave_lower_options options = {.training = true};
    bool applies;
    cleave_arena_reset(&t->scratch);
    OK(cleave_baseline_layout, model, &t->machine, method, seed, &t->scratch, &layout, &applies);
    OK(cleave_lower, model, &layout, &options, &t->scratch, &program);
    int64_t events = step_of(t, &program, model, CLEAVE_RULE_EVENTS);
    double off = (double)step_of(t, &program, model, CLEAVE_RULE_SCAN) / (double)events - 1;
    printf("%-10s %-16s %2d devices, %.4g s: %+.1f %%\n", name, method, t->machine.n_devices,
           1e-12 * (double)events, 100 * off);
    cr_expect_lt(fabs(off), 0.15, "%s, %s, seed %d: %.1f %%", name, method, (int)seed, 100 * off);
    cr_assert_lt(t->n, MOST);
    t->errors[t->n++] = fabs(off);
}

static void compare_layouts(trial *t, const char *name, int64_t batch, int n_random) {
    cleave_model model;
    OK(shipped_model, name, batch, &t->arena, &model);
    compare(t, &model, name, "data-parallel", 0);
    compare(t, &model, name, "one-weird-trick", 0);
    for (int seed = 1; seed <= n_random; seed++)
        compare(t, &model, name, "random", (uint64_t)seed);
}

Test(scan, stays_near_events_with_collectives_in_steps) {
    static const int32_t n_devices[] = {4, 8};
    trial t = {0};
    for (int i = 0; i < 2; i++) {
        OK(shipped_machine, "k80-16x4", n_devices[i], &t.arena, &t.machine);
        compare_layouts(&t, "resnet50", 8 * (int64_t)n_devices[i] / 2, 1);
        compare_layouts(&t, "alexnet", 16 * (int64_t)n_devices[i] / 2, 5);
        compare_layouts(&t, "byte_lstm", 64, 3);
    }
    OK(cleave_machine_parse, slow_link, strlen(slow_link), "slow", 0, &t.arena, &t.machine);
    compare_layouts(&t, "resnet50", 8, 2);
    compare_layouts(&t, "alexnet", 16, 5);
    cleave_sort_doubles(t.errors, t.n);
    printf("%d layouts: half of them within %.2f %%, all within %.1f %%\n", t.n,
           100 * t.errors[t.n / 2], 100 * t.errors[t.n - 1]);
    cr_expect_lt(t.errors[t.n / 2], 0.02);
    cleave_arena_free(&t.scratch);
    cleave_arena_free(&t.arena);
}
