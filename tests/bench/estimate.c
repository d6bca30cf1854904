/* Proposals a second of cleave_estimate, and whether its times are right.  For every model and
   number of devices, on processor time, without anything of memory limits, three walks over the
   candidates of the search, operator by operator:
     near    from the data parallel layout by the Metropolis rule, as a search goes
     random  half of all proposals are accepted whatever they cost, so that soon all operators are
             split without regard to one another
     folds   the same among layouts that fold to one node, priced by the estimate of a window; where
             the machine is several nodes
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
   The walk of folds has no comparisons.  Last their medians over all rows, and the least full/d.
   --plain leaves the comparisons out, for profiles.
   --check shares the changes out over the walks, each getting so many as its devices are few (of
   4, 16 and 64 devices 16, 4 and 1 of 21), since a change on many takes the longer.  It compares
   every time with a full pass and every 64th with a lowering from scratch, and fails where any
   differs: again with other seeds, as long as wanted.  --forms says how far the closed form is from
   the expanded one, over the proposals of a walk. */
#include "arguments.h"
#include "base/process.h"
#include "costmodel/machine_fold.h"
#include "row.h"
#include "tests/bench/estimate/case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FROM_SCRATCH = 64, EVERY = 4 };

static const char *const walk_names[] = {"near", "random", "folds"};
static const char *const model_names[] = {"mlp", "alexnet",   "inception_v3", "resnet101", "rnnlm",
                                          "nmt", "bert_base", "gpt2_small",   "dlrm"};
static const int32_t device_counts[] = {4, 16, 64};
enum {
    N_MODELS = sizeof model_names / sizeof model_names[0],
    N_COUNTS = sizeof device_counts / sizeof device_counts[0],
};

/* ---- what a time is compared with ------------------------------------------------------------ */

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
    cleave_estimate *estimate = c->walk == FOLDS ? c->folds.estimate : c->estimate;
    CLEAVE_TRY(cleave_estimate_full(estimate, &expected, error));
    count(c, step, expected, "in full");
    if (c->n_proposals % FROM_SCRATCH != 0)
        return CLEAVE_OK;
    if (c->walk == FOLDS) {
        CLEAVE_TRY(fold_walk_from_scratch(&c->folds, &expected, error));
        count(c, step, expected, "from scratch");
        return CLEAVE_OK;
    }
    CLEAVE_TRY(from_scratch(c, CLEAVE_RULE_SCAN, &expected, NULL, NULL, error));
    count(c, step, expected, "from scratch");
    return CLEAVE_OK;
}

/* Closed form against the steps expanded, both by scan. */
static cleave_status compare_forms(bench_case *c, cleave_error *error) {
    int64_t closed, expanded;
    CLEAVE_TRY(from_scratch(c, CLEAVE_RULE_SCAN, &closed, NULL, NULL, error));
    c->options.symbolic_collectives = false;
    cleave_status status = from_scratch(c, CLEAVE_RULE_SCAN, &expanded, NULL, NULL, error);
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
    if (c->walk != NEAR)
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
        double begun = bench_processor_seconds();
        CLEAVE_TRY(cleave_estimate_full(c->estimate, &step, error));
        *seconds = bench_processor_seconds() - begun;
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
    double begun = bench_processor_seconds();
    CLEAVE_TRY(cleave_estimate_change(c->estimate, op, &c->tried, error));
    double changed = bench_processor_seconds();
    CLEAVE_TRY(cleave_estimate_prepare(c->estimate, error));
    double prepared = bench_processor_seconds();
    CLEAVE_TRY(cleave_estimate_run(c->estimate, &step, error));
    double done = bench_processor_seconds();
    swap(&c->layout.splits[op], &c->tried);
    if (what == CHECK)
        CLEAVE_TRY(check(c, step, error));
    if (what == FORMS)
        CLEAVE_TRY(compare_forms(c, error));
    double decided = bench_processor_seconds();
    CLEAVE_TRY(decide(c, op, step, error));
    c->n_proposals++;
    if (what == SAMPLE) { /* its fragments were made before */
        c->scan_ratios[c->n_samples] = full / (done - prepared);
        c->runs[c->n_samples++] = done - prepared;
        return CLEAVE_OK;
    }
    c->rest += changed - begun + bench_processor_seconds() - decided;
    c->fragments += prepared - changed;
    c->delta += done - prepared;
    c->n_timed++;
    return CLEAVE_OK;
}

