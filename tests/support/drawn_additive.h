/* Small random additive models, and their optimum by trying everything. */
#ifndef CLEAVE_TESTS_SUPPORT_DRAWN_ADDITIVE_H
#define CLEAVE_TESTS_SUPPORT_DRAWN_ADDITIVE_H

#include "base/random.h"
#include "search/solve/additive.h"

#include <stdbool.h>

typedef enum drawn_graph {
    DRAWN_TREE,
    DRAWN_CYCLE,
    DRAWN_CLIQUE,
    DRAWN_SPARSE, /* any pairs: several components, isolated variables, the same pair twice */
    DRAWN_GRID,   /* two rows */
    DRAWN_SKIPS,  /* a chain whose variables join others two further on */
    N_DRAWN_GRAPHS
} drawn_graph;

typedef struct additive_shape {
    drawn_graph graph;
    int32_t n_variables;
    int32_t most_values; /* 1 to so many, of each variable */
    int64_t spread;      /* costs are in -spread..spread */
} additive_shape;

/* A shape that can be tried out: at most 3^7 choices. */
additive_shape additive_small_shape(cleave_random *random);

cleave_additive drawn_additive(const additive_shape *shape, cleave_random *random,
                               cleave_arena *arena);

/* Weights in 0..most_weight, a quarter of them 0. */
cleave_additive_limit drawn_limit(const cleave_additive *additive, int64_t most_weight,
                                  cleave_random *random, cleave_arena *arena);

/* Sum of the weights of a choice. */
int64_t drawn_weight(const cleave_additive *additive, const cleave_additive_limit *limit,
                     const int32_t *value);

/* The next choice in counting order; false after the last. */
bool drawn_count_on(const cleave_additive *additive, int32_t *value);

/* The least total within the limits by trying all choices; false if none is within them. */
bool drawn_optimum(const cleave_additive *additive, int32_t n_limits,
                   const cleave_additive_limit *limits, int64_t *least);

/* Every value is one of its variable, and the total is what the values cost. */
bool drawn_is_choice(const cleave_additive *additive, const cleave_additive_solution *solution);

#endif
