/* The improvement of layouts that are there, on the estimate of the simulated step: the method
   "auto" (search/improve/auto.c) and the last descent (search/improve/polish.c). */
#ifndef CLEAVE_SEARCH_IMPROVE_IMPROVE_H
#define CLEAVE_SEARCH_IMPROVE_IMPROVE_H

#include "base/progress.h"
#include "search/improve/chain.h"
#include "search/problem/constraints.h"
#include "search/solve/model.h"

#include <signal.h>

/* On so many devices layouts are improved until no single change improves anything. */
enum { CLEAVE_FEW_DEVICES = 8 };

enum { CLEAVE_MOST_STARTS = 36, CLEAVE_MOST_IMPROVED = 4 };

/* What is known of the search that it is part of. */
typedef struct cleave_improvement {
    const cleave_model *model;
    const cleave_machine *machine;
    const cleave_candidates *candidates;
    const cleave_constraints *constraints; /* null: none */
    const cleave_additive_model *additive; /* tells which changes are promising; null: node costs */
    int optimizer_states;
    int64_t memory_limit_bytes; /* 0: the machine's */
    uint64_t seed;
    int64_t proposals;      /* 0: no limit */
    double time_seconds;    /* of the whole search; 0: no limit, and the clock decides nothing */
    double started_seconds; /* clock */
    double until_seconds;   /* clock, where time is limited: when it has to end */
    bool polishes; /* what comes of it descends once more, in steps: so it may leave changes to that
                    */
    const char *resume_file; /* null: none */
    int32_t n_threads;
    cleave_pricer *pricers; /* [n_threads] */
    cleave_arena *arena;    /* of what it gives */
    cleave_progress *progress;
    const volatile sig_atomic_t *interrupted; /* may be null */
} cleave_improvement;

/* A layout to begin with, and its price with collectives in closed form. */
typedef struct cleave_improve_start {
    const cleave_layout *layout;
    cleave_price price;
    bool was_found; /* it is near the best, whatever closed forms say */
    bool has_full;  /* `full`, with collectives in their steps, is set: */
    cleave_price full;
} cleave_improve_start;

typedef struct cleave_improved {
    int32_t n; /* best first */
    struct {
        cleave_layout layout;
        cleave_price price;
        bool is_local_optimum; /* no single change improves its price */
    } items[CLEAVE_MOST_IMPROVED];
    bool in_steps; /* all these prices are, and so are those of starts that were found */
    int64_t proposals, accepted;
    int64_t whole_work; /* bytes of the fragments of a whole layout */
} cleave_improved;

/* From [n_starts] layouts, 1 or more; layouts have the collectives of the first.  Where it prices a
   start in full, that is left there. */
cleave_status cleave_improve(const cleave_improvement *with, cleave_improve_start *starts,
                             int32_t n_starts, cleave_improved *improved, cleave_error *error);

typedef struct cleave_polished {
    bool done; /* the others are set */
    cleave_layout layout;
    bool is_changed;       /* it is not the start */
    bool is_local_optimum; /* in steps */
    int64_t proposals, accepted;
} cleave_polished;

/* Begins with a layout whose price, with collectives in their steps, is known, and takes so many
   seconds at most (0: no limit).  `done` is false where the space lacks it. */
cleave_status cleave_polish(const cleave_improvement *with, const cleave_layout *start,
                            const cleave_price *price, double most_seconds,
                            cleave_polished *polished, cleave_error *error);

static inline bool cleave_improvement_interrupted(const cleave_improvement *with) {
    return with->interrupted != NULL && *with->interrupted != 0;
}
/* Seconds that are left, a little more than 0 where it is over; only where time is limited. */
static inline double cleave_improvement_seconds_left(const cleave_improvement *with) {
    double left = with->until_seconds - cleave_clock_seconds();
    return left > 1e-6 ? left : 1e-6;
}

#endif
