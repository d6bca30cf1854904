/* Layouts in stages and micro-batches that one search has priced.  What it looks at one after the
   other, each baseline by its name and plans, has layouts in common, above all where degrees are
   told; each of them is lowered once. */
#ifndef CLEAVE_SEARCH_PIPELINE_PRICED_H
#define CLEAVE_SEARCH_PIPELINE_PRICED_H

#include "base/list.h"
#include "graph/model/alike.h"
#include "search/price/price.h"

typedef struct cleave_priced_layout {
    cleave_digest key;   /* of cleave_layout_digest */
    const char *why_not; /* has no price; null: it has */
    cleave_price price;
    cleave_price_grounds grounds;
    int64_t *over; /* see cleave_price_subject */
} cleave_priced_layout;

typedef CLEAVE_LIST(cleave_priced_layout) cleave_priced_layouts;

/* Of all that a price follows from, model, machine and collectives being those of the search. */
cleave_digest cleave_layout_digest(const cleave_layout *layout);

/* Null: it was not priced. */
const cleave_priced_layout *cleave_priced_find(const cleave_priced_layouts *priced,
                                               const cleave_digest *key);

#endif
