/* Does any single change improve a layout?  Every split of the declared space for every operator,
   and the other update for every parameter, with collectives in their steps ("steps"), as
   `cleave search` claims on up to 8 devices, or as one item each ("closed-form").  Nothing is
   shared with the sweeps of the search but the list of candidates: changes are priced by the
   estimate, and one of so many, drawn, and each that improves the layout are lowered, planned and
   simulated from scratch, too, and must give the same.
     usage: bench_local_optimum MODEL.onnx BATCH MACHINE.json DEVICES LAYOUT.json
                                [THREADS [EVERY [steps|closed-form]]]
   EVERY: of so many changes one is priced from scratch, too (100).  Exits with 1 where something
   improves the layout; prints what, and by how much, of each operator the best. */
#include "../support/price_whole.h"
#include "arguments.h"
#include "base/progress.h"
#include "base/random.h"
#include "graph/import/import.h"
#include "search/improve/parallel.h"
#include "search/price/price.h"
#include "search/problem/candidates.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_THREADS = 64, FEW_DEVICES = 8 };

/* What a thread has to itself. */
typedef struct worker {
    cleave_arena arena;
    cleave_layout layout; /* with the change */
    cleave_pricer pricer;
    cleave_estimate *estimate;
    int32_t *devices; /* [n_devices] of the changed split */
} worker;

/* What was found of one operator or, of a parameter's update, behind the operators. */
typedef struct finding {
    int64_t n_tried, n_from_scratch, n_better, best_step;
    int32_t candidate, start; /* of the best */
} finding;

typedef struct check {
    const char *model_file, *machine_file, *layout_file;
    int64_t batch;
    int32_t n_devices;
    cleave_arena arena;
    cleave_model model;
    cleave_machine machine;
    cleave_layout layout;
    cleave_node_costs *costs;
    cleave_candidates candidates;
    cleave_price price;
    int32_t n_threads;
    int64_t every;
    const char *form; /* null: as the number of devices says */
    bool in_steps;
    worker workers[MOST_THREADS];
    finding *findings; /* [n_operators + n_tensors] */
} check;

static cleave_status begin_worker(check *c, worker *w, cleave_error *error) {
    CLEAVE_TRY(cleave_layout_copy(&c->layout, &c->model, &w->arena, &w->layout, error));
    CLEAVE_TRY(cleave_pricer_create(&c->model, &c->machine, 0, 0, &w->pricer, error));
    CLEAVE_TRY(cleave_pricer_estimate(&w->pricer, &w->layout, c->in_steps, &w->estimate, error));
    w->devices = CLEAVE_ARENA_ARRAY(&w->arena, int32_t, c->machine.n_devices);
    return w->devices != NULL ? CLEAVE_OK : cleave_fail_memory(error, "checking");
}

static void end_worker(worker *w) {
    cleave_estimate_destroy(w->estimate);
    cleave_pricer_destroy(&w->pricer);
    cleave_arena_free(&w->arena);
}

static cleave_status prepare(check *c, cleave_error *error) {
    CLEAVE_TRY(cleave_model_import_as(
        &(cleave_import_request){.file = c->model_file, .batch = c->batch, .with_loss = true},
        &c->arena, &c->model, error));
    CLEAVE_TRY(cleave_machine_read(c->machine_file, c->n_devices, &c->arena, &c->machine, error));
    c->in_steps =
        c->form != NULL ? strcmp(c->form, "steps") == 0 : c->machine.n_devices <= FEW_DEVICES;
    CLEAVE_TRY(cleave_layout_read(c->layout_file, &c->model, &c->arena, &c->layout, error));
    /* The rules that search gave it, whole: a changed layout may need others than are in the file.
     */
    CLEAVE_TRY(
        cleave_choose_collectives(&c->machine, false, &c->arena, &c->layout.collectives, error));
    CLEAVE_TRY(cleave_node_costs_create(&c->model, &c->machine, &c->costs, error));
    const cleave_layout *given = &c->layout;
    CLEAVE_TRY(cleave_candidates_create(&c->model, &c->machine, c->costs, &given, 1, &c->arena,
                                        &c->candidates, error));
    c->findings = CLEAVE_ARENA_ARRAY(&c->arena, finding, c->model.n_operators + c->model.n_tensors);
    if (c->findings == NULL)
        return cleave_fail_memory(error, "checking");
    for (int32_t t = 0; t < c->n_threads; t++)
        CLEAVE_TRY(begin_worker(c, &c->workers[t], error));
    return price_whole(&c->workers[0].pricer, &c->layout, c->in_steps, &c->price, error);
}

