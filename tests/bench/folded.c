/* Folded simulation against full: the models that ship, on as many nodes of eight H100s as are
   asked for, data parallel and two-dimensional (samples x parameters); lowering, pricing and
   simulating apart, folded and, up to some number of devices, full.  Times that differ end the
   bench.  Processor time, medians of repeated runs, the cache of prices empty at each.
     usage: bench_folded [-e] [-f MOST_FULL] [-d DEVICES]... [-m MODEL]...
   -e is the events rule instead of the scan; full up to MOST_FULL devices (256).  Of each model,
   layout (dp or 2d) and number of devices D: devices that are simulated M; items; milliseconds of
   lowering, of preparing (prices, links) and of the simulation itself; then all but M of the full
   program, and by how many times its simulation takes longer: the ratio, that over D / M, and the
   ratio of all three together. */
#include "../support/shipped.h"
#include "arguments.h"
#include "costmodel/cost.h"
#include "graph/lower/lower.h"
#include "row.h"
#include "simulator/step/simulate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16, MOST_REPEATS = 9 };

typedef struct setting {
    bool events;
    int32_t most_full;
    int32_t devices[MOST], n_devices;
    const char *models[MOST];
    int n_models;
} setting;

typedef struct result {
    double lower, prepare, run; /* seconds */
    int64_t step;
    int32_t n_items, n_devices;
} result;

/* Samples over all devices, or over half of them with some parameter axis over two. */
static cleave_status make_layout(const cleave_model *model, int32_t n_devices, bool two_dimensional,
                                 cleave_arena *arena, cleave_layout *layout, cleave_error *error) {
    int32_t *devices = CLEAVE_ARENA_ARRAY(arena, int32_t, n_devices);
    if (devices == NULL)
        return cleave_fail_memory(error, "making a layout");
    for (int32_t d = 0; d < n_devices; d++)
        devices[d] = d;
    CLEAVE_TRY(cleave_layout_create(model, n_devices, arena, layout, error));
    for (int32_t op = 0; op < model->n_operators; op++) {
        const cleave_operator *of = &model->operators[op];
        int32_t degree[CLEAVE_MAX_AXES] = {0};
        int sample = -1, parameter = -1;
        for (int a = of->n_axes - 1; a >= 0; a--) {
            if (strcmp(of->roles[a], "sample") == 0)
                sample = a;
            if (strcmp(of->roles[a], "parameter") == 0 && !of->axes[a].whole &&
                of->axes[a].extent % 2 == 0)
                parameter = a;
        }
        if (sample < 0)
            return cleave_fail(error, CLEAVE_NO_LAYOUT, "%s has no sample axis", of->name);
        bool both = two_dimensional && parameter > sample;
        degree[sample] = both ? n_devices / 2 : n_devices;
        if (both)
            degree[parameter] = 2;
        CLEAVE_TRY(cleave_layout_set(layout, op, 1, degree, devices, arena, error));
    }
    return cleave_layout_check(model, layout, error);
}

static cleave_status measure(const cleave_model *model, const cleave_machine *machine,
                             const cleave_layout *layout, bool folded, bool events,
                             result *measured, cleave_error *error) {
    double lower[MOST_REPEATS], prepare[MOST_REPEATS], run[MOST_REPEATS], begun = 0;
    int n = 0;
    cleave_machine context = *machine;
    cleave_lower_options options = {.training = true,
                                    .symbolic_collectives = true,
                                    .workspace = cleave_cost_workspace,
                                    .workspace_context = &context};
    cleave_rule rule = events ? CLEAVE_RULE_EVENTS : CLEAVE_RULE_SCAN;
    cleave_status status = CLEAVE_OK;
    for (begun = bench_processor_seconds(); n < MOST_REPEATS && status == CLEAVE_OK &&
                                            (n == 0 || bench_processor_seconds() - begun < 2);
         n++) {
        cleave_arena arena = {0};
        cleave_cost_cache *cache = NULL;
        cleave_program program;
        cleave_fold fold;
        cleave_engine_problem problem;
        cleave_engine_workspace *workspace;
        cleave_timeline timeline;
        double t0 = bench_processor_seconds(), t1 = t0, t2 = t0, t3 = t0;
        status = cleave_cost_cache_create(model, machine, &cache, error);
        if (status == CLEAVE_OK && folded)
            status =
                cleave_fold_find(model, layout, machine->devices_per_node, &arena, &fold, error);
        if (status == CLEAVE_OK)
            status = folded ? cleave_lower_window(model, &fold, &options, &arena, &program, error)
                            : cleave_lower(model, layout, &options, &arena, &program, error);
        t1 = bench_processor_seconds();
        if (status == CLEAVE_OK)
            status = cleave_simulate_prepare(&program, cache, &arena, &problem, error);
        if (status == CLEAVE_OK)
            status = cleave_engine_workspace_create(&problem, &arena, &workspace, error);
        if (status == CLEAVE_OK)
            status = cleave_engine_timeline_create(&problem, &arena, &timeline, error);
        t2 = bench_processor_seconds();
        if (status == CLEAVE_OK)
            status = cleave_simulate_run(&problem, rule, workspace, &timeline, error);
        t3 = bench_processor_seconds();
        if (status == CLEAVE_OK)
            *measured = (result){
                .step = timeline.step, .n_items = program.n_items, .n_devices = program.n_devices};
        lower[n] = t1 - t0;
        prepare[n] = t2 - t1;
        run[n] = t3 - t2;
        cleave_cost_cache_destroy(cache);
        cleave_arena_free(&arena);
    }
    if (status != CLEAVE_OK)
        return status;
    measured->lower = cleave_median(lower, n);
    measured->prepare = cleave_median(prepare, n);
    measured->run = cleave_median(run, n);
    return CLEAVE_OK;
}

