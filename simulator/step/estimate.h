/* Estimates: the time of a step, by the scan, of one layout after the other, each a few splits away
   from the one before.  What a change concerns is lowered and priced (or remembered: a fragment
   follows from the splits of the operators that touch it, and is the same wherever parts read and
   write the same), the rest is as it was, and the delta simulation finds what has moved.  The
   result is that of lowering and scanning the whole layout, bit for bit. */
#ifndef CLEAVE_SIMULATOR_STEP_ESTIMATE_H
#define CLEAVE_SIMULATOR_STEP_ESTIMATE_H

#include "costmodel/cost.h"
#include "graph/lower/lower.h"

typedef struct cleave_estimate cleave_estimate;

/* Begins with a layout, which must be legal and is accepted.  Collectives are in closed form or in
   their steps, as the options say; on few devices proposals in steps take little longer, on more
   the steps are the more.  Model, options and cache must outlive it.  FAILED when memory is short
   or as cleave_lower and cleave_simulate do. */
cleave_status cleave_estimate_create(const cleave_model *model, const cleave_layout *layout,
                                     const cleave_lower_options *options, cleave_cost_cache *cache,
                                     cleave_estimate **estimate, cleave_error *error);
/* The same of the first window of a fold on the cache's machine, which must let it fold, in closed
   form whatever the options say: splits are
   those of the window (fold->window), and whenever a run begins the fold must be that of the splits
   then proposed, with windows of the same size.  A run gives NO_LAYOUT where these don't fold; then
   change back what was proposed, and run and accept that.  Steps are not those of the whole fold to
   the bit: collectives of all windows wait for one another at the links of the first alone. */
cleave_status cleave_estimate_create_window(const cleave_model *model, const cleave_fold *fold,
                                            const cleave_lower_options *options,
                                            cleave_cost_cache *cache, cleave_estimate **estimate,
                                            cleave_error *error);
void cleave_estimate_destroy(cleave_estimate *estimate); /* null: nothing */

/* Proposes a (legal) split, whose devices are copied. */
cleave_status cleave_estimate_change(cleave_estimate *estimate, int32_t op,
                                     const cleave_split *split, cleave_error *error);
/* Proposes that the update of a parameter is sharded, or is not; of one of which no more is. */
cleave_status cleave_estimate_shard(cleave_estimate *estimate, int32_t tensor, bool sharded,
                                    cleave_error *error);
/* Step of what is now proposed, picoseconds. */
cleave_status cleave_estimate_run(cleave_estimate *estimate, int64_t *step, cleave_error *error);
/* The same, and where the step is not below `below` any that is not either, as soon as that is
   known. */
cleave_status cleave_estimate_run_below(cleave_estimate *estimate, int64_t below, int64_t *step,
                                        cleave_error *error);
/* What was proposed since the last accept or reject stays; or goes.  After a run only. */
cleave_status cleave_estimate_accept(cleave_estimate *estimate, cleave_error *error);
cleave_status cleave_estimate_reject(cleave_estimate *estimate, cleave_error *error);

/* What happened since creation: fragments that a change asked for, and those of them that were not
   remembered; and the bytes of all those that it asked for, remembered or not, which tell how much
   work proposals are and depend on nothing but the layouts. */
typedef struct cleave_estimate_counts {
    int64_t fragments, made, bytes;
} cleave_estimate_counts;
cleave_estimate_counts cleave_estimate_count(const cleave_estimate *estimate);

/* About the arena that the layout needs on the device that needs most, `device`: what is in use in
   the slot with the most, where a slot counts all that it uses as if at once.  The memory plan of
   cleave_lower comes within some per cent of it, above or below. */
int64_t cleave_estimate_live_bytes(cleave_estimate *estimate, int32_t device);
/* Does a memory plan in which everything is in use for whole slots have arenas of at most `room`
   bytes, [n_devices]?  It needs more than the plan of cleave_lower as a rule, and is made without
   lowering anything; for devices with INT64_MAX none is. */
cleave_status cleave_estimate_fits(cleave_estimate *estimate, const int64_t *room, bool *fits,
                                   cleave_error *error);
/* How far the device is from doing with so many bytes: over the slots, the cubes of what is in use
   beyond them, as a share of them, added up.  It tells of all slots, where the most alone would not
   tell that one of two has come down, and of the worst most. */
double cleave_estimate_over(cleave_estimate *estimate, int32_t device, int64_t bytes);
/* What the program itself takes: cleave_program_own_bytes. */
int64_t cleave_estimate_own_bytes(cleave_estimate *estimate);
/* cleave_program_bytes_sent. */
int64_t cleave_estimate_bytes_sent(cleave_estimate *estimate);

#endif
