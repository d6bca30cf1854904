/* Subcommands that run as ranks: how they start themselves, and how a rank ends. */
#ifndef CLEAVE_CLI_RANKS_H
#define CLEAVE_CLI_RANKS_H

#include "base/error.h"
#include "exec/world.h"

/* Starts this very command line as `n_ranks` ranks and waits.  When a rank has failed, that rank
   has said why: the error's message is then empty, and the status is its exit code. */
cleave_status ranks_launch(int32_t n_ranks, char *const *arguments, cleave_error *error);

/* Says what there is to say and ends the world, which may end the process.  What is wrong with the
   input every rank finds, and rank 0 says it; the message is empty afterwards. */
void ranks_end(cleave_world *world, const char *command, cleave_status status, cleave_error *error);

#endif
