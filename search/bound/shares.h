/* Shares: what an operator's way of splitting, and what the ways of two that exchange a tensor, add
   to loads that no step is shorter than, whatever else a layout does.  The heads of port.c,
   network.c and shares.c prove what is claimed of each. */
#ifndef CLEAVE_SEARCH_BOUND_SHARES_H
#define CLEAVE_SEARCH_BOUND_SHARES_H

#include "search/bound/internal.h"

/* ---- ports (port.c) -------------------------------------------------------------------------- */

/* An operand of a nest under one way: the boxes of its tensor that parts read or write. */
typedef struct bound_port {
    int32_t n_parts;   /* so many parts are not empty, or more */
    int32_t n_keys;    /* distinct keys, on devices of their own, over every element that
                          some part has; or more */
    int32_t n_devices; /* that have such an element; or more */
    int64_t least;     /* elements: no non-empty part's box has fewer */
    int64_t largest;   /* none has more */
    int64_t most[CLEAVE_MAX_RANK]; /* nor more along a dimension */
} bound_port;

/* `input` is -1 for the output.  Of base tensors and of views alike, in the operand's own
   coordinates. */
void bound_port_of(const cleave_model *model, const cleave_nest *nest, int input,
                   const cleave_candidate_way *way, bound_port *port);

/* Does every device run a part of the nest, if there are `n_devices`? */
bool bound_runs_everywhere(const cleave_model *model, const cleave_nest *nest,
                           const cleave_candidate_way *way, int32_t n_devices);

/* ---- networks (network.c) -------------------------------------------------------------------- */

/* Bytes per picosecond; a rate of 0 where there is no such link. */
typedef struct bound_network {
    int32_t n_devices, node_devices; /* of the largest node */
    double device_rate, node_rate;   /* into the one that most gets into at once */
    double devices_rate, nodes_rate; /* into all of them together */
    double message;                  /* picoseconds that no message takes less than */
} bound_network;

cleave_status bound_network_find(const cleave_machine *machine, bound_network *network,
                                 cleave_error *error);

/* A tensor on its way from those that have contributed (to a value, or to a gradient) to those that
   want it. */
typedef struct bound_moved {
    int rank;
    double elements, element_bytes;
    bool all_wanted; /* every element is wanted by somebody */
} bound_moved;

typedef struct bound_move {
    double wait;         /* picoseconds: nobody has it sooner after the first contributor ended */
    double device_bytes; /* that all devices together receive, at least */
    double node_bytes;   /* that all nodes do from others */
} bound_move;

bound_move bound_move_of(const bound_network *network, const bound_port *from, const bound_port *to,
                         const bound_moved *moved);

/* ---- the problem (shares.c) ------------------------------------------------------------------ */

/* Loads, in picoseconds: the step is no shorter than any of them. */
enum {
    BOUND_WORK,          /* main lanes, on average */
    BOUND_CHAIN,         /* of passes, one after the other, and what they wait for */
    BOUND_DEVICES,       /* links into devices, on average; with collectives in steps only */
    BOUND_NODES,         /* links into nodes */
    BOUND_AFTER_DEVICES, /* the chain forward, and then what goes back crosses links into devices */
    BOUND_AFTER_NODES,   /* and into nodes */
    BOUND_N_LOADS
};

typedef struct bound_loads {
    double of[BOUND_N_LOADS];
} bound_loads;

typedef struct bound_edge bound_edge;

/* A choice of a way for every operator has the loads `fixed` + those of its ways + those of its
   edges, which are a forest. */
typedef struct bound_problem {
    int32_t n_operators, n_edges;
    const int32_t *n_ways;         /* [n_operators] */
    const bound_loads *const *own; /* [n_operators][n_ways] */
    const bound_edge *edges;       /* [n_edges] */
    bound_loads fixed;
} bound_problem;

/* `links`: of links, too; `other_work`, picoseconds of all devices. */
cleave_status bound_problem_create(const cleave_model *model, const cleave_machine *machine,
                                   const cleave_candidates *candidates, const bound_chain *chain,
                                   int64_t other_work, bool links, cleave_arena *arena,
                                   bound_problem *problem, cleave_error *error);
void bound_edge_ends(const bound_problem *problem, int32_t edge, int32_t *a, int32_t *b);
/* What ways x of the first and y of the second end take together. */
void bound_edge_loads(const bound_problem *problem, int32_t edge, int32_t x, int32_t y,
                      bound_loads *loads);
/* What a way of one end alone makes of that, or less; both ends' add up to no more than it. */
void bound_edge_side(const bound_problem *problem, int32_t edge, bool of_b, int32_t way,
                     bound_loads *loads);

/* ---- solving it ------------------------------------------------------------------------------ */

/* forest.c.  The least weighted load of any choice, or a little less; less, too, where more than
   `most_pairs` pairs of ways would have to be looked at, from which those that were are taken off.
   `choice`, [n_operators], is any one before, and then has about that much, and `loads` are its
   own. */
cleave_status bound_forest_least(const bound_problem *problem, const double *weight,
                                 int64_t *most_pairs, int32_t *choice, bound_loads *loads,
                                 double *least, cleave_error *error);

/* weigh.c.  The largest bound that any weights give, nearly; picoseconds, and the load that has the
   largest share in it.  `links`: those of links are there. */
cleave_status bound_weigh(const bound_problem *problem, bool links, double *bound, int *load,
                          cleave_error *error);

#endif
