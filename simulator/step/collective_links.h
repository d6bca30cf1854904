/* Which links a collective in closed form takes. */
#ifndef CLEAVE_SIMULATOR_STEP_COLLECTIVE_LINKS_H
#define CLEAVE_SIMULATOR_STEP_COLLECTIVE_LINKS_H

#include "simulator/step/price.h"

/* Links that are known before. */
typedef struct cleave_collective_links {
    int32_t n;
    const int32_t *links; /* [n]; null: not known */
} cleave_collective_links;

/* Fills collective_link_start and collective_links where messages have their hops.  `known` of each
   collective: all-to-alls take these, all others what lies on their way.  Of a window, see also
   `nearby` there. */
cleave_status cleave_find_collective_links(const cleave_price_context *pricing,
                                           const cleave_collective_links *known);

#endif
