/* What the integers of a datum may be.

   Ids are read as they are, all else becomes f32, which is exact up to CLEAVE_MOST_EXACT_INTEGER.
   Ids lie below the extent of the table that they are looked up in, or count from its end; through
   views, different elements of one tensor may be ids of different tables.  Targets of a loss do not
   count from the end. */
#ifndef CLEAVE_EXEC_DATA_ID_RANGE_H
#define CLEAVE_EXEC_DATA_ID_RANGE_H

#include "graph/model/model.h"

typedef struct cleave_id_range {
    bool from_end;        /* ids lie in -above .. above - 1, else in 0 .. above - 1 */
    int64_t n;            /* elements of the tensor */
    const int64_t *above; /* [n], row-major; INT64_MAX: that element is no id */
} cleave_id_range;

/* Of a base tensor of type I64. */
cleave_status cleave_id_range_find(const cleave_model *model, int32_t tensor, cleave_arena *arena,
                                   cleave_id_range *range, cleave_error *error);

/* BAD_INPUT where values first .. first + n - 1 of a tensor `name` in file `path`, whose first
   dimension may be a multiple of the datum's, are not in its range; `also`: one that is allowed
   besides, 0: none. */
cleave_status cleave_id_range_check(const cleave_id_range *range, int64_t also, const char *path,
                                    const char *name, int64_t first, int64_t n,
                                    const int64_t *values, cleave_error *error);

#endif
