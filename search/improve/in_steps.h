/* What refinement with collectives in their steps begins with (search/improve/auto.c says when it
   is that). */
#ifndef CLEAVE_SEARCH_IMPROVE_IN_STEPS_H
#define CLEAVE_SEARCH_IMPROVE_IN_STEPS_H

#include "search/improve/improve.h"

/* Prices starts in full, but for those that were not found and are far behind `best`, in closed
   form: `has_full` says which.  By all threads. */
cleave_status improve_price_in_steps(const cleave_improvement *with, cleave_improve_start *starts,
                                     int32_t n_starts, const cleave_price *best,
                                     cleave_error *error);

/* The additive model around the best start, which sweeps in steps go by: of the layout of choices
   with the collectives of `like`.  Nothing where there is no additive model. */
cleave_status improve_look_around(const cleave_improvement *with, const cleave_choices *choices,
                                  const cleave_layout *like, cleave_additive_model *around,
                                  cleave_error *error);

#endif