static void print_result(const result *r) {
    printf(" %5d %8d %8.2f %8.2f %8.3f", r->n_devices, r->n_items, 1e3 * r->lower, 1e3 * r->prepare,
           1e3 * r->run);
}

static cleave_status compare(const setting *s, const cleave_model *model, const char *name,
                             const cleave_machine *machine, bool two_dimensional,
                             cleave_arena *arena, cleave_error *error) {
    cleave_layout layout;
    result folded, full;
    CLEAVE_TRY(make_layout(model, machine->n_devices, two_dimensional, arena, &layout, error));
    printf("%-12s %-4s %5d", name, two_dimensional ? "2d" : "dp", machine->n_devices);
    cleave_status status = measure(model, machine, &layout, true, s->events, &folded, error);
    if (status == CLEAVE_NO_LAYOUT) {
        printf("  does not fold: %s\n", error->message);
        return CLEAVE_OK;
    }
    CLEAVE_TRY(status);
    print_result(&folded);
    if (machine->n_devices <= s->most_full) {
        CLEAVE_TRY(measure(model, machine, &layout, false, s->events, &full, error));
        print_result(&full);
        double whole = (double)machine->n_devices / folded.n_devices, ratio = full.run / folded.run;
        printf(" %7.1f %5.2f %6.1f", ratio, ratio / whole,
               (full.lower + full.prepare + full.run) /
                   (folded.lower + folded.prepare + folded.run));
        if (full.step != folded.step) {
            printf("\n");
            return cleave_fail(error, CLEAVE_FAILED, "folded %lld ps, full %lld ps",
                               (long long)folded.step, (long long)full.step);
        }
    }
    printf("\n");
    fflush(stdout);
    return CLEAVE_OK;
}

static cleave_status run_model(const setting *s, const char *name, int32_t n_devices,
                               cleave_error *error) {
    cleave_arena arena = {0};
    cleave_model model;
    cleave_machine machine;
    cleave_status status = shipped_model(name, 4 * n_devices, &arena, &model, error);
    if (status == CLEAVE_OK)
        status = cleave_machine_read(CLEAVE_SOURCE_DIR "/configs/machines/h100-512x8.json",
                                     n_devices, &arena, &machine, error);
    for (int two = 0; two < 2 && status == CLEAVE_OK; two++) {
        status = compare(s, &model, name, &machine, two == 1, &arena, error);
        if (status == CLEAVE_NO_LAYOUT) {
            printf("%-12s %s\n", name, error->message);
            status = CLEAVE_OK;
        }
    }
    cleave_arena_free(&arena);
    return status;
}

static void read_arguments(int argc, char **argv, setting *s) {
    bench_arguments a = bench_begin(argc, argv);
    while (*a.words != NULL)
        if (bench_take_flag(&a, "-e"))
            s->events = true;
        else if (bench_take_option(&a, "-f"))
            s->most_full = (int32_t)bench_take_integer(&a, "-f", 0, 1 << 20, 0);
        else if (s->n_devices < MOST && bench_take_option(&a, "-d"))
            s->devices[s->n_devices++] = (int32_t)bench_take_integer(&a, "-d", 1, 1 << 20, 0);
        else if (s->n_models < MOST && bench_take_option(&a, "-m"))
            s->models[s->n_models++] = bench_take_shipped(&a, "-m", "models", ".onnx");
        else
            bench_end(&a);
}

int main(int argc, char **argv) {
    static const char *const models[] = {"lenet5",       "alexnet",   "resnet50",   "resnet101",
                                         "inception_v3", "bert_base", "gpt2_small", "rnntc",
                                         "nmt",          "dlrm"};
    static const int32_t devices[] = {64, 256, 1024, 4096};
    setting s = {.most_full = 256};
    cleave_error error = {""};
    read_arguments(argc, argv, &s);
    bool all_models = s.n_models == 0, all_devices = s.n_devices == 0;
    for (size_t i = 0; i < sizeof models / sizeof *models && all_models; i++)
        s.models[s.n_models++] = models[i];
    for (size_t i = 0; i < sizeof devices / sizeof *devices && all_devices; i++)
        s.devices[s.n_devices++] = devices[i];
    printf("%-12s %-4s %5s | folded: M, items, lower, prepare, run ms | full: the same | run "
           "ratio, of D/M, all\n",
           "model", "", "D");
    for (int m = 0; m < s.n_models; m++)
        for (int32_t d = 0; d < s.n_devices; d++)
            if (run_model(&s, s.models[m], s.devices[d], &error) != CLEAVE_OK) {
                fprintf(stderr, "bench_folded: %s: %s\n", s.models[m], error.message);
                return 1;
            }
    return 0;
}
