/* Proposals a second of cleave_estimate, and whether its times are right.  For every model and
   number of devices (of k80-16x4): a Metropolis walk from the data parallel layout over the
   candidates of the search, on processor time, without anything of memory limits.
     usage: bench_estimate [SECONDS [MODEL [DEVICES]]]
            bench_estimate --check CHANGES [MODEL [DEVICES]]
   SECONDS for each case (3); below 0, so many proposals instead, to count instructions.
   Of each case: operators; proposals a second (change, run, accept or reject); the shares of
   lowering and pricing fragments, of the delta simulation, and of the rest; how many fragments were
   remembered; how many times the time of a run a pass over everything takes, by scan and by events
   (medians; the fragments' share is not in a run here); and one lowering and scan from scratch.
   --check spreads the changes over the cases, compares every time with a full pass and every
   thousandth with a lowering from scratch, and fails where any differs. */
#include "simulator/estimate.h"
#include "graph/import.h"
#include "row.h"
#include "search/candidates.h"
#include "search/search.h"
#include "simulator/simulate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH_OF_DEVICE = 64, FROM_SCRATCH = 1000, MAX_SAMPLES = 1000, EVERY = 4 };

static const char *const model_names[] = {"mlp", "alexnet",   "inception_v3", "resnet101", "rnnlm",
                                          "nmt", "bert_base", "gpt2_small",   "dlrm"};
static const int32_t device_counts[] = {4, 16, 64};
enum {
    N_MODELS = sizeof model_names / sizeof model_names[0],
    N_COUNTS = sizeof device_counts / sizeof device_counts[0],
};

/* Data of one case; memory is its arenas' and is given back with it. */
typedef struct bench_case {
    const char *name;
    int32_t n_devices;
    cleave_arena arena, scratch;
    cleave_model model;
    cleave_machine machine;
    cleave_candidates candidates;
    cleave_layout layout; /* splits have room for all devices */
    cleave_split tried;
    cleave_lower_options options;
    cleave_cost_cache *cache;
    cleave_node_costs *costs;
    cleave_estimate *estimate;
    cleave_random random;
    int64_t step;
    double beta;
    /* Of the walk, processor seconds: */
    double fragments, delta, rest;
    int64_t n_proposals, n_checked, n_wrong;
    double scan_ratios[MAX_SAMPLES], runs[MAX_SAMPLES];
    int n_samples;
    double forms_sum;
    int64_t forms_every;
    bool wanders; /* among random layouts, rather than near good ones */
} bench_case;

static double processor_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static cleave_status read_case(bench_case *c, cleave_error *error) {
    char path[4096];
    snprintf(path, sizeof path, "%s/configs/models/%s.onnx", CLEAVE_SOURCE_DIR, c->name);
    CLEAVE_TRY(cleave_model_import(path, (int64_t)BATCH_OF_DEVICE * c->n_devices, true, &c->arena,
                                   &c->model, error));
    snprintf(path, sizeof path, "%s/configs/machines/%s.json", CLEAVE_SOURCE_DIR,
             getenv("CLEAVE_BENCH_MACHINE") != NULL ? getenv("CLEAVE_BENCH_MACHINE") : "k80-16x4");
    return cleave_machine_read(path, c->n_devices, &c->arena, &c->machine, error);
}

static cleave_status make_layout(bench_case *c, cleave_error *error) {
    cleave_arena *arena = &c->arena;
    bool applies;
    CLEAVE_TRY(cleave_baseline_layout(&c->model, &c->machine, "data-parallel", 0, arena, &c->layout,
                                      &applies, error));
    CLEAVE_TRY(cleave_node_costs_create(&c->model, &c->machine, &c->costs, error));
    const cleave_layout *given = &c->layout;
    CLEAVE_TRY(cleave_candidates_create(&c->model, &c->machine, c->costs, &given, 1, arena,
                                        &c->candidates, error));
    c->tried.devices = CLEAVE_ARENA_ARRAY(arena, int32_t, c->n_devices);
    for (int32_t op = 0; op < c->model.n_operators; op++) {
        int32_t *devices = CLEAVE_ARENA_ARRAY(arena, int32_t, c->n_devices);
        if (devices == NULL || c->tried.devices == NULL)
            return cleave_fail_memory(error, "preparing a bench");
        cleave_split *split = &c->layout.splits[op];
        memcpy(devices, split->devices, (size_t)split->n_parts * sizeof *devices);
        split->devices = devices;
    }
    return CLEAVE_OK;
}

