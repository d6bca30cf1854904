/* Branch and bound over the blocks of block_windows.h: values are given to one block after the
   other, and a partial layout whose bound is no less than the best step known is left out with all
   that it begins; what the sums don't exclude is simulated as far as it goes, and may be excluded
   by that.  Among the values of a block those with the least bounds come first, so when the time is
   up, the least bound among those that come next, at every level, is the least of all that was not
   looked at.  Whole layouts are simulated exactly, by changes of an estimate.

   Nothing rests on the machine's symmetries: layouts that are equal but for the names of devices
   may be lowered differently, where a tie is broken by numbers. */
#include "search/solve/branch_and_bound.h"

#include "base/order.h"
#include "base/progress.h"
#include "search/bound/bound.h"
#include "search/solve/block_windows.h"

#include <stdlib.h>
#include <string.h>

/* Picoseconds; beyond it a sum that says nothing (block_windows.c) could be mistaken for a bound.
 */
static const int64_t LONGEST_STEP = INT64_C(1) << 48;

typedef struct choice {
    int64_t bound;
    int32_t value;
} choice;

typedef struct tree {
    cleave_pricer *pricer;
    const cleave_bound_blocks *blocks;
    const volatile sig_atomic_t *interrupted;
    double until_seconds;
    cleave_estimate *estimate;
    cleave_layout layout;               /* that the estimate has come to */
    int32_t *priced_value;              /* [n_operators] of it; -1: that of the start */
    int32_t *value;                     /* [n_blocks] */
    cleave_bound_blocks_prefix *prefix; /* [n_blocks] */
    choice **choices;                   /* [n_blocks][values], ascending by bound */
    int32_t *best_value;                /* [n_blocks] of the best layout; -1: the start */
    int64_t best, open; /* the best step; the least bound of what was not looked at */
    int64_t visited, priced;
    bool stopped;
} tree;

static int by_bound(const void *a, const void *b) {
    const choice *x = a, *y = b;
    CLEAVE_ORDER_BY(x->bound, y->bound);
    return CLEAVE_ORDER(x->value, y->value);
}

static bool is_over(tree *t) {
    if (t->interrupted != NULL && *t->interrupted != 0)
        t->stopped = true;
    if (t->until_seconds > 0 && cleave_clock_seconds() >= t->until_seconds)
        t->stopped = true;
    return t->stopped;
}

/* Gives block k a value. */
static void extend(const tree *t, int32_t k, int32_t value) {
    cleave_bound_blocks_add(t->blocks, k == 0 ? NULL : &t->prefix[k - 1],
                            k == 0 ? 0 : t->value[k - 1], k, value, &t->prefix[k]);
}

/* The values of block k that may lead to something better. */
static int32_t list_choices(tree *t, int32_t k) {
    int32_t n = 0;
    for (int32_t value = 0; value < t->blocks->blocks[k].n_values; value++) {
        extend(t, k, value);
        int64_t bound = cleave_bound_blocks_bound(t->blocks, &t->prefix[k],
                                                  k == 0 ? value : t->value[0], k, value);
        t->visited++;
        if (bound < t->best)
            t->choices[k][n++] = (choice){bound, value};
    }
    CLEAVE_SORT(t->choices[k], n, by_bound);
    return n;
}

static void copy_split(cleave_split *to, const cleave_split *from) {
    int32_t *devices = to->devices;
    *to = *from;
    to->devices = devices;
    memcpy(devices, from->devices, (size_t)from->n_parts * sizeof *devices);
}

/* The value of an operator in a value of its block. */
static int32_t value_of(const cleave_bound_blocks *blocks, const cleave_block *block, int32_t value,
                        int32_t i) {
    for (int32_t j = block->n_operators - 1; j > i; j--)
        value /= blocks->n_values[block->operators[j]];
    return value % blocks->n_values[block->operators[i]];
}

static cleave_status price_proposal(const tree *t, const cleave_layout *layout, cleave_price *price,
                                    cleave_error *error) {
    const cleave_price_subject what = {
        .layout = layout, .view = CLEAVE_VIEW_FOLDED, .estimate = t->estimate};
    return cleave_pricer_price(t->pricer, &what, NULL, price, error);
}

