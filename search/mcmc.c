/* A proposal gives one random operator a random candidate, at a random block of devices; or all
   operators that are alike and split alike, such as the cells of a recurrence.  It is accepted with
   probability min(1, exp(beta (old - new))), with steps in seconds, where beta = 500 / step of the
   first layout that fits: a layout that is 0.2 % slower, measured by the start, is accepted once in
   e times, one that is 1 % slower once in 150.  Single operators of a network change its step by
   about as much; a tenth of this beta wanders, ten times it is greedy.

   A layout that does not fit in memory has no time.  The walk goes from such a layout to any that
   is no further over the limit, and never from one that fits to one that does not. */
#include "search/mcmc.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double beta_of_start = 500;

typedef struct chain {
    cleave_mcmc *mcmc;
    const cleave_model *model;
    cleave_layout current;
    cleave_estimate *estimate; /* of it */
    cleave_price price;
    int32_t *spare;     /* [n_devices] devices of the split that is tried */
    cleave_layout undo; /* splits that the proposal replaces, of the operators in `changed` */
    int32_t *changed, n_changed;
    int32_t *movable; /* operators that have a choice */
    int32_t n_movable;
    double beta; /* per picosecond; 0: no layout has fitted yet */
    int64_t proposals, improved_at;
    double started_seconds, improved_at_seconds;
} chain;

static double now(const cleave_mcmc_budget *budget) {
    return budget->seconds > 0 ? cleave_clock_seconds() : 0;
}

/* A copy in which the devices of every operator have room for all devices. */
static cleave_status copy_roomy(const cleave_layout *layout, const cleave_model *model,
                                cleave_arena *arena, cleave_layout *copy, cleave_error *error) {
    size_t n_ops = (size_t)layout->n_operators, n_devices = (size_t)layout->n_devices;
    cleave_layout result = *layout;
    int32_t *devices = cleave_arena_alloc(arena, n_ops, n_devices * sizeof *devices);
    result.splits = CLEAVE_ARENA_ARRAY(arena, cleave_split, n_ops);
    result.sharded = CLEAVE_ARENA_ARRAY(arena, bool, model->n_tensors);
    if (devices == NULL || result.splits == NULL || result.sharded == NULL)
        return cleave_fail_memory(error, "searching");
    memcpy(result.sharded, layout->sharded, (size_t)model->n_tensors * sizeof *layout->sharded);
    for (size_t op = 0; op < n_ops; op++) {
        result.splits[op] = layout->splits[op];
        result.splits[op].devices = devices + op * n_devices;
        memcpy(result.splits[op].devices, layout->splits[op].devices,
               (size_t)layout->splits[op].n_parts * sizeof *devices);
    }
    *copy = result;
    return CLEAVE_OK;
}

/* Overwrites a split whose devices have room for all. */
static void replace(cleave_split *to, const cleave_split *from) {
    int32_t *devices = to->devices;
    *to = *from;
    to->devices = devices;
    memcpy(devices, from->devices, (size_t)from->n_parts * sizeof *devices);
}

/* Both are roomy and of the same model. */
static void assign(cleave_layout *to, const cleave_layout *from) {
    for (int32_t op = 0; op < from->n_operators; op++) {
        replace(&to->splits[op], &from->splits[op]);
    }
}

static const cleave_candidate_list *list_of(const cleave_mcmc *mcmc, int32_t op) {
    return &mcmc->candidates->lists[mcmc->candidates->list_of[op]];
}

static void draw(cleave_mcmc *mcmc, int32_t op, cleave_split *split) {
    const cleave_candidate_list *list = list_of(mcmc, op);
    const cleave_candidate *candidate = &list->items[cleave_random_below(&mcmc->random, list->n)];
    int32_t start = (int32_t)cleave_random_below(&mcmc->random, candidate->n_starts);
    cleave_candidate_place(candidate, start, split);
}

static bool same_split(const cleave_split *a, const cleave_split *b) {
    return a->replicas == b->replicas && a->n_parts == b->n_parts &&
           memcmp(a->degree, b->degree, sizeof a->degree) == 0 &&
           memcmp(a->devices, b->devices, (size_t)a->n_parts * sizeof *a->devices) == 0;
}

