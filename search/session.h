/* One search while it runs: what its methods work on and leave behind.  Inside of search/ only. */
#ifndef CLEAVE_SEARCH_SESSION_H
#define CLEAVE_SEARCH_SESSION_H

#include "search/bound/bound.h"
#include "search/improve/improve.h"
#include "search/pipeline/pipeline.h"
#include "search/pipeline/priced.h"
#include "search/search.h"

enum {
    SESSION_MAX_GIVEN = 24,
    SESSION_MAX_FOUND = CLEAVE_MOST_PIPELINES,
    SESSION_MAX_RIVALS_EACH = 4, /* by one name */
    SESSION_MAX_RIVALS = CLEAVE_N_BASELINES * SESSION_MAX_RIVALS_EACH
};

/* A layout that a search begins with. */
typedef struct session_given {
    const char *method; /* the baseline that it is; null: a start and nothing more */
    const cleave_layout *layout;
    cleave_price price; /* with collectives as one item each; over any limit: it was not priced */
    bool has_full;
    cleave_price full; /* with collectives in their steps */
    bool is_local_optimum;
    bool is_known; /* what the caller knew: it is reported with what was found */
} session_given;

/* A layout that a method found, likewise priced. */
typedef struct session_found {
    const char *method;
    bool is_local_optimum;
    cleave_layout layout;
    cleave_price price;
    cleave_price_grounds grounds; /* of that price, where known */
} session_found;

/* How far a search goes: decided once (search/reach.c), from the model, the machine and what is
   asked for. */
typedef struct session_reach {
    bool folds;       /* layouts that fold are searched first ... */
    bool only_folds;  /* ... and there is nothing else: only they, and small layouts, are lowered,
                         and all prices have collectives in closed form */
    bool stages;      /* layouts in stages and micro-batches are looked for unasked */
    bool has_windows; /* and the candidates are those of the largest windows; else there are none */
} session_reach;

typedef struct session {
    const cleave_model *model;
    const cleave_machine *machine;
    const cleave_search_options *options;
    const cleave_constraints *constraints; /* null: nothing is constrained */
    cleave_arena *arena;                   /* of the result */
    cleave_arena work;
    session_reach reach;
    cleave_problem problem;
    cleave_pricer *pricers; /* [n_threads] one for each worker */
    cleave_pricer *pricer;  /* of the calling thread, also while others work */
    cleave_node_costs *costs;
    cleave_arena space; /* of the candidates */
    cleave_candidates candidates;
    cleave_collective_rules collectives; /* of every layout but a drawn one */
    cleave_progress progress;
    double started_seconds;
    double report_seconds; /* that the report at the end will take, as far as is known */
    double polish_seconds; /* of these, for the last descent, on steps (search/improve/polish.c) */
    double stage_seconds;  /* kept for stages, until they are looked for */
    int64_t whole_work;    /* bytes of the fragments of a whole layout; 0: not known */
    int32_t n_threads, n_pricers;
    int32_t n_given;
    session_given given[SESSION_MAX_GIVEN];
    /* Why no layout of a baseline was priced, else null; the last is of a drawn layout. */
    const char *unpriced[CLEAVE_N_BASELINES + 1];
    /* Was a baseline looked for as it is where it is asked for by name? */
    bool looked_for[CLEAVE_N_BASELINES];
    int32_t n_found; /* best first */
    session_found found[SESSION_MAX_FOUND];
    int32_t
        n_rivals; /* what baselines asked for by name would be, of which the best is none worse */
    session_found rivals[SESSION_MAX_RIVALS];
    cleave_priced_layouts priced; /* in stages and micro-batches, by all that looked for some */
    char why_no_fold[sizeof(cleave_error)]; /* where layouts that fold were searched for in vain */
    int64_t least_bytes, most_bytes; /* of arenas, all devices: any layout needs, there are */
    bool stages_tried; /* layouts in micro-batches or stages: they need less than any other */
    bool has_costs;
    cleave_additive_model costs_of_changes; /* tells which changes are promising */
    bool has_exact;                         /* the additive model was solved ... */
    cleave_price exact_price;               /* ... and this is what the best of its layouts costs */
    cleave_search_result result;
} session;

bool session_interrupted(const session *s);
/* Is it one that goes beyond the layouts known by name? */
bool session_searches(const session *s);
/* Is its layout all that is asked for? */
bool session_is_alone(const session *s);
/* Seconds until the methods have to end; 0: no limit, a little more than 0 where it is over. */
double session_seconds_left(const session *s);

/* Decides how far the search goes. */
cleave_status session_find_reach(session *s, cleave_error *error);
/* "layouts that don't fold are searched for up to ...". */
void session_describe_reach(const session *s, char *text, size_t bytes);

