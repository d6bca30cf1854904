#include "costmodel/collective_library.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* NCCL's own tables, by which it chooses (src/graph/tuning.cc: baseLatencies, hwLatencies,
   llMaxBws and the refinements of busBw): a step within a node takes no less than the host needs
   to post one between nodes, taken as an Intel's (1 us, of Simple three); trees reach 0.92 of a
   ring's bandwidth; LL128, which goes with NVLink alone, 0.92 of Simple's, LL half of it on rings
   and 1 / 3.8 on trees, and no more than 19 GB/s. */
#define RING(base, within, between, alone, share, most)                                            \
    { false, (base)*1e-6, (within)*1e-6, (between)*1e-6, (alone)*1e-6, share, most }
#define TREE(base, within, between, share, most)                                                   \
    { true, (base)*1e-6, (within)*1e-6, (between)*1e-6, (between)*1e-6, share, most }

static const cleave_collective_library libraries[] = {
    {"nccl over nvlink",
     6,
     {RING(8.4, 3.4, 14, 14, 1, 0), RING(14, 1.9, 4, 8.5, 0.92, 0),
      RING(6.6, 1.0, 2.7, 5, 0.5, 19e9), TREE(8.4, 4.0, 14, 0.92, 0),
      TREE(14, 1.25, 8.5, 0.92 * 0.9375, 0), TREE(6.8, 0.6, 5, 0.92 / 3.8, 19e9)}},
    {"nccl over pcie",
     4,
     {RING(8.4, 5.7, 14, 14, 1, 0), RING(6.6, 1.0, 2.7, 5, 0.5, 19e9), TREE(8.4, 4.0, 14, 0.92, 0),
      TREE(6.8, 1.0, 5, 0.92 / 3.8, 19e9)}},
};

const char cleave_collective_library_names[] = "\"nccl over nvlink\" or \"nccl over pcie\"";

const cleave_collective_library *cleave_collective_library_find(const char *name) {
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        if (strcmp(libraries[i].name, name) == 0)
            return &libraries[i];
    return NULL;
}

double cleave_library_way_latency(const cleave_library_way *way, bool all_reduces, int32_t members,
                                  int32_t n_nodes) {
    double between = members == 1 ? way->alone_seconds : way->between_seconds;
    if (way->is_tree)
        return way->base_seconds +
               2 * ((members - 1) * way->within_seconds + floor(log2(n_nodes)) * between);
    double times = all_reduces ? 2 : 1, nodes = n_nodes;
    return way->base_seconds +
           times * ((members - 1) * nodes * way->within_seconds + (nodes - 1) * between);
}
