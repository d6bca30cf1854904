/* The world of ranks, over MPI. */
#include "exec/world/world.h"

#include "base/progress.h"
#include "exec/world/launch.h"

#include <mpi.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    SETUP_TAG = 7,
    MEETING_TAG = 8,
    LEAVING_NANOSECONDS = 150000000,
    MOST_MET = 8,
    PATIENCE_WITH_ROOT_SECONDS = 2
};

struct cleave_world {
    MPI_Comm communicator;
    int rank, size;
    double patience_seconds; /* 0: no end */
    double beat_seconds; /* when it last beat, by the clock of the process; below 0: not at all */
    bool told_to_end;
    int32_t n_requests;
    MPI_Request *requests;
};

bool cleave_world_is_launched(void) {
    /* MPICH and its kin, Open MPI, PMIx batch systems. */
    return getenv("PMI_RANK") != NULL || getenv("OMPI_COMM_WORLD_RANK") != NULL ||
           getenv("PMIX_RANK") != NULL;
}

cleave_status cleave_world_begin(cleave_world **world, cleave_error *error) {
    cleave_world *joined = calloc(1, sizeof *joined);
    if (joined == NULL)
        return cleave_fail_memory(error, "joining the MPI world");
    int provided; /* threads of kernels call no MPI, which any of its levels allows here */
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) {
        free(joined);
        return cleave_fail(error, CLEAVE_FAILED, "MPI could not be initialised");
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &joined->communicator);
    MPI_Comm_rank(joined->communicator, &joined->rank);
    MPI_Comm_size(joined->communicator, &joined->size);
    joined->beat_seconds = joined->rank == 0 && getenv(CLEAVE_BEATS_VARIABLE) != NULL ? 0 : -1;
    if (joined->beat_seconds >= 0)
        fputs(CLEAVE_BEGUN, stderr);
    *world = joined;
    return CLEAVE_OK;
}

void cleave_world_beat(cleave_world *world) {
    if (world->beat_seconds < 0 || cleave_clock_seconds() - world->beat_seconds < 1)
        return;
    world->beat_seconds = cleave_clock_seconds();
    fputs(CLEAVE_BEAT, stderr);
}

void cleave_world_beat_last(cleave_world *world) {
    if (world->beat_seconds >= 0)
        fputs(CLEAVE_LAST_BEAT, stderr);
}

bool cleave_world_is_told_to_end(cleave_world *world) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char byte;
    if (world->beat_seconds >= 0 && !world->told_to_end && poll(&input, 1, 0) > 0)
        world->told_to_end = read(STDIN_FILENO, &byte, 1) == 1;
    return world->told_to_end;
}

static bool is_on_one_host(const cleave_world *world) {
    MPI_Comm host;
    int size = 0;
    MPI_Comm_split_type(world->communicator, MPI_COMM_TYPE_SHARED, world->rank, MPI_INFO_NULL,
                        &host);
    MPI_Comm_size(host, &size);
    MPI_Comm_free(&host);
    return size == world->size;
}

/* Over TCP, MPICH closes a connection by a question that the other end answers only while it is
   inside MPI, and when its own is answered it waits outside.  A rank that answers from a barrier
   and asks later would wait for ever.  So all leave the barrier before the first one asks. */
static void leave_together(const cleave_world *world) {
    if (is_on_one_host(world))
        return;
    MPI_Barrier(world->communicator);
    nanosleep(&(struct timespec){.tv_nsec = LEAVING_NANOSECONDS}, NULL);
}

void cleave_world_end(cleave_world *world, int code) {
    if (code != 0) {
        if (getenv(CLEAVE_BEATS_VARIABLE) != NULL)
            fprintf(stderr, CLEAVE_ENDS_WITH "%d\n", code);
        MPI_Abort(MPI_COMM_WORLD, code);
    }
    leave_together(world);
    MPI_Comm_free(&world->communicator);
    free(world->requests);
    free(world);
    MPI_Finalize();
}

int32_t cleave_world_rank(const cleave_world *world) { return world->rank; }
int32_t cleave_world_size(const cleave_world *world) { return world->size; }

cleave_status cleave_world_reserve(cleave_world *world, int32_t n_requests, cleave_error *error) {
    int32_t n = n_requests > world->n_requests ? n_requests : world->n_requests;
    MPI_Request *requests = realloc(world->requests, ((size_t)n + 1) * sizeof *requests);
    if (requests == NULL)
        return cleave_fail_memory(error, "reserving MPI requests");
    for (int32_t i = 0; i < n; i++)
        requests[i] = MPI_REQUEST_NULL;
    world->requests = requests;
    world->n_requests = n;
    return CLEAVE_OK;
}

void cleave_world_send(cleave_world *world, int32_t request, const void *data, int64_t bytes,
                       int32_t to, int tag) {
    MPI_Isend(data, (int)bytes, MPI_BYTE, to, tag, world->communicator, &world->requests[request]);
}

