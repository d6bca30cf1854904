/* Prices of the degrees that candidates have, wherever their parts stand: what bounds look at. */
#ifndef CLEAVE_SEARCH_PROBLEM_CANDIDATE_WAYS_H
#define CLEAVE_SEARCH_PROBLEM_CANDIDATE_WAYS_H

#include "search/problem/candidates.h"
#include "search/problem/drafts.h"

#include <string.h>

typedef struct cleave_way_pricing {
    cleave_node_costs *costs;
    cleave_arena *arena; /* of the list */
    int32_t n_windows;   /* the split stands for so many that are alike: their work adds up, and
                            none has a quicker part than another */
} cleave_way_pricing;

/* Drafts of an operator by what the constraints allow, before they take devices. */
drafts cleave_candidate_drafts(const cleave_problem *problem, int32_t op);

/* Its devices do not matter. */
static inline cleave_split cleave_draft_split(const draft *way) {
    cleave_split split = {.replicas = way->total[0], .n_parts = way->n_parts};
    memcpy(split.degree, way->total + 1, sizeof split.degree);
    return split;
}

/* Prices the degrees of a split as one more way of the list, and notes what is least in it. */
cleave_status cleave_candidate_list_add_way(const cleave_way_pricing *pricing,
                                            const cleave_split *split, cleave_candidate_list *list,
                                            cleave_node_cost *cost, cleave_error *error);

#endif
