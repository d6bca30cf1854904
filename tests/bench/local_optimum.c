/* Does any single change improve a layout?  Every split of the declared space for every operator,
   and the other update for every parameter, each lowered, planned and simulated from scratch, with
   collectives as one item each: nothing is shared with the sweeps of the search but the list of
   candidates.
     usage: bench_local_optimum MODEL.onnx BATCH MACHINE.json DEVICES LAYOUT.json [EVERY [SECONDS]]
   EVERY: of so many changes only one is tried, drawn (1: all).  SECONDS: give up then and say so.
   Exits with 1 where something improves it; prints what, and by how much. */
#include "base/progress.h"
#include "costmodel/machine_read.h"
#include "graph/import.h"
#include "search/candidates.h"
#include "search/price.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct check {
    cleave_arena arena;
    cleave_model model;
    cleave_machine machine;
    cleave_layout layout;
    cleave_node_costs *costs;
    cleave_candidates candidates;
    cleave_pricer pricer;
    cleave_price price;
    cleave_random random;
    int64_t every, n_tried, n_better, n_left_out;
    double until_seconds; /* 0: no limit */
} check;

static cleave_status prepare(check *c, char **arguments, cleave_error *error) {
    const cleave_search_options options = {0}; /* plain descent, as `cleave search` has it */
    CLEAVE_TRY(
        cleave_model_import(arguments[1], atoll(arguments[2]), true, &c->arena, &c->model, error));
    CLEAVE_TRY(
        cleave_machine_read(arguments[3], atoi(arguments[4]), &c->arena, &c->machine, error));
    CLEAVE_TRY(cleave_layout_read(arguments[5], &c->model, &c->arena, &c->layout, error));
    /* The rules that search gave it, whole: a changed layout may need others than are in the file.
     */
    CLEAVE_TRY(
        cleave_choose_collectives(&c->machine, false, &c->arena, &c->layout.collectives, error));
    CLEAVE_TRY(cleave_node_costs_create(&c->model, &c->machine, &c->costs, error));
    const cleave_layout *given = &c->layout;
    CLEAVE_TRY(cleave_candidates_create(&c->model, &c->machine, c->costs, &given, 1, &c->arena,
                                        &c->candidates, error));
    CLEAVE_TRY(cleave_pricer_create(&c->model, &c->machine, &options, &c->pricer, error));
    return cleave_price_layout(&c->pricer, &c->layout, false, &c->price, error);
}

/* Prices what the layout has become. */
static cleave_status try_change(check *c, const char *what, int32_t candidate, int32_t start,
                                cleave_error *error) {
    cleave_price price;
    bool late = c->until_seconds > 0 && cleave_clock_seconds() > c->until_seconds;
    if (late || (c->every > 1 && cleave_random_below(&c->random, c->every) != 0)) {
        c->n_left_out++;
        return CLEAVE_OK;
    }
    CLEAVE_TRY(cleave_price_layout(&c->pricer, &c->layout, false, &price, error));
    c->n_tried++;
    if (price.excess_bytes > 0 || price.step >= c->price.step)
        return CLEAVE_OK;
    c->n_better++;
    printf("%s: candidate %d at block %d takes %.6f ms, %.4f %% less\n", what, candidate, start,
           (double)price.step * 1e-9, 100 - 100 * (double)price.step / (double)c->price.step);
    return CLEAVE_OK;
}

static cleave_status check_operator(check *c, int32_t op, int32_t *devices, cleave_error *error) {
    const cleave_candidate_list *list = &c->candidates.lists[c->candidates.list_of[op]];
    cleave_split kept = c->layout.splits[op];
    for (int32_t i = 0; i < list->n; i++)
        for (int32_t start = 0; start < list->items[i].n_starts; start++) {
            c->layout.splits[op].devices = devices;
            cleave_candidate_place(&list->items[i], start, &c->layout.splits[op]);
            CLEAVE_TRY(try_change(c, c->model.operators[op].name, i, start, error));
        }
    c->layout.splits[op] = kept;
    return CLEAVE_OK;
}

static cleave_status run(check *c, char **arguments, cleave_error *error) {
    CLEAVE_TRY(prepare(c, arguments, error));
    int32_t *devices = CLEAVE_ARENA_ARRAY(&c->arena, int32_t, c->machine.n_devices);
    if (devices == NULL)
        return cleave_fail_memory(error, "checking");
    for (int32_t op = 0; op < c->model.n_operators; op++)
        CLEAVE_TRY(check_operator(c, op, devices, error));
    for (int32_t t = 0; t < c->model.n_tensors; t++) {
        if (c->model.tensors[t].kind != CLEAVE_TENSOR_PARAMETER)
            continue;
        c->layout.sharded[t] = !c->layout.sharded[t];
        CLEAVE_TRY(try_change(c, c->model.tensors[t].name, -1, -1, error));
        c->layout.sharded[t] = !c->layout.sharded[t];
    }
    return CLEAVE_OK;
}

int main(int argc, char **argv) {
    if (argc < 6) {
        fprintf(stderr, "usage: bench_local_optimum MODEL.onnx BATCH MACHINE.json DEVICES "
                        "LAYOUT.json [EVERY [SECONDS]]\n");
        return 2;
    }
    check c = {.every = argc > 6 ? atoll(argv[6]) : 1, .random = {.key = 1}};
    if (argc > 7)
        c.until_seconds = cleave_clock_seconds() + atof(argv[7]);
    cleave_error error = {""};
    cleave_status status = run(&c, argv, &error);
    if (status != CLEAVE_OK)
        fprintf(stderr, "bench_local_optimum: %s\n", error.message);
    else
        printf("%s on %d: %.6f ms; %lld single changes tried, %lld left out, %lld improve it\n",
               argv[1], c.machine.n_devices, (double)c.price.step * 1e-9, (long long)c.n_tried,
               (long long)c.n_left_out, (long long)c.n_better);
    cleave_pricer_destroy(&c.pricer);
    cleave_node_costs_destroy(c.costs);
    cleave_arena_free(&c.arena);
    return status != CLEAVE_OK ? 2 : c.n_better > 0;
}
