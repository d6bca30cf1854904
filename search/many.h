/* The search on more devices than can be lowered: see search/improve/window.h.

   Baselines that fold are priced folded; of the others those that stand on few devices are priced
   in full, and what is left is said to be unpriced.  All figures are with collectives in closed
   form, since their steps are not the same in all windows. */
#ifndef CLEAVE_SEARCH_MANY_H
#define CLEAVE_SEARCH_MANY_H

#include "search/search.h"

/* More devices than this are not lowered one by one. */
enum { CLEAVE_MOST_LOWERED = 64 };

/* Is this a search that cleave_search_many does: on many devices, of a machine that lets layouts
   fold, by another method than "random"?  Where the user's constraints leave no layout that folds,
   it is not, if the operators are few enough for the devices that all can be lowered. */
cleave_status cleave_search_is_many(const cleave_model *model, const cleave_machine *machine,
                                    const cleave_search_options *options, bool *is_many,
                                    cleave_error *error);

/* As cleave_search, but that the layouts of baselines other than the best are not kept. */
cleave_status cleave_search_many(const cleave_model *model, const cleave_machine *machine,
                                 const cleave_search_options *options, cleave_arena *arena,
                                 cleave_search_result *result, cleave_error *error);

#endif
