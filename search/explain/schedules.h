/* What a layout would cost with one decision of its schedule taken otherwise: the number of
   micro-batches, the kind, and what is recomputed. */
#ifndef CLEAVE_SEARCH_EXPLAIN_SCHEDULES_H
#define CLEAVE_SEARCH_EXPLAIN_SCHEDULES_H

#include "base/progress.h"
#include "search/price/price.h"

typedef struct explain_schedule {
    char decision[64]; /* "16 micro-batches", "gpipe", "recompute full" */
    cleave_price price;
} explain_schedule;

enum { EXPLAIN_MOST_SCHEDULES = 10 };

typedef struct explain_schedules {
    cleave_price price; /* of the layout itself, as the others: collectives in closed form */
    int32_t n;
    explain_schedule items[EXPLAIN_MOST_SCHEDULES];
} explain_schedules;

/* Each by itself, where it is legal; 0 of them for a layout of the whole batch in one stage. */
cleave_status explain_schedules_try(cleave_pricer *pricer, const cleave_layout *layout,
                                    cleave_progress *progress, explain_schedules *result,
                                    cleave_error *error);

#endif