/* What does not fold counts as a proposal that is rejected. */
static cleave_status propose_fold(bench_case *c, purpose what, cleave_error *error) {
    int64_t step;
    bool folds;
    double begun = bench_processor_seconds();
    CLEAVE_TRY(fold_walk_change(&c->folds, &c->random, &folds, error));
    double changed = bench_processor_seconds();
    if (folds)
        CLEAVE_TRY(fold_walk_prepare(&c->folds, &folds, error));
    double prepared = bench_processor_seconds();
    if (folds)
        CLEAVE_TRY(cleave_estimate_run(c->folds.estimate, &step, error));
    double done = bench_processor_seconds();
    if (folds && what == CHECK)
        CLEAVE_TRY(check(c, step, error));
    bool accepted = folds && accepts(c, step);
    double decided = bench_processor_seconds();
    if (folds)
        CLEAVE_TRY(fold_walk_decide(&c->folds, accepted, error));
    c->n_proposals++;
    c->n_timed++;
    c->n_accepted += accepted;
    c->rest += changed - begun + bench_processor_seconds() - decided;
    c->fragments += prepared - changed;
    c->delta += done - prepared;
    return CLEAVE_OK;
}

static cleave_status propose_any(bench_case *c, purpose what, cleave_error *error) {
    return c->walk == FOLDS ? propose_fold(c, what, error) : propose(c, what, error);
}

static void report_walk(const bench_case *c) {
    cleave_estimate_counts counts =
        cleave_estimate_count(c->walk == FOLDS ? c->folds.estimate : c->estimate);
    double all = c->fragments + c->delta + c->rest, n = (double)c->n_timed;
    printf("%-6s %-13s %4d %4d %9.0f %5.1f  %3.0f %3.0f %3.0f %5.0f", walk_names[c->walk], c->name,
           c->n_devices, c->model.n_operators, n / all,
           100 * (double)c->n_accepted / (double)c->n_proposals, 100 * c->fragments / all,
           100 * c->delta / all, 100 * c->rest / all,
           100 - 100 * (double)counts.made / (double)counts.fragments);
}

static cleave_status report_comparisons(bench_case *c, cleave_error *error) {
    double all = c->fragments + c->delta + c->rest, lowering, scan, events, again;
    int64_t step;
    CLEAVE_TRY(from_scratch(c, CLEAVE_RULE_SCAN, &step, &lowering, &scan, error));
    CLEAVE_TRY(from_scratch(c, CLEAVE_RULE_EVENTS, &step, &again, &events, error));
    double run = cleave_median(c->runs, c->n_samples), n = (double)c->n_timed;
    c->compared = (comparisons){.full = cleave_median(c->scan_ratios, c->n_samples),
                                .events = events / run,
                                .whole = (lowering + scan) * n / all};
    printf(" %8.2f %8.1f %8.1f %9.2f %8.3f", c->compared.full, c->compared.events,
           c->compared.whole, 1e3 * lowering, 1e3 * scan);
    return CLEAVE_OK;
}