static cleave_status begin_case(bench_case *c, cleave_error *error) {
    CLEAVE_TRY(read_case(c, error));
    CLEAVE_TRY(make_layout(c, error));
    c->options = (cleave_lower_options){
        .training = c->model.loss >= 0, .symbolic_collectives = true, .optimizer_states = 1};
    CLEAVE_TRY(cleave_cost_cache_create(&c->model, &c->machine, &c->cache, error));
    CLEAVE_TRY(
        cleave_estimate_create(&c->model, &c->layout, &c->options, c->cache, &c->estimate, error));
    CLEAVE_TRY(cleave_estimate_run(c->estimate, &c->step, error));
    c->beta = 500 / (double)c->step; /* as in the search */
    return CLEAVE_OK;
}

static void end_case(bench_case *c) {
    cleave_estimate_destroy(c->estimate);
    if (c->cache != NULL)
        cleave_cost_cache_destroy(c->cache);
    cleave_node_costs_destroy(c->costs);
    cleave_arena_free(&c->scratch);
    cleave_arena_free(&c->arena);
}

/* ---- what a time is compared with ------------------------------------------------------------ */

/* The layout from scratch; `lowering`, with pricing, and `running` are processor seconds. */
static cleave_status from_scratch(bench_case *c, cleave_rule rule, int64_t *step, double *lowering,
                                  double *running, cleave_error *error) {
    cleave_program program;
    cleave_engine_problem problem;
    cleave_engine_workspace *workspace;
    cleave_timeline timeline;
    cleave_arena_reset(&c->scratch);
    double begun = processor_seconds();
    CLEAVE_TRY(cleave_lower(&c->model, &c->layout, &c->options, &c->scratch, &program, error));
    CLEAVE_TRY(cleave_simulate_prepare(&program, c->cache, &c->scratch, &problem, error));
    CLEAVE_TRY(cleave_engine_workspace_create(&problem, &c->scratch, &workspace, error));
    CLEAVE_TRY(cleave_engine_timeline_create(&problem, &c->scratch, &timeline, error));
    *lowering = processor_seconds() - begun;
    CLEAVE_TRY(cleave_simulate_run(&problem, rule, workspace, &timeline, error)); /* warms up */
    begun = processor_seconds();
    CLEAVE_TRY(cleave_simulate_run(&problem, rule, workspace, &timeline, error));
    *running = processor_seconds() - begun;
    *step = timeline.step;
    return CLEAVE_OK;
}

static void count(bench_case *c, int64_t step, int64_t expected, const char *by) {
    c->n_checked++;
    if (step == expected)
        return;
    if (c->n_wrong++ == 0)
        fprintf(stderr, "%s on %d, proposal %lld: %lld ps by delta, %lld ps %s\n", c->name,
                c->n_devices, (long long)c->n_proposals, (long long)step, (long long)expected, by);
}

static cleave_status check(bench_case *c, int64_t step, cleave_error *error) {
    int64_t expected;
    double lowering, running;
    CLEAVE_TRY(cleave_estimate_full(c->estimate, &expected, error));
    count(c, step, expected, "in full");
    if (c->n_proposals % FROM_SCRATCH != 0)
        return CLEAVE_OK;
    CLEAVE_TRY(from_scratch(c, CLEAVE_RULE_SCAN, &expected, &lowering, &running, error));
    count(c, step, expected, "from scratch");
    return CLEAVE_OK;
}

/* Closed form against the steps expanded, both by scan. */
static cleave_status compare_forms(bench_case *c, cleave_error *error) {
    int64_t closed, expanded;
    double lowering, running;
    CLEAVE_TRY(from_scratch(c, CLEAVE_RULE_SCAN, &closed, &lowering, &running, error));
    c->options.symbolic_collectives = false;
    cleave_status status = from_scratch(c, CLEAVE_RULE_SCAN, &expanded, &lowering, &running, error);
    c->options.symbolic_collectives = true;
    if (status == CLEAVE_OK && expanded > 0 && c->n_samples < MAX_SAMPLES) {
        c->forms_sum += (double)expanded * 1e-12;
        c->runs[c->n_samples] = (double)closed / (double)expanded - 1;
        c->scan_ratios[c->n_samples++] = fabs((double)closed / (double)expanded - 1);
    }
    return status;
}

