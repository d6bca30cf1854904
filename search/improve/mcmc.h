/* Markov chain Monte Carlo over the candidates, as in FlexFlow (Jia, Zaharia, Aiken, MLSys 2019):
   the method to compare others with. */
#ifndef CLEAVE_SEARCH_IMPROVE_MCMC_H
#define CLEAVE_SEARCH_IMPROVE_MCMC_H

#include "base/progress.h"
#include "base/random.h"
#include "base/units.h"
#include "search/improve/chain.h"

#include <signal.h>

typedef struct cleave_mcmc {
    cleave_pricer *pricer;
    const cleave_candidates *candidates;
    const volatile sig_atomic_t *interrupted; /* may be null */
    cleave_random random;
    cleave_progress *progress;
    double started_seconds;      /* clock at the start of the search, for progress */
    double time_seconds;         /* whole budget; 0: none, and the clock decides nothing */
    int64_t most_proposals;      /* whole budget; 0: no limit */
    int64_t best_step;           /* picoseconds over all chains, for progress; 0: none */
    int64_t proposals, accepted; /* over all chains */
} cleave_mcmc;

/* Budget of one chain; 0 in either: no such limit. */
typedef struct cleave_mcmc_budget {
    int64_t proposals;
    double seconds;
} cleave_mcmc_budget;

/* Walks from `start` until the budget is spent, nothing better came for half of it, or the flag is
   set.  `best` gets the best layout seen (the start included), in the arena, and its price with
   collectives as one item each.  Depends on nothing but its arguments where there is no limit of
   seconds. */
cleave_status cleave_mcmc_walk(cleave_mcmc *mcmc, const cleave_layout *start,
                               cleave_mcmc_budget budget, cleave_arena *arena, cleave_layout *best,
                               cleave_price *best_price, cleave_error *error);

/* Every operator gets any candidate, and operators that are alike the same one: a recurrence that
   is split differently at each step does nothing but move data.  `like` gives number of devices and
   collectives. */
cleave_status cleave_mcmc_random_start(cleave_mcmc *mcmc, const cleave_layout *like,
                                       cleave_arena *arena, cleave_layout *layout,
                                       cleave_error *error);

#endif
