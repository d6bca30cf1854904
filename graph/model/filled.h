/* Tables of rows of which the first are filled and the others zero, as those of experts that have
   room for whatever may be chosen: how many are filled is known in the mean.

   The importer says it of the ids that tell each row its source; here it is followed through
   look-ups, products and what is done element by element.  No meaning rests on it: it says to
   kernels where to look for rows that are zero (exec/kernels/filled_rows.h), and to prices how much
   is left to do. */
#ifndef CLEAVE_GRAPH_MODEL_FILLED_H
#define CLEAVE_GRAPH_MODEL_FILLED_H

#include "graph/model/part.h"

/* Fills in cleave_tensor's filled_rows and filled_dimension of what is made from such ids. */
void cleave_model_derive_filled(cleave_model *model);

/* The axis of a product that goes along such rows, in all operands that have it; -1: none does. */
int cleave_nest_filled_axis(const cleave_model *model, const cleave_nest *nest);

/* Of a product's points under a part, the share that is in filled rows; 1 without such an axis. */
double cleave_filled_share(const cleave_model *model, const cleave_nest *nest,
                           const cleave_part *part);

/* Of all such tables the one with most room: its rows over those that are filled in the mean; 1
   where there is none. */
double cleave_model_most_room(const cleave_model *model);

#endif
