/* The algorithms of collectives, as plain data.

   A collective is done by the members 0..n-1 of a group, each with a vector of the same blocks.  In
   a step members exchange runs of blocks, at most one sent and one received each; what is received
   is added to the vector where the step reduces, and takes its place where it does not.  From
   (kind, algorithm, members, members of a node) follow a few phases, and from these every step, by
   arithmetic alone: a plan allocates nothing and knows neither devices nor bytes.

     ring               n - 1 steps in which blocks are added up on their way around, n - 1 in which
                        they go around complete (Patarasuk and Yuan, 2009)
     halving-doubling   partners at distance p/2, p/4 ... exchange halves of what they still hold,
                        then the same backwards (Thakur, Rabenseifner and Gropp, 2005); p is the
                        largest power of two within n, and of the others each hands its vector to a
                        neighbour before and gets its result back after
     tree               binomial: all-reduce only; whole vectors up to member 0, the result down
     two-level          reduce-scatter within nodes, the same for each shard across nodes, and
                        all-gathers back (BlueConnect: Cho et al., MLSys 2019); at each level
                        halving-doubling for powers of two, else a ring */
#ifndef CLEAVE_GRAPH_MODEL_COLLECTIVE_STEPS_H
#define CLEAVE_GRAPH_MODEL_COLLECTIVE_STEPS_H

#include <stdbool.h>
#include <stdint.h>

/* Of so many devices and more: two exchange messages through owners, which is the same as the steps
   of a collective, but where it is known what a library's take that has them for two. */
enum { CLEAVE_LEAST_COLLECTIVE = 3 };

typedef enum cleave_collective_kind {
    CLEAVE_ALL_REDUCE,
    CLEAVE_REDUCE_SCATTER,
    CLEAVE_ALL_GATHER,
    CLEAVE_ALL_TO_ALL
} cleave_collective_kind;

/* "all-reduce", by cleave_collective_kind; ends in null. */
extern const char *const cleave_collective_names[];

typedef enum cleave_collective_algorithm {
    CLEAVE_ALGORITHM_DEFAULT, /* halving-doubling for powers of two, else a ring */
    CLEAVE_ALGORITHM_RING,
    CLEAVE_ALGORITHM_HALVING_DOUBLING,
    CLEAVE_ALGORITHM_TREE,
    CLEAVE_ALGORITHM_TWO_LEVEL,
    CLEAVE_ALGORITHM_DIRECT, /* every pair exchanges at once: no collective, and without steps */
    CLEAVE_N_ALGORITHMS
} cleave_collective_algorithm;

/* Member `from` sends blocks [first, end) to member `to`. */
typedef struct cleave_exchange {
    int32_t from, to;
    int32_t first, end;
} cleave_exchange;

typedef enum cleave_phase_shape {
    CLEAVE_PHASE_RING,
    CLEAVE_PHASE_HALVING,
    CLEAVE_PHASE_DOUBLING,
    CLEAVE_PHASE_FOLD,   /* the members beyond a power of two hand over what they have, */
    CLEAVE_PHASE_UNFOLD, /* and get theirs back */
    CLEAVE_PHASE_TREE_UP,
    CLEAVE_PHASE_TREE_DOWN
} cleave_phase_shape;

/* Equal groups at the same time: member k of group g is g x group_stride + k x member_stride, and
   its blocks begin at g x group_blocks + k x unit. */
typedef struct cleave_collective_phase {
    cleave_phase_shape shape;
    bool reduces;
    bool whole; /* fold and unfold: whole vectors, not the block of the member beyond */
    int32_t n_groups, size, member_stride, group_stride;
    int32_t power; /* the largest power of two within size */
    int32_t unit, group_blocks;
    int32_t n_steps;
} cleave_collective_phase;

enum { CLEAVE_MAX_COLLECTIVE_PHASES = 4 };

typedef struct cleave_collective_plan {
    int32_t n_members, n_blocks; /* a reduce-scatter or all-gather has one block for each member */
    int32_t node_members;        /* two-level: consecutive members of a node; else 1 */
    int32_t n_phases, n_steps;
    cleave_collective_phase phases[CLEAVE_MAX_COLLECTIVE_PHASES];
} cleave_collective_plan;

/* Is there such a plan?  A tree does all-reduces only, two levels need several equal nodes of
   several members each, and neither DIRECT nor an all-to-all has steps.  `node_members` counts for
   two-level only. */
bool cleave_collective_has_plan(cleave_collective_kind kind, cleave_collective_algorithm algorithm,
                                int32_t n_members, int32_t node_members);

/* What DEFAULT stands for. */
cleave_collective_algorithm cleave_collective_default(int32_t n_members);

/* The plan of a collective that has one, of two members or more. */
cleave_collective_plan cleave_collective_plan_of(cleave_collective_kind kind,
                                                 cleave_collective_algorithm algorithm,
                                                 int32_t n_members, int32_t node_members);

/* Of a reduce-scatter or all-gather: whose block it is. */
int32_t cleave_collective_member_of_block(const cleave_collective_plan *plan, int32_t block);

/* One step: exchanges 0..n_exchanges-1, at most n_members, all at once. */
typedef struct cleave_collective_step {
    const cleave_collective_phase *phase;
    int32_t step; /* of the phase */
    int32_t n_exchanges;
    bool reduces;  /* what is received is added */
    int32_t alike; /* so many steps from this one on have the same partners, and the same bytes
                      where blocks are equal: a ring is one step many times over */
} cleave_collective_step;

/* Step 0..n_steps-1 of a plan, and one of its exchanges; both in constant time. */
cleave_collective_step cleave_collective_step_of(const cleave_collective_plan *plan, int32_t step);
cleave_exchange cleave_collective_exchange_of(const cleave_collective_plan *plan,
                                              const cleave_collective_step *step, int32_t exchange);

#endif
