/* With constraints, nothing that a search offers or finds breaks them: candidates, layouts that are
   made to keep to them, starts, and results. */
#include "../support/draws.h"
#include "../support/models.h"
#include "../support/ok.h"
#include "search/improve/mcmc.h"
#include "search/search.h"

#include "../support/test_machine.h"

#include <math.h>
#include <stdio.h>

typedef struct drawn {
    cleave_arena arena;
    cleave_model model;
    cleave_machine machine;
    cleave_constraints constraints;
    cleave_layout other; /* what is fixed comes from it */
    cleave_random random;
    int32_t n_devices;
} drawn;

/* Sorts by name, as a user does, then some operators and updates of a random layout. */
static void draw_constraints(drawn *d) {
    char only[128] = "";
    int64_t sorts = cleave_random_below(&d->random, 1 << CLEAVE_N_SORTS);
    for (int s = 0; s < CLEAVE_N_SORTS; s++)
        if ((sorts >> s & 1) != 0)
            snprintf(only + strlen(only), sizeof only - strlen(only), "%s%s",
                     only[0] != '\0' ? "," : "", cleave_axis_sort_names[s]);
    if (sorts != 0)
        OK(cleave_constraints_restrict, &d->constraints, only, &d->model, &d->arena);
    cr_assert_eq(d->constraints.sorts, (uint32_t)sorts);
    bool *is_fixed = CLEAVE_ARENA_ARRAY(&d->arena, bool, d->model.n_operators);
    bool *updates = CLEAVE_ARENA_ARRAY(&d->arena, bool, d->model.n_tensors);
    int64_t share = cleave_random_below(&d->random, 3); /* none, some, most */
    for (int32_t op = 0; op < d->model.n_operators; op++) {
        is_fixed[op] = cleave_random_below(&d->random, 3) < share;
        d->constraints.n_fixed += is_fixed[op];
    }
    for (int32_t t = 0; t < d->model.n_tensors; t++)
        updates[t] = d->model.tensors[t].kind == CLEAVE_TENSOR_PARAMETER &&
                     cleave_random_below(&d->random, 3) < share;
    OK(cleave_layout_random, &d->model, d->n_devices, (uint64_t)share + d->random.key, &d->arena,
       &d->other);
    d->constraints.fixed = &d->other;
    d->constraints.fixed_from = "drawn";
    d->constraints.is_fixed = is_fixed;
    d->constraints.is_update_fixed = updates;
}

static void begin(drawn *d, int which, uint64_t seed) {
    static const int32_t nodes[] = {1, 2, 3, 1, 4}, devices[] = {2, 2, 2, 4, 4};
    cleave_error error = {""};
    *d = (drawn){.random = {.key = seed}};
    cr_assert(hand_model(which, &d->arena, &d->model, &error), "%s", error.message);
    int64_t size = cleave_random_below(&d->random, 5);
    d->machine = make_machine(&d->arena, nodes[size], devices[size], "1 TiB");
    d->n_devices = d->machine.n_devices;
    draw_constraints(d);
}

/* Independent of cleave_constraints_allow: what the words say. */
static bool keeps(const drawn *d, int32_t op, const cleave_split *split) {
    const cleave_constraints *c = &d->constraints;
    if (c->is_fixed[op]) {
        const cleave_split *fixed = &d->other.splits[op];
        bool same = split->replicas == fixed->replicas && split->n_parts == fixed->n_parts;
        for (int a = 0; a < d->model.operators[op].n_axes; a++)
            same = same && split->degree[a] == fixed->degree[a];
        for (int32_t p = 0; p < fixed->n_parts && same; p++)
            same = split->devices[p] == fixed->devices[p];
        return same;
    }
    if (c->sorts == 0)
        return true;
    for (int a = 0; a < d->model.operators[op].n_axes; a++)
        if (split->degree[a] > 1 && (c->sorts >> c->axis_sorts.of[op][a] & 1) == 0)
            return false;
    for (int32_t p = 0; p < split->n_parts && (c->sorts >> CLEAVE_SORT_OPERATOR & 1) == 0; p++)
        if (split->devices[p] >= split->n_parts)
            return false;
    return true;
}

static void expect_layout_keeps(const drawn *d, const cleave_layout *layout, const char *what) {
    OK(cleave_layout_check, &d->model, layout);
    cr_assert(cleave_constraints_allow_layout(&d->constraints, &d->model, layout), "%s", what);
    for (int32_t op = 0; op < d->model.n_operators; op++)
        cr_assert(keeps(d, op, &layout->splits[op]), "%s breaks a constraint at %s", what,
                  d->model.operators[op].name);
    for (int32_t t = 0; t < d->model.n_tensors; t++)
        cr_assert(!d->constraints.is_update_fixed[t] || layout->sharded[t] == d->other.sharded[t]);
}

/* ---- layouts ---- */

static void check_layouts(drawn *d) {
    for (uint64_t seed = seed_from(0); seed < seed_end(10); seed++) {
        cleave_layout layout, before;
        OK(cleave_layout_random, &d->model, d->n_devices, seed, &d->arena, &layout);
        OK(cleave_layout_copy, &layout, &d->model, &d->arena, &before);
        OK(cleave_constraints_impose, &d->constraints, &d->model, &layout, &d->arena);
        expect_layout_keeps(d, &layout, "an imposed layout");
        for (int32_t op = 0; op < d->model.n_operators; op++) {
            const cleave_split *old = &before.splits[op], *now = &layout.splits[op];
            cr_assert_eq(cleave_constraints_allow(&d->constraints, &d->model, op, old),
                         keeps(d, op, old));
            if (keeps(d, op, old))
                cr_assert_arr_eq(now->devices, old->devices,
                                 (size_t)old->n_parts * sizeof *old->devices);
            if (!d->constraints.is_fixed[op])
                cr_assert_eq(now->n_parts, old->n_parts);
        }
    }
}

