/* A bias of scores by how far key and query are apart. */
#ifndef CLEAVE_GRAPH_IMPORT_DISTANCES_H
#define CLEAVE_GRAPH_IMPORT_DISTANCES_H

#include "graph/import/config/config_fields.h"

/* [heads, queries, keys] of the table SCOPE.weight, which has a row for each bucket of distances;
   both ways: keys behind the query have other ones than those before it. */
const char *cleave_compose_distance_bias(cleave_composer *c, const cleave_config *config,
                                         const char *scope, bool both_ways);

#endif