/* The operators that a proposal for `op` changes. */
static void choose_group(chain *c, int32_t op) {
    const cleave_mcmc *mcmc = c->mcmc;
    c->n_changed = 0;
    bool group = mcmc->moves_groups && cleave_random_below(&c->mcmc->random, 2) == 0;
    for (int32_t i = group ? 0 : op; i < c->current.n_operators && (group || i == op); i++)
        if (mcmc->candidates->list_of[i] == mcmc->candidates->list_of[op] &&
            same_split(&c->current.splits[i], &c->current.splits[op]))
            c->changed[c->n_changed++] = i;
}

static cleave_status begin(chain *c, const cleave_layout *start, cleave_arena *arena,
                           cleave_error *error) {
    CLEAVE_TRY(copy_roomy(start, c->model, arena, &c->current, error));
    CLEAVE_TRY(copy_roomy(start, c->model, arena, &c->undo, error));
    c->changed = CLEAVE_ARENA_ARRAY(arena, int32_t, start->n_operators);
    c->spare = CLEAVE_ARENA_ARRAY(arena, int32_t, start->n_devices);
    c->movable = CLEAVE_ARENA_ARRAY(arena, int32_t, start->n_operators);
    if (c->spare == NULL || c->movable == NULL || c->changed == NULL)
        return cleave_fail_memory(error, "searching");
    for (int32_t op = 0; op < start->n_operators; op++) {
        const cleave_candidate_list *list = list_of(c->mcmc, op);
        if (list->n > 1 || (list->n == 1 && list->items[0].n_starts > 1))
            c->movable[c->n_movable++] = op;
    }
    CLEAVE_TRY(cleave_pricer_estimate(c->mcmc->pricer, &c->current, &c->estimate, error));
    return cleave_price_proposal(c->mcmc->pricer, c->estimate, &c->current, &c->price, error);
}

static bool better(const cleave_price *a, const cleave_price *b) {
    if (a->excess_bytes != b->excess_bytes)
        return a->excess_bytes < b->excess_bytes;
    return a->excess_bytes == 0 && a->step < b->step;
}

static bool accepts(chain *c, const cleave_price *proposed) {
    if (proposed->excess_bytes > 0 || c->price.excess_bytes > 0)
        return proposed->excess_bytes <= c->price.excess_bytes;
    double change = (double)(c->price.step - proposed->step);
    return change >= 0 || cleave_random_next_uniform(&c->mcmc->random) < exp(c->beta * change);
}

static cleave_status propose(chain *c, cleave_error *error) {
    cleave_mcmc *mcmc = c->mcmc;
    int32_t op = c->movable[cleave_random_below(&mcmc->random, c->n_movable)];
    cleave_split tried = {.devices = c->spare};
    draw(mcmc, op, &tried);
    choose_group(c, op);
    for (int32_t i = 0; i < c->n_changed; i++) {
        replace(&c->undo.splits[c->changed[i]], &c->current.splits[c->changed[i]]);
        replace(&c->current.splits[c->changed[i]], &tried);
        CLEAVE_TRY(cleave_estimate_change(c->estimate, c->changed[i], &tried, error));
    }
    cleave_price price;
    CLEAVE_TRY(cleave_price_proposal(mcmc->pricer, c->estimate, &c->current, &price, error));
    if (accepts(c, &price)) {
        c->price = price;
        mcmc->accepted++;
        CLEAVE_TRY(cleave_estimate_accept(c->estimate, error));
    } else {
        CLEAVE_TRY(cleave_estimate_reject(c->estimate, error));
        for (int32_t i = 0; i < c->n_changed; i++)
            replace(&c->current.splits[c->changed[i]], &c->undo.splits[c->changed[i]]);
    }
    c->proposals++;
    mcmc->proposals++;
    return CLEAVE_OK;
}

static bool is_over(const chain *c, const cleave_mcmc_budget *budget) {
    if (c->mcmc->interrupted != NULL && *c->mcmc->interrupted != 0)
        return true;
    if (budget->proposals > 0 && (c->proposals >= budget->proposals ||
                                  c->proposals - c->improved_at > budget->proposals / 2))
        return true;
    double seconds = now(budget);
    return budget->seconds > 0 && (seconds - c->started_seconds >= budget->seconds ||
                                   seconds - c->improved_at_seconds > budget->seconds / 2);
}

