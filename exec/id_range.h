/* What the integers of a datum may be.

   Ids lie below the extent of the table that they are looked up in, or count from its end; through
   views, different elements of one tensor may be ids of different tables.  Targets of a loss do not
   count from the end. */
#ifndef CLEAVE_EXEC_ID_RANGE_H
#define CLEAVE_EXEC_ID_RANGE_H

#include "graph/model.h"

typedef struct cleave_id_range {
    bool from_end;        /* in -above .. above - 1, else in 0 .. above - 1 */
    int64_t n;            /* elements of the tensor */
    const int64_t *above; /* [n], row-major; null: they may be anything */
} cleave_id_range;

/* Of a base tensor of type I64. */
cleave_status cleave_id_range_find(const cleave_model *model, int32_t tensor, cleave_arena *arena,
                                   cleave_id_range *range, cleave_error *error);

#endif