static cleave_status price_whole(tree *t, cleave_error *error) {
    const cleave_bound_blocks *blocks = t->blocks;
    cleave_price price;
    for (int32_t k = 0; k < blocks->n_blocks; k++)
        for (int32_t i = 0; i < blocks->blocks[k].n_operators; i++) {
            int32_t op = blocks->blocks[k].operators[i];
            int32_t value = value_of(blocks, &blocks->blocks[k], t->value[k], i);
            if (t->priced_value[op] == value)
                continue;
            t->priced_value[op] = value;
            copy_split(&t->layout.splits[op], &blocks->values[op][value]);
            CLEAVE_TRY(cleave_estimate_change(t->estimate, op, &t->layout.splits[op], error));
        }
    CLEAVE_TRY(price_proposal(t, &t->layout, &price, error));
    CLEAVE_TRY(cleave_estimate_accept(t->estimate, error));
    t->priced++;
    if (price.excess_bytes == 0 && price.step < t->best) {
        t->best = price.step;
        memcpy(t->best_value, t->value, (size_t)blocks->n_blocks * sizeof *t->value);
    }
    return CLEAVE_OK;
}

static cleave_status descend(tree *t, int32_t k, cleave_error *error) {
    int32_t n = list_choices(t, k);
    for (int32_t c = 0; c < n && t->choices[k][c].bound < t->best; c++) {
        int64_t bound = t->choices[k][c].bound;
        if (is_over(t)) {
            t->open = bound < t->open ? bound : t->open;
            break;
        }
        t->value[k] = t->choices[k][c].value;
        if (k + 1 == t->blocks->n_blocks) {
            CLEAVE_TRY(price_whole(t, error));
            continue;
        }
        CLEAVE_TRY(cleave_bound_blocks_simulate(t->blocks, t->value, k, &bound, error));
        if (bound >= t->best)
            continue;
        extend(t, k, t->value[k]);
        CLEAVE_TRY(descend(t, k + 1, error));
    }
    return CLEAVE_OK;
}

/* A copy in which every operator has room for all devices. */
static cleave_status copy_roomy(const cleave_model *model, const cleave_layout *from,
                                cleave_arena *arena, cleave_layout *to, cleave_error *error) {
    CLEAVE_TRY(cleave_layout_copy(from, model, arena, to, error));
    for (int32_t op = 0; op < from->n_operators; op++) {
        int32_t *devices = CLEAVE_ARENA_ARRAY(arena, int32_t, from->n_devices);
        if (devices == NULL)
            return cleave_fail_memory(error, "searching");
        memcpy(devices, from->splits[op].devices,
               (size_t)from->splits[op].n_parts * sizeof *devices);
        to->splits[op].devices = devices;
    }
    return CLEAVE_OK;
}

static cleave_status prepare(tree *t, const cleave_layout *start, cleave_arena *arena,
                             cleave_error *error) {
    int32_t n_blocks = t->blocks->n_blocks;
    t->priced_value = CLEAVE_ARENA_ARRAY(arena, int32_t, start->n_operators);
    t->value = CLEAVE_ARENA_ARRAY(arena, int32_t, n_blocks);
    t->best_value = CLEAVE_ARENA_ARRAY(arena, int32_t, n_blocks);
    t->prefix = CLEAVE_ARENA_ARRAY(arena, cleave_bound_blocks_prefix, n_blocks);
    t->choices = CLEAVE_ARENA_ARRAY(arena, choice *, n_blocks);
    if (t->priced_value == NULL || t->value == NULL || t->best_value == NULL || t->prefix == NULL ||
        t->choices == NULL)
        return cleave_fail_memory(error, "searching");
    for (int32_t k = 0; k < n_blocks; k++) {
        t->best_value[k] = -1;
        t->choices[k] = CLEAVE_ARENA_ARRAY(arena, choice, t->blocks->blocks[k].n_values);
        t->prefix[k].sums = CLEAVE_ARENA_ARRAY(arena, int64_t, t->blocks->n_sums);
        t->prefix[k].synced = CLEAVE_ARENA_ARRAY(arena, int64_t, t->blocks->n_devices);
        if (t->choices[k] == NULL || t->prefix[k].sums == NULL || t->prefix[k].synced == NULL)
            return cleave_fail_memory(error, "searching");
    }
    for (int32_t op = 0; op < start->n_operators; op++)
        t->priced_value[op] = -1;
    return copy_roomy(t->pricer->model, start, arena, &t->layout, error);
}