static cleave_status measure(bench_case *c, double seconds, bool compares, cleave_error *error) {
    compares = compares && c->walk != FOLDS;
    double begun = bench_processor_seconds();
    while (seconds < 0 ? (double)c->n_proposals < -seconds
                       : bench_processor_seconds() - begun < seconds || c->n_timed == 0) {
        bool samples = compares && c->n_proposals % EVERY == 0 && c->n_samples < MAX_SAMPLES;
        CLEAVE_TRY(propose_any(c, samples ? SAMPLE : TIME, error));
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
        CLEAVE_TRY(propose_any(c, CHECK, error));
    printf("%-6s %-13s %4d %4d %9lld changes, %lld comparisons, %lld differ\n", walk_names[c->walk],
           c->name, c->n_devices, c->model.n_operators, (long long)c->n_proposals,
           (long long)c->n_checked, (long long)c->n_wrong);
    fflush(stdout);
    return CLEAVE_OK;
}

static cleave_status forms_all(bench_case *c, int64_t n_changes, cleave_error *error) {
    int64_t every = n_changes / 30 + 1;
    while (c->n_proposals < n_changes)
        CLEAVE_TRY(propose(c, c->n_proposals % every == 0 ? FORMS : TIME, error));
    double median = cleave_median(c->runs, c->n_samples);
    double size = cleave_median(c->scan_ratios, c->n_samples);
    double most = c->scan_ratios[c->n_samples - 1];
    printf("%-6s %-13s %4d %4d  %+6.2f %% median, %6.2f %% median of sizes, %6.2f %% at most; "
           "%.4g s expanded on average\n",
           walk_names[c->walk], c->name, c->n_devices, c->model.n_operators, 100 * median,
           100 * size, 100 * most, c->forms_sum / c->n_samples);
    fflush(stdout);
    return CLEAVE_OK;
}

/* ---- cases ----------------------------------------------------------------------------------- */

typedef enum mode { MEASURE, MEASURE_PLAIN, COMPARE_TIMES, COMPARE_FORMS } mode;
static const char *const mode_names[] = {"", "--plain", "--check", "--forms"};

typedef struct wishes {
    mode mode;
    double amount; /* seconds of a case; or changes, in all or of a case (forms) */
    const char *machine, *model;
    int32_t n_devices; /* 0: all */
    uint64_t seed;
    bool folds[N_COUNTS]; /* machines of so many devices */
    double shares;        /* of all cases */
} wishes;

static bool is_wanted(const wishes *w, walk_kind walk, int model, int count) {
    return (w->model == NULL || strcmp(w->model, model_names[model]) == 0) &&
           (w->n_devices == 0 || w->n_devices == device_counts[count]) &&
           (walk != FOLDS || (w->folds[count] && w->mode != COMPARE_FORMS));
}

/* Of the changes of a check; what a change takes grows about as fast as the devices. */
static double share(int32_t n_devices) { return 1 / (double)n_devices; }

/* Which machines fold, and the shares of all cases. */
static cleave_status complete(wishes *w, cleave_error *error) {
    char path[4096];
    cleave_arena arena = {0};
    cleave_machine machine;
    cleave_status status = CLEAVE_OK;
    snprintf(path, sizeof path, "%s/configs/machines/%s.json", CLEAVE_SOURCE_DIR, w->machine);
    for (int d = 0; d < N_COUNTS && status == CLEAVE_OK; d++) {
        status = cleave_machine_read(path, device_counts[d], &arena, &machine, error);
        w->folds[d] = status == CLEAVE_OK && cleave_machine_may_fold(&machine, NULL);
    }
    cleave_arena_free(&arena);
    for (walk_kind walk = NEAR; walk < N_WALKS; walk++)
        for (int m = 0; m < N_MODELS; m++)
            for (int d = 0; d < N_COUNTS; d++)
                w->shares += is_wanted(w, walk, m, d) ? share(device_counts[d]) : 0;
    return status;
}

static cleave_status look(bench_case *c, const wishes *w, cleave_error *error) {
    CLEAVE_TRY(begin_case(c, error));
    switch (w->mode) {
    case COMPARE_TIMES:
        return check_all(c, (int64_t)ceil(w->amount * share(c->n_devices) / w->shares), error);
    case COMPARE_FORMS:
        return forms_all(c, (int64_t)w->amount, error);
    default:
        return measure(c, w->amount, w->mode == MEASURE, error);
    }
}

/* Of all rows that have comparisons. */
typedef struct summary {
    double full[N_WALKS * N_MODELS * N_COUNTS], events[N_WALKS * N_MODELS * N_COUNTS],
        whole[N_WALKS * N_MODELS * N_COUNTS];
    int n;
} summary;

static void note(summary *all, const comparisons *of) {
    all->full[all->n] = of->full;
    all->events[all->n] = of->events;
    all->whole[all->n++] = of->whole;
}

static void print_summary(summary *all) {
    if (all->n == 0)
        return;
    double full = cleave_median(all->full, all->n); /* sorts them */
    printf("medians of %d rows: full/d %.2f (least %.2f), events/d %.1f, whole/p %.1f\n", all->n,
           full, all->full[0], cleave_median(all->events, all->n),
           cleave_median(all->whole, all->n));
}

/* Returns the number of comparisons that failed; -1 for an error. */
static int64_t run_case(const wishes *w, walk_kind walk, int model, int count, summary *all) {
    cleave_error error = {""};
    bench_case *c = calloc(1, sizeof *c);
    if (c == NULL)
        return -1;
    c->name = model_names[model];
    c->machine_name = w->machine;
    c->n_devices = device_counts[count];
    c->random.key = w->seed;
    c->walk = walk;
    cleave_status status = look(c, w, &error);
    int64_t n_wrong = c->n_wrong;
    if (status != CLEAVE_OK)
        fprintf(stderr, "bench_estimate: %s on %d devices: %s\n", c->name, c->n_devices,
                error.message);
    else if (w->mode == MEASURE && walk != FOLDS)
        note(all, &c->compared);
    end_case(c);
    free(c);
    return status == CLEAVE_OK ? n_wrong : -1;
}

static int64_t run_all(const wishes *w) {
    int64_t n_wrong = 0;
    summary all = {.n = 0};
    for (walk_kind walk = NEAR; walk < N_WALKS; walk++)
        for (int m = 0; m < N_MODELS; m++)
            for (int d = 0; d < N_COUNTS; d++) {
                int64_t wrong = is_wanted(w, walk, m, d) ? run_case(w, walk, m, d, &all) : 0;
                if (wrong < 0)
                    return -1;
                n_wrong += wrong;
            }
    print_summary(&all);
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

int main(int argc, char **argv) {
    wishes w = {.machine = "k80-16x4", .seed = 1};
    bench_arguments a = bench_begin(argc, argv);
    cleave_process_keep_memory(); /* as a search does */
    if (bench_take_option(&a, "--machine"))
        w.machine = bench_take_shipped(&a, "--machine", "machines", ".json");
    if (bench_take_option(&a, "--seed"))
        w.seed = (uint64_t)bench_take_integer(&a, "--seed", 0, INT64_C(1) << 53, 1);
    for (mode m = MEASURE_PLAIN; m <= COMPARE_FORMS && w.mode == MEASURE; m++)
        w.mode = bench_take_option(&a, mode_names[m]) ? m : MEASURE;
    w.amount = bench_take_number(&a, "SECONDS or CHANGES", -1e9, 1e9, 1);
    w.model = bench_take_name(&a, "MODEL", false, model_names, sizeof *model_names, N_MODELS);
    w.n_devices = (int32_t)bench_take_integer(&a, "DEVICES", 0, 64, 0);
    bench_end(&a);
    cleave_error error = {""};
    if (complete(&w, &error) != CLEAVE_OK)
        bench_refuse(&a, "--machine %s: %s", w.machine, error.message);
    if (w.shares <= 0)
        bench_refuse(&a, "DEVICES %d: none of 4, 16, 64", w.n_devices);
    print_head(&w);
    int64_t n_wrong = run_all(&w);
    return n_wrong != 0;
}
