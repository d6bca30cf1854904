/* The world of ranks, over MPI. */
#include "exec/world.h"

#include "base/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
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

/* One of the two streams that come from the launcher, line by line. */
typedef struct stream {
    int from;
    FILE *to;
    size_t n;
    char line[4096];
    bool noise; /* the launcher's own report of a failure has begun: nothing of ours follows */
} stream;

/* What the ranks said, and how one of them ended where the launcher says so. */
typedef struct report {
    const char *program; /* its name */
    bool complained;
    char ending[128];
    double beat_seconds; /* when the ranks last beat; 0: never */
} report;

static const char beat_line[] = "beat\n", beat_name[] = "CLEAVE_BEATS";

static bool is_rule(const char *line) {
    size_t n = strspn(line, "=");
    return n > 40 && (line[n] == '\n' || line[n] == '\0');
}

/* Does a line begin with a name, and something behind it that is no part of one? */
static bool begins_with(const char *line, const char *name, const char *behind) {
    size_t n = strlen(name);
    return strncmp(line, name, n) == 0 && line[n] != '\0' && strchr(behind, line[n]) != NULL;
}

static bool is_complaint(const char *line, const report *r) {
    return begins_with(line, "cleave", " ") || begins_with(line, r->program, ": ");
}

/* Results pass; of the messages, our own.  The launcher reports a failure after a rule of "=". */
static void pass_line(stream *s, report *r) {
    static const char ending[] = "EXIT STRING: ";
    s->line[s->n] = '\0';
    s->n = 0;
    if (strcmp(s->line, beat_line) == 0)
        r->beat_seconds = cleave_clock_seconds();
    bool message = s->to == stderr,
         ours = strncmp(s->line, "cleave", 6) == 0 || begins_with(s->line, r->program, ": ");
    s->noise = s->noise || is_rule(s->line);
    const char *how = strstr(s->line, ending);
    if (s->noise && how != NULL)
        snprintf(r->ending, sizeof r->ending, "%.*s", (int)strcspn(how + sizeof ending - 1, "\n"),
                 how + sizeof ending - 1);
    /* Others fail because the first one did. */
    if (s->noise || (message && (!ours || (r->complained && is_complaint(s->line, r)))))
        return;
    r->complained = r->complained || (message && is_complaint(s->line, r));
    fputs(s->line, s->to);
    fflush(s->to);
}

/* False at the end of the stream. */
static bool pass_some(stream *s, report *r) {
    char some[4096];
    ssize_t n = read(s->from, some, sizeof some);
    for (ssize_t i = 0; i < n; i++) {
        s->line[s->n++] = some[i];
        if (some[i] == '\n' || s->n == sizeof s->line - 1)
            pass_line(s, r);
    }
    if (n <= 0 && s->n > 0)
        pass_line(s, r);
    return n > 0 || (n < 0 && errno == EINTR);
}

/* The launcher and all that it started. */
typedef struct launched {
    pid_t launcher;
    int signals; /* descriptor of those for this process */
    int input;   /* what is written there comes to rank 0 */
    double patience_seconds;
    bool told_to_end, hung;
} launched;

/* What was asked of this process, to the ranks: to end.  Of those that beat rank 0 looks at its
   input, and they end in their own time: the launcher, which would pass a signal on, loses now and
   then what ranks say and with which code they end once it was sent one.  Who asks twice does not
   want to wait. */
static void pass_signal(launched *l, const report *r) {
    struct signalfd_siginfo info;
    if (read(l->signals, &info, sizeof info) != (ssize_t)sizeof info)
        return;
    if (l->told_to_end || r->beat_seconds <= 0 || send(l->input, "\n", 1, MSG_NOSIGNAL) != 1)
        kill(l->launcher, l->told_to_end ? SIGKILL : SIGTERM);
    l->told_to_end = true;
}

static void look_for_beat(launched *l, const report *r) {
    l->hung = l->hung || (l->patience_seconds > 0 && r->beat_seconds > 0 &&
                          cleave_clock_seconds() - r->beat_seconds > l->patience_seconds);
    if (l->hung)
        kill(l->launcher, SIGKILL); /* its proxies see that, and kill the ranks */
}

static void pass_all(stream *streams, report *r, launched *l) {
    struct pollfd waiting[3] = {{.fd = streams[0].from, .events = POLLIN},
                                {.fd = streams[1].from, .events = POLLIN},
                                {.fd = l->signals, .events = POLLIN}};
    while (waiting[0].fd >= 0 || waiting[1].fd >= 0) {
        if (poll(waiting, 3, 1000) < 0 && errno != EINTR)
            return;
        for (int i = 0; i < 2; i++)
            if (waiting[i].fd >= 0 && waiting[i].revents != 0 && !pass_some(&streams[i], r))
                waiting[i].fd = -1;
        if (waiting[2].revents != 0)
            pass_signal(l, r);
        look_for_beat(l, r);
    }
}

/* Starts the command with the other ends of its streams (0 to 2, as it knows them) here, out of
   reach of the terminal's Ctrl-C, which this process passes on. */
