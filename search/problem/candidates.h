/* The declared space: what each operator may be split into.

   A candidate assigns the prime factors of an aligned, contiguous block of devices, level by level
   of the machine (nodes, then devices in a node), to the operator's axes or to replicas; factors
   that a block leaves out are operator parallelism.  To these come the splits of given layouts (the
   baselines), so that what bounds the space bounds them as well.  Operators that are alike in all
   but names and weights share one list.  What the user's constraints forbid is not there. */
#ifndef CLEAVE_SEARCH_PROBLEM_CANDIDATES_H
#define CLEAVE_SEARCH_PROBLEM_CANDIDATES_H

#include "search/problem/constraints.h"
#include "search/problem/node_cost.h"

typedef struct cleave_candidate {
    int32_t replicas, n_parts;
    int32_t degree[CLEAVE_MAX_AXES];
    int32_t *offsets;    /* [n_parts] device of a part, less the start of the block */
    int32_t n_starts;    /* blocks start at 0, n_parts, 2 n_parts, ... */
    int64_t picoseconds; /* of its busiest device: node cost */
} cleave_candidate;

/* Degrees of candidates, wherever their parts stand. */
typedef struct cleave_candidate_way {
    int32_t replicas, n_parts;
    int32_t degree[CLEAVE_MAX_AXES];
    int64_t total;  /* picoseconds of all parts, nests and passes */
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
    int32_t *list_of; /* [n_operators] */
    bool truncated;   /* any list is */
} cleave_candidates;

/* Most candidates of an operator that are kept. */
enum { CLEAVE_MAX_CANDIDATES = 512 };

/* Enumerates; `given` layouts ([n_given]) add their splits.  Lives in the arena.  To count them
   only, `costs` may be null: then nothing is priced, nothing may be given, and of too many
   candidates any are kept. */
cleave_status cleave_candidates_create(const cleave_model *model, const cleave_machine *machine,
                                       cleave_node_costs *costs, const cleave_layout *const *given,
                                       int32_t n_given, cleave_arena *arena,
                                       cleave_candidates *candidates, cleave_error *error);

/* What else says which candidates there are. */
typedef struct cleave_candidate_space {
    const cleave_layout *const *given; /* [n_given] add their splits */
    int32_t n_given;
    const cleave_constraints *constraints; /* null: none.  Given splits that break them are left
                                              out; a fixed operator has its own split alone */
} cleave_candidate_space;
cleave_status cleave_candidates_create_within(const cleave_model *model,
                                              const cleave_machine *machine,
                                              cleave_node_costs *costs,
                                              const cleave_candidate_space *space,
                                              cleave_arena *arena, cleave_candidates *candidates,
                                              cleave_error *error);

/* The two parts of that: what does not depend on what is given, with room for so many layouts,
   whose splits may be null; and then what is given. */
cleave_status cleave_candidates_list(const cleave_model *model, const cleave_machine *machine,
                                     cleave_node_costs *costs, const cleave_candidate_space *space,
                                     cleave_arena *arena, cleave_candidates *candidates,
                                     cleave_error *error);
cleave_status cleave_candidates_add(const cleave_model *model, cleave_node_costs *costs,
                                    const cleave_candidate_space *space, cleave_arena *arena,
                                    cleave_candidates *candidates, cleave_error *error);

/* Splits of a list as it is: candidates at each of their blocks. */
int64_t cleave_candidates_count(const cleave_candidate_list *list);

/* Fills a split, whose `devices` has room for the parts, with a candidate at its start-th block. */
void cleave_candidate_place(const cleave_candidate *candidate, int32_t start, cleave_split *split);

/* Do all nests of two operators compute the same, on tensors of the same shapes? */
bool cleave_operators_alike(const cleave_model *model, int32_t a, int32_t b);

#endif
