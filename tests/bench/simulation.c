/* What one simulation of a program takes, and by how many times longer the step takes that it
   predicts, on a machine that was calibrated.
     usage: bench_simulation MACHINE.json MODEL BATCH [METHOD[:SEED]...]
   MODEL is one of configs/models, METHOD a baseline or `random`; by default data-parallel,
   layer-per-device, single and random:1 to random:4.  Of each layout, in microseconds:
     ready    what does not depend on times: prices looked up, messages with their links, the check
              of all that, and what settling wants to know of them (once for a program)
     first    the simulation after that, with memory that nothing has touched yet and cold caches
     again    the median of 101 more of the same: the whole of settling and the final pass, from
              prices to the timeline of every item
     one pass of the scan alone, the least that an answer could take
   then the predicted step over `first`, over `again`, and over `ready` and `first` together.
   Lowering is in none of them.  Processor time, so that a busy machine counts less. */
#include "../support/shipped.h"
#include "arguments.h"
#include "graph/lower/lower.h"
#include "row.h"
#include "search/search.h"
#include "simulator/step/settle.h"

#include <string.h>

enum { REPETITIONS = 101 };

typedef struct bench_case {
    const char *machine_file, *model_name;
    int64_t batch;
    cleave_arena arena;
    cleave_model model;
    cleave_machine machine;
    cleave_cost_cache *cache;
} bench_case;

/* All in seconds. */
typedef struct figures {
    double ready, first, again, pass, step;
} figures;

static cleave_status lower(bench_case *c, const char *method, cleave_arena *arena,
                           cleave_program *program, bool *applies, cleave_error *error) {
    char name[64];
    uint64_t seed = 0;
    cleave_layout layout;
    const char *colon = strchr(method, ':');
    snprintf(name, sizeof name, "%s", method);
    if (colon != NULL && (size_t)(colon - method) < sizeof name) {
        name[colon - method] = '\0';
        seed = strtoull(colon + 1, NULL, 10);
    }
    CLEAVE_TRY(
        cleave_baseline_layout(&c->model, &c->machine, name, seed, arena, &layout, applies, error));
    if (!*applies)
        return CLEAVE_OK;
    cleave_lower_options options = {.training = c->model.loss >= 0};
    return cleave_lower(&c->model, &layout, &options, arena, program, error);
}

static cleave_status time_one(bench_case *c, const cleave_program *program, cleave_arena *arena,
                              figures *result, cleave_error *error) {
    cleave_engine_problem problem;
    cleave_engine_workspace *workspace;
    cleave_timeline timeline;
    cleave_settling *settling;
    double again[REPETITIONS], passes[REPETITIONS];
    /* A first time, so that the cache knows all prices. */
    CLEAVE_TRY(cleave_simulate_prepare(program, c->cache, arena, &problem, error));
    CLEAVE_TRY(cleave_settling_create(program, c->cache, &problem, arena, &settling, error));
    double begun = bench_processor_seconds();
    CLEAVE_TRY(cleave_simulate_prepare(program, c->cache, arena, &problem, error));
    CLEAVE_TRY(cleave_engine_workspace_create(&problem, arena, &workspace, error));
    CLEAVE_TRY(cleave_engine_timeline_create(&problem, arena, &timeline, error));
    CLEAVE_TRY(cleave_settling_create(program, c->cache, &problem, arena, &settling, error));
    double ready = bench_processor_seconds();
    result->ready = ready - begun;
    for (int r = -1; r < REPETITIONS; r++) {
        begun = bench_processor_seconds();
        CLEAVE_TRY(cleave_settling_apply(settling, CLEAVE_RULE_SCAN, &problem, workspace, &timeline,
                                         error));
        double settled = bench_processor_seconds();
        CLEAVE_TRY(cleave_simulate_run(&problem, CLEAVE_RULE_SCAN, workspace, &timeline, error));
        double done = bench_processor_seconds();
        if (r < 0) {
            result->first = done - begun;
            continue;
        }
        again[r] = done - begun;
        passes[r] = done - settled;
    }
    result->again = cleave_median(again, REPETITIONS);
    result->pass = cleave_median(passes, REPETITIONS);
    result->step = 1e-12 * (double)timeline.step;
    return CLEAVE_OK;
}

static cleave_status look(bench_case *c, const char *method, cleave_arena *arena,
                          cleave_error *error) {
    cleave_program program;
    figures f = {0};
    bool applies;
    CLEAVE_TRY(lower(c, method, arena, &program, &applies, error));
    if (!applies)
        return CLEAVE_OK;
    CLEAVE_TRY(time_one(c, &program, arena, &f, error));
    printf("%-18s %8d %8d %8.1f %8.1f %8.1f %8.1f %9.2f %9.0f %9.0f %9.0f\n", method,
           program.n_items, program.n_messages, 1e6 * f.ready, 1e6 * f.first, 1e6 * f.again,
           1e6 * f.pass, 1e3 * f.step, f.step / f.first, f.step / f.again,
           f.step / (f.ready + f.first));
    fflush(stdout);
    return CLEAVE_OK;
}

static cleave_status run(bench_case *c, char **given, cleave_error *error) {
    static const char *const methods[] = {"data-parallel", "layer-per-device", "single",
                                          "random:1",      "random:2",         "random:3",
                                          "random:4"};
    CLEAVE_TRY(shipped_model(c->model_name, c->batch, &c->arena, &c->model, error));
    CLEAVE_TRY(cleave_machine_read(c->machine_file, 0, &c->arena, &c->machine, error));
    CLEAVE_TRY(cleave_cost_cache_create(&c->model, &c->machine, &c->cache, error));
    printf("%-18s %8s %8s %8s %8s %8s %8s %9s %9s %9s %9s\n", c->model_name, "items", "messages",
           "ready", "first", "again", "one pass", "step ms", "/ first", "/ again", "/ all");
    size_t n = *given != NULL ? 0 : sizeof methods / sizeof methods[0];
    for (char **method = given; *method != NULL; method++) {
        cleave_arena arena = {0};
        cleave_status status = look(c, *method, &arena, error);
        cleave_arena_free(&arena);
        CLEAVE_TRY(status);
    }
    for (size_t i = 0; i < n; i++) {
        cleave_arena arena = {0};
        cleave_status status = look(c, methods[i], &arena, error);
        cleave_arena_free(&arena);
        CLEAVE_TRY(status);
    }
    return CLEAVE_OK;
}

int main(int argc, char **argv) {
    bench_case c = {0};
    cleave_error error = {""};
    bench_arguments a = bench_begin(argc, argv);
    c.machine_file = bench_take(&a);
    c.model_name = bench_take_shipped(&a, "MODEL", "models", ".onnx");
    c.batch = bench_take_integer(&a, "BATCH", 1, 1 << 30, 0);
    if (c.batch == 0)
        bench_refuse(&a, "MACHINE.json MODEL BATCH are wanted");
    cleave_status status = run(&c, a.words, &error);
    if (c.cache != NULL)
        cleave_cost_cache_destroy(c.cache);
    cleave_arena_free(&c.arena);
    if (status != CLEAVE_OK)
        fprintf(stderr, "bench_simulation: %s\n", error.message);
    return (int)status;
}
