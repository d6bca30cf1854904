/* What it takes to price layouts in stages and micro-batches: by lowering all micro-batches, and by
   three of them.
     usage: bench_pipelines [MODEL BATCH DEVICES [MACHINE.json]]
   MODEL is an ONNX file or a config.json, for sequences of 2,048; the machine is a100-128x8.  Of P
   stages under 1f1b and m micro-batches, each stage data parallel on as many devices: processor
   time of lowering, planning and simulating by either way, medians of 3 taken in turns, and how
   many times as long the first takes.  Prices are equal, to the bit, or it fails. */
#include "graph/import/import.h"
#include "search/problem/baselines.h"
#include "simulator/step/few.h"
#include "simulator/step/simulate.h"

#include "arguments.h"
#include "row.h"

enum { N_TIMES = 3 };

typedef struct bench {
    cleave_arena arena;
    cleave_model model;
    cleave_machine machine;
    cleave_collective_rules rules;
    cleave_cost_cache *cache;
    cleave_lower_options options;
} bench;

static cleave_status make_layout(bench *b, int32_t P, int32_t m, cleave_arena *arena,
                                 cleave_layout *layout, bool *legal, cleave_error *error) {
    cleave_error why_not = {""};
    int32_t *first = CLEAVE_ARENA_ARRAY(arena, int32_t, P);
    if (first == NULL)
        return cleave_fail_memory(error, "making a layout");
    for (int32_t s = 0; s < P; s++)
        first[s] = (int32_t)((int64_t)b->model.n_operators * s / P);
    const cleave_schedule schedule = {
        .micro_batches = m, .n_stages = P, .first_operator = P > 1 ? first : NULL};
    const cleave_baseline_shape shape = {.schedule = &schedule, .n_groups = P};
    CLEAVE_TRY(cleave_baseline_in_stages(&b->model, &b->machine, "data-parallel", &shape, arena,
                                         layout, legal, error));
    layout->collectives = b->rules;
    *legal = *legal && cleave_layout_check(&b->model, layout, &why_not) == CLEAVE_OK;
    return CLEAVE_OK;
}

typedef struct priced {
    int64_t step, peak;
    double seconds;
} priced;

static cleave_status price_all(bench *b, const cleave_layout *layout, priced *price,
                               cleave_error *error) {
    cleave_arena scratch = {0};
    cleave_program program;
    cleave_timeline timeline;
    double begin = bench_processor_seconds();
    cleave_status status = cleave_lower(&b->model, layout, &b->options, &scratch, &program, error);
    if (status == CLEAVE_OK)
        status = cleave_simulate(&program, b->cache, CLEAVE_RULE_SCAN, &scratch, &timeline, error);
    if (status == CLEAVE_OK)
        *price = (priced){timeline.step, program.peak_bytes[0], bench_processor_seconds() - begin};
    cleave_arena_free(&scratch);
    return status;
}

static cleave_status price_few(bench *b, const cleave_layout *layout, priced *price,
                               cleave_error *error) {
    cleave_arena scratch = {0};
    cleave_few few;
    double begin = bench_processor_seconds();
    cleave_status status =
        cleave_few_lower(&b->model, layout, NULL, &b->options, NULL, &scratch, &few, error);
    if (status == CLEAVE_OK)
        status = cleave_few_simulate(&few, b->cache, &scratch, &price->step, error);
    if (status == CLEAVE_OK)
        *price = (priced){price->step, few.whole.peak_bytes[0], bench_processor_seconds() - begin};
    cleave_arena_free(&scratch);
    return status;
}

static cleave_status compare(bench *b, int32_t P, int32_t m, cleave_error *error) {
    cleave_arena arena = {0};
    cleave_layout layout;
    double all[N_TIMES], few[N_TIMES];
    bool legal = false;
    char what[64];
    cleave_status status = make_layout(b, P, m, &arena, &layout, &legal, error);
    for (int i = 0; i < N_TIMES && legal && status == CLEAVE_OK; i++) {
        priced x = {0}, y = {0};
        status = price_all(b, &layout, &x, error);
        if (status == CLEAVE_OK)
            status = price_few(b, &layout, &y, error);
        all[i] = x.seconds;
        few[i] = y.seconds;
        if (status == CLEAVE_OK && (x.step != y.step || x.peak != y.peak))
            status = cleave_fail(error, CLEAVE_FAILED, "P = %d, m = %d: prices differ", P, m);
    }
    snprintf(what, sizeof what, "P = %d, m = %d", P, m);
    if (legal && status == CLEAVE_OK) {
        double x = cleave_median(all, N_TIMES), y = cleave_median(few, N_TIMES);
        bench_row(what, "", "%.1f ms by all, %.1f ms by three: %.1f x", 1e3 * x, 1e3 * y, x / y);
    }
    cleave_arena_free(&arena);
    return status;
}

static cleave_status run(const char *model, int64_t batch, int32_t n_devices, const char *machine,
                         cleave_error *error) {
    bench b = {.options = {.training = true,
                           .symbolic_collectives = true,
                           .optimizer_states = 2,
                           .workspace = cleave_cost_workspace}};
    bool is_config = strlen(model) > 5 && strcmp(model + strlen(model) - 5, ".json") == 0;
    const cleave_import_request request = {
        .file = model, .batch = batch, .sequence = is_config ? 2048 : 0, .with_loss = true};
    CLEAVE_TRY(cleave_model_import_as(&request, &b.arena, &b.model, error));
    CLEAVE_TRY(cleave_machine_read(machine, n_devices, &b.arena, &b.machine, error));
    CLEAVE_TRY(cleave_choose_collectives(&b.machine, false, &b.arena, &b.rules, error));
    CLEAVE_TRY(cleave_cost_cache_create(&b.model, &b.machine, &b.cache, error));
    b.options.workspace_context = &b.machine;
    for (int32_t P = 1; P <= 8; P *= 2)
        for (int32_t m = 8; m <= 64; m *= 2)
            CLEAVE_TRY(compare(&b, P, m, error));
    cleave_cost_cache_destroy(b.cache);
    cleave_arena_free(&b.arena);
    return CLEAVE_OK;
}

int main(int argc, char **argv) {
    bench_arguments a = bench_begin(argc, argv);
    const char *model = bench_take(&a);
    int64_t batch = bench_take_integer(&a, "BATCH", 1, 1 << 20, 64);
    int64_t n_devices = bench_take_integer(&a, "DEVICES", 1, 1 << 12, 16);
    const char *machine = bench_take(&a);
    bench_end(&a);
    cleave_error error = {""};
    cleave_status status = run(
        model != NULL ? model : CLEAVE_SOURCE_DIR "/configs/models/gpt2_small.onnx", batch,
        (int32_t)n_devices,
        machine != NULL ? machine : CLEAVE_SOURCE_DIR "/configs/machines/a100-128x8.json", &error);
    if (status != CLEAVE_OK)
        fprintf(stderr, "%s\n", error.message);
    return (int)status;
}
