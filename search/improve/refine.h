/* Refinement: from a layout to one that no single change improves, on the estimate of the simulated
   step.

   A refinement is a row of phases.  Sweeps go through all changes of groups (operators that are
   alike and split alike, as those of repeated blocks) and through all single changes, with those of
   two neighbours at once where that is asked for, the promising ones first, taking whatever
   improves the step, until a whole round improves nothing.  Between two descents a Markov chain may
   anneal: it draws single changes, groups, chains of neighbours and segments between two cut points
   that all take one kind of split, and swaps of two blocks of devices.  Its temperature starts at
   the least differences that single changes made in the sweeps before, and falls to a hundredth of
   that.  In windows (search/improve/window.h) a refinement is one sweep, of both kinds of changes.

   All that a refinement is about to do follows from its state, which can be kept and gone on with
   between any two proposals, with the same result. */
#ifndef CLEAVE_SEARCH_IMPROVE_REFINE_H
#define CLEAVE_SEARCH_IMPROVE_REFINE_H

#include "base/random.h"
#include "search/improve/chain.h"
#include "search/improve/sweep.h"

#include <signal.h>
#include <stdatomic.h>

/* What a refinement may spend; its phases get shares of whatever is limited.  0: no limit. */
typedef struct cleave_refine_limits {
    int64_t work;      /* bytes of fragments, see cleave_chain */
    int64_t proposals; /* below 0: none may be made */
    double seconds;    /* of the clock from now on */
    int64_t patience;  /* moves of a sweep that may fail in a row before it is given up */
    bool whole_sweeps; /* complete sweeps are made whole whatever `work` and `patience` say */
    bool singles;      /* descents of single changes and nothing else: one, or with `pairs` as many
                          as improve something */
    bool pairs;        /* with single changes go those of two neighbours at once */
    bool once;         /* each move of a sweep, whether others improve anything or not */
    int32_t lane, n_lanes; /* of the moves of a sweep every n_lanes-th, beginning at the lane-th;
                              n_lanes 0: all */
} cleave_refine_limits;

typedef enum cleave_refine_phase {
    CLEAVE_REFINE_GROUPS,
    CLEAVE_REFINE_SINGLES,
    CLEAVE_REFINE_ANNEAL,
    CLEAVE_REFINE_LAST_GROUPS,
    CLEAVE_REFINE_LAST_SINGLES,
    CLEAVE_REFINE_DONE,
} cleave_refine_phase;

enum { CLEAVE_REFINE_SPREAD = 64 };

typedef struct cleave_refine_state {
    cleave_refine_limits limits;
    bool anneals;
    cleave_random random; /* of annealing */
    cleave_refine_phase phase;
    cleave_choices current, best;
    cleave_choices base;     /* of the sweep at hand */
    cleave_price best_price; /* excess INT64_MAX: not known yet; else that of the start at least */
    int64_t cursor;          /* of the sweep at hand: next move */
    int64_t since_improved;  /* moves of the sweep that improved nothing, one after the other */
    bool improved;           /* in this round of sweeps */
    bool lean;               /* nothing fitted when the sweep at hand began */
    int64_t spread[CLEAVE_REFINE_SPREAD]; /* single changes by log2 of the picoseconds they added */
    double annealed_from; /* share of the limits that was spent when annealing began */
    double temperature;   /* at its start, picoseconds */
    int64_t proposals, accepted, work;
    bool is_local_optimum; /* a whole sweep of single changes improves nothing on `best` */
} cleave_refine_state;

typedef struct cleave_refine {
    cleave_sweep_source source;
    const cleave_layout *like; /* number of devices, collectives */
    bool in_steps;             /* how these are priced */
    cleave_pricer *pricer;     /* of the calling thread */
    cleave_chain *chain;       /* of the calling thread: zeroed, or as the last call left it, which
                                  saves most of the way to where the next one begins */
    cleave_arena *arena;       /* that the chain lives in */
    int64_t whole_work;        /* what planning the memory of a proposal on all devices counts as */
    double hottest;            /* temperature at which annealing begins, as a share of the step;
                                  0: by the differences that single changes made */
    const atomic_bool *stop;   /* may be null; between two proposals ... */
    const volatile sig_atomic_t *interrupted; /* ... and so may this */
    /* May be null; called after every proposal. */
    void (*after)(void *context, const cleave_refine_state *state);
    void *context;
} cleave_refine;

/* A state that has not begun, and does not anneal; FAILED when memory is short. */
cleave_status cleave_refine_state_create(const cleave_model *model, const cleave_choices *start,
                                         const cleave_refine_limits *limits, cleave_arena *arena,
                                         cleave_refine_state *state, cleave_error *error);
/* Of the same model; `to` has been created. */
void cleave_refine_state_copy(const cleave_model *model, const cleave_refine_state *from,
                              cleave_refine_state *to);

/* Goes on until the phase is DONE, or it is stopped.  `best` is never worse than the start.  The
   caller ends the chain. */
cleave_status cleave_refine_run(const cleave_refine *refine, cleave_refine_state *state,
                                cleave_error *error);

#endif
