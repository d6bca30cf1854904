/* Which hosts a run takes, and which of its ranks are on each: in the order of the hosts, as many
   as one has slots; with a machine file as many as its node has devices, so that what the layout
   was found for is what it runs on. */
#ifndef CLEAVE_CLI_RUN_PLACEMENT_H
#define CLEAVE_CLI_RUN_PLACEMENT_H

#include "costmodel/machine.h"
#include "exec/world/hosts.h"

/* The hosts of a file, or, where it is null, of the batch system; n == 0: this machine alone, and
   so is a batch system's only host, to which MPI's launcher finds by itself.  BAD_INPUT. */
cleave_status placement_find_hosts(const char *file, cleave_arena *arena, cleave_hosts *hosts,
                                   cleave_error *error);

/* "alpha:2,beta:2" in the arena, of hosts that there are.  `machine`, of which the run takes the
   first `n_ranks` devices, may be null.  BAD_INPUT where hosts or slots are too few for it. */
cleave_status placement_make(const cleave_hosts *hosts, const cleave_machine *machine,
                             int32_t n_ranks, cleave_arena *arena, const char **text,
                             cleave_error *error);

#endif