/* The bound that needs no blocks. */
static cleave_status simple_bound(const tree *t, const cleave_candidates *candidates,
                                  int64_t *bound, cleave_error *error) {
    double seconds;
    CLEAVE_TRY(cleave_lower_bound(t->pricer->model, t->pricer->machine, candidates,
                                  t->pricer->lower.optimizer_states, &seconds, error));
    *bound = (int64_t)(seconds * 1e12 * (1 - 1e-12));
    return CLEAVE_OK;
}

static cleave_status search_tree(tree *t, const cleave_candidates *candidates,
                                 const cleave_layout *start, cleave_arena *scratch,
                                 cleave_error *error) {
    cleave_bound_blocks blocks;
    bool made;
    cleave_lower_options lower = t->pricer->lower;
    lower.symbolic_collectives = true;
    lower.workspace = NULL; /* memory is the estimate's business */
    cleave_bound_blocks_options options = {
        .like = start, .lower = &lower, .until_seconds = t->until_seconds};
    CLEAVE_TRY(simple_bound(t, candidates, &t->open, error));
    if (t->best > LONGEST_STEP) {
        t->stopped = true;
        return CLEAVE_OK;
    }
    CLEAVE_TRY(cleave_bound_blocks_create(t->pricer->model, candidates, &options, t->pricer->cache,
                                          scratch, &blocks, &made, error));
    if (!made) { /* too large, or no time */
        t->stopped = true;
        return CLEAVE_OK;
    }
    t->blocks = &blocks;
    cleave_status prepared = prepare(t, start, scratch, error);
    if (prepared != CLEAVE_OK) {
        cleave_bound_blocks_destroy(&blocks);
        return prepared;
    }
    int64_t simple = t->open;
    t->open = INT64_MAX;
    cleave_status status = descend(t, 0, error);
    cleave_bound_blocks_destroy(&blocks);
    CLEAVE_TRY(status);
    if (t->open < simple)
        t->open = simple;
    for (int32_t k = 0; k < blocks.n_blocks && t->best_value[0] >= 0; k++)
        for (int32_t i = 0; i < blocks.blocks[k].n_operators; i++) {
            int32_t op = blocks.blocks[k].operators[i];
            int32_t value = value_of(&blocks, &blocks.blocks[k], t->best_value[k], i);
            copy_split(&t->layout.splits[op], &blocks.values[op][value]);
        }
    if (t->best_value[0] < 0)
        CLEAVE_TRY(copy_roomy(t->pricer->model, start, scratch, &t->layout, error));
    return CLEAVE_OK;
}

static cleave_status price_start(tree *t, const cleave_layout *start, cleave_error *error) {
    cleave_price price;
    CLEAVE_TRY(cleave_pricer_estimate(t->pricer, start, false, &t->estimate, error));
    CLEAVE_TRY(price_proposal(t, start, &price, error));
    if (price.excess_bytes > 0)
        return cleave_fail(error, CLEAVE_NO_LAYOUT,
                           "the layout to start from needs %lld bytes more than a device has",
                           (long long)price.excess_bytes);
    t->best = price.step;
    return CLEAVE_OK;
}

cleave_status cleave_branch_and_bound(cleave_pricer *pricer, const cleave_candidates *candidates,
                                      const cleave_layout *start, double until_seconds,
                                      const volatile sig_atomic_t *interrupted, cleave_arena *arena,
                                      cleave_certified *certified, cleave_error *error) {
    tree t = {.pricer = pricer, .interrupted = interrupted, .until_seconds = until_seconds};
    cleave_arena scratch = {0};
    cleave_certified result = {0};
    t.layout = *start;
    cleave_status status = price_start(&t, start, error);
    if (status == CLEAVE_OK)
        status = search_tree(&t, candidates, start, &scratch, error);
    if (status == CLEAVE_OK)
        status = cleave_layout_copy(&t.layout, pricer->model, arena, &result.layout, error);
    cleave_estimate_destroy(t.estimate);
    cleave_arena_free(&scratch);
    CLEAVE_TRY(status);
    result.step = t.best;
    result.complete = !t.stopped || t.open >= t.best;
    result.bound = result.complete ? t.best : t.open;
    result.visited = t.visited;
    result.priced = t.priced;
    *certified = result;
    return CLEAVE_OK;
}
