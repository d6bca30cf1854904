/* The world of ranks: all of MPI that Cleave uses.  Only world.c includes mpi.h. */
#ifndef CLEAVE_EXEC_WORLD_WORLD_H
#define CLEAVE_EXEC_WORLD_WORLD_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct cleave_world cleave_world;

/* Joins the world.  Every rank calls both; `end` may not return when `code` is not 0: it takes the
 * world down. */
cleave_status cleave_world_begin(cleave_world **world, cleave_error *error);
void cleave_world_end(cleave_world *world, int code);

/* Rank 0 tells the process that launched the ranks that they go on, once a second: to be called
   often.  A rank that waits for another in vain says so itself; this is for the case that none can.
 */
void cleave_world_beat(cleave_world *world);
/* And that it has something else to do from here on, at the end. */
void cleave_world_beat_last(cleave_world *world);
/* On rank 0: has that process been asked to end? */
bool cleave_world_is_told_to_end(cleave_world *world);

int32_t cleave_world_rank(const cleave_world *world);
int32_t cleave_world_size(const cleave_world *world);

/* Requests are slots of the world, 0..n-1, that the caller numbers: at least so many from then on,
   none of which is under way. */
cleave_status cleave_world_reserve(cleave_world *world, int32_t n_requests, cleave_error *error);
void cleave_world_send(cleave_world *world, int32_t request, const void *data, int64_t bytes,
                       int32_t to, int tag);
void cleave_world_receive(cleave_world *world, int32_t request, void *data, int64_t bytes,
                          int32_t from, int tag);
/* Has it ended?  Also lets MPI make progress.  True for a slot without a request.  `received` gets
   the bytes that came in, of a receive that ends in this very call; null for a send, of which MPI
   doesn't say it. */
bool cleave_world_test(cleave_world *world, int32_t request, int64_t *received);

/* Carries messages under way on, and ends none: over some networks nothing moves while a rank is
   outside MPI. */
void cleave_world_progress(cleave_world *world);

void cleave_world_barrier(cleave_world *world);
/* `data` of every rank to rank 0, in the order of ranks; `all` (rank 0) has room for size x bytes.
 */
void cleave_world_gather(cleave_world *world, const void *data, int64_t bytes, void *all);
/* From rank 0 to all. */
void cleave_world_broadcast(cleave_world *world, void *data, int64_t bytes);
/* From here on, who is waited for in the functions below longer than this ends the wait.  0: no
   end, as at first. */
void cleave_world_set_patience(cleave_world *world, double seconds);
/* All ranks meet, and each has the largest of every one of `n` values.  FAILED, naming the rank
   that has not come and `where`. */
cleave_status cleave_world_meet(cleave_world *world, double *values, int n, const char *where,
                                cleave_error *error);
/* Blocking, for set-up and saving. */
cleave_status cleave_world_send_now(cleave_world *world, const void *data, int64_t bytes,
                                    int32_t to, cleave_error *error);
cleave_status cleave_world_receive_now(cleave_world *world, void *data, int64_t bytes, int32_t from,
                                       cleave_error *error);

/* Resident memory's high-water mark of this process (VmHWM), bytes; 0 where it can't be read. */
int64_t cleave_world_peak_resident_bytes(void);

#endif
