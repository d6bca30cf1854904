/* The lower bound of the space that the search on windows declares: layouts that fold to windows of
   some size, and layouts that are given.  Its proof is that of search/bound/bound.h. */
#ifndef CLEAVE_SEARCH_BOUND_BOUND_FOLDED_H
#define CLEAVE_SEARCH_BOUND_BOUND_FOLDED_H

#include "search/bound/bound.h"
#include "search/problem/space.h"

typedef struct cleave_window_bound cleave_window_bound;

/* Begins with a space without blocks, of the whole model on the whole machine; null where nothing
   folds.  Model, machine, classes and space must outlive it. */
cleave_status cleave_window_bound_create(const cleave_model *model, const cleave_machine *machine,
                                         const int32_t *class_of, const cleave_window_space *space,
                                         cleave_window_bound **bound, cleave_error *error);
void cleave_window_bound_destroy(cleave_window_bound *bound); /* null: nothing */

/* Widens the space by the splits of a layout, which isn't looked at later. */
cleave_status cleave_window_bound_add(cleave_window_bound *bound, const cleave_layout *layout,
                                      cleave_error *error);

/* Seconds that no layout of all that takes less than. */
cleave_status cleave_window_bound_find(const cleave_window_bound *bound, int optimizer_states,
                                       double *seconds, cleave_error *error);

#endif
