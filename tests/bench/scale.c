/* The search on many devices: BERT-base and GPT-2 on 64 and 1,024 A100s and on 4,096 H100s, and
   transformers of the same block 12 to 1,000 times.  Seconds of processor time: reading
   model and machine, searching, and of that pricing whole models; the step found, and its bound.
   Memory is of the whole process so far: for one case's own, run that case alone.
     usage: bench_scale [CASE] */
#include "graph/import.h"
#include "row.h"
#include "search/window.h"

#include <string.h>
#include <sys/resource.h>
#include <time.h>

typedef struct bench_case {
    const char *model, *machine;
    int32_t devices;
    int64_t batch;
    const char *wanted;
} bench_case;

/* Largest resident set of this process so far, MiB. */
static double peak_mebibytes(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1024;
}

static double processor_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static cleave_status search_model(const char *what, const char *wanted, const cleave_model *model,
                                  const char *machine_name, int32_t devices, double import_seconds,
                                  cleave_error *error) {
    cleave_arena arena = {0};
    cleave_machine machine;
    cleave_pricer pricer = {0};
    cleave_collective_rules rules;
    cleave_window_found found;
    const cleave_search_options options = {.optimizer_states = 1};
    const cleave_window_options how = {0};
    char path[4096];
    double start = processor_seconds();
    snprintf(path, sizeof path, "%s/configs/machines/%s.json", CLEAVE_SOURCE_DIR, machine_name);
    cleave_status status = cleave_machine_read(path, devices, &arena, &machine, error);
    double begun = processor_seconds(), chosen = begun;
    if (status == CLEAVE_OK)
        status = cleave_pricer_create(model, &machine, &options, &pricer, error);
    if (status == CLEAVE_OK)
        status = cleave_choose_collectives(&machine, false, &arena, &rules, error);
    chosen = processor_seconds();
    if (status == CLEAVE_OK)
        status = cleave_window_search(&pricer, &rules, &how, &arena, &found, error);
    double end = processor_seconds();
    if (status == CLEAVE_OK) {
        bench_row(what, wanted,
                  "%.2f s: import %.2f, machine %.2f, rules %.2f, search %.2f, pricing %.2f; peak "
                  "%.0f MiB",
                  import_seconds + end - start, import_seconds, begun - start, chosen - begun,
                  end - chosen - found.pricing_seconds, found.pricing_seconds, peak_mebibytes());
        bench_row("  found", "", "%.3f ms, windows of %d, %d blocks, %lld proposals",
                  (double)found.price.step * 1e-9, found.n_devices, found.n_blocks,
                  (long long)found.proposals);
    }
    cleave_pricer_destroy(&pricer);
    cleave_arena_free(&arena);
    return status;
}

static cleave_status run(const bench_case *of, cleave_error *error) {
    cleave_arena arena = {0};
    cleave_model model;
    char path[4096], what[80];
    double start = processor_seconds();
    snprintf(path, sizeof path, "%s/configs/models/%s.onnx", CLEAVE_SOURCE_DIR, of->model);
    cleave_status status = cleave_model_import(path, of->batch, true, &arena, &model, error);
    snprintf(what, sizeof what, "%s, %lld samples, on %d", of->model, (long long)of->batch,
             of->devices);
    if (status == CLEAVE_OK)
        status = search_model(what, of->wanted, &model, of->machine, of->devices,
                              processor_seconds() - start, error);
    cleave_arena_free(&arena);
    return status;
}

int main(int argc, char **argv) {
    static const bench_case cases[] = {
        {"bert_base", "a100-128x8", 64, 4 * 64, "below 1 s"},
        {"gpt2_small", "a100-128x8", 64, 4 * 64, "below 1 s"},
        {"bert_base", "a100-128x8", 1024, 4 * 1024, "below 10 s"},
        {"gpt2_small", "a100-128x8", 1024, 4 * 1024, "below 10 s"},
        {"bert_base", "h100-512x8", 4096, 4 * 4096, "below 30 s, 2048 MiB"},
        {"gpt2_small", "h100-512x8", 4096, 4 * 4096, "below 30 s, 2048 MiB"},
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof cases[0]); i++) {
        cleave_error error = {""};
        if (argc > 1 && atoi(argv[1]) != i)
            continue;
        if (run(&cases[i], &error) != CLEAVE_OK) {
            fprintf(stderr, "bench_scale: %s\n", error.message);
            return 1;
        }
    }
    return 0;
}