static void show(const cleave_mcmc *mcmc) {
    if (mcmc->progress->quiet)
        return;
    double elapsed = cleave_clock_seconds() - mcmc->started_seconds, fraction = 0;
    if (mcmc->time_seconds > 0)
        fraction = elapsed / mcmc->time_seconds;
    if (mcmc->most_proposals > 0)
        fraction = fmax(fraction, (double)mcmc->proposals / (double)mcmc->most_proposals);
    char best[32] = "none fits yet", note[96];
    if (mcmc->best_step > 0)
        cleave_unit_format((double)mcmc->best_step * 1e-12, CLEAVE_UNIT_SECONDS, best, sizeof best);
    snprintf(note, sizeof note, "best %s, %lld proposals, %.0f/s", best, (long long)mcmc->proposals,
             elapsed > 0 ? (double)mcmc->proposals / elapsed : 0);
    cleave_progress_update(mcmc->progress, fmin(fraction, 1), note);
}

static cleave_status walk(chain *c, cleave_mcmc_budget budget, cleave_layout *found,
                          cleave_price *found_price, cleave_error *error) {
    cleave_mcmc *mcmc = c->mcmc;
    *found_price = c->price;
    c->started_seconds = c->improved_at_seconds = now(&budget);
    while (c->n_movable > 0 && !is_over(c, &budget)) {
        if (c->beta <= 0 && c->price.excess_bytes == 0)
            c->beta = beta_of_start / (double)(c->price.step > 0 ? c->price.step : 1);
        CLEAVE_TRY(propose(c, error));
        if (better(&c->price, found_price)) {
            assign(found, &c->current);
            *found_price = c->price;
            c->improved_at = c->proposals;
            c->improved_at_seconds = now(&budget);
        }
        if (found_price->excess_bytes == 0 &&
            (mcmc->best_step == 0 || found_price->step < mcmc->best_step))
            mcmc->best_step = found_price->step;
        show(mcmc);
    }
    return CLEAVE_OK;
}

cleave_status cleave_mcmc_walk(cleave_mcmc *mcmc, const cleave_layout *start,
                               cleave_mcmc_budget budget, cleave_arena *arena, cleave_layout *best,
                               cleave_price *best_price, cleave_error *error) {
    chain c = {.mcmc = mcmc, .model = mcmc->pricer->model};
    cleave_layout found;
    cleave_price found_price = {0};
    cleave_status status = begin(&c, start, arena, error);
    if (status == CLEAVE_OK)
        status = copy_roomy(start, c.model, arena, &found, error);
    if (status == CLEAVE_OK)
        status = walk(&c, budget, &found, &found_price, error);
    cleave_estimate_destroy(c.estimate);
    CLEAVE_TRY(status);
    *best = found;
    *best_price = found_price;
    return CLEAVE_OK;
}

cleave_status cleave_mcmc_random_start(cleave_mcmc *mcmc, cleave_arena *arena,
                                       cleave_layout *layout, cleave_error *error) {
    const cleave_model *model = mcmc->pricer->model;
    int32_t n_devices = mcmc->pricer->machine->n_devices;
    cleave_layout result;
    CLEAVE_TRY(cleave_layout_create(model, n_devices, arena, &result, error));
    const cleave_split **of_list =
        CLEAVE_ARENA_ARRAY(arena, const cleave_split *, mcmc->candidates->n_lists);
    if (of_list == NULL)
        return cleave_fail_memory(error, "searching");
    for (int32_t op = 0; op < model->n_operators; op++) {
        const cleave_split **alike = &of_list[mcmc->candidates->list_of[op]];
        cleave_split *split = &result.splits[op];
        split->devices = CLEAVE_ARENA_ARRAY(arena, int32_t, n_devices);
        if (split->devices == NULL)
            return cleave_fail_memory(error, "searching");
        if (*alike == NULL) {
            draw(mcmc, op, split);
            *alike = split;
            continue;
        }
        replace(split, *alike);
    }
    *layout = result;
    return CLEAVE_OK;
}
