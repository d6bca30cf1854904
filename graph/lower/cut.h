/* Cutting a tensor into cells: fills a movement's flows, locals and buckets. */
#ifndef CLEAVE_GRAPH_LOWER_CUT_H
#define CLEAVE_GRAPH_LOWER_CUT_H

#include "graph/lower/move.h"

/* `contributions` are sorted by (key, device) and, like `demands`, not empty. */
void lower_cut(lower_builder *builder, movement *move, int32_t n_contributions,
               const int32_t *contributions, int32_t n_demands, const int32_t *demands);

#endif
