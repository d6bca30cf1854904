/* What the operators that move elements share. */
#ifndef CLEAVE_GRAPH_IMPORT_MOVEMENT_H
#define CLEAVE_GRAPH_IMPORT_MOVEMENT_H

#include "graph/import/draft_views.h"
#include "graph/import/operators/pointwise.h"

/* A look-up over the output's dimensions: which of them the dimensions of ids and table are. */
typedef struct cleave_look_up {
    const char *name;
    int32_t ids, table;
    int axis; /* of the table: summed */
    int rank;
    int64_t shape[CLEAVE_MAX_RANK];
    const char *axes[CLEAVE_MAX_RANK];
    int ids_map[CLEAVE_MAX_RANK], table_map[CLEAVE_MAX_RANK];
} cleave_look_up;

/* An operator that looks up; gather.c. */
cleave_status cleave_import_look_up(cleave_importer *im, const cleave_look_up *of, int32_t *output);
/* The usual one: the dimensions of the ids stand where `axis` of the table was. */
cleave_status cleave_import_look_up_axis(cleave_importer *im, const char *name, int32_t ids,
                                         int32_t table, int axis, int32_t *output);
/* Refuses constant ids in input i outside of -extent .. extent - 1. */
cleave_status cleave_import_check_ids(cleave_importer *im, int i, int64_t extent);

/* A constant of integers; `ids` has to stay. */
cleave_status cleave_import_constant_ids(cleave_importer *im, const char *name, int rank,
                                         const int64_t *shape, const int64_t *ids, int32_t *tensor);

/* Indices ids[0..n-1] (0 or more) along an axis: the tensor itself, a slice, a few slices one after
   the other, or a look-up; take.c. */
cleave_status cleave_import_take(cleave_importer *im, int32_t source, int axis, int64_t n,
                                 const int64_t *ids, int32_t *result);
/* Makes this shape of a tensor output 0, and names it so; `from` is what input 0 is. */
cleave_status cleave_import_deliver(cleave_importer *im, int32_t tensor, int rank,
                                    const int64_t *shape, int32_t from);

#endif
