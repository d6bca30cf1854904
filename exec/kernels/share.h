/* Work that is told by its bytes, shared out among the threads of a team. */
#ifndef CLEAVE_EXEC_KERNELS_SHARE_H
#define CLEAVE_EXEC_KERNELS_SHARE_H

#include "exec/kernels/team.h"
#include "graph/program/program.h"

/* cleave_copy_piece_run by all threads: results are the same.  The team may be null. */
void cleave_share_copy(cleave_team *team, const cleave_copy_piece *piece, void *destination,
                       const void *source);

/* Does elements `from` to `to` - 1. */
typedef void cleave_share_body(void *context, int64_t from, int64_t to);

/* Elements `from` to `to` - 1 in a range for every thread, where they are worth it. */
void cleave_share_range(cleave_team *team, int64_t from, int64_t to, cleave_share_body *body,
                        void *context);

#endif
