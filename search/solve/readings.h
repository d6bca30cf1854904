/* What operators hold of what others wrote, by the values of both. */
#ifndef CLEAVE_SEARCH_SOLVE_READINGS_H
#define CLEAVE_SEARCH_SOLVE_READINGS_H

#include "search/solve/internal.h"

/* Sets the readings of a model whose variables are made. */
cleave_status additive_list_readings(additive_making *m, cleave_additive_model *made,
                                     cleave_error *error);

#endif
