/* Items a second of full simulation by both rules, on ResNet-101 data parallel with all collectives
   expanded, batch 64 per device: medians and range over repetitions, of processor time, so that a
   busy machine counts less.  Pricing is not in it.
     usage: bench_simulator [REPETITIONS] */
#include "arguments.h"
#include "graph/import/import.h"
#include "graph/lower/lower.h"
#include "row.h"
#include "search/search.h"
#include "simulator/step/simulate.h"

typedef struct bench_case {
    const char *machine;
    int32_t n_devices;
} bench_case;

static cleave_status prepare(const bench_case *of, cleave_arena *arena,
                             cleave_engine_problem *problem, cleave_error *error) {
    static const char model_path[] = CLEAVE_SOURCE_DIR "/configs/models/resnet101.onnx";
    char path[4096];
    /* The problem keeps nothing of these but what lies in the arena. */
    cleave_model *model = CLEAVE_ARENA_ARRAY(arena, cleave_model, 1);
    cleave_machine *machine = CLEAVE_ARENA_ARRAY(arena, cleave_machine, 1);
    cleave_program *program = CLEAVE_ARENA_ARRAY(arena, cleave_program, 1);
    cleave_layout layout;
    cleave_cost_cache *cache;
    bool applies;
    if (model == NULL || machine == NULL || program == NULL)
        return cleave_fail_memory(error, "preparing");
    snprintf(path, sizeof path, "%s/configs/machines/%s.json", CLEAVE_SOURCE_DIR, of->machine);
    CLEAVE_TRY(cleave_model_import_as(&(cleave_import_request){.file = model_path,
                                                               .batch = (int64_t)64 * of->n_devices,
                                                               .with_loss = true},
                                      arena, model, error));
    CLEAVE_TRY(cleave_machine_read(path, of->n_devices, arena, machine, error));
    CLEAVE_TRY(cleave_baseline_layout(model, machine, "data-parallel", 0, arena, &layout, &applies,
                                      error));
    cleave_lower_options options = {.training = true, .optimizer_states = 1};
    CLEAVE_TRY(cleave_lower(model, &layout, &options, arena, program, error));
    CLEAVE_TRY(cleave_cost_cache_create(model, machine, &cache, error));
    cleave_status status = cleave_simulate_prepare(program, cache, arena, problem, error);
    cleave_cost_cache_destroy(cache);
    return status;
}

static cleave_status measure(const bench_case *of, cleave_rule rule, const char *name,
                             const char *wanted, const cleave_engine_problem *problem,
                             int repetitions, cleave_arena *arena, cleave_error *error) {
    cleave_engine_workspace *workspace;
    cleave_timeline timeline;
    double rates[101];
    char what[64];
    CLEAVE_TRY(cleave_engine_workspace_create(problem, arena, &workspace, error));
    CLEAVE_TRY(cleave_engine_timeline_create(problem, arena, &timeline, error));
    for (int r = -1; r < repetitions; r++) { /* the first, -1, warms up */
        double start = bench_processor_seconds();
        CLEAVE_TRY(cleave_simulate_run(problem, rule, workspace, &timeline, error));
        if (r >= 0)
            rates[r] = 1e-6 * problem->step.n_items / (bench_processor_seconds() - start);
    }
    double median = cleave_median(rates, repetitions);
    snprintf(what, sizeof what, "simulating by %s, %d devices", name, of->n_devices);
    bench_row(what, wanted, "%.1f M items/s (%.1f..%.1f), %.2f M items", median, rates[0],
              rates[repetitions - 1], 1e-6 * problem->step.n_items);
    return CLEAVE_OK;
}

static cleave_status run(const bench_case *of, int repetitions, cleave_arena *arena,
                         cleave_error *error) {
    cleave_engine_problem problem;
    CLEAVE_TRY(prepare(of, arena, &problem, error));
    CLEAVE_TRY(measure(of, CLEAVE_RULE_EVENTS, "events", "at least 5 M items/s", &problem,
                       repetitions, arena, error));
    return measure(of, CLEAVE_RULE_SCAN, "scan", "at least 100 M items/s", &problem, repetitions,
                   arena, error);
}

int main(int argc, char **argv) {
    static const bench_case cases[] = {{"p100-4x4", 16}, {"k80-16x4", 64}};
    bench_arguments a = bench_begin(argc, argv);
    int repetitions = (int)bench_take_integer(&a, "REPETITIONS", 1, 101, 9);
    bench_end(&a);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cleave_arena arena = {0};
        cleave_error error = {""};
        cleave_status status = run(&cases[i], repetitions, &arena, &error);
        cleave_arena_free(&arena);
        if (status != CLEAVE_OK) {
            fprintf(stderr, "bench_simulator: %s\n", error.message);
            return 1;
        }
    }
    return 0;
}
