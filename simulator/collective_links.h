/* Which links a collective in closed form takes. */
#ifndef CLEAVE_SIMULATOR_COLLECTIVE_LINKS_H
#define CLEAVE_SIMULATOR_COLLECTIVE_LINKS_H

#include "simulator/prepare.h"

/* Fills collective_link_start and collective_links of a problem whose messages have their hops.
   `image`: of a window, cleave_machine_fold_links; else null; then see also `nearby` there. */
cleave_status cleave_prepare_collective_links(const cleave_preparation *preparation,
                                              const int32_t *image);

#endif
