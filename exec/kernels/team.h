/* Threads of one rank that share its work out: the caller is one of them, the others wait until
   there is something to do, awake for a moment and then asleep, so that they take nothing from
   other ranks on the same cores. */
#ifndef CLEAVE_EXEC_KERNELS_TEAM_H
#define CLEAVE_EXEC_KERNELS_TEAM_H

#include "base/error.h"

#include <stdint.h>

enum { CLEAVE_MAX_DEVICE_THREADS = 256 };

typedef struct cleave_team cleave_team;

/* `n` threads with the caller, 2 to CLEAVE_MAX_DEVICE_THREADS.  FAILED where the system has no more
   of them. */
cleave_status cleave_team_create(int32_t n, cleave_team **team, cleave_error *error);
void cleave_team_destroy(cleave_team *team); /* may be null */

/* Threads of the team with the caller; 1 of none. */
int32_t cleave_team_size(const cleave_team *team);

/* Part `part` of some work, on the team's thread `thread`, 0 being the caller. */
typedef cleave_status cleave_team_body(void *context, int32_t part, int32_t thread,
                                       cleave_error *error);

/* Does parts 0 to n - 1, no more than there are threads: part i on thread i, all at once, or, where
   a body's part 0 calls this in turn, one after the other on the caller.  Returns when all are
   done, with the first one's failure.  For the thread that created the team. */
cleave_status cleave_team_run(cleave_team *team, int32_t n, cleave_team_body *body, void *context,
                              cleave_error *error);

#endif
