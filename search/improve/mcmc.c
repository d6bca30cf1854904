/* A proposal gives one random operator a random candidate, at a random block of devices.  It is
   accepted with probability min(1, exp(beta (old - new))), with steps in seconds, where beta = 500
   / step of the first layout that fits: a layout that is 0.2 % slower, measured by the start, is
   accepted once in e times, one that is 1 % slower once in 150.  Single operators of a network
   change its step by about as much; a tenth of this beta wanders, ten times it is greedy.

   A layout that does not fit in memory has no time.  The walk goes from such a layout to any that
   is no further over the limit, and never from one that fits to one that does not. */
#include "search/improve/mcmc.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double beta_of_start = 500;

typedef struct walk {
    cleave_mcmc *mcmc;
    cleave_chain chain;
    cleave_choices best;
    cleave_price best_price;
    int32_t *movable; /* operators that have a choice */
    int32_t n_movable;
    double beta; /* per picosecond; 0: no layout has fitted yet */
    int64_t improved_at;
    double started_seconds, improved_at_seconds;
} walk;

static double now(const cleave_mcmc_budget *budget) {
    return budget->seconds > 0 ? cleave_clock_seconds() : 0;
}

static cleave_choice draw(cleave_mcmc *mcmc, int32_t op) {
    const cleave_candidate_list *list = cleave_list_of(mcmc->candidates, op);
    int32_t candidate = (int32_t)cleave_random_below(&mcmc->random, list->n);
    int32_t n_starts = list->items[candidate].n_starts;
    return (cleave_choice){candidate, (int32_t)cleave_random_below(&mcmc->random, n_starts)};
}

static cleave_status begin(walk *w, const cleave_layout *start, cleave_arena *arena,
                           cleave_error *error) {
    const cleave_candidates *candidates = w->mcmc->candidates;
    const cleave_model *model = w->mcmc->pricer->model;
    w->movable = CLEAVE_ARENA_ARRAY(arena, int32_t, start->n_operators);
    if (w->movable == NULL)
        return cleave_fail_memory(error, "searching");
    for (int32_t op = 0; op < start->n_operators; op++) {
        const cleave_candidate_list *list = cleave_list_of(candidates, op);
        if (list->n > 1 || (list->n == 1 && list->items[0].n_starts > 1))
            w->movable[w->n_movable++] = op;
    }
    CLEAVE_TRY(cleave_choices_create(model, arena, &w->best, error));
    cleave_choices_of(model, candidates, start, &w->best);
    const cleave_chain_start best = {&w->best, NULL};
    const cleave_chain_frame frame = {.candidates = candidates, .like = start};
    CLEAVE_TRY(cleave_chain_begin(w->mcmc->pricer, &frame, &best, arena, &w->chain, error));
    w->best_price = w->chain.price;
    return CLEAVE_OK;
}

static bool accepts(walk *w) {
    const cleave_price *proposed = &w->chain.proposed, *price = &w->chain.price;
    if (proposed->excess_bytes > 0 || price->excess_bytes > 0)
        return !cleave_price_nearer(price, proposed);
    double change = (double)(price->step - proposed->step);
    return change >= 0 || cleave_random_next_uniform(&w->mcmc->random) < exp(w->beta * change);
}

static cleave_status propose(walk *w, cleave_error *error) {
    cleave_mcmc *mcmc = w->mcmc;
    int32_t op = w->movable[cleave_random_below(&mcmc->random, w->n_movable)];
    CLEAVE_TRY(cleave_chain_change(&w->chain, op, draw(mcmc, op), error));
    CLEAVE_TRY(cleave_chain_price(&w->chain, INT64_MAX, false, error));
    mcmc->proposals++;
    if (!accepts(w))
        return cleave_chain_reject(&w->chain, error);
    mcmc->accepted++;
    return cleave_chain_accept(&w->chain, error);
}

static bool is_over(const walk *w, const cleave_mcmc_budget *budget) {
    int64_t proposals = w->chain.proposals;
    if (w->mcmc->interrupted != NULL && *w->mcmc->interrupted != 0)
        return true;
    if (budget->proposals > 0 &&
        (proposals >= budget->proposals || proposals - w->improved_at > budget->proposals / 2))
        return true;
    double seconds = now(budget);
    return budget->seconds > 0 && (seconds - w->started_seconds >= budget->seconds ||
                                   seconds - w->improved_at_seconds > budget->seconds / 2);
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

static cleave_status run(walk *w, cleave_mcmc_budget budget, cleave_error *error) {
    cleave_mcmc *mcmc = w->mcmc;
    cleave_chain *c = &w->chain;
    w->started_seconds = w->improved_at_seconds = now(&budget);
    while (w->n_movable > 0 && !is_over(w, &budget)) {
        if (w->beta <= 0 && c->price.excess_bytes == 0)
            w->beta = beta_of_start / (double)(c->price.step > 0 ? c->price.step : 1);
        CLEAVE_TRY(propose(w, error));
        if (cleave_price_nearer(&c->price, &w->best_price)) {
            cleave_choices_copy(mcmc->pricer->model, &c->choices, &w->best);
            w->best_price = c->price;
            w->improved_at = c->proposals;
            w->improved_at_seconds = now(&budget);
        }
        if (w->best_price.excess_bytes == 0 &&
            (mcmc->best_step == 0 || w->best_price.step < mcmc->best_step))
            mcmc->best_step = w->best_price.step;
        show(mcmc);
    }
    return CLEAVE_OK;
}

cleave_status cleave_mcmc_walk(cleave_mcmc *mcmc, const cleave_layout *start,
                               cleave_mcmc_budget budget, cleave_arena *arena, cleave_layout *best,
                               cleave_price *best_price, cleave_error *error) {
    walk w = {.mcmc = mcmc};
    cleave_status status = begin(&w, start, arena, error);
    if (status == CLEAVE_OK)
        status = run(&w, budget, error);
    cleave_chain_end(&w.chain);
    CLEAVE_TRY(status);
    *best_price = w.best_price;
    return cleave_choices_layout(mcmc->pricer->model, mcmc->candidates, &w.best, start, arena, best,
                                 error);
}

cleave_status cleave_mcmc_random_start(cleave_mcmc *mcmc, const cleave_layout *like,
                                       cleave_arena *arena, cleave_layout *layout,
                                       cleave_error *error) {
    const cleave_model *model = mcmc->pricer->model;
    cleave_choices choices;
    CLEAVE_TRY(cleave_choices_create(model, arena, &choices, error));
    bool *drawn = CLEAVE_ARENA_ARRAY(arena, bool, mcmc->candidates->n_lists);
    cleave_choice *of_list = CLEAVE_ARENA_ARRAY(arena, cleave_choice, mcmc->candidates->n_lists);
    if (drawn == NULL || of_list == NULL)
        return cleave_fail_memory(error, "searching");
    for (int32_t op = 0; op < model->n_operators; op++) {
        int32_t list = mcmc->candidates->list_of[op];
        if (!drawn[list])
            of_list[list] = draw(mcmc, op);
        drawn[list] = true;
        choices.of[op] = of_list[list];
    }
    return cleave_choices_layout(model, mcmc->candidates, &choices, like, arena, layout, error);
}
