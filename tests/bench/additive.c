/* The additive model against the simulated step (scan, collectives in closed form), over drawn
   layouts of shipped models on k80-16x4, batch 64 per device.
     usage: bench_additive [LAYOUTS [MODEL|all [DEVICES [MACHINE [EXPOSED_SYNC]]]]]
   LAYOUTS of each sort (40); 4, 16 or 64 DEVICES, 0 for all; EXPOSED_SYNC is the share of
   synchronisation that the model counts (1).
   Of each case: operators, pairs, processor time to make the model; then of three sorts
   of layouts - values drawn for every operator; for all that are alike; data parallel with some
   operators drawn - Kendall's tau between additive and simulated times, and additive / simulated:
   the median, and the 10th and 90th percentiles.  With PARTS in the environment, what each part
   adds is printed, too. */
#include "../support/price_whole.h"
#include "../support/shipped.h"
#include "arguments.h"
#include "row.h"
#include "search/price/price.h"
#include "search/problem/baselines.h"
#include "search/solve/model.h"

#include <string.h>

enum { BATCH_OF_DEVICE = 64, MAX_LAYOUTS = 2000, N_SORTS = 3, MOST_VALUES = 64 };

static const char *const model_names[] = {
    "mlp",   "lenet5", "alexnet", "inception_v3", "resnet50", "resnet101", "rnnlm",
    "rnntc", "nmt",    "dlrm",    "byte_lstm",    "byte_gpt", "bert_base", "gpt2_small"};
static const char *const sort_names[N_SORTS] = {"every", "alike", "near"};
static const int32_t device_counts[] = {4, 16, 64};

typedef struct bench_case {
    const char *name, *machine_name;
    int32_t n_devices;
    cleave_arena arena;
    cleave_model model;
    cleave_machine machine;
    cleave_candidates candidates;
    cleave_node_costs *costs;
    cleave_layout data_parallel;
    cleave_additive_model additive;
    cleave_pricer pricer;
    double exposed_sync;
} bench_case;

static cleave_status prepare(bench_case *c, cleave_error *error) {
    bool applies;
    CLEAVE_TRY(shipped_model(c->name, (int64_t)BATCH_OF_DEVICE * c->n_devices, &c->arena, &c->model,
                             error));
    CLEAVE_TRY(shipped_machine(c->machine_name, c->n_devices, &c->arena, &c->machine, error));
    CLEAVE_TRY(cleave_baseline_layout(&c->model, &c->machine, "data-parallel", 0, &c->arena,
                                      &c->data_parallel, &applies, error));
    CLEAVE_TRY(cleave_node_costs_create(&c->model, &c->machine, &c->costs, error));
    const cleave_layout *given = &c->data_parallel;
    CLEAVE_TRY(cleave_candidates_create(&c->model, &c->machine, c->costs, &given, 1, &c->arena,
                                        &c->candidates, error));
    return cleave_pricer_create(&c->model, &c->machine, 1, INT64_C(1) << 50, &c->pricer, error);
}

static cleave_status make_model(bench_case *c, double *seconds, cleave_error *error) {
    const cleave_layout *given = &c->data_parallel;
    const cleave_additive_options options = {.optimizer_states = 1,
                                             .most_values = MOST_VALUES,
                                             .exposed_sync = c->exposed_sync,
                                             .given = &given,
                                             .n_given = 1};
    double before = bench_processor_seconds();
    CLEAVE_TRY(cleave_additive_model_create(&c->model, &c->machine, &c->candidates, &options,
                                            &c->arena, &c->additive, error));
    *seconds = bench_processor_seconds() - before;
    return CLEAVE_OK;
}

/* The value of an operator's split in the data parallel layout. */
static int32_t value_of_given(const bench_case *c, int32_t op) {
    const cleave_candidate_list *list = &c->candidates.lists[c->candidates.list_of[op]];
    const cleave_split *split = &c->data_parallel.splits[op];
    for (int32_t v = 0; v < c->additive.additive.n_values[op]; v++) {
        const cleave_candidate *at = &list->items[c->additive.candidates[op][v]];
        if (at->n_parts == split->n_parts && at->replicas == split->replicas &&
            memcmp(at->degree, split->degree, sizeof at->degree) == 0 &&
            memcmp(at->offsets, split->devices, (size_t)at->n_parts * sizeof(int32_t)) == 0)
            return v;
    }
    return 0;
}

static void draw(const bench_case *c, int sort, cleave_random *random, int32_t *value) {
    uint64_t key = cleave_random_next(random);
    double share = cleave_random_next_uniform(random) * 0.5;
    for (int32_t op = 0; op < c->model.n_operators; op++) {
        int32_t n = c->additive.additive.n_values[op];
        if (sort == 1) {
            cleave_random alike = {.key =
                                       cleave_hash_join(key, (uint64_t)c->candidates.list_of[op])};
            value[op] = (int32_t)cleave_random_below(&alike, n);
        } else if (sort == 0 || cleave_random_next_uniform(random) < share) {
            value[op] = (int32_t)cleave_random_below(random, n);
        } else {
            value[op] = value_of_given(c, op);
        }
    }
}

static double total_of(const cleave_additive *a, const int32_t *value) {
    double total = 0;
    for (int32_t i = 0; i < a->n_variables; i++)
        total += (double)a->cost[i][value[i]];
    for (int32_t p = 0; p < a->n_pairs; p++) {
        const cleave_additive_pair *pair = &a->pairs[p];
        total +=
            (double)pair->cost[(int64_t)value[pair->a] * a->n_values[pair->b] + value[pair->b]];
    }
    return total * 1e-12;
}

