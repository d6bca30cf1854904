/* The method "mcmc": a walk from each of the layouts that are given and from a random one, and one
   from the best of them all. */
#include "search/improve/mcmc.h"
#include "search/session.h"

#include <string.h>

enum { MAX_WALKS = SESSION_MAX_GIVEN + 2, PROPOSALS_PER_OPERATOR = 250 };

typedef struct start {
    const cleave_layout *layout;
    cleave_price price;
} start;

/* Where something fits, only what does. */
static cleave_status collect_starts(session *s, cleave_mcmc *mcmc, start *starts, int32_t *n_starts,
                                    cleave_error *error) {
    bool any_fits = false;
    cleave_layout *random = CLEAVE_ARENA_ARRAY(&s->work, cleave_layout, 1);
    if (random == NULL)
        return cleave_fail_memory(error, "searching");
    for (int32_t g = 0; g < s->n_given; g++)
        any_fits = any_fits || s->given[g].price.excess_bytes == 0;
    *n_starts = 0;
    for (int32_t g = 0; g < s->n_given; g++)
        if (s->given[g].price.excess_bytes == 0 || !any_fits)
            starts[(*n_starts)++] = (start){s->given[g].layout, s->given[g].price};
    cleave_price price;
    CLEAVE_TRY(cleave_mcmc_random_start(mcmc, s->given[0].layout, &s->work, random, error));
    CLEAVE_TRY(cleave_constraints_impose(s->constraints, s->model, random, &s->work, error));
    const cleave_price_subject what = {.layout = random};
    CLEAVE_TRY(cleave_pricer_price(s->pricer, &what, NULL, &price, error));
    if (price.excess_bytes == 0 || !any_fits)
        starts[(*n_starts)++] = (start){random, price};
    return CLEAVE_OK;
}

/* Each gets an equal share of what is left, so that what one leaves goes to the others. */
static bool share_out(const session *s, const cleave_mcmc *mcmc, int32_t n_walks,
                      cleave_mcmc_budget *budget) {
    *budget = (cleave_mcmc_budget){0};
    if (mcmc->most_proposals > 0) {
        budget->proposals = (mcmc->most_proposals - mcmc->proposals + n_walks - 1) / n_walks;
        if (budget->proposals <= 0)
            return false;
    }
    if (mcmc->time_seconds > 0) {
        double left = session_seconds_left(s);
        budget->seconds = left / n_walks;
        return left > 1e-6;
    }
    return true;
}

static cleave_status walk_all(session *s, cleave_mcmc *mcmc, cleave_error *error) {
    start starts[MAX_WALKS];
    int32_t n = 0;
    CLEAVE_TRY(collect_starts(s, mcmc, starts, &n, error));
    start best = starts[0];
    for (int32_t i = 0; i <= n && !session_interrupted(s); i++) {
        cleave_mcmc_budget budget;
        cleave_price price;
        if (!share_out(s, mcmc, n + 1 - i, &budget))
            break;
        cleave_layout *found = CLEAVE_ARENA_ARRAY(&s->work, cleave_layout, 1);
        if (found == NULL)
            return cleave_fail_memory(error, "searching");
        CLEAVE_TRY(cleave_mcmc_walk(mcmc, i < n ? starts[i].layout : best.layout, budget, &s->work,
                                    found, &price, error));
        CLEAVE_TRY(session_add_found(s, "mcmc", found, &price, error));
        if (cleave_price_better(&price, &best.price))
            best = (start){found, price};
    }
    return CLEAVE_OK;
}

cleave_status session_walk(session *s, cleave_error *error) {
    cleave_mcmc mcmc = {.pricer = s->pricer,
                        .candidates = &s->candidates,
                        .interrupted = s->options->interrupted,
                        .progress = &s->progress,
                        .started_seconds = s->started_seconds,
                        .time_seconds = s->options->time_seconds,
                        .most_proposals = s->options->proposals};
    mcmc.random.key = cleave_hash_join(s->options->seed, cleave_hash_string("mcmc"));
    if (mcmc.time_seconds <= 0 && mcmc.most_proposals <= 0)
        mcmc.most_proposals = (int64_t)PROPOSALS_PER_OPERATOR * s->model->n_operators;
    CLEAVE_TRY(walk_all(s, &mcmc, error));
    s->result.proposals = mcmc.proposals;
    s->result.accepted = mcmc.accepted;
    return CLEAVE_OK;
}
