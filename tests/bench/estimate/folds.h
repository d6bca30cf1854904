/* A walk among the layouts that fold to windows of one node, priced by the estimate of a window
   (simulator/step/estimate_checks.h): what a search on many devices mostly asks. */
#ifndef CLEAVE_TESTS_BENCH_ESTIMATE_FOLDS_H
#define CLEAVE_TESTS_BENCH_ESTIMATE_FOLDS_H

#include "base/random.h"
#include "search/problem/space.h"
#include "simulator/step/estimate_checks.h"

typedef struct fold_walk {
    const cleave_model *model;
    const cleave_lower_options *options;
    cleave_cost_cache *cache;
    cleave_window_space space;
    int32_t *choice;               /* [n_operators] of its list */
    cleave_layout layout;          /* of all devices, as proposed */
    cleave_fold here, fold;        /* where it is; and what the estimate looks at */
    cleave_arena arena, arenas[2]; /* of the walk; of `here` and of the proposal's fold */
    cleave_estimate *estimate;
    int32_t op, tried; /* the proposal: what it had chosen before */
} fold_walk;

/* From the layout of most samples.  Of a walk whose first three members are set, the others
   zeroed; end it in any case.  NO_LAYOUT where an operator has no split that folds. */
cleave_status fold_walk_begin(fold_walk *walk, const cleave_machine *machine, cleave_error *error);
void fold_walk_end(fold_walk *walk);

/* Draws a change of one operator and proposes it.  `folds` false: it is none that folds, and the
   walk is where it was. */
cleave_status fold_walk_change(fold_walk *walk, cleave_random *random, bool *folds,
                               cleave_error *error);
/* Prepares what was proposed; `folds` as above, as some of that is seen in lowering only. */
cleave_status fold_walk_prepare(fold_walk *walk, bool *folds, cleave_error *error);
/* What was proposed, and run, stays or goes. */
cleave_status fold_walk_decide(fold_walk *walk, bool accepts, cleave_error *error);

/* The step of what is proposed, of a window that is begun with it. */
cleave_status fold_walk_from_scratch(fold_walk *walk, int64_t *step, cleave_error *error);

#endif
