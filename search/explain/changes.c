/* Single changes of a layout: each is proposed to the estimate, priced and taken back. */
#include "search/explain/changes.h"

#include "base/list.h"
#include "base/order.h"

#include <string.h>

/* With what has been proposed. */
static cleave_status price_changed(explain_changes *changes, const cleave_price_bar *bar,
                                   cleave_price *price, cleave_error *error) {
    const cleave_price_subject what = {
        .layout = &changes->layout, .view = CLEAVE_VIEW_FOLDED, .estimate = changes->estimate};
    return cleave_pricer_price(&changes->pricer, &what, bar, price, error);
}

cleave_status explain_changes_create(const cleave_pricing *of, int64_t memory_limit_bytes,
                                     cleave_arena *arena, explain_changes *changes,
                                     cleave_error *error) {
    *changes = (explain_changes){0};
    changes->devices = CLEAVE_ARENA_ARRAY(arena, int32_t, of->machine->n_devices);
    if (changes->devices == NULL)
        return cleave_fail_memory(error, "trying changes");
    CLEAVE_TRY(cleave_layout_copy(of->layout, of->model, arena, &changes->layout, error));
    CLEAVE_TRY(cleave_pricer_create(of->model, of->machine, of->optimizer_states,
                                    memory_limit_bytes, &changes->pricer, error));
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

static cleave_status try_with(explain_changes *changes, int32_t op, const cleave_split *split,
                              const cleave_price_bar *bar, cleave_price *price,
                              cleave_error *error) {
    cleave_split old = changes->layout.splits[op];
    CLEAVE_TRY(cleave_estimate_change(changes->estimate, op, split, error));
    changes->layout.splits[op] = *split;
    cleave_status status = price_changed(changes, bar, price, error);
    changes->layout.splits[op] = old;
    return status == CLEAVE_OK ? cleave_estimate_reject(changes->estimate, error) : status;
}

cleave_status explain_changes_try(explain_changes *changes, int32_t op, const cleave_split *split,
                                  cleave_price *price, cleave_error *error) {
    return try_with(changes, op, split, NULL, price, error);
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

/* Does it fit?  Notes it among those that do, or that don't. */
static cleave_status try_fully(finder *f, const cleave_split *split, cleave_error *error) {
    cleave_price price;
    CLEAVE_TRY(explain_changes_try(f->changes, f->op, split, &price, error));
    return price.excess_bytes > 0 ? note(&f->large, 1, split, price.step, f->arena, error)
                                  : note(&f->fitting, f->keep, split, price.step, f->arena, error);
}

static bool is_other(finder *f, const cleave_split *split) {
    bool other = !cleave_split_same(split, &f->changes->layout.splits[f->op]);
    f->fitting.tried += other;
    return other;
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

/* A candidate at one of its blocks, and the step with it; `place` is its place among all. */
typedef struct draft {
    int64_t step;
    int32_t place, candidate, start;
} draft;

typedef CLEAVE_LIST(draft) draft_list;

static int by_step(const void *a, const void *b) {
    const draft *x = a, *y = b;
    CLEAVE_ORDER_BY(x->step, y->step);
    return CLEAVE_ORDER(x->place, y->place);
}

static cleave_split place_draft(const finder *f, const draft *of) {
    cleave_split split = {.devices = f->changes->devices};
    cleave_candidate_place(&list_of(f->changes, f->op)->items[of->candidate], of->start, &split);
    return split;
}

/* The step alone: nobody asks for the memory of what is not below 0. */
static cleave_status time_draft(finder *f, draft of, draft_list *drafts, cleave_error *error) {
    static const cleave_price_bar never = {.below = 0, .step_decides = true};
    cleave_price price;
    const cleave_split split = place_draft(f, &of);
    if (!is_other(f, &split))
        return CLEAVE_OK;
    CLEAVE_TRY(try_with(f->changes, f->op, &split, &never, &price, error));
    of.step = price.step;
    of.place = drafts->n;
    return CLEAVE_LIST_PUSH(drafts, of) ? CLEAVE_OK : cleave_fail_memory(error, "trying changes");
}

static cleave_status time_drafts(finder *f, explain_extent extent, draft_list *drafts,
                                 cleave_error *error) {
    const cleave_candidate_list *list = list_of(f->changes, f->op);
    for (int32_t i = next_candidate(list, extent.most, -1); i < list->n;
         i = next_candidate(list, extent.most, i)) {
        const cleave_candidate *candidate = &list->items[i];
        int32_t first =
            extent.all_blocks ? 0 : block_at(candidate, &f->changes->layout.splits[f->op]);
        int32_t end = first + (int32_t)blocks_of(candidate, extent);
        for (int32_t start = first; start < end; start++)
            CLEAVE_TRY(time_draft(f, (draft){.candidate = i, .start = start}, drafts, error));
    }
    return CLEAVE_OK;
}

/* Planning memory takes far longer than the step of an estimate, so it is asked of the quickest
   only, until enough of them fit. */
static cleave_status fit_quickest(finder *f, draft_list *drafts, cleave_error *error) {
    CLEAVE_SORT(drafts->items, drafts->n, by_step);
    for (int32_t i = 0; i < drafts->n && f->fitting.n < f->keep; i++) {
        const cleave_split split = place_draft(f, &drafts->items[i]);
        CLEAVE_TRY(try_fully(f, &split, error));
    }
    return CLEAVE_OK;
}

cleave_status explain_changes_choose(explain_changes *changes, int32_t op, explain_extent extent,
                                     cleave_arena *arena, explain_choice *choice,
                                     cleave_error *error) {
    finder f = {.changes = changes, .op = op, .keep = extent.keep, .arena = arena};
    draft_list drafts = {0};
    cleave_status status = time_drafts(&f, extent, &drafts, error);
    if (status == CLEAVE_OK)
        status = fit_quickest(&f, &drafts, error);
    CLEAVE_LIST_FREE(&drafts);
    *choice = conclude(&f);
    return status;
}

cleave_status explain_changes_follow(explain_changes *changes, int32_t op,
                                     const explain_choice *other, cleave_arena *arena,
                                     explain_choice *choice, cleave_error *error) {
    finder f = {.changes = changes, .op = op, .keep = EXPLAIN_ALTERNATIVES, .arena = arena};
    if (other->is_held_back && is_other(&f, &other->held_back.split))
        CLEAVE_TRY(try_fully(&f, &other->held_back.split, error));
    for (int32_t i = 0; i < other->n; i++)
        if (is_other(&f, &other->best[i].split))
            CLEAVE_TRY(try_fully(&f, &other->best[i].split, error));
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