/* ---- the walk -------------------------------------------------------------------------------- */

static void swap(cleave_split *a, cleave_split *b) {
    cleave_split kept = *a;
    *a = *b;
    *b = kept;
}

static int32_t draw(bench_case *c) {
    int32_t op = (int32_t)cleave_random_below(&c->random, c->model.n_operators);
    const cleave_candidate_list *list = &c->candidates.lists[c->candidates.list_of[op]];
    const cleave_candidate *candidate = &list->items[cleave_random_below(&c->random, list->n)];
    int32_t start = (int32_t)cleave_random_below(&c->random, candidate->n_starts);
    cleave_candidate_place(candidate, start, &c->tried);
    return op;
}

static bool accepts(bench_case *c, int64_t step) {
    if (c->wanders)
        return cleave_random_below(&c->random, 2) == 0;
    double change = (double)(c->step - step);
    return change >= 0 || cleave_random_next_uniform(&c->random) < exp(c->beta * change);
}

/* One proposal; `run` is what its delta simulation took. */
static cleave_status propose(bench_case *c, bool checks, double *run, cleave_error *error) {
    int64_t step;
    int32_t op = draw(c);
    double begun = processor_seconds();
    CLEAVE_TRY(cleave_estimate_change(c->estimate, op, &c->tried, error));
    double changed = processor_seconds();
    CLEAVE_TRY(cleave_estimate_prepare(c->estimate, error));
    double prepared = processor_seconds();
    CLEAVE_TRY(cleave_estimate_run(c->estimate, &step, error));
    double done = processor_seconds();
    swap(&c->layout.splits[op], &c->tried);
    if (checks)
        CLEAVE_TRY(check(c, step, error));
    if (c->forms_every > 0 && c->n_proposals % c->forms_every == 0)
        CLEAVE_TRY(compare_forms(c, error));
    double decided = processor_seconds();
    if (accepts(c, step)) {
        CLEAVE_TRY(cleave_estimate_accept(c->estimate, error));
        c->step = step;
    } else {
        CLEAVE_TRY(cleave_estimate_reject(c->estimate, error));
        swap(&c->layout.splits[op], &c->tried);
    }
    c->rest += changed - begun + processor_seconds() - decided;
    c->fragments += prepared - changed;
    c->delta += done - prepared;
    c->n_proposals++;
    *run = done - prepared;
    return CLEAVE_OK;
}

/* How the pass over everything compares with the delta simulation just before it. */
static cleave_status sample(bench_case *c, double run, cleave_error *error) {
    int64_t step;
    double begun = processor_seconds();
    CLEAVE_TRY(cleave_estimate_full(c->estimate, &step, error));
    c->scan_ratios[c->n_samples] = (processor_seconds() - begun) / run;
    c->runs[c->n_samples++] = run;
    return CLEAVE_OK;
}

static cleave_status report(bench_case *c, cleave_error *error) {
    cleave_estimate_counts counts = cleave_estimate_count(c->estimate);
    double all = c->fragments + c->delta + c->rest, lowering, scan, events, again;
    int64_t step;
    CLEAVE_TRY(from_scratch(c, CLEAVE_RULE_SCAN, &step, &lowering, &scan, error));
    CLEAVE_TRY(from_scratch(c, CLEAVE_RULE_EVENTS, &step, &again, &events, error));
    printf("%-13s %4d %5d %9.0f   %3.0f %3.0f %3.0f %5.0f %8.2f %8.1f %10.2f %9.3f\n", c->name,
           c->n_devices, c->model.n_operators, (double)c->n_proposals / all,
           100 * c->fragments / all, 100 * c->delta / all, 100 * c->rest / all,
           100 - 100 * (double)counts.made / (double)counts.fragments,
           bench_median(c->scan_ratios, c->n_samples), events / bench_median(c->runs, c->n_samples),
           1e3 * lowering, 1e3 * scan);
    fflush(stdout);
    return CLEAVE_OK;
}

static cleave_status measure(bench_case *c, double seconds, cleave_error *error) {
    double run, begun = processor_seconds();
    while (seconds < 0 ? c->n_proposals < -seconds
                       : processor_seconds() - begun < seconds || c->n_samples == 0) {
        CLEAVE_TRY(propose(c, false, &run, error));
        if (c->n_proposals % EVERY == 1 && c->n_samples < MAX_SAMPLES)
            CLEAVE_TRY(sample(c, run, error));
    }
    return report(c, error);
}

