/* What it takes to bring a tensor from one sharding to another: by the same rule as lowering
   (graph/lower/move.h), but nothing is lowered.

   Cells are where a shard of one overlaps a shard of the other.  A cell with one key is a value: it
   goes to every reader that lacks it.  One with several is a partial result: owners add it up and
   send it to all readers.  Cells that a group of three or more (two, where the machine file
   says so) shares are an all-reduce, a
   reduce-scatter or an all-gather, of which the closed form is known (costmodel/cost.h); all else
   goes point to point, over the machine's own routes; small sums that two devices swap are taken to
   have an owner of each half.  The time is then

     the link that is taken longest + the device that posts and copies longest + the latency

   summing at owners being a stage of its own.  What the simulator sees beyond that is when devices
   and links are free, which is nobody's business here. */
#ifndef CLEAVE_SEARCH_SOLVE_RESHARDING_H
#define CLEAVE_SEARCH_SOLVE_RESHARDING_H

#include "costmodel/cost.h"
#include "costmodel/sent_together.h"
#include "search/solve/sharding.h"

/* Knows a machine's routes and the price of collectives among the groups that it was asked for.
   Not shared between threads. */
typedef struct cleave_resharder cleave_resharder;
cleave_status cleave_resharder_create(const cleave_machine *machine,
                                      const cleave_collective_rules *rules,
                                      cleave_resharder **resharder, cleave_error *error);
void cleave_resharder_destroy(cleave_resharder *resharder);

/* What follows is of this tensor, which is sent as `together` says; of null, or -1, alone. */
void cleave_resharder_of(cleave_resharder *resharder, const cleave_sent_together *together,
                         int32_t tensor);

typedef enum cleave_resharding_sort {
    CLEAVE_RESHARD_RESULTS, /* keys of a shard are partial results, to be summed */
    CLEAVE_RESHARD_VALUES   /* all that have a shard have the same */
} cleave_resharding_sort;

/* Picoseconds; 0 where every device has what it reads.  Shardings are of one tensor, on the
   machine's devices.  Cost: the number of pairs (device that reads, shard that overlaps what it
   reads).  FAILED when memory is short. */
cleave_status cleave_resharding_cost(cleave_resharder *resharder, const cleave_sharding *from,
                                     const cleave_sharding *to, cleave_resharding_sort sort,
                                     int64_t *picoseconds, cleave_error *error);

#endif
