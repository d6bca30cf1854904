/* Law 3: one window of a layout that folds, lowered and simulated alone, has the times of all
   devices, bit for bit, by both rules, with collectives in closed form and expanded; its items side
   by side are those of the whole program, and so are its bytes and its memory.  Layouts that are
   symmetric but for one thing are not taken for symmetric. */
#include "../support/draws.h"
#include "../support/folded.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* A machine, of 16 devices at most where `is_large`, and a layout by one seed: does it fold? */
static bool compare_drawn(const char *model, bool is_large, uint64_t seed) {
    fold_trial t = {.random = {.key = seed}};
    bool folds = false;
    int32_t per_node = 1 << fold_below(&t, 3), n_nodes = 2 + fold_below(&t, 7);
    if (fold_below(&t, 2) == 0)
        n_nodes = 4 << fold_below(&t, 3);
    while (is_large && n_nodes * per_node > 16)
        n_nodes = (n_nodes + 1) / 2;
    snprintf(t.name, sizeof t.name, "%s, seed %llu", model, (unsigned long long)seed);
    make_fold_machine(&t, n_nodes, per_node, fold_below(&t, 4) == 0, false);
    import_to_fold(&t, model, (1 + fold_below(&t, 2)) * (int64_t)t.machine.n_devices);
    if (draw_fold_layout(&t)) {
        folds = compare_folded(&t, false, NULL);
        cr_assert_not(compare_folded(&t, true, NULL), "%s", t.name);
    }
    cleave_arena_free(&t.arena);
    return folds;
}

/* Of every model some layouts fold.  Expanded, none does that trains: the loss is the sum of all
   devices, and its steps are not the same for all. */
Test(folded, equals_full_bit_for_bit) {
    static const struct {
        const char *file;
        int rounds;
    } models[] = {{"mlp", 24}, {"lenet5", 24},   {"byte_gpt", 6},
                  {"dlrm", 8}, {"byte_lstm", 2}, {"resnet50", 3}};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        int symbolic_folds = 0;
        for (int round = 0; round < n_draws(models[m].rounds); round++) {
            symbolic_folds += compare_drawn(models[m].file, models[m].rounds < 10,
                                            seed_from(100 * m + (uint64_t)round));
        }
        cr_assert_gt(symbolic_folds, 0, "%s never folds", models[m].file);
    }
}

/* An operator reads several tensors, some by a collective and others by messages. */
Test(folded, equals_full_where_operands_come_by_several_ways) {
    cr_expect(compare_drawn("dlrm", true, 1000308));
}

/* One thing that is not the same in all windows. */
enum { SWAPPED, HALF, ODD_BATCH, MIXED, N_FLAWS };

static void spoil(fold_trial *t, int flaw) {
    cleave_split *split = &t->layout.splits[t->model.n_operators / 2];
    int32_t *devices = split->devices, last = split->n_parts - 1;
    if (flaw == SWAPPED) {
        int32_t other = devices[0];
        devices[0] = devices[last];
        devices[last] = other;
    } else if (flaw == HALF) {
        split->degree[sample_axis(&t->model.operators[t->model.n_operators / 2])] /= 2;
        split->n_parts /= 2;
    }
}

