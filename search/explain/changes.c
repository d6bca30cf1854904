/* Single changes of a layout: each is proposed to the estimate, priced and taken back. */
#include "search/explain/changes.h"

#include <float.h>
#include <string.h>

/* With what has been proposed. */
static cleave_status price_changed(explain_changes *changes, const cleave_price_bar *bar,
                                   cleave_price *price, cleave_error *error) {
    const cleave_price_subject what = {
        .layout = &changes->layout, .view = CLEAVE_VIEW_FOLDED, .estimate = changes->estimate};
    return cleave_pricer_price(&changes->pricer, &what, bar, price, error);
}

cleave_status explain_changes_create(const cleave_model *model, const cleave_machine *machine,
                                     const cleave_layout *layout,
                                     const cleave_search_options *options, cleave_arena *arena,
                                     explain_changes *changes, cleave_error *error) {
    *changes = (explain_changes){0};
    changes->devices = CLEAVE_ARENA_ARRAY(arena, int32_t, machine->n_devices);
    if (changes->devices == NULL)
        return cleave_fail_memory(error, "trying changes");
    CLEAVE_TRY(cleave_layout_copy(layout, model, arena, &changes->layout, error));
    CLEAVE_TRY(cleave_pricer_create(model, machine, options->optimizer_states,
                                    options->memory_limit_bytes, &changes->pricer, error));
    CLEAVE_TRY(cleave_pricer_estimate(&changes->pricer, &changes->layout, false, &changes->estimate,
                                      error));
    return price_changed(changes, NULL, &changes->price, error);
}

cleave_status explain_changes_list(explain_changes *changes, cleave_arena *arena,
                                   cleave_error *error) {
    const cleave_layout *given[] = {&changes->layout};
    const cleave_pricer *pricer = &changes->pricer;
    CLEAVE_TRY(cleave_node_costs_create(pricer->model, pricer->machine, &changes->costs, error));
    return cleave_candidates_create(pricer->model, pricer->machine, changes->costs, given, 1, arena,
                                    &changes->candidates, error);
}

void explain_changes_destroy(explain_changes *changes) {
    cleave_estimate_destroy(changes->estimate);
    cleave_node_costs_destroy(changes->costs);
    cleave_pricer_destroy(&changes->pricer);
}

/* The memory of a split that is in doubt is planned where its step is less than `below`. */
static cleave_status try_below(explain_changes *changes, int32_t op, const cleave_split *split,
                               int64_t below, cleave_price *price, cleave_error *error) {
    cleave_split old = changes->layout.splits[op];
    CLEAVE_TRY(cleave_estimate_change(changes->estimate, op, split, error));
    changes->layout.splits[op] = *split;
    const cleave_price_bar bar = {.below = below, .below_over = DBL_MAX};
    cleave_status status = price_changed(changes, &bar, price, error);
    changes->layout.splits[op] = old;
    return status == CLEAVE_OK ? cleave_estimate_reject(changes->estimate, error) : status;
}

cleave_status explain_changes_try(explain_changes *changes, int32_t op, const cleave_split *split,
                                  cleave_price *price, cleave_error *error) {
    return try_below(changes, op, split, INT64_MAX, price, error);
}

cleave_status explain_changes_shard(explain_changes *changes, int32_t tensor, bool sharded,
                                    cleave_price *price, cleave_error *error) {
    bool old = changes->layout.sharded[tensor];
    CLEAVE_TRY(cleave_estimate_shard(changes->estimate, tensor, sharded, error));
    changes->layout.sharded[tensor] = sharded;
    cleave_status status = price_changed(changes, NULL, price, error);
    changes->layout.sharded[tensor] = old;
    return status == CLEAVE_OK ? cleave_estimate_reject(changes->estimate, error) : status;
}

/* Keeps the best few; equal ones in the order that they came. */
static cleave_status note(explain_choice *choice, int32_t keep, const cleave_split *split,
                          int64_t step, cleave_arena *arena, cleave_error *error) {
    int32_t place = choice->n;
    while (place > 0 && choice->best[place - 1].step > step)
        place--;
    if (place == keep)
        return CLEAVE_OK;
    explain_alternative made = {*split, step};
    made.split.devices = CLEAVE_ARENA_ARRAY(arena, int32_t, split->n_parts);
    if (made.split.devices == NULL)
        return cleave_fail_memory(error, "trying changes");
    memcpy(made.split.devices, split->devices, (size_t)split->n_parts * sizeof *split->devices);
    choice->n += choice->n < keep;
    memmove(&choice->best[place + 1], &choice->best[place],
            (size_t)(choice->n - 1 - place) * sizeof *choice->best);
    choice->best[place] = made;
    return CLEAVE_OK;
}