/* Adds the baselines (and "random", where it is asked for) that apply, priced; those that break a
   constraint are changed and no baselines then.  Where devices are of several kinds, data parallel
   over the quick ones, too; and the best that folds.  Meanwhile, where there are other threads,
   lists the candidates, but for those of these layouts. */
cleave_status session_add_givens(session *s, cleave_error *error);

/* Adds those baselines that no method begins with, since changes of them can't be estimated; where
   others than layouts of one stage and the whole batch are asked for, none. */
cleave_status session_add_late_givens(session *s, cleave_error *error);

/* Adds what the caller knows already, at last, so that nothing else depends on it. */
cleave_status session_add_known(session *s, cleave_error *error);

/* Runs `first`, which does not use the pricers of workers, and meanwhile, where there are other
   threads, simulates in full the baselines that the report will be about. */
cleave_status session_report_ahead(session *s, cleave_status (*first)(session *s, cleave_error *),
                                   cleave_error *error);

/* Layouts that any pricer of the session has priced. */
int64_t session_n_priced(const session *s);

static inline bool session_is_priced(const session_given *given) {
    return given->price.excess_bytes < INT64_MAX;
}
/* Its place among the baselines; behind them: it is none. */
int32_t session_find_baseline(const char *method);
/* Splits, recomputation, sharded state and schedule. */
bool session_same_layout(const session *s, const cleave_layout *a, const cleave_layout *b);
/* Is it a layout that was given or found?  With the price that it has there. */
bool session_knows_price(const session *s, const cleave_layout *layout, cleave_price *price);

/* Keeps a layout if it is among the best found so far; copies it.  One that is found already, or
   given, is not added. */
cleave_status session_add_found(session *s, const char *method, const cleave_layout *layout,
                                const cleave_price *price, cleave_error *error);

/* What the price of a layout that was found rests on. */
void session_note_grounds(session *s, const cleave_layout *layout,
                          const cleave_price_grounds *grounds);

/* After prices of what was found have changed. */
void session_sort_found(session *s);

/* Says of a layout that was found or given whether it is a local optimum. */
void session_mark_optimum(session *s, const cleave_layout *layout, bool is_local_optimum);

/* The methods: leave what they find in the session.  Where "auto" and "branch-and-bound" begin, the
   additive model has been solved. */
cleave_status session_walk(session *s, cleave_error *error);    /* "mcmc" */
cleave_status session_solve(session *s, cleave_error *error);   /* "exact" */
cleave_status session_refine(session *s, cleave_error *error);  /* "auto" */
cleave_status session_certify(session *s, cleave_error *error); /* "branch-and-bound" */

/* Where throughput is asked for: from here on prices are those of a batch that others follow; those
   that are known are made anew.  (Methods that go by estimates go by the time of one batch.) */
cleave_status session_begin_stream(session *s, cleave_error *error);

/* What is asked for of stages and micro-batches; and may the layout be the result by that? */
const cleave_schedule_wish *session_wish(const session *s);
bool session_allows(const session *s, const cleave_layout *layout);
/* Does what a baseline shards by its name differ from what is asked for?  `wish` may be null. */
bool session_is_told_otherwise(const char *baseline, const cleave_schedule_wish *wish);
/* Does the search look for layouts in stages and micro-batches? */
bool session_stages(const session *s);
/* Adds layouts in stages and micro-batches to what was found, where some may be the result, and to
   the rivals. */
cleave_status session_stage(session *s, cleave_error *error);
/* A bound of them all, where the result is one of these. */
cleave_status session_bound_staged(session *s, cleave_error *error);

/* Of what the result's step is. */
cleave_bound_forms session_reported_forms(const session *s);

/* Is the result of a search polished: does it descend once more, in steps? */
bool session_polishes(const session *s);
/* Descends so from a layout with that price; what it comes to lives in the session's arena. */
cleave_status session_polish(session *s, const cleave_layout *start, const cleave_price *price,
                             cleave_polished *polished, cleave_error *error);

/* Adds the layout of a solution of the additive model, if it is one, to what was found, and prices
   it. */
cleave_status session_take_solution(session *s, const cleave_additive_model *made,
                                    const cleave_additive_solution *solution, cleave_price *price,
                                    cleave_error *error);
/* Looks for solutions whose layouts fit the memory, and adds them to what was found. */
cleave_status session_solve_within(session *s, const cleave_additive_model *made,
                                   cleave_error *error);

/* Prices what is reported in full, and takes the best.  Law 7 is kept here: baselines and what was
   found are compared by the same simulation. */
cleave_status session_report(session *s, cleave_error *error);

/* Is it proven that no layout fits the memory? */
bool session_is_hopeless(const session *s);

/* NO_LAYOUT: says how much is missing, where, and whether that is proven; or why nothing could be
   priced. */
cleave_status session_fail_nothing_fits(session *s, cleave_error *error);

#endif
