/* Proposals a second of cleave_estimate, and whether its times are right.  For every model and
   number of devices, on processor time, without anything of memory limits, two walks over the
   candidates of the search, operator by operator:
     near    from the data parallel layout by the Metropolis rule, as a search goes
     random  half of all proposals are accepted whatever they cost, so that soon all operators are
             split without regard to one another
     usage: bench_estimate [--machine NAME] [--seed S] [SECONDS [MODEL [DEVICES]]]
            bench_estimate [--machine NAME] [--seed S] --plain SECONDS [MODEL [DEVICES]]
            bench_estimate [--machine NAME] [--seed S] --check CHANGES [MODEL [DEVICES]]
            bench_estimate [--machine NAME] [--seed S] --forms CHANGES [MODEL [DEVICES]]
   The machine is k80-16x4.  SECONDS for each walk (1); below 0, so many proposals instead.
   Of each walk: operators; proposals a second (change, run, accept or reject) and how many are
   accepted; the shares of lowering and pricing fragments, of putting them and the delta simulation,
   and of the rest; how many fragments were remembered.  Then by how many times a proposal whose
   fragments are ready would take longer with a pass over everything, by the scan (medians; both put
   the fragments) and by events; how many times longer all of it takes from scratch, lowering and
   pricing and scanning the whole layout, than a proposal with all it does: the comparison that
   is usual; and what that lowering and scan take.
   --plain leaves the comparisons out, for profiles.
   --check spreads the changes over the walks, compares every time with a full pass and every
   thousandth with a lowering from scratch, and fails where any differs: again with other seeds, as
   long as wanted.  --forms says how far the closed form is from the expanded one, over the
   proposals of a walk. */
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
    const char *name, *machine_name;
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
    int64_t n_proposals, n_timed, n_accepted, n_checked, n_wrong;
    double scan_ratios[MAX_SAMPLES], runs[MAX_SAMPLES];
    int n_samples;
    double forms_sum;
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
    snprintf(path, sizeof path, "%s/configs/machines/%s.json", CLEAVE_SOURCE_DIR, c->machine_name);
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

/* What a proposal whose fragments are ready takes by a pass over everything; both ways put them
   first, and meet them in the caches. */
static cleave_status time_full(bench_case *c, int32_t op, double *seconds, cleave_error *error) {
    int64_t step;
    for (int k = 0; k < 2; k++) {
        CLEAVE_TRY(cleave_estimate_change(c->estimate, op, &c->tried, error));
        CLEAVE_TRY(cleave_estimate_prepare(c->estimate, error));
        double begun = processor_seconds();
        CLEAVE_TRY(cleave_estimate_full(c->estimate, &step, error));
        *seconds = processor_seconds() - begun;
        CLEAVE_TRY(cleave_estimate_reject(c->estimate, error));
    }
    return CLEAVE_OK;
}

static cleave_status decide(bench_case *c, int32_t op, int64_t step, cleave_error *error) {
    if (accepts(c, step)) {
        c->step = step;
        c->n_accepted++;
        return cleave_estimate_accept(c->estimate, error);
    }
    swap(&c->layout.splits[op], &c->tried);
    return cleave_estimate_reject(c->estimate, error);
}

typedef enum purpose { TIME, SAMPLE, CHECK, FORMS } purpose;

/* One proposal, and what it is looked at for besides. */
static cleave_status propose(bench_case *c, purpose what, cleave_error *error) {
    int64_t step;
    double full = 0;
    int32_t op = draw(c);
    if (what == SAMPLE)
        CLEAVE_TRY(time_full(c, op, &full, error));
    double begun = processor_seconds();
    CLEAVE_TRY(cleave_estimate_change(c->estimate, op, &c->tried, error));
    double changed = processor_seconds();
    CLEAVE_TRY(cleave_estimate_prepare(c->estimate, error));
    double prepared = processor_seconds();
    CLEAVE_TRY(cleave_estimate_run(c->estimate, &step, error));
    double done = processor_seconds();
    swap(&c->layout.splits[op], &c->tried);
    if (what == CHECK)
        CLEAVE_TRY(check(c, step, error));
    if (what == FORMS)
        CLEAVE_TRY(compare_forms(c, error));
    double decided = processor_seconds();
    CLEAVE_TRY(decide(c, op, step, error));
    c->n_proposals++;
    if (what == SAMPLE) { /* its fragments were made before */
        c->scan_ratios[c->n_samples] = full / (done - prepared);
        c->runs[c->n_samples++] = done - prepared;
        return CLEAVE_OK;
    }
    c->rest += changed - begun + processor_seconds() - decided;
    c->fragments += prepared - changed;
    c->delta += done - prepared;
    c->n_timed++;
    return CLEAVE_OK;
}

