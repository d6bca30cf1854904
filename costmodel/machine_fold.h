/* Machines under a fold (graph/model/fold.h): the links of all windows by those of the first. */
#ifndef CLEAVE_COSTMODEL_MACHINE_FOLD_H
#define CLEAVE_COSTMODEL_MACHINE_FOLD_H

#include "costmodel/machine.h"

/* Is what happens within a window of `window` devices the same in all of them, over links that no
   other window uses?  NO_LAYOUT, saying why not. */
cleave_status cleave_machine_fold_check(const cleave_machine *machine, int32_t window,
                                        cleave_error *error);

/* For every link, [n_links]: at a node, the same link of the node of window 0 that is at the same
   place in its window; between nodes, itself.  The machine must have passed the check. */
cleave_status cleave_machine_fold_links(const cleave_machine *machine, int32_t window,
                                        cleave_arena *arena, int32_t **image, cleave_error *error);

#endif
