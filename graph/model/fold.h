/* Folds: the symmetry of a layout, and how much of it has to be lowered.

   Where every operator spans all D devices in order, and what lies outermost in its split divides
   evenly into W windows, the map  device -> device + M,  M = D / W,  is a symmetry: window j of
   devices [j M, (j + 1) M) does with the j-th part of the outer axis what window 0 does with the
   first.  Where stages are on equal groups of neighbours, of D devices each, every operator spans
   its group, and window j is the j-th window of each group.  Or windows lie outermost: M devices of
   each group one after the other, and behind them the next window of all of them; then groups have
   equal ways to each other in all windows where windows have equal places in the network.  So the
   tensors are of two sorts:

   - shared out: one dimension is cut into W equal ranges, and what window j writes or reads lies
     within range j.  Such a tensor never leaves its window;
   - repeated: what a device writes or reads of it is the same box in all windows.  Partial results
     of all windows that all windows read make one all-reduce; where its state is sharded, each
     window has as many shares of it, which are reduced and gathered by all; nothing else crosses
     windows.

   Shares need not be equal: those of window 0 are no smaller than those of others (blocks that are
   not equal have the larger ones first), and as it does all that others do, and they do nothing
   without it but what is theirs alone, the step is that of window 0.  Its memory is that of each
   window, since shares are padded alike (lower_pad_share).

   This file finds W and the sorts from splits and maps alone, by arithmetic that holds for all
   windows at once; what remains to be seen cell by cell is checked while window 0 is lowered
   (cleave_lower_window).  What is not certain does not fold. */
#ifndef CLEAVE_GRAPH_MODEL_FOLD_H
#define CLEAVE_GRAPH_MODEL_FOLD_H

#include "graph/model/layout.h"
#include "graph/model/share_out.h"

typedef struct cleave_fold {
    int32_t n_groups;       /* 1, but for stages */
    int32_t n_devices;      /* M, of a window in one group */
    int32_t n_windows;      /* W, 2 or more */
    bool windows_outermost; /* else groups; of one group no */
    cleave_layout window;   /* the layout with the parts of window 0 alone, on M devices of each
                               group,   one group after the other; degrees are those of all */
    cleave_sharing sharing; /* of the devices' windows: data and constants are not marked */
} cleave_fold;

/* The number, among the devices of all windows, of one of window 0. */
static inline int32_t cleave_fold_device(const cleave_fold *fold, int32_t device) {
    return fold->windows_outermost
               ? device
               : device + device / fold->n_devices * fold->n_devices * (fold->n_windows - 1);
}

/* From there to its like in the next window. */
static inline int32_t cleave_fold_stride(const cleave_fold *fold) {
    return fold->windows_outermost ? fold->n_devices * fold->n_groups : fold->n_devices;
}

/* Finds the smallest window that is a multiple of `node_devices`.  The fold lives in the arena and
   refers to the layout.  NO_LAYOUT, saying why, where the layout does not fold. */
cleave_status cleave_fold_find(const cleave_model *model, const cleave_layout *layout,
                               int32_t node_devices, cleave_arena *arena, cleave_fold *fold,
                               cleave_error *error);

#endif