static double kendall_tau(const double *x, const double *y, int n) {
    double sum = 0, pairs = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++) {
            double product = (x[i] - x[j]) * (y[i] - y[j]);
            sum += (product > 0) - (product < 0);
            pairs++;
        }
    return pairs > 0 ? sum / pairs : 1;
}

static cleave_status compare(bench_case *c, int sort, int n, cleave_error *error) {
    static double additive[MAX_LAYOUTS], simulated[MAX_LAYOUTS], ratio[MAX_LAYOUTS];
    cleave_random random = {.key = 7};
    cleave_arena scratch = {0};
    cleave_status status = CLEAVE_OK;
    for (int i = 0; i < n && status == CLEAVE_OK; i++) {
        cleave_arena_reset(&scratch);
        int32_t *value = CLEAVE_ARENA_ARRAY(&scratch, int32_t, c->model.n_operators);
        cleave_layout layout;
        cleave_price price = {0};
        draw(c, sort, &random, value);
        status = cleave_additive_model_layout(&c->additive, &c->model, &c->machine, &c->candidates,
                                              value, &scratch, &layout, error);
        if (status == CLEAVE_OK)
            status =
                cleave_choose_collectives(&c->machine, false, &scratch, &layout.collectives, error);
        if (status == CLEAVE_OK)
            status = price_whole(&c->pricer, &layout, false, &price, error);
        additive[i] = total_of(&c->additive.additive, value);
        simulated[i] = (double)price.step * 1e-12;
        ratio[i] = additive[i] / simulated[i];
    }
    cleave_arena_free(&scratch);
    if (status != CLEAVE_OK)
        return status;
    double tau = kendall_tau(additive, simulated, n), median = cleave_median(ratio, n);
    printf("  %s %.2f x%.2f (%.2f-%.2f)", sort_names[sort], tau, median, ratio[n / 10],
           ratio[n - 1 - n / 10]);
    fflush(stdout);
    return CLEAVE_OK;
}

/* Where the time of the data parallel layout goes. */
static void print_parts(const bench_case *c) {
    const cleave_additive *a = &c->additive.additive;
    printf("\n");
    for (int32_t op = 0; op < a->n_variables; op++)
        printf("  %-40s %12.6f ms\n", c->model.operators[op].name,
               (double)a->cost[op][value_of_given(c, op)] * 1e-9);
    for (int32_t p = 0; p < a->n_pairs; p++) {
        const cleave_additive_pair *pair = &a->pairs[p];
        int32_t x = value_of_given(c, pair->a), y = value_of_given(c, pair->b);
        double cost = (double)pair->cost[(int64_t)x * a->n_values[pair->b] + y] * 1e-9;
        if (cost != 0)
            printf("  %s -> %s %.6f ms\n", c->model.operators[pair->a].name,
                   c->model.operators[pair->b].name, cost);
    }
}

static cleave_status run(bench_case *c, int n, cleave_error *error) {
    double seconds;
    CLEAVE_TRY(prepare(c, error));
    CLEAVE_TRY(make_model(c, &seconds, error));
    printf("%-13s %2d: %4d operators %5d pairs %7.1f ms ", c->name, c->n_devices,
           c->model.n_operators, c->additive.additive.n_pairs, seconds * 1e3);
    for (int sort = 0; sort < N_SORTS && n > 0; sort++)
        CLEAVE_TRY(compare(c, sort, n, error));
    printf("\n");
    if (getenv("PARTS") != NULL)
        print_parts(c);
    return CLEAVE_OK;
}

int main(int argc, char **argv) {
    bench_arguments a = bench_begin(argc, argv);
    int n = (int)bench_take_integer(&a, "LAYOUTS", 0, MAX_LAYOUTS, 40), n_cases = 0;
    const char *model = !bench_take_flag(&a, "all")
                            ? bench_take_name(&a, "MODEL", false, model_names, sizeof *model_names,
                                              sizeof model_names / sizeof *model_names)
                            : NULL;
    int32_t devices = (int32_t)bench_take_integer(&a, "DEVICES", 0, 64, 0);
    const char *machine = bench_take_shipped(&a, "MACHINE", "machines", ".json");
    double exposed_sync = bench_take_number(&a, "EXPOSED_SYNC", 0, 1, 1);
    bench_end(&a);
    for (size_t d = 0; d < sizeof device_counts / sizeof *device_counts; d++)
        for (size_t i = 0; i < sizeof model_names / sizeof *model_names; i++) {
            bench_case c = {.name = model_names[i],
                            .n_devices = device_counts[d],
                            .machine_name = machine != NULL ? machine : "k80-16x4",
                            .exposed_sync = exposed_sync};
            cleave_error error = {""};
            if ((model != NULL && strcmp(model, c.name) != 0) ||
                (devices != 0 && devices != c.n_devices))
                continue;
            n_cases++;
            cleave_status status = run(&c, n, &error);
            cleave_pricer_destroy(&c.pricer);
            cleave_node_costs_destroy(c.costs);
            cleave_arena_free(&c.arena);
            if (status != CLEAVE_OK) {
                fprintf(stderr, "bench_additive: %s: %s\n", c.name, error.message);
                return 1;
            }
        }
    if (n_cases == 0)
        bench_refuse(&a, "DEVICES %d: none of 4, 16, 64", devices);
    return 0;
}
