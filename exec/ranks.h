/* Programs that run as ranks: they start themselves by cleave_world_launch_self, which the door
   has, and this is how a rank ends. */
#ifndef CLEAVE_EXEC_RANKS_H
#define CLEAVE_EXEC_RANKS_H

#include "exec/world.h"

/* As cleave_world_launch_self, with the patience, and what asked for the end, of
   cleave_world_launch. */
cleave_status cleave_ranks_launch(int32_t n_ranks, char *const *arguments, double patience_seconds,
                                  bool *told_to_end, cleave_error *error);

/* Says what there is to say and ends the world, which may end the process.  What is wrong with the
   input every rank finds, and rank 0 says it; the message is empty afterwards. */
void cleave_ranks_end(cleave_world *world, const char *command, cleave_status status,
                      cleave_error *error);

#endif