static void report_walk(const bench_case *c) {
    cleave_estimate_counts counts = cleave_estimate_count(c->estimate);
    double all = c->fragments + c->delta + c->rest, n = (double)c->n_timed;
    printf("%-6s %-13s %4d %4d %9.0f %5.1f  %3.0f %3.0f %3.0f %5.0f",
           c->wanders ? "random" : "near", c->name, c->n_devices, c->model.n_operators, n / all,
           100 * (double)c->n_accepted / (double)c->n_proposals, 100 * c->fragments / all,
           100 * c->delta / all, 100 * c->rest / all,
           100 - 100 * (double)counts.made / (double)counts.fragments);
}

static cleave_status report_comparisons(bench_case *c, cleave_error *error) {
    double all = c->fragments + c->delta + c->rest, lowering, scan, events, again;
    int64_t step;
    CLEAVE_TRY(from_scratch(c, CLEAVE_RULE_SCAN, &step, &lowering, &scan, error));
    CLEAVE_TRY(from_scratch(c, CLEAVE_RULE_EVENTS, &step, &again, &events, error));
    double run = bench_median(c->runs, c->n_samples), n = (double)c->n_timed;
    printf(" %8.2f %8.1f %8.1f %9.2f %8.3f", bench_median(c->scan_ratios, c->n_samples),
           events / run, (lowering + scan) * n / all, 1e3 * lowering, 1e3 * scan);
    return CLEAVE_OK;
}

static cleave_status measure(bench_case *c, double seconds, bool compares, cleave_error *error) {
    double begun = processor_seconds();
    while (seconds < 0 ? c->n_proposals < -seconds
                       : processor_seconds() - begun < seconds || c->n_timed == 0) {
        bool samples = compares && c->n_proposals % EVERY == 0 && c->n_samples < MAX_SAMPLES;
        CLEAVE_TRY(propose(c, samples ? SAMPLE : TIME, error));
    }
    report_walk(c);
    if (compares)
        CLEAVE_TRY(report_comparisons(c, error));
    printf("\n");
    fflush(stdout);
    return CLEAVE_OK;
}

static cleave_status check_all(bench_case *c, int64_t n_changes, cleave_error *error) {
    while (c->n_proposals < n_changes)
        CLEAVE_TRY(propose(c, CHECK, error));
    printf("%-6s %-13s %4d %4d %9lld changes, %lld comparisons, %lld differ\n",
           c->wanders ? "random" : "near", c->name, c->n_devices, c->model.n_operators,
           (long long)c->n_proposals, (long long)c->n_checked, (long long)c->n_wrong);
    fflush(stdout);
    return CLEAVE_OK;
}

static cleave_status forms_all(bench_case *c, int64_t n_changes, cleave_error *error) {
    int64_t every = n_changes / 30 + 1;
    while (c->n_proposals < n_changes)
        CLEAVE_TRY(propose(c, c->n_proposals % every == 0 ? FORMS : TIME, error));
    double median = bench_median(c->runs, c->n_samples);
    double size = bench_median(c->scan_ratios, c->n_samples);
    double most = c->scan_ratios[c->n_samples - 1];
    printf("%-6s %-13s %4d %4d  %+6.2f %% median, %6.2f %% median of sizes, %6.2f %% at most; "
           "%.4g s expanded on average\n",
           c->wanders ? "random" : "near", c->name, c->n_devices, c->model.n_operators,
           100 * median, 100 * size, 100 * most, c->forms_sum / c->n_samples);
    fflush(stdout);
    return CLEAVE_OK;
}

/* ---- cases ----------------------------------------------------------------------------------- */

typedef enum mode { MEASURE, MEASURE_PLAIN, COMPARE_TIMES, COMPARE_FORMS } mode;

