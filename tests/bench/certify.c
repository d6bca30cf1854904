/* Branch and bound on small models: is the optimum certified, how long does it take?  Starts from
   the best of a short walk.
     usage: bench_certify [SECONDS [MODEL.onnx BATCH DEVICES [MACHINE.json]]]
   Within SECONDS each (60); the machine is k80-16x4.  Of each model: whether the search was
   complete, and in which time; how many nodes it visited and layouts it priced; then steps of the
   best of the walks and of the optimum, what is proven, and the lower bound that every search
   prints; then the split of every operator. */
#include "base/progress.h"
#include "graph/import/import.h"
#include "search/bound/bound.h"
#include "search/improve/mcmc.h"
#include "search/solve/branch_and_bound.h"

#include "arguments.h"
#include "row.h"
#include "search/problem/baselines.h"

#include <string.h>

enum { MOST_GIVEN = 8, PROPOSALS = 20000 };

typedef struct bench {
    cleave_arena arena;
    cleave_model model;
    cleave_machine machine;
    cleave_node_costs *costs;
    cleave_pricer pricer;
    cleave_candidates candidates;
    const cleave_layout *given[MOST_GIVEN];
    int32_t n_given;
} bench;

static cleave_status list_given(bench *b, cleave_error *error) {
    cleave_collective_rules rules;
    CLEAVE_TRY(cleave_choose_collectives(&b->machine, false, &b->arena, &rules, error));
    for (int i = 0; cleave_baseline_names[i] != NULL && b->n_given < MOST_GIVEN; i++) {
        cleave_layout *layout = CLEAVE_ARENA_ARRAY(&b->arena, cleave_layout, 1);
        bool applies;
        if (layout == NULL)
            return cleave_fail_memory(error, "listing baselines");
        CLEAVE_TRY(cleave_baseline_layout(&b->model, &b->machine, cleave_baseline_names[i], 1,
                                          &b->arena, layout, &applies, error));
        layout->collectives = rules;
        if (applies && cleave_layout_is_plain(layout))
            b->given[b->n_given++] = layout;
    }
    return CLEAVE_OK;
}

/* The best of walks from all baselines. */
static cleave_status find_start(bench *b, cleave_layout *start, cleave_price *best,
                                cleave_error *error) {
    cleave_progress progress = {.quiet = true};
    cleave_mcmc mcmc = {.pricer = &b->pricer,
                        .candidates = &b->candidates,
                        .progress = &progress,
                        .most_proposals = PROPOSALS};
    for (int32_t g = 0; g < b->n_given; g++) {
        cleave_layout found;
        cleave_price price;
        CLEAVE_TRY(cleave_mcmc_walk(&mcmc, b->given[g],
                                    (cleave_mcmc_budget){.proposals = PROPOSALS / b->n_given},
                                    &b->arena, &found, &price, error));
        if (g > 0 && (price.excess_bytes > 0 || price.step >= best->step))
            continue;
        *start = found;
        *best = price;
    }
    return CLEAVE_OK;
}

static cleave_status run(bench *b, const char *name, double seconds, cleave_error *error) {
    cleave_layout start;
    cleave_price found = {0};
    cleave_certified certified;
    double bound;
    CLEAVE_TRY(cleave_node_costs_create(&b->model, &b->machine, &b->costs, error));
    CLEAVE_TRY(cleave_pricer_create(&b->model, &b->machine, 0, 0, &b->pricer, error));
    CLEAVE_TRY(list_given(b, error));
    CLEAVE_TRY(cleave_candidates_create(&b->model, &b->machine, b->costs, b->given, b->n_given,
                                        &b->arena, &b->candidates, error));
    CLEAVE_TRY(cleave_lower_bound(&b->model, &b->machine, &b->candidates, 0, &bound, error));
    CLEAVE_TRY(find_start(b, &start, &found, error));
    double began = cleave_clock_seconds();
    CLEAVE_TRY(cleave_branch_and_bound(&b->pricer, &b->candidates, &start, began + seconds, NULL,
                                       &b->arena, &certified, error));
    double took = cleave_clock_seconds() - began;
    char what[96];
    snprintf(what, sizeof what, "%s on %d", name, b->machine.n_devices);
    bench_row(what, "complete in 60 s", "%s in %.1f s, %lld visited, %lld priced",
              certified.complete ? "complete" : "stopped", took, (long long)certified.visited,
              (long long)certified.priced);
    bench_row("  walks, optimum, bound; bound before", "", "%.6f, %.6f, %.6f; %.6f ms",
              (double)found.step * 1e-9, (double)certified.step * 1e-9,
              (double)certified.bound * 1e-9, bound * 1e3);
    for (int32_t op = 0; op < b->model.n_operators; op++) {
        const cleave_split *split = &certified.layout.splits[op];
        printf("    %s replicas=%d", b->model.operators[op].name, split->replicas);
        for (int a = 0; a < b->model.operators[op].n_axes; a++)
            if (split->degree[a] > 1)
                printf(" %s=%d", b->model.operators[op].axes[a].name, split->degree[a]);
        printf(" on");
        for (int32_t p = 0; p < split->n_parts; p++)
            printf(" %d", split->devices[p]);
        printf("\n");
    }
    return CLEAVE_OK;
}

static int run_case(const char *model, int64_t batch, const char *machine, int32_t devices,
                    double seconds) {
    bench b = {.n_given = 0};
    cleave_error error = {""};
    cleave_status status = cleave_model_import_as(
        &(cleave_import_request){.file = model, .batch = batch, .with_loss = true}, &b.arena,
        &b.model, &error);
    if (status == CLEAVE_OK)
        status = cleave_machine_read(machine, devices, &b.arena, &b.machine, &error);
    const char *slash = strrchr(model, '/');
    if (status == CLEAVE_OK)
        status = run(&b, slash == NULL ? model : slash + 1, seconds, &error);
    if (b.costs != NULL)
        cleave_node_costs_destroy(b.costs);
    cleave_pricer_destroy(&b.pricer);
    cleave_arena_free(&b.arena);
    if (status != CLEAVE_OK)
        fprintf(stderr, "bench_certify: %s\n", error.message);
    return (int)status;
}

int main(int argc, char **argv) {
    static const char *const k80 = CLEAVE_SOURCE_DIR "/configs/machines/k80-16x4.json";
    bench_arguments a = bench_begin(argc, argv);
    double seconds = bench_take_number(&a, "SECONDS", 0, 1e6, 60);
    const char *model = bench_take(&a);
    int64_t batch = bench_take_integer(&a, "BATCH", 1, 1 << 30, 0);
    int32_t devices = (int32_t)bench_take_integer(&a, "DEVICES", 1, 1 << 20, 0);
    const char *machine = bench_take(&a);
    bench_end(&a);
    if (model != NULL && devices == 0)
        bench_refuse(&a, "MODEL.onnx %s: BATCH and DEVICES are wanted, too", model);
    machine = machine != NULL ? machine : k80;
    if (model != NULL)
        return run_case(model, batch, machine, devices, seconds);
    return run_case(CLEAVE_SOURCE_DIR "/configs/models/lenet5.onnx", 64, machine, 4, seconds) |
           run_case(CLEAVE_SOURCE_DIR "/tests/data/rnnlm_2_steps.onnx", 64, machine, 4, seconds);
}