static bool improves(const check *c, const cleave_price *price) {
    return price->excess_bytes == 0 && price->step < c->price.step;
}

static cleave_status price_from_scratch(const check *c, worker *w, const cleave_price *estimated,
                                        cleave_error *error) {
    cleave_price price;
    CLEAVE_TRY(price_whole(&w->pricer, &w->layout, c->in_steps, &price, error));
    bool fits = price.excess_bytes == 0; /* what does not fit has no step */
    if (improves(c, &price) != improves(c, estimated) ||
        (fits && estimated->excess_bytes == 0 && price.step != estimated->step))
        return cleave_fail(error, CLEAVE_FAILED, "the estimate says %lld ps, the whole %lld ps",
                           (long long)estimated->step, (long long)price.step);
    return CLEAVE_OK;
}

/* Prices what the worker's layout and estimate have become, and takes the estimate back. */
static cleave_status try_change(const check *c, worker *w, cleave_random *random, int32_t candidate,
                                int32_t start, finding *found, cleave_error *error) {
    cleave_price price;
    const cleave_price_bar bar = {.below = c->price.step, .below_over = DBL_MAX};
    const cleave_price_subject what = {.layout = &w->layout,
                                       .in_steps = c->in_steps,
                                       .view = CLEAVE_VIEW_FOLDED,
                                       .estimate = w->estimate};
    CLEAVE_TRY(cleave_pricer_price(&w->pricer, &what, &bar, &price, error));
    CLEAVE_TRY(cleave_estimate_reject(w->estimate, error));
    found->n_tried++;
    if (improves(c, &price) || cleave_random_below(random, c->every) == 0) {
        found->n_from_scratch++;
        CLEAVE_TRY(price_from_scratch(c, w, &price, error));
    }
    if (!improves(c, &price))
        return CLEAVE_OK;
    if (found->n_better++ == 0 || price.step < found->best_step) {
        found->best_step = price.step;
        found->candidate = candidate;
        found->start = start;
    }
    return CLEAVE_OK;
}

static cleave_status check_operator(const check *c, worker *w, int32_t op, finding *found,
                                    cleave_error *error) {
    const cleave_candidate_list *list = &c->candidates.lists[c->candidates.list_of[op]];
    cleave_random random = {.key = (uint64_t)op};
    cleave_split kept = w->layout.splits[op];
    for (int32_t i = 0; i < list->n; i++)
        for (int32_t start = 0; start < list->items[i].n_starts; start++) {
            w->layout.splits[op].devices = w->devices;
            cleave_candidate_place(&list->items[i], start, &w->layout.splits[op]);
            CLEAVE_TRY(cleave_estimate_change(w->estimate, op, &w->layout.splits[op], error));
            CLEAVE_TRY(try_change(c, w, &random, i, start, found, error));
        }
    w->layout.splits[op] = kept;
    return CLEAVE_OK;
}

static cleave_status check_update(const check *c, worker *w, int32_t tensor, finding *found,
                                  cleave_error *error) {
    cleave_random random = {.key = (uint64_t)(c->model.n_operators + tensor)};
    uint8_t *sharded = &w->layout.sharded[tensor];
    *sharded = !*sharded;
    CLEAVE_TRY(cleave_estimate_shard(w->estimate, tensor, *sharded, error));
    CLEAVE_TRY(try_change(c, w, &random, -1, -1, found, error));
    *sharded = !*sharded;
    return CLEAVE_OK;
}