typedef struct wishes {
    mode mode;
    double amount; /* seconds of a case; or changes, in all or of a case (forms) */
    const char *machine, *model;
    int32_t n_devices; /* 0: all */
    uint64_t seed;
    int32_t n_cases;
} wishes;

static bool is_wanted(const wishes *w, int model, int count) {
    return (w->model == NULL || strcmp(w->model, model_names[model]) == 0) &&
           (w->n_devices == 0 || w->n_devices == device_counts[count]);
}

static cleave_status look(bench_case *c, const wishes *w, cleave_error *error) {
    CLEAVE_TRY(begin_case(c, error));
    switch (w->mode) {
    case COMPARE_TIMES:
        return check_all(c, (int64_t)ceil(w->amount / w->n_cases), error);
    case COMPARE_FORMS:
        return forms_all(c, (int64_t)w->amount, error);
    default:
        return measure(c, w->amount, w->mode == MEASURE, error);
    }
}

/* Returns the number of comparisons that failed; -1 for an error. */
static int64_t run_case(const wishes *w, int model, int count, bool wanders) {
    cleave_error error = {""};
    bench_case *c = calloc(1, sizeof *c);
    if (c == NULL)
        return -1;
    c->name = model_names[model];
    c->machine_name = w->machine;
    c->n_devices = device_counts[count];
    c->random.key = w->seed;
    c->wanders = wanders;
    cleave_status status = look(c, w, &error);
    int64_t n_wrong = c->n_wrong;
    if (status != CLEAVE_OK)
        fprintf(stderr, "bench_estimate: %s on %d devices: %s\n", c->name, c->n_devices,
                error.message);
    end_case(c);
    free(c);
    return status == CLEAVE_OK ? n_wrong : -1;
}

static int64_t run_all(const wishes *w) {
    int64_t n_wrong = 0;
    for (int wanders = 0; wanders < 2; wanders++)
        for (int m = 0; m < N_MODELS; m++)
            for (int d = 0; d < N_COUNTS; d++) {
                int64_t wrong = is_wanted(w, m, d) ? run_case(w, m, d, wanders == 1) : 0;
                if (wrong < 0)
                    return -1;
                n_wrong += wrong;
            }
    return n_wrong;
}

static void print_head(const wishes *w) {
    if (w->mode == MEASURE || w->mode == MEASURE_PLAIN)
        printf("%-6s %-13s %4s %4s %9s %5s  %-11s %5s", "walk", "model", "dev", "ops", "props/s",
               "acc %", "lower/d/rest", "hit %");
    if (w->mode == MEASURE)
        printf(" %8s %8s %8s %9s %8s", "full/d", "events/d", "whole/p", "lower ms", "scan ms");
    if (w->mode == MEASURE || w->mode == MEASURE_PLAIN)
        printf("\n");
}

/* Takes "NAME VALUE" off the front of the arguments. */
static const char *option(const char *name, int *argc, char ***argv) {
    if (*argc < 3 || strcmp((*argv)[1], name) != 0)
        return NULL;
    *argc -= 2;
    *argv += 2;
    return (*argv)[0];
}

int main(int argc, char **argv) {
    wishes w = {.amount = 3, .machine = "k80-16x4", .seed = 1};
    const char *value;
    if ((value = option("--machine", &argc, &argv)) != NULL)
        w.machine = value;
    if ((value = option("--seed", &argc, &argv)) != NULL)
        w.seed = (uint64_t)strtoull(value, NULL, 10);
    if ((value = option("--check", &argc, &argv)) != NULL)
        w.mode = COMPARE_TIMES;
    else if ((value = option("--plain", &argc, &argv)) != NULL)
        w.mode = MEASURE_PLAIN;
    else if ((value = option("--forms", &argc, &argv)) != NULL)
        w.mode = COMPARE_FORMS;
    else if (argc > 1)
        value = *++argv, argc--;
    w.amount = value != NULL ? atof(value) : 1;
    w.model = argc > 1 ? argv[1] : NULL;
    w.n_devices = argc > 2 ? atoi(argv[2]) : 0;
    for (int m = 0; m < N_MODELS; m++)
        for (int d = 0; d < N_COUNTS; d++)
            w.n_cases += 2 * is_wanted(&w, m, d);
    print_head(&w);
    int64_t n_wrong = run_all(&w);
    return n_wrong != 0;
}
