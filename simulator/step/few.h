/* The price of a layout of many micro-batches from three of them: what lowering all would give,
   memory and times, to the bit.

   The lives of buffers follow from the turns of the step (cleave_turns) as items do, so all of them
   are planned, those of every micro-batch; but none of them is lowered. */
#ifndef CLEAVE_SIMULATOR_STEP_FEW_H
#define CLEAVE_SIMULATOR_STEP_FEW_H

#include "costmodel/cost.h"
#include "graph/lower/lower.h"
#include "graph/program/memory_plan.h"

typedef struct cleave_few {
    cleave_program program; /* of three micro-batches; no memory plan */
    cleave_turns turns;
    cleave_program whole; /* of all: counts, and the memory plan's peaks; its arrays are those of
                             the three */
    /* How often each message and collective of the three is there in all. */
    int32_t *message_times, *collective_times; /* [n_messages], [n_collectives] */
} cleave_few;

/* Has a layout so many micro-batches that three tell of them?  Not where gradients or weights are
   sharded. */
bool cleave_few_tell(const cleave_layout *layout);

/* Lowers three micro-batches, and plans the memory of all: of all devices, or with a fold (it may
   be null) of its window.  With a machine (it may be null, too) only the fullest device of each of
   its kinds is planned as small as can be; the peaks of others may be less so, if they are no more
   than that one's.  In the arena. */
cleave_status cleave_few_lower(const cleave_model *model, const cleave_layout *layout,
                               const cleave_fold *fold, const cleave_lower_options *options,
                               const cleave_machine *machine, cleave_arena *arena, cleave_few *few,
                               cleave_error *error);

/* Does the time of the three tell that of all?  NO_LAYOUT, saying why, where that is not certain.
 */
cleave_status cleave_few_check(const cleave_few *few, const cleave_cost_cache *cache,
                               cleave_error *error);

/* The lives of a device's buffers, those of every micro-batch, at positions that stand in the order
   of the items of all. */
typedef struct cleave_few_lives {
    int32_t n, n_positions;
    cleave_life *lives;
    int32_t *buffers; /* [n] of the three, which each is like */
} cleave_few_lives;

/* How many buffers of all micro-batches one of the three is. */
int64_t cleave_few_times_of_buffer(const cleave_few *few, int32_t buffer);

cleave_status cleave_few_list_lives(const cleave_few *few, int32_t device, cleave_arena *arena,
                                    cleave_few_lives *lives, cleave_error *error);

/* The step by scan, picoseconds.  Below 0 where three do not tell of all; NO_LAYOUT, saying why,
   where the machine does not fold so. */
cleave_status cleave_few_simulate(const cleave_few *few, cleave_cost_cache *cache,
                                  cleave_arena *arena, int64_t *step, cleave_error *error);

#endif
