/* Times of one operator's parts, apart from all other operators: what balances baselines, ranks
   candidates and bounds the step from below. */
#ifndef CLEAVE_SEARCH_PROBLEM_NODE_COST_H
#define CLEAVE_SEARCH_PROBLEM_NODE_COST_H

#include "costmodel/cost.h"

enum { CLEAVE_N_COMPUTE_PASSES = 3 }; /* forward, input gradient, weight gradient */

typedef struct cleave_node_cost {
    int64_t total;   /* picoseconds of all parts, nests and passes */
    int64_t largest; /* picoseconds of the part's device that has most to do */
} cleave_node_cost;

/* Remembers the prices of computes, and of splits.  Where the machine has several kinds of devices,
   times are those of the fastest for each piece of work.  Not shared between threads. */
typedef struct cleave_node_costs cleave_node_costs;
cleave_status cleave_node_costs_create(const cleave_model *model, const cleave_machine *machine,
                                       cleave_node_costs **costs, cleave_error *error);
/* Goes on with the model of one of so many micro-batches, which differs in the extents of nests
   alone: what is known of parts that are as long stays known. */
cleave_status cleave_node_costs_take(cleave_node_costs *costs, const cleave_model *model,
                                     int32_t micro_batches, cleave_error *error);
void cleave_node_costs_destroy(cleave_node_costs *costs);

/* Prices one split of an operator; its devices do not matter.  `least`, where not null, is
   [n_nests of the operator][CLEAVE_N_COMPUTE_PASSES] and goes down to the time of the quickest
   non-empty part; a pass that no part has leaves it as it is. */
cleave_status cleave_node_cost_of(cleave_node_costs *costs, int32_t op, const cleave_split *split,
                                  cleave_node_cost *cost, int64_t *least, cleave_error *error);

/* The same for the operator in one piece. */
cleave_status cleave_node_cost_whole(cleave_node_costs *costs, int32_t op, cleave_node_cost *cost,
                                     cleave_error *error);

/* Picoseconds of a micro-batch: what a step has at least of chores (cleave_least_chores_of), shared
   out. */
int64_t cleave_node_costs_chores(const cleave_node_costs *costs, int32_t op,
                                 const cleave_split *split);

/* What all parts of a split take together at least, whatever the split, and each of them beside
   that, picoseconds: told by the data sheet without looking at any part, and so not of windows that
   overlap; 0 where nothing is told. */
typedef struct cleave_node_floor {
    double together, each;
    /* Extents of axes along which it matters what is seen, grain by grain (CLEAVE_SEEN_GRAIN), so
       that nothing is told of parts that cut through one unevenly; 0 for all others. */
    int64_t seen[CLEAVE_MAX_AXES];
} cleave_node_floor;
cleave_node_floor cleave_node_floor_of(const cleave_node_costs *costs, int32_t op);
double cleave_node_floor_under(const cleave_node_floor *floor, const cleave_split *split);

#endif