/* ---- candidates, and how many there are ---- */

static void check_candidates(drawn *d) {
    cleave_node_costs *costs;
    cleave_candidates candidates;
    cleave_layout given;
    const cleave_layout *all[] = {&given};
    cleave_problem problem;
    int32_t devices[16];
    OK(cleave_layout_random, &d->model, d->n_devices, 3, &d->arena, &given);
    OK(cleave_node_costs_create, &d->model, &d->machine, &costs);
    OK(cleave_problem_create, &d->model, &d->machine, &d->constraints, &d->arena, &problem);
    for (int32_t n_given = 0; n_given < 2; n_given++) {
        OK(cleave_candidates_list, &problem, costs, n_given, &d->arena, &candidates);
        OK(cleave_candidates_add, &problem, costs, all, n_given, &d->arena, &candidates);
        for (int32_t op = 0; op < d->model.n_operators; op++) {
            const cleave_candidate_list *list = &candidates.lists[candidates.list_of[op]];
            cr_assert_geq(list->n, 1, "something always remains");
            if (d->constraints.is_fixed[op])
                cr_assert_eq(list->n, 1);
            for (int32_t i = 0; i < list->n; i++)
                for (int32_t start = 0; start < list->items[i].n_starts; start++) {
                    cleave_split split = {.devices = devices};
                    cleave_candidate_place(&list->items[i], start, &split);
                    OK(cleave_split_check, &d->model.operators[op], &split, d->n_devices);
                    cr_assert(keeps(d, op, &split), "a candidate of %s breaks a constraint",
                              d->model.operators[op].name);
                }
            /* Counted by one rule, made by another. */
            if (!list->truncated && n_given == 0)
                cr_assert_float_eq(list->n_splits, (double)cleave_candidates_count(list), 0.5);
            if (list->truncated)
                cr_assert_gt(list->n_splits, (double)list->n);
        }
    }
    cleave_node_costs_destroy(costs);
}

/* ---- results ---- */

static void check_search(drawn *d, const char *method) {
    cleave_search_result result;
    const cleave_search_options options = {.method = method,
                                           .proposals = 120,
                                           .seed = d->random.key,
                                           .optimizer_states = 1,
                                           .constraints = &d->constraints,
                                           .quiet = true};
    OK(cleave_search, &d->model, &d->machine, &options, &d->arena, &result);
    expect_layout_keeps(d, &result.best.layout, method);
    for (int32_t b = 0; b < result.n_baselines; b++)
        if (result.baselines[b].applies) {
            expect_layout_keeps(d, &result.baselines[b].layout, cleave_baseline_names[b]);
            if (strcmp(method, "random") != 0)
                cr_assert_leq(result.best.step_seconds, result.baselines[b].step_seconds);
        }
    if (strcmp(method, "random") != 0)
        cr_assert_leq(result.lower_bound_seconds, result.best.step_seconds);
}

/* What fixed splits are said to need is needed: a limit just below what is planned is never called
   impossible, where any layout with these splits fits. */
static void check_memory(drawn *d) {
    cleave_lower_options options = {.training = d->model.loss >= 0, .optimizer_states = 1};
    cleave_program program;
    cleave_layout layout;
    for (uint64_t seed = 20; seed < 25; seed++) {
        OK(cleave_layout_random, &d->model, d->n_devices, seed, &d->arena, &layout);
        OK(cleave_constraints_impose, &d->constraints, &d->model, &layout, &d->arena);
        OK(cleave_lower, &d->model, &layout, &options, &d->arena, &program);
        int64_t peak = 1;
        for (int32_t k = 0; k < d->n_devices; k++)
            peak = program.peak_bytes[k] > peak ? program.peak_bytes[k] : peak;
        OK(cleave_constraints_check_memory, &d->constraints, &d->model, &d->machine, peak);
    }
}

static void check_model(int which, uint64_t n) {
    for (uint64_t seed = seed_from(0); seed < seed_end((int)n); seed++) {
        drawn d;
        begin(&d, which, 1000 * (uint64_t)which + seed);
        check_layouts(&d);
        check_candidates(&d);
        check_memory(&d);
        if (seed % 4 == 0)
            check_search(&d, "mcmc");
        if (seed % 4 == 1)
            check_search(&d, "auto");
        if (seed % 4 == 2)
            check_search(&d, "random");
        cleave_arena_free(&d.arena);
    }
}

Test(constraints, hold_on_a_multi_layer_perceptron) { check_model(MODEL_MLP, 24); }
Test(constraints, hold_on_a_convolutional_network) { check_model(MODEL_CNN, 24); }
Test(constraints, hold_on_a_network_with_tied_parameters) { check_model(MODEL_TIED, 24); }
Test(constraints, hold_on_a_recurrent_network) { check_model(MODEL_RECURRENT, 24); }
Test(constraints, hold_on_a_network_with_lookups) { check_model(MODEL_EMBEDDING, 24); }
