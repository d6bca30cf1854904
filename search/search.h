/* Search: which layout is best. */
#ifndef CLEAVE_SEARCH_SEARCH_H
#define CLEAVE_SEARCH_SEARCH_H

#include "search/pipeline/pipeline.h"
#include "search/problem/baselines.h"
#include "search/problem/constraints.h"
#include "simulator/report/price_shares.h"

#include <signal.h>

/* A layout that was priced. */
typedef struct cleave_plan {
    const char *method;
    bool applies; /* false: does not apply to this model or machine, breaks a constraint, or does
                     not fit, and then peak_bytes says what it needs; the rest is not set */
    cleave_layout layout;
    double step_seconds;  /* by full simulation, with collectives in their steps; of a baseline that
                             is far behind the best, or of an interrupted search, in closed form */
    int64_t peak_bytes;   /* largest over devices, with the runtime's constant */
    int64_t bytes_sent;   /* per step, all devices */
    const char *unpriced; /* why a baseline was not priced, which then does not apply; else null */
} cleave_plan;

/* Layouts that a search may be given to beat. */
enum { CLEAVE_MOST_KNOWN = 4 };

typedef struct cleave_search_options {
    const char *method;  /* "auto", "exact", "mcmc", "branch-and-bound", "random" or a baseline */
    double time_seconds; /* budget of the whole search; 0: none */
    int64_t proposals; /* most proposals of mcmc; 0: no limit, but 250 per operator without a time;
                          without a time the clock decides nothing */
    uint64_t seed;
    int32_t n_threads;          /* 0: one; without a time the result does not depend on it */
    int64_t memory_limit_bytes; /* per device; 0: the machine's */
    int optimizer_states;
    const cleave_constraints *constraints; /* null: none */
    const cleave_schedule_wish *schedule;  /* stages and micro-batches; null: whatever is best */
    const char *resume_file; /* null: none.  "auto" goes on from the state there, if there is one,
                                and leaves its own there */
    /* [n_known] up to CLEAVE_MOST_KNOWN, of the same devices.  A method that searches does not
       begin with them, so that it finds what it would find anyway, but its result is none worse:
       they are held against all else, with the collectives that the search chose. */
    const cleave_layout *known;
    int32_t n_known;
    bool throughput; /* of a model that is not trained: what a batch takes where others follow it
                        is to be least, not the time of one; all times of steps are that then */
    bool alone;      /* of a method that does not search: its layout, and none of the others nor a
                        bound beside it */
    bool quiet;      /* no progress */
    const volatile sig_atomic_t
        *interrupted; /* may be null; set by a signal handler: stop with the best so far */
} cleave_search_options;

typedef struct cleave_search_result {
    cleave_plan best;
    int32_t n_baselines;
    cleave_plan *baselines;            /* in the order of cleave_baseline_names */
    cleave_price_shares shares;        /* what the best's step rests on */
    cleave_framework_memory framework; /* what one would take for it; 0: not known */
    bool in_steps; /* steps of plans are those of collectives in their steps; false on more devices
                      than are lowered: all figures have them in closed form then */
    double search_seconds, lower_bound_seconds;
    const char *bound_binds; /* what that bound mostly consists of; null: not known */
    /* No layout is below this whatever its stages, micro-batches and recomputation, as far as the
       schedule that is asked for leaves them open; only where the best has some, or of throughput,
       which is bounded by nothing else.  0: not known. */
    double staged_bound_seconds;
    /* Of the additive model, for the best of its layouts; 0 where it was not solved: least total,
       and how far the proven bound may be below it, as a share of it. */
    double additive_seconds, additive_gap;
    /* "branch-and-bound": no layout of the space, with the updates of the best, has a step below
       that with collectives as one item each; it is the best's own where it is certified.  0: not
       searched that way. */
    double certified_seconds;
    bool is_certified;
    int64_t proposals, accepted;
    bool is_local_optimum; /* "auto": no single change of the best improves its step, with
                              collectives as one item each, or ... */
    bool optimum_in_steps; /* ... in their steps, as they are simulated and run: few devices */
    bool truncated;        /* some operator has more candidates than were kept */
} cleave_search_result;

/* Prices the baselines, searches by the method, and gives the best of what it found; with "auto",
   "exact" and "mcmc" that is never worse than a baseline.  NO_LAYOUT when nothing fits, with the
   least memory that any layout tried needs, or when a baseline is asked for that does not apply or
   breaks a constraint; BAD_INPUT for an unknown method.  Layouts live in `arena`. */
cleave_status cleave_search(const cleave_model *model, const cleave_machine *machine,
                            const cleave_search_options *options, cleave_arena *arena,
                            cleave_search_result *result, cleave_error *error);

#endif
