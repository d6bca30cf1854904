/* What a rank adds to its kernels: the time of a training step on one device over the sum of its
   kernels' times within that step, and what fraction of the core's peak (an FMA loop of the same
   run) the kernels reach.  Medians over repetitions, of the last of three steps each.
     usage: bench_step [REPETITIONS [PART_OF_A_NAME]] */
#include "../support/shipped.h"
#include "arguments.h"
#include "exec/run.h"
#include "exec/world/world.h"
#include "graph/program/program.h"
#include "graph/program/work.h"
#include "row.h"

#include <string.h>

enum { MOST_REPETITIONS = 101 };

typedef struct bench_case {
    const char *model;
    int64_t batch;
} bench_case;

static double count_flops(const cleave_program *program) {
    double flops = 0;
    for (int32_t i = 0; i < program->n_items; i++) {
        if (program->items[i].kind != CLEAVE_ITEM_COMPUTE)
            continue;
        const cleave_compute *compute = &program->computes[program->items[i].subject];
        cleave_work work;
        cleave_work_describe(program->model, &program->model->nests[compute->nest], compute->pass,
                             &compute->part, &work);
        flops += work.flops;
    }
    return flops;
}

typedef struct sample {
    double ratio, kernel_seconds, flops;
} sample;

static cleave_status run_once(const bench_case *of, cleave_world *world, cleave_arena *arena,
                              sample *result, cleave_error *error) {
    cleave_model model;
    cleave_layout layout;
    cleave_run_result run;
    cleave_run_options options = {
        .steps = 3,
        .optimizer = cleave_optimizer_default(CLEAVE_OPTIMIZER_SGD),
        .quiet = true,
    };
    CLEAVE_TRY(shipped_model(of->model, of->batch, arena, &model, error));
    CLEAVE_TRY(cleave_layout_create(&model, 1, arena, &layout, error));
    CLEAVE_TRY(cleave_run(world, &model, &layout, &options, arena, &run, error));
    *result = (sample){run.last_step_seconds / run.kernel_seconds, run.kernel_seconds,
                       count_flops(run.program)};
    return CLEAVE_OK;
}

static cleave_status measure(const bench_case *of, cleave_world *world, int repetitions,
                             double peak_gflops, cleave_error *error) {
    double ratios[MOST_REPETITIONS], seconds[MOST_REPETITIONS], flops = 0;
    char what[128];
    for (int r = 0; r < repetitions; r++) {
        cleave_arena arena = {0};
        sample one = {0};
        cleave_status status = run_once(of, world, &arena, &one, error);
        cleave_arena_free(&arena);
        CLEAVE_TRY(status);
        ratios[r] = one.ratio;
        seconds[r] = one.kernel_seconds;
        flops = one.flops;
    }
    double kernel_seconds = cleave_median(seconds, repetitions);
    double gflops = 1e-9 * flops / kernel_seconds;
    snprintf(what, sizeof what, "step over its kernels, %s batch %lld", of->model,
             (long long)of->batch);
    bench_row(what, "at most 1.15", "%.3f; kernels %.1f ms, %.0f %% of %.0f GFLOP/s",
              cleave_median(ratios, repetitions), 1e3 * kernel_seconds, 100 * gflops / peak_gflops,
              peak_gflops);
    return CLEAVE_OK;
}

int main(int argc, char **argv) {
    static const bench_case cases[] = {
        {"mlp", 256}, {"lenet5", 256}, {"alexnet", 32}, {"resnet50", 8}, {"inception_v3", 8}};
    bench_arguments a = bench_begin(argc, argv);
    int repetitions = (int)bench_take_integer(&a, "REPETITIONS", 1, MOST_REPETITIONS, 3);
    const char *only = bench_take_name(&a, "PART_OF_A_NAME", true, &cases[0].model, sizeof cases[0],
                                       sizeof cases / sizeof cases[0]);
    bench_end(&a);
    cleave_world *world;
    cleave_error error = {""};
    cleave_status status = cleave_world_begin(&world, &error);
    if (status == CLEAVE_OK) {
        double peak_gflops = bench_peak_gflops();
        for (size_t i = 0; i < sizeof cases / sizeof cases[0] && status == CLEAVE_OK; i++)
            if (only == NULL || strstr(cases[i].model, only) != NULL)
                status = measure(&cases[i], world, repetitions, peak_gflops, &error);
    }
    if (status != CLEAVE_OK)
        fprintf(stderr, "bench_step: %s\n", error.message);
    else
        cleave_world_end(world, 0);
    return status != CLEAVE_OK;
}
