/* A timeline: start and end of every item and message of a program, simulated or measured. */
#ifndef CLEAVE_GRAPH_PROGRAM_TIMELINE_H
#define CLEAVE_GRAPH_PROGRAM_TIMELINE_H

#include <stdint.h>

typedef struct cleave_timeline {
    int64_t *start, *end; /* [n_items], picoseconds since the start of the step; -1: not known */
    int64_t *arrival;     /* [n_messages], picoseconds; null where not known (measured) */
    int64_t step;         /* end of the last item */
} cleave_timeline;

#endif
