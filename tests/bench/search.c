/* Proposals a second of the MCMC search, and the peak memory of searching the largest case.
   Usage: bench_search [SECONDS per case]. */
#include "search/search.h"
#include "base/progress.h"
#include "graph/import.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

typedef struct bench_case {
    const char *model, *machine;
    int32_t devices;
    int64_t batch;
} bench_case;

/* Largest resident set of this process so far, MiB. */
static double peak_mebibytes(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1024;
}

static cleave_status run(const bench_case *of, double seconds, cleave_error *error) {
    cleave_arena arena = {0};
    cleave_model model;
    cleave_machine machine;
    cleave_search_result result;
    char path[4096];
    cleave_search_options options = {
        .method = "mcmc", .time_seconds = seconds, .seed = 1, .optimizer_states = 1, .quiet = true};
    snprintf(path, sizeof path, "%s/configs/models/%s.onnx", CLEAVE_SOURCE_DIR, of->model);
    cleave_status status = cleave_model_import(path, of->batch, true, &arena, &model, error);
    snprintf(path, sizeof path, "%s/configs/machines/%s.json", CLEAVE_SOURCE_DIR, of->machine);
    if (status == CLEAVE_OK)
        status = cleave_machine_read(path, of->devices, &arena, &machine, error);
    if (status == CLEAVE_OK)
        status = cleave_search(&model, &machine, &options, &arena, &result, error);
    if (status == CLEAVE_OK) {
        const cleave_plan *data_parallel = &result.baselines[0];
        printf(
            "%-10s %3d devices %4d operators: %6lld proposals in %5.1f s (%7.1f/s), best %8.3f ms"
            " by %s, data parallel %8.3f ms, bound %8.3f ms, peak %4.0f MiB\n",
            of->model, machine.n_devices, model.n_operators, (long long)result.proposals,
            result.search_seconds, (double)result.proposals / result.search_seconds,
            result.best.step_seconds * 1e3, result.best.method,
            data_parallel->applies ? data_parallel->step_seconds * 1e3 : 0.0,
            result.lower_bound_seconds * 1e3, peak_mebibytes());
        fflush(stdout);
    }
    cleave_arena_free(&arena);
    return status;
}

int main(int argc, char **argv) {
    static const bench_case cases[] = {
        {"mlp", "two-cores", 2, 256},        {"mlp", "p100-4x4", 16, 256},
        {"mlp", "k80-16x4", 64, 256},        {"alexnet", "two-cores", 2, 32},
        {"alexnet", "p100-4x4", 16, 1024},   {"alexnet", "k80-16x4", 64, 4096},
        {"resnet101", "two-cores", 2, 8},    {"resnet101", "p100-4x4", 16, 1024},
        {"resnet101", "k80-16x4", 64, 4096},
    };
    double seconds = argc > 1 ? atof(argv[1]) : 5;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cleave_error error = {""};
        if (run(&cases[i], seconds, &error) != CLEAVE_OK) {
            fprintf(stderr, "bench_search: %s\n", error.message);
            return 1;
        }
    }
    return 0;
}