/* What is being found for an operator. */
typedef struct finder {
    explain_changes *changes;
    int32_t op, keep;
    cleave_arena *arena;
    explain_choice fitting, large;
} finder;

static cleave_status try_one(finder *f, const cleave_split *split, cleave_error *error) {
    int64_t below = f->fitting.n == f->keep ? f->fitting.best[f->keep - 1].step : INT64_MAX;
    cleave_price price;
    if (cleave_split_same(split, &f->changes->layout.splits[f->op]))
        return CLEAVE_OK;
    CLEAVE_TRY(try_below(f->changes, f->op, split, below, &price, error));
    f->fitting.tried++;
    return price.excess_bytes > 0 ? note(&f->large, 1, split, price.step, f->arena, error)
                                  : note(&f->fitting, f->keep, split, price.step, f->arena, error);
}

static explain_choice conclude(const finder *f) {
    explain_choice made = f->fitting;
    made.is_held_back = f->large.n > 0 && f->large.best[0].step < f->changes->price.step &&
                        (made.n == 0 || f->large.best[0].step < made.best[0].step);
    if (made.is_held_back)
        made.held_back = f->large.best[0];
    return made;
}

/* The block of a candidate's size that has the first device of the split as it is. */
static int32_t block_at(const cleave_candidate *candidate, const cleave_split *split) {
    int32_t start = split->devices[0] / candidate->n_parts;
    return start < candidate->n_starts ? start : candidate->n_starts - 1;
}

static const cleave_candidate_list *list_of(const explain_changes *changes, int32_t op) {
    return &changes->candidates.lists[changes->candidates.list_of[op]];
}

/* Lists stand in order of size, and of own cost within a size: the next candidate after `i` that
   belongs to the extent, and the first for -1; the list's end where there is none. */
static int32_t next_candidate(const cleave_candidate_list *list, int64_t most, int32_t i) {
    int32_t sizes = 0, begin = 0;
    for (int32_t k = 0; k < list->n; k++)
        sizes += k == 0 || list->items[k].n_parts != list->items[k - 1].n_parts;
    for (i++; most > 0 && i < list->n; i++) {
        for (begin = i; begin > 0 && list->items[begin - 1].n_parts == list->items[i].n_parts;)
            begin--;
        if ((int64_t)(i - begin) * sizes < most)
            break;
    }
    return i;
}

static int64_t blocks_of(const cleave_candidate *candidate, explain_extent extent) {
    return extent.all_blocks ? candidate->n_starts : 1;
}

cleave_status explain_changes_choose(explain_changes *changes, int32_t op, explain_extent extent,
                                     cleave_arena *arena, explain_choice *choice,
                                     cleave_error *error) {
    const cleave_candidate_list *list = list_of(changes, op);
    finder f = {.changes = changes, .op = op, .keep = extent.keep, .arena = arena};
    for (int32_t i = next_candidate(list, extent.most, -1); i < list->n;
         i = next_candidate(list, extent.most, i)) {
        const cleave_candidate *candidate = &list->items[i];
        int32_t first = extent.all_blocks ? 0 : block_at(candidate, &changes->layout.splits[op]);
        int32_t end = first + (int32_t)blocks_of(candidate, extent);
        for (int32_t start = first; start < end; start++) {
            cleave_split split = {.devices = changes->devices};
            cleave_candidate_place(candidate, start, &split);
            CLEAVE_TRY(try_one(&f, &split, error));
        }
    }
    *choice = conclude(&f);
    return CLEAVE_OK;
}

cleave_status explain_changes_follow(explain_changes *changes, int32_t op,
                                     const explain_choice *other, cleave_arena *arena,
                                     explain_choice *choice, cleave_error *error) {
    finder f = {.changes = changes, .op = op, .keep = EXPLAIN_ALTERNATIVES, .arena = arena};
    if (other->is_held_back)
        CLEAVE_TRY(try_one(&f, &other->held_back.split, error));
    for (int32_t i = 0; i < other->n; i++)
        CLEAVE_TRY(try_one(&f, &other->best[i].split, error));
    *choice = conclude(&f);
    return CLEAVE_OK;
}

bool explain_changes_alike(const explain_changes *changes, int32_t a, int32_t b) {
    return changes->candidates.list_of[a] == changes->candidates.list_of[b] &&
           cleave_split_same(&changes->layout.splits[a], &changes->layout.splits[b]);
}

int64_t explain_changes_count(const explain_changes *changes, int32_t op, explain_extent extent) {
    const cleave_candidate_list *list = list_of(changes, op);
    int64_t count = 0;
    for (int32_t i = next_candidate(list, extent.most, -1); i < list->n;
         i = next_candidate(list, extent.most, i))
        count += blocks_of(&list->items[i], extent);
    return count;
}
