/* Machines under a fold (graph/model/fold.h): the links of all windows by those of the first. */
#ifndef CLEAVE_COSTMODEL_MACHINE_FOLD_H
#define CLEAVE_COSTMODEL_MACHINE_FOLD_H

#include "costmodel/machine.h"

/* Is what happens within a window of `window` devices the same in all of them, over links that no
   other window uses?  NO_LAYOUT, saying why not. */
cleave_status cleave_machine_fold_check(const cleave_machine *machine, int32_t window,
                                        cleave_error *error);

/* Can any layout of a machine fold: are there several nodes, all alike, on a network that lets
   windows of one node be?  The error says why not; it may be null. */
bool cleave_machine_may_fold(const cleave_machine *machine, cleave_error *error);

/* For every link, [n_links]: at a node, the same link of the node of window 0 of its group that is
   at the same place in its window; between nodes, itself.  Groups have `n_windows` windows each;
   where windows lie outermost, one is here and below what it has of all groups.  The machine must
   have passed the check. */
cleave_status cleave_machine_fold_links(const cleave_machine *machine, int32_t window,
                                        int32_t n_windows, cleave_arena *arena, int32_t **image,
                                        cleave_error *error);

/* Two devices of window 0, of whatever groups, between which messages go. */
typedef struct cleave_fold_way {
    int32_t source, destination;
} cleave_fold_way;

/* Do messages on these ways meet one another in every window as in window 0, on links that no
   other window's messages take?  Then links between nodes get images, too.  NO_LAYOUT otherwise. */
cleave_status cleave_machine_fold_ways(const cleave_machine *machine, int32_t window,
                                       int32_t n_windows, int32_t n_ways,
                                       const cleave_fold_way *ways, int32_t *image,
                                       cleave_error *error);

/* The same of messages from every device of a group to its like in the next one, and back, of so
   many groups that are one after the other: as stages send them whose splits are alike.  Either
   groups lie outermost, or windows, each with devices of all groups. */
cleave_status cleave_machine_fold_groups(const cleave_machine *machine, int32_t window,
                                         int32_t n_windows, int32_t n_groups,
                                         bool windows_outermost, cleave_error *error);

#endif
