/* Programs that run as ranks: they start themselves by cleave_world_launch_self, which the door
   has, and this is how a rank ends. */
#ifndef CLEAVE_EXEC_WORLD_RANKS_H
#define CLEAVE_EXEC_WORLD_RANKS_H

#include "exec/world/launch.h"
#include "exec/world/world.h"

/* Starts this program with these arguments ([0] is left out) as ranks, and waits, as
   cleave_launch_ranks does; the status is the exit code of a rank that said why it failed, with an
   empty message. */
cleave_status cleave_ranks_launch(const cleave_launch *how, char *const *arguments,
                                  bool *told_to_end, cleave_error *error);

/* Where this program is, as hosts are to find it.  FAILED. */
cleave_status cleave_ranks_program(char *path, size_t bytes, cleave_error *error);

/* Says what there is to say and ends the world, which may end the process.  What is wrong with the
   input every rank finds, and rank 0 says it; the message is empty afterwards. */
void cleave_ranks_end(cleave_world *world, const char *command, cleave_status status,
                      cleave_error *error);

#endif
