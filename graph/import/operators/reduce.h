/* Reductions over axes: what the node says. */
#ifndef CLEAVE_GRAPH_IMPORT_REDUCE_H
#define CLEAVE_GRAPH_IMPORT_REDUCE_H

#include "graph/import/internal.h"

typedef enum cleave_reduction_kind {
    CLEAVE_REDUCTION_L1,
    CLEAVE_REDUCTION_L2,
    CLEAVE_REDUCTION_LOG_SUM,
    CLEAVE_REDUCTION_LOG_SUM_EXP,
    CLEAVE_REDUCTION_MAX,
    CLEAVE_REDUCTION_MEAN,
    CLEAVE_REDUCTION_MIN,
    CLEAVE_REDUCTION_PROD,
    CLEAVE_REDUCTION_SUM,
    CLEAVE_REDUCTION_SUM_SQUARE,
    CLEAVE_REDUCTION_ARG_MAX,
    CLEAVE_REDUCTION_ARG_MIN
} cleave_reduction_kind;

typedef struct cleave_reduction {
    cleave_reduction_kind kind;
    bool is_identity; /* asked for no axes */
    bool keeps;       /* reduced dimensions stay, with extent 1 */
    bool last;        /* of equals, ArgMax and ArgMin take the last one */
    unsigned reduced; /* bits of dimensions */
    int rank;
    int64_t count; /* elements that become one */
    int out_rank;
    int64_t out_shape[CLEAVE_MAX_RANK];
} cleave_reduction;

/* Reads the node for an input of this shape. */
cleave_status cleave_reduction_read(cleave_importer *im, int rank, const int64_t *shape,
                                    cleave_reduction *r);

/* Is dimension d reduced? */
static inline bool cleave_reduces(const cleave_reduction *r, int d) {
    return (r->reduced >> d & 1u) != 0;
}

#endif
