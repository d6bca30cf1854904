/* What windows share out.

   Where the work of a step is cut into W equal windows, by one axis of every nest or by none, a
   tensor is of one of two sorts:

   - shared out: one dimension is cut into W equal ranges, and what window j writes or reads of it
     lies within range j;
   - repeated: what is written or read of it is the same box in all windows.

   This file finds the sorts from the axes and maps alone, by arithmetic that holds for all windows
   at once.  Windows of devices make a fold (graph/model/fold.h), windows of the batch are
   micro-batches (graph/model/micro_batch.h). */
#ifndef CLEAVE_GRAPH_MODEL_SHARE_OUT_H
#define CLEAVE_GRAPH_MODEL_SHARE_OUT_H

#include "base/arena.h"
#include "graph/model/model.h"

enum { CLEAVE_REPEATED = -1, CLEAVE_UNUSED = -2 };

typedef struct cleave_sharing {
    int64_t n_windows;     /* W, 2 or more */
    const char *window;    /* for messages: what a window is called */
    bool in_time;          /* windows come one after the other: then data and constants are marked,
                              too, and what all windows add up has owners in each of them */
    int *nest_axis;        /* [n_nests] axis of the nest that is shared out; or REPEATED */
    int *tensor_dimension; /* [n_tensors] dimension that is shared out; or REPEATED; UNUSED: not
                              marked, as all views are but in time */
} cleave_sharing;

/* Both arrays, in the arena, with all nests repeated and no tensor marked. */
cleave_status cleave_sharing_create(const cleave_model *model, cleave_arena *arena,
                                    cleave_sharing *sharing, cleave_error *error);

/* Marks what a nest reads and writes, of all nests in the order of the model.  The axis of one that
   follows the split of its operator is set by the caller; that of another is found here. NO_LAYOUT,
   saying why, where something is not the same in all windows. */
cleave_status cleave_share_out_nest(const cleave_model *model, int32_t nest,
                                    cleave_sharing *sharing, cleave_error *error);

/* Before that, once the axes of all nests that have to be shared out are set: what these read along
   a shared dimension, the nests that write it share out, too, where nothing has said so of them.
   (What is the same for all samples may be made for each: a class token, a mask that is drawn.) */
void cleave_share_out_sources(const cleave_model *model, cleave_sharing *sharing);

/* Both ends of all assignments, which are repeated. */
cleave_status cleave_share_out_assignments(const cleave_model *model, cleave_sharing *sharing,
                                           cleave_error *error);

/* Outputs of the model that are views, after that: by the dimension that what is under them has.
   NO_LAYOUT where samples of one don't lie in equal ranges. */
cleave_status cleave_share_out_outputs(const cleave_model *model, cleave_sharing *sharing,
                                       cleave_error *error);

#endif
