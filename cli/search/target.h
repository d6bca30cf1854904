/* What a search for a framework ends with: layouts as the framework will run them. */
#ifndef CLEAVE_CLI_SEARCH_TARGET_H
#define CLEAVE_CLI_SEARCH_TARGET_H

#include "search/search.h"

/* Does a method look for a layout, or is it the name of one? */
bool search_method_looks(const char *method);

/* Takes the best as the framework of the constraints will run it (functions follow what they read),
   and holds it against every baseline taken so, by full simulation: the quickest that fits is the
   best then.  So what is found is never worse than what one would have said without a search. */
cleave_status search_for_take_back(const cleave_model *model, const cleave_machine *machine,
                                   const cleave_search_options *options, cleave_arena *arena,
                                   cleave_plan *best, cleave_error *error);

#endif
