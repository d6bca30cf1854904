/* How a library of collectives goes between nodes: by rings or trees, and by protocols that trade
   bandwidth for latency.  Of each collective it takes what its own tables say is the quickest. */
#ifndef CLEAVE_COSTMODEL_COLLECTIVE_LIBRARY_H
#define CLEAVE_COSTMODEL_COLLECTIVE_LIBRARY_H

#include <stdbool.h>
#include <stdint.h>

enum { CLEAVE_MOST_LIBRARY_WAYS = 8 };

/* A ring takes n - 1 steps, an all-reduce twice as many, of which one less than there are nodes
   are between nodes.  A tree is for all-reduces alone: up and down, a chain of the members within
   each node, and as many steps between nodes as their number has powers of two. */
typedef struct cleave_library_way {
    bool is_tree;
    double base_seconds;
    double within_seconds, between_seconds; /* of a step */
    double alone_seconds;                   /* of a step between nodes that have one member each */
    double share;                 /* of the bandwidth between nodes that the machine reaches, */
    double most_bytes_per_second; /* and at most this; 0: no limit */
} cleave_library_way;

typedef struct cleave_collective_library {
    const char *name;
    int n_ways;
    cleave_library_way ways[CLEAVE_MOST_LIBRARY_WAYS];
} cleave_collective_library;

/* Null where there is no such library. */
const cleave_collective_library *cleave_collective_library_find(const char *name);

extern const char cleave_collective_library_names[]; /* for messages */

/* Seconds until the first byte has gone all its way, of `members` devices in each of `n_nodes`. */
double cleave_library_way_latency(const cleave_library_way *way, bool all_reduces, int32_t members,
                                  int32_t n_nodes);

#endif
