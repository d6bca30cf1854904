/* The layouts that a session has so far, priced with collectives in their steps, where refinement
   is to go on that way (search/improve/auto.c says when). */
#ifndef CLEAVE_SEARCH_IMPROVE_STARTS_IN_STEPS_H
#define CLEAVE_SEARCH_IMPROVE_STARTS_IN_STEPS_H

#include "search/session.h"

/* Prices what was found, which then stands by that, and what was given, but for what is far behind
   `best`, in closed form: `has_full` says which.  Simulates each in full, by all threads. */
cleave_status session_price_in_steps(session *s, const cleave_price *best, cleave_error *error);

/* The additive model around the best start, which sweeps in steps go by: of the layout of
   choices with the collectives of `like`.  Nothing where the session has no additive model. */
cleave_status session_look_around(session *s, const cleave_choices *choices,
                                  const cleave_layout *like, cleave_additive_model *around,
                                  cleave_error *error);

#endif
