/* Proposals a second of the MCMC search, and the peak memory of it.  Memory is of the whole process
   so far: for one case's own, run that case alone.
     usage: bench_search [SECONDS_PER_CASE [MODEL [DEVICES]]]
   5 seconds each; mlp, alexnet or resnet101 on 2, 16 or 64 devices.  Of each: proposals a second
   and in all, and the peak; milliseconds of the step found, of data parallel and of the lower
   bound. */
#include "search/search.h"
#include "../support/shipped.h"
#include "arguments.h"
#include "row.h"

#include <string.h>

typedef struct bench_case {
    const char *model, *machine;
    int32_t devices;
    int64_t batch;
    const char *wanted; /* what is wanted, in words */
} bench_case;

static cleave_status run(const bench_case *of, double seconds, cleave_error *error) {
    cleave_arena arena = {0};
    cleave_model model;
    cleave_machine machine;
    cleave_search_result result;
    cleave_search_options options = {
        .method = "mcmc", .time_seconds = seconds, .seed = 1, .optimizer_states = 1, .quiet = true};
    cleave_status status = shipped_model(of->model, of->batch, &arena, &model, error);
    if (status == CLEAVE_OK)
        status = shipped_machine(of->machine, of->devices, &arena, &machine, error);
    if (status == CLEAVE_OK)
        status = cleave_search(&model, &machine, &options, &arena, &result, error);
    if (status == CLEAVE_OK) {
        const cleave_plan *data_parallel = &result.baselines[0];
        char what[64];
        snprintf(what, sizeof what, "mcmc, %s on %d", of->model, machine.n_devices);
        bench_row(what, of->wanted, "%.1f proposals/s (%lld), peak %.0f MiB",
                  (double)result.proposals / result.search_seconds, (long long)result.proposals,
                  bench_peak_mebibytes());
        bench_row("  found, data parallel, bound", "", "%.3f, %.3f, %.3f ms",
                  result.best.step_seconds * 1e3,
                  data_parallel->applies ? data_parallel->step_seconds * 1e3 : 0.0,
                  result.lower_bound_seconds * 1e3);
    }
    cleave_arena_free(&arena);
    return status;
}

int main(int argc, char **argv) {
    static const bench_case cases[] = {
        {"mlp", "two-cores", 2, 256, ""},
        {"mlp", "p100-4x4", 16, 256, ""},
        {"mlp", "k80-16x4", 64, 256, ""},
        {"alexnet", "two-cores", 2, 32, ""},
        {"alexnet", "p100-4x4", 16, 1024, ""},
        {"alexnet", "k80-16x4", 64, 4096, ""},
        {"resnet101", "two-cores", 2, 8, ""},
        {"resnet101", "p100-4x4", 16, 1024, ""},
        {"resnet101", "k80-16x4", 64, 4096, "peak under 1024 MiB"},
    };
    enum { N_CASES = sizeof cases / sizeof cases[0] };
    bench_arguments a = bench_begin(argc, argv);
    double seconds = bench_take_number(&a, "SECONDS_PER_CASE", 1e-3, 1e6, 5);
    const char *model =
        bench_take_name(&a, "MODEL", false, &cases[0].model, sizeof cases[0], N_CASES);
    int64_t devices = bench_take_integer(&a, "DEVICES", 0, 64, 0);
    bench_end(&a);
    if (devices != 0 && devices != 2 && devices != 16 && devices != 64)
        bench_refuse(&a, "DEVICES %d: none of 2, 16, 64", (int)devices);
    for (size_t i = 0; i < N_CASES; i++) {
        cleave_error error = {""};
        if ((model != NULL && strcmp(model, cases[i].model) != 0) ||
            (devices != 0 && devices != cases[i].devices))
            continue;
        if (run(&cases[i], seconds, &error) != CLEAVE_OK) {
            fprintf(stderr, "bench_search: %s\n", error.message);
            return 1;
        }
    }
    return 0;
}
