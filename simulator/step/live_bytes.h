/* What is live in every slot of a step that is put together of priced fragments, and what is sent
   in it.  Nothing is added up before somebody asks: most fragments are taken back before that. */
#ifndef CLEAVE_SIMULATOR_STEP_LIVE_BYTES_H
#define CLEAVE_SIMULATOR_STEP_LIVE_BYTES_H

#include "base/list.h"
#include "simulator/step/fragment_memory.h"

typedef struct live_bytes {
    int32_t n_devices, n_places, n_slots;
    int32_t **slots; /* [n_places] those that a place may name: cleave_alike */
    /* [n_devices][n_slots + 1] by how much more is in use than in the slot before */
    int64_t *steps;
    int64_t *most;                 /* [n_devices] in any slot; -1: not known */
    remembered_fragment **counted; /* [n_places] fragments that are in this, and in use by it */
    remembered_fragment **placed;  /* [n_places] that are to be */
    bool *stale;                   /* [n_places] they may differ */
    CLEAVE_LIST(int32_t) stale_places;
    int64_t own_bytes, bytes_sent;
} live_bytes;

/* Of members that are zeroed but for n_devices, n_places, n_slots and slots. */
cleave_status live_bytes_begin(live_bytes *live, cleave_error *error);
void live_bytes_free(live_bytes *live);

/* From now on this fragment, or none, is at the place. */
cleave_status live_bytes_put(live_bytes *live, int32_t place, remembered_fragment *fragment,
                             cleave_error *error);
/* In the slot with the most, on a device. */
int64_t live_bytes_most(live_bytes *live, int32_t device);
/* Over the slots, the cubes of what is in use beyond `bytes`, as a share of them, added up. */
double live_bytes_over(live_bytes *live, int32_t device, int64_t bytes);
/* Does a memory plan of it have arenas of at most `room` bytes, [n_devices], where everything is in
   use from the begin of its first slot to the end of its last?  INT64_MAX: nothing is planned. */
cleave_status live_bytes_fit(live_bytes *live, const int64_t *room, bool *fit, cleave_error *error);
/* What the program itself takes. */
int64_t live_bytes_own(live_bytes *live);
/* By messages, of all devices. */
int64_t live_bytes_sent(live_bytes *live);

#endif