static cleave_status check_all(bench_case *c, int64_t n_changes, cleave_error *error) {
    double run;
    while (c->n_proposals < n_changes)
        CLEAVE_TRY(propose(c, true, &run, error));
    printf("%-13s %4d %5d %9lld changes, %lld comparisons, %lld differ\n", c->name, c->n_devices,
           c->model.n_operators, (long long)c->n_proposals, (long long)c->n_checked,
           (long long)c->n_wrong);
    fflush(stdout);
    return CLEAVE_OK;
}

static cleave_status forms_all(bench_case *c, int64_t n_changes, cleave_error *error) {
    double run;
    c->forms_every = n_changes / 30;
    while (c->n_proposals < n_changes)
        CLEAVE_TRY(propose(c, false, &run, error));
    double median = bench_median(c->runs, c->n_samples);
    double size = bench_median(c->scan_ratios, c->n_samples);
    double most = c->scan_ratios[c->n_samples - 1];
    printf("%-13s %4d %5d  %+6.2f %% median, %6.2f %% median of sizes, %6.2f %% at most; "
           "%.4g s expanded on average\n",
           c->name, c->n_devices, c->model.n_operators, 100 * median, 100 * size, 100 * most,
           c->forms_sum / c->n_samples);
    fflush(stdout);
    return CLEAVE_OK;
}

/* ---- cases ----------------------------------------------------------------------------------- */

typedef struct wishes {
    bool check, forms;
    double amount; /* changes in all, or seconds for each case */
    const char *model;
    int32_t n_devices; /* 0: all */
} wishes;

static bool is_wanted(const wishes *w, int model, int count) {
    return (w->model == NULL || strcmp(w->model, model_names[model]) == 0) &&
           (w->n_devices == 0 || w->n_devices == device_counts[count]);
}

/* Returns the number of comparisons that failed; -1 for an error. */
static int64_t run_case(const wishes *w, int model, int count, int32_t n_cases) {
    cleave_error error = {""};
    bench_case *c = calloc(1, sizeof *c);
    if (c == NULL)
        return -1;
    c->name = model_names[model];
    c->n_devices = device_counts[count];
    c->random.key = 1;
    c->wanders = getenv("CLEAVE_BENCH_WANDERS") != NULL;
    cleave_status status = begin_case(c, &error);
    if (status == CLEAVE_OK)
        status = w->forms   ? forms_all(c, (int64_t)w->amount, &error)
                 : w->check ? check_all(c, (int64_t)ceil(w->amount / n_cases), &error)
                            : measure(c, w->amount, &error);
    int64_t n_wrong = c->n_wrong;
    if (status != CLEAVE_OK)
        fprintf(stderr, "bench_estimate: %s on %d devices: %s\n", c->name, c->n_devices,
                error.message);
    end_case(c);
    free(c);
    return status == CLEAVE_OK ? n_wrong : -1;
}

int main(int argc, char **argv) {
    wishes w = {.amount = 3};
    w.check = argc > 1 && strcmp(argv[1], "--check") == 0;
    w.forms = argc > 1 && strcmp(argv[1], "--forms") == 0;
    int first = w.check || w.forms ? 2 : 1;
    w.amount = argc > first ? atof(argv[first]) : w.check ? 27000 : 3;
    w.model = argc > first + 1 ? argv[first + 1] : NULL;
    w.n_devices = argc > first + 2 ? atoi(argv[first + 2]) : 0;
    int32_t n_cases = 0;
    for (int m = 0; m < N_MODELS; m++)
        for (int d = 0; d < N_COUNTS; d++)
            n_cases += is_wanted(&w, m, d);
    if (!w.check && !w.forms)
        printf("%-13s %4s %5s %9s   %-11s %5s %8s %8s %10s %9s\n", "model", "dev", "ops", "props/s",
               "lower/d/rest", "hit %", "full/d", "events/d", "lower ms", "scan ms");
    int64_t n_wrong = 0;
    for (int m = 0; m < N_MODELS; m++)
        for (int d = 0; d < N_COUNTS; d++) {
            int64_t wrong = is_wanted(&w, m, d) ? run_case(&w, m, d, n_cases) : 0;
            if (wrong < 0)
                return 1;
            n_wrong += wrong;
        }
    return n_wrong > 0;
}
