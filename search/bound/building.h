/* What shares.c, exchanges.c and runs.c make the loads of: inside of these alone. */
#ifndef CLEAVE_SEARCH_BOUND_BUILDING_H
#define CLEAVE_SEARCH_BOUND_BUILDING_H

#include "search/bound/shares.h"

enum { BOUND_NO = -1, BOUND_MAX_RUN_PASSES = 48, BOUND_MAX_RUN_MOVES = 24 };

/* A tensor from the nest that writes it to one that reads it: places are [n_nests][passes] of their
   operators, as in a list's `least`. */
typedef struct bound_exchange {
    int32_t tensor, writer, reader; /* nests */
    int input;
    const bound_port *write, *read; /* by ways of the writer's and of the reader's operator */
    bound_moved forward, backward;
    bool moves_back;                    /* the reader gives all of the gradient */
    bool chain_forward, chain_backward; /* the chain goes this way */
    bool follows;                       /* and does so once the chain is forward */
    bool counts;                        /* its bytes do */
    const double *after_forward,
        *after_backward; /* by ways of where the chain comes from; null: none
                          */
    int32_t next;        /* of the same edge or operator */
} bound_exchange;

struct bound_edge {
    int32_t a, b;  /* operators, the writer first */
    int32_t first; /* bound_exchange */
    const struct bound_building *of;
};

typedef struct bound_run {
    int32_t op;
    int32_t first, last; /* elements of the chain */
    int32_t first_nest;
    int32_t n_forward; /* of `chain`: the first ones */
    int32_t n_chain, n_through, n_after, n_moves;
    int32_t chain[BOUND_MAX_RUN_PASSES], through[BOUND_MAX_RUN_PASSES],
        after[BOUND_MAX_RUN_PASSES];          /* places */
    int32_t nest_of[2][BOUND_MAX_RUN_PASSES]; /* of through and after */
    int32_t moves[BOUND_MAX_RUN_MOVES];       /* exchanges within the operator */
    bool move_is_back[BOUND_MAX_RUN_MOVES];
    double *after_time; /* [n_ways]; null: nothing comes after */
    bool joined;        /* an edge weighs that against a wait; else it is the run's own */
} bound_run;

typedef struct bound_building {
    const cleave_model *model;
    const cleave_candidates *candidates;
    const bound_chain *chain;
    cleave_arena *arena;
    bound_network network;
    bool links;
    int32_t *place;           /* [n_nests] in its operator */
    const bound_port **ports; /* [n_lists][nests of an operator][inputs + 1] or null */
    int32_t most_nests;
    bound_exchange *exchanges; /* [n_exchanges] */
    int32_t n_exchanges, capacity;
    int32_t *inner;    /* [n_operators] exchanges within; BOUND_NO: none */
    bool *counted;     /* [n_tensors] some exchange counts its bytes */
    int32_t *parent;   /* [n_operators] of the forest, by joining */
    bound_edge *edges; /* [n_edges] */
    int32_t n_edges;
    bound_run *runs; /* [n_runs] */
    int32_t n_runs;
} bound_building;

static inline const cleave_candidate_list *bound_list_of(const bound_building *b, int32_t op) {
    return &b->candidates->lists[b->candidates->list_of[op]];
}

static inline cleave_status bound_short_of_memory(cleave_error *error) {
    return cleave_fail_memory(error, "bounding the step");
}

/* ---- exchanges.c ----------------------------------------------------------------------------- */

/* By the ways of the nest's operator; `input` is -1 for the output.  Null when memory is short. */
const bound_port *bound_ports_of(bound_building *b, int32_t nest, int input);
bool bound_gives_gradient(const bound_building *b, int32_t nest, int input, int pass);
/* Is all that a nest gives to the gradient of an input given once the chain is forward? */
bool bound_gives_after(const bound_building *b, int32_t nest, int input);
/* Does the nest read a base activation that another nest writes? */
bool bound_is_direct(const bound_building *b, int32_t reader, int input);
/* Finds or makes it; BOUND_NO when memory is short. */
int32_t bound_find_exchange(bound_building *b, int32_t reader, int input);
/* Puts an exchange where it belongs, on an edge or within an operator; false where it has no place:
   the edges remain a forest. */
bool bound_attach(bound_building *b, int32_t exchange);

/* ---- runs.c ---------------------------------------------------------------------------------- */

cleave_status bound_find_runs(bound_building *b, cleave_error *error);
/* Where the chain goes on by an exchange that an edge has, what comes after the run is weighed
   against the wait there; else it is the run's own. */
cleave_status bound_join_runs(bound_building *b, cleave_error *error);

#endif