/* All samples over so many devices, two to a node. */
static void share_samples(fold_trial *t, int32_t n, int64_t batch, bool mixed) {
    make_fold_machine(t, n / 2, 2, false, mixed);
    import_to_fold(t, "mlp", batch);
    fold_ok(t, cleave_layout_create(&t->model, n, &t->arena, &t->layout, &t->error));
    for (int32_t op = 0; op < t->model.n_operators; op++) {
        int32_t degree[CLEAVE_MAX_AXES] = {0},
                devices[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
        degree[sample_axis(&t->model.operators[op])] = n;
        fold_ok(t, cleave_layout_set(&t->layout, op, 1, degree, devices, &t->arena, &t->error));
    }
}

/* A bias of 10 elements has no share for each of 16 devices, and stays with all. */
Test(folded, what_is_too_small_is_not_sharded) {
    fold_trial t = {.name = "small", .random = {.key = 1}};
    share_samples(&t, 16, 16, false);
    for (int sharded = CLEAVE_SHARDED_UPDATE; sharded < CLEAVE_N_SHARDED; sharded++) {
        for (int32_t p = 0; p < t.model.n_tensors; p++)
            if (t.model.tensors[p].kind == CLEAVE_TENSOR_PARAMETER)
                t.layout.sharded[p] = (uint8_t)sharded;
        cr_expect(compare_folded(&t, false, NULL), "%s", cleave_sharded_names[sharded]);
    }
    cleave_arena_free(&t.arena);
}

Test(folded, refuses_what_is_almost_symmetric) {
    for (int flaw = -1; flaw < N_FLAWS; flaw++) {
        fold_trial t = {.random = {.key = 1}};
        snprintf(t.name, sizeof t.name, "flaw %d", flaw);
        share_samples(&t, 8, flaw == ODD_BATCH ? 17 : 16, flaw == MIXED);
        spoil(&t, flaw);
        fold_ok(&t, cleave_layout_check(&t.model, &t.layout, &t.error));
        fold_outcome folded = simulate_fold(&t, true, false);
        cr_assert_eq(folded.status, flaw < 0 ? CLEAVE_OK : CLEAVE_NO_LAYOUT, "%s: %s", t.name,
                     folded.why);
        cleave_arena_free(&t.arena);
    }
}

/* All devices, in order, to any axes and replicas. */
static void draw_any_split(fold_trial *t, int32_t op) {
    const cleave_operator *of = &t->model.operators[op];
    const int32_t *devices = t->layout.splits[op].devices;
    int32_t degree[CLEAVE_MAX_AXES] = {0}, replicas = 1;
    for (int32_t rest = t->machine.n_devices, prime = 2; rest > 1; prime++)
        for (; rest % prime == 0; rest /= prime) {
            int a = fold_below(t, of->n_axes + 1);
            int32_t grown = a == of->n_axes ? 0 : (degree[a] > 0 ? degree[a] : 1) * prime;
            if (a == of->n_axes || of->axes[a].whole || of->axes[a].extent < grown)
                replicas *= prime;
            else
                degree[a] = grown;
        }
    fold_ok(t, cleave_layout_set(&t->layout, op, replicas, degree, devices, &t->arena, &t->error));
}

/* A machine and a layout by one seed: does it fold, with collectives in closed form? */
static bool compare_any(uint64_t seed) {
    fold_trial t = {.random = {.key = seed}};
    bool folds = false;
    snprintf(t.name, sizeof t.name, "any, seed %llu", (unsigned long long)seed);
    make_fold_machine(&t, 2 + fold_below(&t, 3), 1 << fold_below(&t, 2), false, false);
    import_to_fold(&t, fold_below(&t, 2) == 0 ? "mlp" : "lenet5",
                   t.machine.n_devices * (int64_t)(1 + fold_below(&t, 2)) +
                       (fold_below(&t, 4) == 0));
    if (draw_fold_layout(&t)) {
        for (int32_t op = 0; op < t.model.n_operators; op++)
            if (fold_below(&t, seed % 2 == 0 ? 1 : 6) == 0)
                draw_any_split(&t, op);
        fold_ok(&t, cleave_layout_check(&t.model, &t.layout, &t.error));
        folds = compare_folded(&t, false, NULL);
        compare_folded(&t, true, NULL);
    }
    cleave_arena_free(&t.arena);
    return folds;
}

/* Whatever the layout: what folds is equal. */
Test(folded, equals_full_on_any_layout_that_folds) {
    for (int round = 0; round < n_draws(200); round++)
        compare_any(seed_from(5000 + (uint64_t)round));
}

/* The loss is on all devices, and the memory plans of all have it to the end. */
Test(folded, equals_full_in_what_is_kept_to_the_end) { cr_expect(compare_any(1005104)); }