static cleave_status check_one(void *context, int32_t number, int32_t task, cleave_error *error) {
    check *c = context;
    worker *w = &c->workers[number];
    int32_t tensor = task - c->model.n_operators;
    if (tensor < 0)
        return check_operator(c, w, task, &c->findings[task], error);
    if (c->model.tensors[tensor].kind != CLEAVE_TENSOR_PARAMETER)
        return CLEAVE_OK;
    return check_update(c, w, tensor, &c->findings[task], error);
}

/* Prints what improves the layout; the sum of all findings. */
static finding report(const check *c) {
    finding sum = {0};
    for (int32_t i = 0; i < c->model.n_operators + c->model.n_tensors; i++) {
        const finding *f = &c->findings[i];
        int32_t tensor = i - c->model.n_operators;
        sum.n_tried += f->n_tried;
        sum.n_from_scratch += f->n_from_scratch;
        sum.n_better += f->n_better;
        if (f->n_better > 0)
            printf("%s: candidate %d at block %d takes %.6f ms, %.4f %% less\n",
                   tensor < 0 ? c->model.operators[i].name : c->model.tensors[tensor].name,
                   f->candidate, f->start, (double)f->best_step * 1e-9,
                   100 - 100 * (double)f->best_step / (double)c->price.step);
    }
    return sum;
}

static cleave_status run(check *c, cleave_error *error) {
    CLEAVE_TRY(prepare(c, error));
    const cleave_parallel parallel = {.n_threads = c->n_threads,
                                      .n_tasks = c->model.n_operators + c->model.n_tensors,
                                      .task = check_one,
                                      .context = c};
    return cleave_parallel_run(&parallel, error);
}

static void read_arguments(int argc, char **argv, check *c) {
    static const char *const forms[] = {"steps", "closed-form"};
    bench_arguments a = bench_begin(argc, argv);
    c->model_file = bench_take(&a);
    c->batch = bench_take_integer(&a, "BATCH", 1, 1 << 30, 1);
    c->machine_file = bench_take(&a);
    c->n_devices = (int32_t)bench_take_integer(&a, "DEVICES", 1, 1 << 20, 1);
    c->layout_file = bench_take(&a);
    if (c->layout_file == NULL)
        bench_refuse(&a, "MODEL.onnx BATCH MACHINE.json DEVICES LAYOUT.json are wanted");
    c->n_threads = (int32_t)bench_take_integer(&a, "THREADS", 1, MOST_THREADS, 1);
    c->every = bench_take_integer(&a, "EVERY", 1, INT64_C(1) << 53, 100);
    c->form = bench_take_name(&a, "form", false, forms, sizeof *forms, 2);
    bench_end(&a);
}

int main(int argc, char **argv) {
    check c = {.n_threads = 0};
    read_arguments(argc, argv, &c);
    cleave_error error = {""};
    finding sum = {0};
    double began = cleave_clock_seconds();
    cleave_status status = run(&c, &error);
    if (status != CLEAVE_OK)
        fprintf(stderr, "bench_local_optimum: %s\n", error.message);
    else {
        sum = report(&c);
        printf("%s on %d: %.6f ms in %s; %lld single changes tried, %lld of them from scratch, "
               "too; %lld "
               "improve it; %.1f s\n",
               c.model_file, c.machine.n_devices, (double)c.price.step * 1e-9,
               c.in_steps ? "steps" : "closed form", (long long)sum.n_tried,
               (long long)sum.n_from_scratch, (long long)sum.n_better,
               cleave_clock_seconds() - began);
    }
    for (int32_t t = 0; t < c.n_threads; t++)
        end_worker(&c.workers[t]);
    cleave_node_costs_destroy(c.costs);
    cleave_arena_free(&c.arena);
    return status != CLEAVE_OK ? 2 : sum.n_better > 0;
}