static pid_t start(char **command, const sigset_t *before, int ours[3]) {
    int ends[3][2], n = 0;
    while (n < 3 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends[n]) == 0)
        n++;
    fflush(NULL);
    pid_t child = n == 3 ? fork() : -1;
    if (child == 0) {
        setpgid(0, 0);
        sigprocmask(SIG_SETMASK, before, NULL);
        for (int i = 0; i < 3; i++)
            dup2(ends[i][1], i);
        /* UCX, below MPICH, logs to stdout if nothing else is said; results go there.  It looks
           when it is loaded, so this can't wait until the ranks run. */
        setenv("UCX_LOG_FILE", "stderr", 0);
        setenv(beat_name, "1", 1);
        setenv("OMP_NUM_THREADS", "1",
               1); /* a device is a rank: threads under several ranks fight */
        execv(command[0], command);
        _exit(127);
    }
    for (int i = 0; i < n; i++) {
        ours[i] = ends[i][0];
        close(ends[i][1]);
        if (child < 0)
            close(ours[i]);
    }
    return child;
}

/* Waits for the end of the launcher and its ranks; its exit code, or -1. */
static int run_launcher(char **command, report *said, launched *l, cleave_error *error) {
    stream streams[2] = {{.to = stdout}, {.to = stderr}};
    sigset_t ends, before;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, &before);
    int state = 0;
    l->signals = signalfd(-1, &ends, SFD_CLOEXEC);
    int ours[3];
    l->launcher = start(command, &before, ours);
    if (l->launcher < 0) {
        cleave_fail(error, CLEAVE_FAILED, "starting %s: %s", CLEAVE_MPI_LAUNCHER, strerror(errno));
    } else {
        l->input = ours[0];
        for (int i = 0; i < 2; i++)
            streams[i].from = ours[i + 1];
        pass_all(streams, said, l);
        close(l->input);
        close(streams[0].from);
        close(streams[1].from);
        while (waitpid(l->launcher, &state, 0) < 0 && errno == EINTR)
            ;
    }
    if (l->signals >= 0)
        close(l->signals);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (l->launcher < 0)
        return -1;
    return WIFEXITED(state) ? WEXITSTATUS(state) : 1;
}

/* Of an end with a code that is not 0; OK where a rank has said what there is to say. */
static cleave_status explain(const report *said, const launched *l, int code, cleave_error *error) {
    if (code == 127)
        return cleave_fail(error, CLEAVE_FAILED, "the MPI launcher %s can't be started",
                           CLEAVE_MPI_LAUNCHER);
    if (said->complained)
        return CLEAVE_OK;
    if (l->hung)
        return cleave_fail(error, CLEAVE_FAILED,
                           "stalled: the ranks gave no sign for %g s, so the run was ended",
                           l->patience_seconds);
    if (l->told_to_end)
        return cleave_fail(error, CLEAVE_FAILED, "ended by a signal");
    return cleave_fail(error, CLEAVE_FAILED, "a rank died%s%s, so the run was ended",
                       said->ending[0] != '\0' ? ": " : "", said->ending);
}

cleave_status cleave_world_launch(int32_t ranks, char *const *arguments, double patience_seconds,
                                  int *exit_code, bool *told_to_end, cleave_error *error) {
    int n = 0;
    while (arguments[n] != NULL)
        n++;
    char count[16], **command = calloc((size_t)n + 4, sizeof *command);
    if (command == NULL)
        return cleave_fail_memory(error, "starting ranks");
    snprintf(count, sizeof count, "%d", ranks);
    command[0] = (char *)CLEAVE_MPI_LAUNCHER;
    command[1] = (char *)"-n";
    command[2] = count;
    memcpy(command + 3, arguments, (size_t)n * sizeof *command);
    const char *slash = strrchr(arguments[0], '/');
    report said = {.program = slash != NULL ? slash + 1 : arguments[0]};
    launched l = {.patience_seconds = patience_seconds};
    int code = run_launcher(command, &said, &l, error);
    free(command);
    if (code < 0)
        return CLEAVE_FAILED;
    *told_to_end = l.told_to_end;
    if (code != 0)
        CLEAVE_TRY(explain(&said, &l, code, error));
    *exit_code = code;
    return CLEAVE_OK;
}

cleave_status cleave_world_begin(cleave_world **world, cleave_error *error) {
    cleave_world *joined = calloc(1, sizeof *joined);
    if (joined == NULL)
        return cleave_fail_memory(error, "joining the MPI world");
    if (MPI_Init(NULL, NULL) != MPI_SUCCESS) {
        free(joined);
        return cleave_fail(error, CLEAVE_FAILED, "MPI could not be initialised");
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &joined->communicator);
    MPI_Comm_rank(joined->communicator, &joined->rank);
    MPI_Comm_size(joined->communicator, &joined->size);
    joined->beat_seconds = joined->rank == 0 && getenv(beat_name) != NULL ? 0 : -1;
    *world = joined;
    return CLEAVE_OK;
}

void cleave_world_beat(cleave_world *world) {
    if (world->beat_seconds < 0 || cleave_clock_seconds() - world->beat_seconds < 1)
        return;
    world->beat_seconds = cleave_clock_seconds();
    fputs(beat_line, stderr);
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
    if (code != 0)
        MPI_Abort(MPI_COMM_WORLD, code);
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

double cleave_world_largest(cleave_world *world, double value) {
    double largest = value;
    MPI_Allreduce(&value, &largest, 1, MPI_DOUBLE, MPI_MAX, world->communicator);
    return largest;
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
