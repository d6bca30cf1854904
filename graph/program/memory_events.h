/* When lives begin and end, device by device. */
#ifndef CLEAVE_GRAPH_PROGRAM_MEMORY_EVENTS_H
#define CLEAVE_GRAPH_PROGRAM_MEMORY_EVENTS_H

#include "graph/program/memory_plan.h"

/* A life begins or ends.  All that one item uses lives at once, so at its position begins come
   before ends; the lives of either sort ascend.  Events hold what planning asks for: of a deep
   model the lives themselves don't stay in a cache. */
typedef struct cleave_life_event {
    int64_t bytes; /* aligned */
    int32_t device;
    int32_t life; /* that begins; or, where it ends, ~ of it */
} cleave_life_event;

static inline bool cleave_event_begins(const cleave_life_event *of) { return of->life >= 0; }
static inline int32_t cleave_event_life(const cleave_life_event *of) {
    return of->life >= 0 ? of->life : ~of->life;
}

/* In the order of the main lane; or, of what the communication lane alone uses, in its order. */
typedef enum cleave_life_order {
    CLEAVE_LIVES_BY_MAIN_LANE,
    CLEAVE_LIVES_BY_LANE
} cleave_life_order;

typedef struct cleave_life_events {
    int32_t *start; /* [n_devices + 1] of the events of a device */
    int32_t *begin; /* [lives] which event of its device begins it */
    cleave_life_event *items;
} cleave_life_events;

typedef struct cleave_event_list {
    const cleave_life_event *items;
    int32_t n;
} cleave_event_list;

/* False where memory is short.  To be freed in either case. */
bool cleave_life_events_create(const cleave_lives *lives, cleave_life_order order,
                               cleave_life_events *events);
void cleave_life_events_free(cleave_life_events *events);

/* Those of a device up to the last life that begins: what ends later changes nothing. */
cleave_event_list cleave_life_events_of(const cleave_life_events *events, int32_t device);

#endif