void cleave_world_receive(cleave_world *world, int32_t request, void *data, int64_t bytes,
                          int32_t from, int tag) {
    MPI_Irecv(data, (int)bytes, MPI_BYTE, from, tag, world->communicator,
              &world->requests[request]);
}

bool cleave_world_test(cleave_world *world, int32_t request, int64_t *received) {
    if (world->requests[request] == MPI_REQUEST_NULL)
        return true;
    int ended = 0, count = 0;
    MPI_Status status;
    MPI_Test(&world->requests[request], &ended, &status);
    if (ended && received != NULL) {
        MPI_Get_count(&status, MPI_BYTE, &count);
        *received = count;
    }
    return ended != 0;
}

void cleave_world_progress(cleave_world *world) {
    int found;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, world->communicator, &found, MPI_STATUS_IGNORE);
}

void cleave_world_barrier(cleave_world *world) { MPI_Barrier(world->communicator); }

void cleave_world_gather(cleave_world *world, const void *data, int64_t bytes, void *all) {
    MPI_Gather(data, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, 0, world->communicator);
}

void cleave_world_broadcast(cleave_world *world, void *data, int64_t bytes) {
    MPI_Bcast(data, (int)bytes, MPI_BYTE, 0, world->communicator);
}

void cleave_world_set_patience(cleave_world *world, double seconds) {
    world->patience_seconds = seconds;
}

/* As MPI_Wait, but not for ever; who waits for a word of rank 0 gives it time to say first who is
   missing. */
static cleave_status await(cleave_world *world, MPI_Request *request, int32_t peer,
                           const char *where, cleave_error *error) {
    double since = cleave_clock_seconds() + (peer == 0 ? PATIENCE_WITH_ROOT_SECONDS : 0);
    for (int ended = 0;;) {
        MPI_Test(request, &ended, MPI_STATUS_IGNORE);
        if (ended)
            return CLEAVE_OK;
        sched_yield(); /* more ranks than cores: let the one that we wait for run */
        cleave_world_beat(world);
        double waited = cleave_clock_seconds() - since;
        if (waited >
            0.01) /* as while rank 0 writes a checkpoint, to which the core is of more use */
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        if (world->patience_seconds > 0 && waited > world->patience_seconds)
            return cleave_fail(error, CLEAVE_FAILED, "rank %d: stalled for %g s %s by rank %d",
                               world->rank, world->patience_seconds, where, peer);
    }
}

static cleave_status send_to(cleave_world *world, const void *data, int64_t bytes, int32_t to,
                             int tag, const char *where, cleave_error *error) {
    MPI_Request request;
    MPI_Isend(data, (int)bytes, MPI_BYTE, to, tag, world->communicator, &request);
    return await(world, &request, to, where, error);
}

static cleave_status receive_from(cleave_world *world, void *data, int64_t bytes, int32_t from,
                                  int tag, const char *where, cleave_error *error) {
    MPI_Request request;
    MPI_Irecv(data, (int)bytes, MPI_BYTE, from, tag, world->communicator, &request);
    return await(world, &request, from, where, error);
}

cleave_status cleave_world_send_now(cleave_world *world, const void *data, int64_t bytes,
                                    int32_t to, cleave_error *error) {
    return send_to(world, data, bytes, to, SETUP_TAG, "sending", error);
}

cleave_status cleave_world_receive_now(cleave_world *world, void *data, int64_t bytes, int32_t from,
                                       cleave_error *error) {
    return receive_from(world, data, bytes, from, SETUP_TAG, "receiving", error);
}

/* By way of rank 0, which so knows who is missing. */
cleave_status cleave_world_meet(cleave_world *world, double *values, int n, const char *where,
                                cleave_error *error) {
    int64_t bytes = n * (int64_t)sizeof *values;
    double others[MOST_MET];
    if (world->rank != 0) {
        CLEAVE_TRY(send_to(world, values, bytes, 0, MEETING_TAG, where, error));
        return receive_from(world, values, bytes, 0, MEETING_TAG, where, error);
    }
    for (int r = 1; r < world->size; r++) {
        CLEAVE_TRY(receive_from(world, others, bytes, r, MEETING_TAG, where, error));
        for (int i = 0; i < n; i++)
            values[i] = others[i] > values[i] ? others[i] : values[i];
    }
    for (int r = 1; r < world->size; r++)
        CLEAVE_TRY(send_to(world, values, bytes, r, MEETING_TAG, where, error));
    return CLEAVE_OK;
}

int64_t cleave_world_peak_resident_bytes(void) {
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    long long kib = 0;
    while (status != NULL && fgets(line, sizeof line, status) != NULL)
        if (sscanf(line, "VmHWM: %lld kB", &kib) == 1)
            break;
    if (status != NULL)
        fclose(status);
    return (int64_t)kib * 1024;
}
