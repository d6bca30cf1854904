/* What the method "auto" may spend, and how rounds share it out among their tasks. */
#ifndef CLEAVE_SEARCH_IMPROVE_BUDGET_H
#define CLEAVE_SEARCH_IMPROVE_BUDGET_H

#include "search/improve/auto.h"

typedef struct auto_budget {
    const cleave_improvement *with;
    int64_t whole_work; /* of lowering the best start, in bytes of fragments */
    bool in_steps;      /* all prices are with collectives in their steps */
} auto_budget;

/* What each of n tasks of the state's round may spend: of the proposals or seconds that are left,
   else of an amount of work that depends on model and machine alone. */
cleave_refine_limits auto_budget_share(const auto_budget *budget, const auto_state *a, int32_t n);

/* Are layouts small enough to be refined in steps on more than few devices? */
bool auto_budget_allows_steps(const auto_budget *budget);

/* For a state that was read: what is left of the time is for the tasks that are not done yet. */
void auto_budget_resume(const auto_budget *budget, auto_state *a);

#endif
