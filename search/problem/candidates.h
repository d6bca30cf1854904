/* The declared space: what each operator may be split into.

   There are two spaces, of one enumeration (search/problem/drafts.h).  On devices that are looked
   at one by one a candidate assigns the prime factors of an aligned, contiguous block of devices,
   level by level of the machine (nodes, then devices in a node), to the operator's axes or to
   replicas; factors that a block leaves out are operator parallelism.  To these come the splits of
   given layouts (the baselines), so that what bounds the space bounds them as well.  Of layouts
   that fold a candidate is a split over all devices in order that is equal in all windows.
   Operators of one class share one list.  What the user's constraints forbid is not there. */
#ifndef CLEAVE_SEARCH_PROBLEM_CANDIDATES_H
#define CLEAVE_SEARCH_PROBLEM_CANDIDATES_H

#include "search/problem/node_cost.h"
#include "search/problem/problem.h"

typedef struct cleave_candidate {
    int32_t replicas, n_parts;
    int32_t degree[CLEAVE_MAX_AXES];
    const int32_t *offsets; /* [n_parts] device of a part, less the start of the block */
    int32_t n_starts;       /* blocks start at 0, n_parts, 2 n_parts, ... */
    int64_t picoseconds;    /* of its busiest device: node cost */
} cleave_candidate;

/* Degrees of candidates, wherever their parts stand. */
typedef struct cleave_candidate_way {
    int32_t replicas, n_parts;
    int32_t degree[CLEAVE_MAX_AXES];
    int64_t total;  /* picoseconds of all parts, nests and passes, and of the least of chores */
    int64_t *least; /* as below, of this way; INT64_MAX where no part has the pass */
} cleave_candidate_way;

typedef struct cleave_candidate_list {
    int32_t n;
    cleave_candidate *items; /* by node cost within a size of block, smaller blocks first */
    bool truncated;          /* there were more */
    double n_splits; /* candidates at each of their blocks, before any was cut off, given ones not
                        counted; exact below 2^53 */
    int32_t op;      /* the first operator with this list */
    int64_t least_total; /* picoseconds, over all candidates, truncated ones included */
    int64_t *least;      /* [n_nests of op][CLEAVE_N_COMPUTE_PASSES] picoseconds of the quickest
                            non-empty part of any candidate, truncated ones included */
    int32_t n_least;     /* of them */
    int32_t n_ways;
    cleave_candidate_way *ways; /* of all candidates that were priced, truncated ones included */
} cleave_candidate_list;

typedef struct cleave_candidates {
    int32_t n_lists;
    cleave_candidate_list *lists;
    const int32_t *list_of; /* [n_operators] by class, of the problem */
    bool truncated;         /* any list is */
} cleave_candidates;

/* Most candidates of an operator that are kept. */
enum { CLEAVE_MAX_CANDIDATES = 512 };

/* Lists without candidates, one for each class of the problem; all of them live in the arena. */
cleave_status cleave_candidates_begin(const cleave_problem *problem, cleave_arena *arena,
                                      cleave_candidates *candidates, cleave_error *error);

/* ---- on blocks of devices ---- */

/* Enumerates what does not depend on given layouts, with room for so many of them; a fixed operator
   has its own split alone.  To count them only, `costs` may be null: then nothing is priced,
   nothing may be given or fixed, and of too many candidates any are kept. */
cleave_status cleave_candidates_list(const cleave_problem *problem, cleave_node_costs *costs,
                                     int32_t n_given, cleave_arena *arena,
                                     cleave_candidates *candidates, cleave_error *error);
/* Adds the splits of given layouts ([n_given]), but those that break constraints. */
cleave_status cleave_candidates_add(const cleave_problem *problem, cleave_node_costs *costs,
                                    const cleave_layout *const *given, int32_t n_given,
                                    cleave_arena *arena, cleave_candidates *candidates,
                                    cleave_error *error);
/* The ways of cleave_candidates_list alone, and no candidates; of those that differ in replicas the
   one with fewest, which takes least.  `known` null, or [n_operators]: `least_total` is no more
   than that, nor are there ways that can't have it (cleave_node_floor), which have quick parts. */
cleave_status cleave_candidates_list_ways(const cleave_problem *problem, cleave_node_costs *costs,
                                          const int64_t *known, cleave_arena *arena,
                                          cleave_candidates *candidates, cleave_error *error);
/* The first two, without constraints. */
cleave_status cleave_candidates_create(const cleave_model *model, const cleave_machine *machine,
                                       cleave_node_costs *costs, const cleave_layout *const *given,
                                       int32_t n_given, cleave_arena *arena,
                                       cleave_candidates *candidates, cleave_error *error);

/* ---- on windows of all devices ---- */

/* The axis that is outermost in the splits of an operator that fold: the first of samples; -1:
   replicas are. */
int cleave_outer_axis(const cleave_operator *op);

/* Splits that give the outermost axis a multiple of W = n_devices / window_devices; unpriced,
   ascending by what is given to axes that come later, so the first has most samples.  NO_LAYOUT
   where an operator has none that the constraints allow. */
cleave_status cleave_candidates_list_windows(const cleave_problem *problem, int32_t window_devices,
                                             cleave_arena *arena, cleave_candidates *candidates,
                                             cleave_error *error);
/* Prices their ways, for bounds; and those of the splits of a layout, which are no candidates. */
cleave_status cleave_candidates_price_windows(cleave_node_costs *costs, int32_t window_devices,
                                              cleave_arena *arena, cleave_candidates *candidates,
                                              cleave_error *error);
cleave_status cleave_candidates_add_ways(cleave_node_costs *costs, const cleave_layout *layout,
                                         cleave_arena *arena, cleave_candidates *candidates,
                                         cleave_error *error);

/* ---- candidates ---- */

/* Splits of a list as it is: candidates at each of their blocks. */
int64_t cleave_candidates_count(const cleave_candidate_list *list);

/* Fills a split, whose `devices` has room for the parts, with a candidate at its start-th block. */
void cleave_candidate_place(const cleave_candidate *candidate, int32_t start, cleave_split *split);

/* The block at which a candidate is this split; -1: at none. */
int32_t cleave_candidate_find_start(const cleave_candidate *candidate, const cleave_split *split);

/* The split at the first block; it refers to the candidate's devices, which nobody changes. */
static inline cleave_split cleave_candidate_split(const cleave_candidate *candidate) {
    cleave_split split = {.replicas = candidate->replicas,
                          .n_parts = candidate->n_parts,
                          .devices = (int32_t *)(uintptr_t)candidate->offsets};
    for (int a = 0; a < CLEAVE_MAX_AXES; a++)
        split.degree[a] = candidate->degree[a];
    return split;
}

#endif
