/* The last descent, on steps.

   Collectives in closed form are some per cent off their steps, each layout's by a little else, so
   that of layouts that are nearly as good closed forms don't tell which is the best, and the one
   that no single change improves in closed form may be improved in steps.  On few devices estimates
   with collectives in their steps take little, so there what is best in steps descends once more by
   whole sweeps, until no single change improves what `simulate` and `run` do.

   What comes of it follows from the start alone, as long as time is not limited. */
#ifndef CLEAVE_SEARCH_IMPROVE_POLISH_H
#define CLEAVE_SEARCH_IMPROVE_POLISH_H

#include "search/improve/refine.h"
#include "search/session.h"

typedef struct cleave_polished {
    bool done; /* the others are set */
    cleave_layout layout;
    bool is_changed;       /* it is not the start */
    bool is_local_optimum; /* in steps */
} cleave_polished;

/* Is a session's result polished? */
bool session_polishes(const session *s);

/* Begins with a layout whose price, with collectives in their steps, is known.  `done` is false
   where the space lacks it.  The layout lives in the session's work arena. */
cleave_status session_polish(session *s, const cleave_layout *start, const cleave_price *price,
                             cleave_polished *polished, cleave_error *error);

#endif
